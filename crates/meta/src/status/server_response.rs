//! Converts an HTTP response without a Status, such as of a webhook or an aggregated server, to a Status.
//!
//! Upstream: `apierrors.NewGenericServerResponse`.

use super::{CauseType, Status, StatusCause, StatusDetails, StatusReason};
use crate::gotext::quote;
use crate::gvk::GroupResource;

/// An HTTP response whose body is not a Status.
#[derive(Debug, Clone)]
pub struct GenericServerResponse<'a> {
    pub code: i32,
    /// The HTTP method of the request.
    pub verb: &'a str,
    pub resource: &'a GroupResource,
    pub name: &'a str,
    pub message: &'a str,
    pub retry_after_seconds: i32,
    /// Whether the responder does not implement the Kubernetes API.
    pub is_unexpected: bool,
}

impl Status {
    pub fn from_server_response(response: &GenericServerResponse<'_>) -> Self {
        let (reason, mut message) = explain(response);
        let resource = response.resource;
        let verb = response.verb.to_lowercase();
        if !resource.is_empty() && !response.name.is_empty() {
            message.push_str(&format!(" ({verb} {resource} {})", response.name));
        } else if !resource.is_empty() {
            message.push_str(&format!(" ({verb} {resource})"));
        }
        let cause = StatusCause {
            reason: CauseType::UNEXPECTED_SERVER_RESPONSE,
            message: response.message.to_owned(),
            ..StatusCause::default()
        };
        let details = StatusDetails {
            name: response.name.to_owned(),
            group: resource.group.to_string(),
            kind: resource.resource.to_string(),
            causes: if response.is_unexpected {
                vec![cause]
            } else {
                Vec::new()
            },
            retry_after_seconds: response.retry_after_seconds,
            ..StatusDetails::default()
        };
        Status::failure(response.code, reason, message).with_details(details)
    }
}

/// The reason and message of the Status.
fn explain(response: &GenericServerResponse<'_>) -> (StatusReason, String) {
    let body_message = response.message;
    if let Some((reason, text)) = explain_code(response.code) {
        let exists = response.code == 409 && response.verb == "POST";
        let reason = if exists {
            StatusReason::ALREADY_EXISTS
        } else {
            reason
        };
        return (reason, text.to_owned());
    }
    match response.code {
        // These messages are specific (the denied action, the accepted media types), so they are kept.
        403 => (StatusReason::FORBIDDEN, body_message.to_owned()),
        415 => (
            StatusReason::UNSUPPORTED_MEDIA_TYPE,
            body_message.to_owned(),
        ),
        406 if body_message.is_empty() || body_message == "unknown" => {
            let text =
                "the server was unable to respond with a content type that the client supports";
            (StatusReason::NOT_ACCEPTABLE, text.to_owned())
        }
        406 => (StatusReason::NOT_ACCEPTABLE, body_message.to_owned()),
        code if code >= 500 => {
            let quoted = quote(body_message);
            let text = format!(
                "an error on the server ({quoted}) has prevented the request from succeeding"
            );
            (StatusReason::INTERNAL_ERROR, text)
        }
        code => {
            let text = format!(
                "the server responded with the status code {code} but did not return more information"
            );
            (StatusReason::UNKNOWN, text)
        }
    }
}

/// The reason and message that depend on the HTTP status code only.
fn explain_code(code: i32) -> Option<(StatusReason, &'static str)> {
    let text = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        _ => return None,
    };
    let reason = match code {
        400 => StatusReason::BAD_REQUEST,
        401 => StatusReason::UNAUTHORIZED,
        404 => StatusReason::NOT_FOUND,
        405 => StatusReason::METHOD_NOT_ALLOWED,
        409 => StatusReason::CONFLICT,
        422 => StatusReason::INVALID,
        429 => StatusReason::TOO_MANY_REQUESTS,
        503 => StatusReason::SERVICE_UNAVAILABLE,
        _ => StatusReason::TIMEOUT,
    };
    Some((reason, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_without_status_is_described_by_its_code() {
        let pods = GroupResource::from_static("", "pods");
        let none = GroupResource::default();
        let table = [
            (
                404,
                "POST",
                &none,
                "",
                "NotFound",
                "the server could not find the requested resource",
            ),
            (
                409,
                "POST",
                &pods,
                "x",
                "AlreadyExists",
                "the server reported a conflict (post pods x)",
            ),
            (
                409,
                "PUT",
                &pods,
                "",
                "Conflict",
                "the server reported a conflict (put pods)",
            ),
            (403, "GET", &none, "x", "Forbidden", "said"),
            (
                500,
                "GET",
                &none,
                "",
                "InternalError",
                "an error on the server (\"said\") has prevented the request from succeeding",
            ),
            (
                302,
                "GET",
                &none,
                "",
                "",
                "the server responded with the status code 302 but did not return more information",
            ),
        ];
        for (code, verb, resource, name, reason, message) in table {
            let response = GenericServerResponse {
                code,
                verb,
                resource,
                name,
                message: "said",
                retry_after_seconds: 0,
                is_unexpected: true,
            };
            let status = Status::from_server_response(&response);
            assert_eq!(
                (status.code, status.reason.as_str(), status.message.as_str()),
                (code, reason, message)
            );
        }
    }
}
