//! Who asks, and on whose behalf.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rhumb_auth::authn::bearer_token;
use rhumb_auth::{Credentials, Impersonation, Outcome, User};
use rhumb_meta::{Status, Timestamp};

use super::Peer;
use super::route::attributes;
use super::websocket;
use crate::Api;
use crate::request::RequestInfo;

/// The user of a request. One without credentials is anonymous; policy says how far that goes.
pub(super) fn authenticate(
    api: &Api,
    headers: &mut HeaderMap,
    peer: &Peer,
    now: Timestamp,
) -> Result<Arc<User>, Status> {
    if let Some(user) = &peer.known {
        return Ok(user.clone());
    }
    if websocket::is_request(headers) {
        websocket::take_token(headers)?;
    }
    let token = match headers.get(AUTHORIZATION) {
        None => None,
        // What cannot be read is not as if nothing had been sent.
        Some(value) => bearer_token(
            value
                .to_str()
                .map_err(|_| Status::unauthorized("Unauthorized"))?,
        ),
    };
    let credentials = Credentials {
        certificate: peer.certificate.as_ref(),
        bearer_token: token,
    };
    match api.authenticator.authenticate(&credentials, now) {
        Outcome::User(user) => Ok(user),
        Outcome::Anonymous => Ok(Arc::new(User::anonymous())),
        Outcome::Invalid(reason) => {
            tracing::debug!(%reason, "credentials were refused");
            Err(Status::unauthorized("Unauthorized"))
        }
    }
}

/// The user that the request acts as, if it asks to act as another and may.
pub(super) fn impersonate(
    api: &Api,
    user: &User,
    info: &RequestInfo,
    headers: &HeaderMap,
) -> Result<Option<Arc<User>>, Status> {
    let mut headers = headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("impersonate-"))
        .peekable();
    if headers.peek().is_none() {
        return Ok(None);
    }
    // A header that cannot be read must not be passed over: the request would be answered as the caller's own.
    let headers = headers
        .map(
            |(name, value)| match std::str::from_utf8(value.as_bytes()) {
                Ok(value) => Ok((name.as_str(), value)),
                Err(_) => Err(Status::bad_request(format!(
                    "the header {name} is not written in UTF-8"
                ))),
            },
        )
        .collect::<Result<Vec<(&str, &str)>, Status>>()?;
    match Impersonation::from_headers(headers)? {
        None => Ok(None),
        Some(impersonation) => impersonation
            .authorize(&attributes(user, info), &*api.policy.policy())
            .map(|user| Some(Arc::new(user))),
    }
}
