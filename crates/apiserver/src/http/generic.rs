//! Failures that have nothing to do with a resource: no such path, no such method, no such form.

use http::StatusCode;
use rhumb_meta::status::ServerResponse;
use rhumb_meta::{GroupResource, Status};

/// What a code says by itself. The message shows only with the codes that need one.
pub fn generic(code: StatusCode, message: &str) -> Status {
    Status::from_server_response(&ServerResponse {
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
    generic(StatusCode::NOT_FOUND, "")
}

pub fn method_not_allowed() -> Status {
    generic(StatusCode::METHOD_NOT_ALLOWED, "")
}

/// No answer can be written as the client wants it.
pub fn not_acceptable(representations: &[&str]) -> Status {
    let message = format!(
        "406: Not Acceptable\n\nAvailable representations: {}",
        representations.join(", ")
    );
    generic(StatusCode::NOT_ACCEPTABLE, &message)
}
