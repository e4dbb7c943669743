//! Authentication and impersonation of requests (upstream: `WithAuthentication`, `WithImpersonation`).

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rhumb_auth::authn::bearer_token;
use rhumb_auth::{AuthenticationOutcome, Credentials, ImpersonationRequest, User};
use rhumb_meta::{Status, Timestamp};

use super::ConnectionPeer;
use super::route::attributes;
use super::websocket;
use rhumb_handlers::ServerState;
use rhumb_handlers::request::RequestInfo;

/// Authenticates a request. Without credentials the user is `system:anonymous`; authorization decides what that allows.
pub(super) fn authenticate(
    state: &ServerState,
    headers: &mut HeaderMap,
    peer: &ConnectionPeer,
    now: Timestamp,
) -> Result<Arc<User>, Status> {
    if let Some(user) = &peer.in_process_user {
        return Ok(user.clone());
    }
    if websocket::is_upgrade_request(headers) {
        websocket::move_token_to_header(headers)?;
    }
    let token = match headers.get(AUTHORIZATION) {
        None => None,
        // An unreadable header must not make the request anonymous.
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
    match state.authenticator.authenticate(&credentials, now) {
        AuthenticationOutcome::User(user) => Ok(user),
        AuthenticationOutcome::Anonymous => Ok(Arc::new(User::anonymous())),
        AuthenticationOutcome::Invalid(reason) => {
            tracing::debug!(%reason, "authentication failed; answering with 401");
            Err(Status::unauthorized("Unauthorized"))
        }
    }
}

/// The user that the request impersonates, if it has impersonation headers and is allowed to.
pub(super) fn impersonate(
    state: &ServerState,
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
    // An unreadable header must not be ignored: the request would run as the caller.
    let headers = headers
        .map(
            |(name, value)| match std::str::from_utf8(value.as_bytes()) {
                Ok(value) => Ok((name.as_str(), value)),
                Err(_) => Err(Status::bad_request(format!(
                    "the value of header {name} is not valid UTF-8"
                ))),
            },
        )
        .collect::<Result<Vec<(&str, &str)>, Status>>()?;
    match ImpersonationRequest::from_headers(headers)? {
        None => Ok(None),
        Some(impersonation) => impersonation
            .authorize(&attributes(user, info), &*state.policy.policy())
            .map(|user| Some(Arc::new(user))),
    }
}
