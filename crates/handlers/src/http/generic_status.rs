//! Errors that do not concern a resource: 404, 405, 406 and 415 (upstream: `NewGenericServerResponse`).

use http::StatusCode;
use rhumb_meta::status::GenericServerResponse;
use rhumb_meta::{GroupResource, Status};

/// The generic Status of an HTTP code. Only some codes include the message.
pub fn generic_status(code: StatusCode, message: &str) -> Status {
    Status::from_server_response(&GenericServerResponse {
        code: code.as_u16().into(),
        verb: "",
        resource: &GroupResource::new("", ""),
        name: "",
        message,
        retry_after_seconds: 0,
        is_unexpected: false,
    })
}

pub fn not_found() -> Status {
    generic_status(StatusCode::NOT_FOUND, "")
}

pub fn method_not_allowed() -> Status {
    generic_status(StatusCode::METHOD_NOT_ALLOWED, "")
}

/// The error for an Accept header that no supported media type matches.
pub fn not_acceptable(representations: &[&str]) -> Status {
    let message = format!(
        "406: Not Acceptable\n\nAvailable representations: {}",
        representations.join(", ")
    );
    generic_status(StatusCode::NOT_ACCEPTABLE, &message)
}
