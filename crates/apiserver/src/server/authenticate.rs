//! Who asks, and on whose behalf.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rhumb_auth::authn::bearer_token;
use rhumb_auth::{Credentials, Impersonation, Outcome, User};
use rhumb_meta::{Status, Timestamp};

use super::Peer;
use super::route::attributes;
use crate::Api;
use crate::request::RequestInfo;

/// The user of a request. One without credentials is anonymous; policy says how far that goes.
pub(super) fn authenticate(
    api: &Api,
    headers: &HeaderMap,
    peer: &Peer,
    now: Timestamp,
) -> Result<User, Status> {
    let token = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(bearer_token);
    let credentials = Credentials {
        peer_certificates: &peer.certificates,
        bearer_token: token,
    };
    match api.authenticator.authenticate(&credentials, now) {
        Outcome::User(user) => Ok(user),
        Outcome::Anonymous => Ok(User::anonymous()),
        Outcome::Invalid(reason) => {
            tracing::debug!(%reason, "credentials were refused");
            Err(Status::unauthorized("Unauthorized"))
        }
    }
}

/// The user that the request acts as, if it asks to act as another and may.
pub(super) fn impersonate(
    api: &Api,
    user: User,
    info: &RequestInfo,
    headers: &HeaderMap,
) -> Result<User, Status> {
    let headers = headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    match Impersonation::from_headers(headers)? {
        None => Ok(user),
        Some(impersonation) => {
            impersonation.authorize(&attributes(&user, info), &*api.policy.policy())
        }
    }
}
