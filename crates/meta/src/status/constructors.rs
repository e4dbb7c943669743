//! Constructors of Status errors with upstream's code, reason, message and details (upstream: `api/errors`).

use std::borrow::Cow;
use std::fmt::Display;

use super::{CauseType, ListMeta, Status, StatusCause, StatusDetails, StatusReason};
use crate::field::{self, ErrorList};
use crate::gotext::quote;
use crate::gvk::{GroupKind, GroupResource};
use crate::revision::Revision;

impl Status {
    pub(super) fn failure(code: i32, reason: StatusReason, message: impl Into<String>) -> Self {
        Status {
            metadata: ListMeta::default(),
            status: Cow::Borrowed(Status::FAILURE),
            message: message.into(),
            reason,
            details: None,
            code,
        }
    }

    pub(super) fn with_details(mut self, details: StatusDetails) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Adds the token with which the client can continue an expired list at a newer revision.
    pub fn with_continue(mut self, token: impl Into<Box<str>>) -> Self {
        self.metadata.continue_token = Some(token.into());
        self
    }

    /// Success without an object to return, such as of a deletion.
    pub fn success(details: Option<StatusDetails>) -> Self {
        Status {
            metadata: ListMeta::default(),
            status: Cow::Borrowed(Status::SUCCESS),
            message: String::new(),
            reason: StatusReason::UNKNOWN,
            details: details.map(Box::new),
            code: 0,
        }
    }

    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} not found", quote(name));
        Self::failure(404, StatusReason::NOT_FOUND, message)
            .with_details(details_of(resource, name))
    }

    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", quote(name));
        Self::failure(409, StatusReason::ALREADY_EXISTS, message)
            .with_details(details_of(resource, name))
    }

    /// No unique name was found for `generateName`; the client may retry.
    pub fn generate_name_conflict(
        resource: &GroupResource,
        name: &str,
        retry_after_seconds: i32,
    ) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quote(name)
        );
        let details = StatusDetails {
            retry_after_seconds,
            ..details_of(resource, name)
        };
        Self::failure(409, StatusReason::ALREADY_EXISTS, message).with_details(details)
    }

    pub fn conflict(resource: &GroupResource, name: &str, error: impl Display) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {resource} {}: {error}",
            quote(name)
        );
        Self::failure(409, StatusReason::CONFLICT, message).with_details(details_of(resource, name))
    }

    /// Server-side apply conflicts with fields of other managers; each is a cause.
    pub fn apply_conflict(causes: Vec<StatusCause>, message: impl Into<String>) -> Self {
        let details = StatusDetails {
            causes,
            ..StatusDetails::default()
        };
        Self::failure(409, StatusReason::CONFLICT, message).with_details(details)
    }

    pub fn invalid(kind: &GroupKind, name: &str, errors: &ErrorList) -> Self {
        let mut message = format!("{kind} {} is invalid", quote(name));
        if !errors.is_empty() {
            message.push_str(&format!(": {errors}"));
        }
        let cause = |error: &field::Error| StatusCause {
            reason: error.kind.as_str().into(),
            message: error.body().to_string(),
            field: error.field.clone(),
        };
        let details = StatusDetails {
            name: name.to_owned(),
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            causes: errors.iter().map(cause).collect(),
            ..StatusDetails::default()
        };
        Self::failure(422, StatusReason::INVALID, message).with_details(details)
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, StatusReason::BAD_REQUEST, message)
    }

    pub fn unauthorized(message: &str) -> Self {
        let message = if message.is_empty() {
            "not authorized"
        } else {
            message
        };
        Self::failure(401, StatusReason::UNAUTHORIZED, message)
    }

    pub fn forbidden(resource: &GroupResource, name: &str, error: impl Display) -> Self {
        let message = if resource.is_empty() {
            format!("forbidden: {error}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {error}")
        } else {
            format!("{resource} {} is forbidden: {error}", quote(name))
        };
        Self::failure(403, StatusReason::FORBIDDEN, message)
            .with_details(details_of(resource, name))
    }

    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let kind = resource.to_string();
        let message = format!(
            "{action} is not supported on resources of kind {}",
            quote(&kind)
        );
        Self::failure(405, StatusReason::METHOD_NOT_ALLOWED, message)
            .with_details(details_of(resource, ""))
    }

    /// The server supports no media type of the `Accept` header.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!(
            "only the following media types are accepted: {}",
            accepted.join(", ")
        );
        Self::failure(406, StatusReason::NOT_ACCEPTABLE, message)
    }

    /// The media type of the request body is not supported.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(415, StatusReason::UNSUPPORTED_MEDIA_TYPE, message)
    }

    pub fn request_entity_too_large(message: impl Display) -> Self {
        let message = format!("Request entity too large: {message}");
        Self::failure(413, StatusReason::REQUEST_ENTITY_TOO_LARGE, message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: i32) -> Self {
        Self::failure(429, StatusReason::TOO_MANY_REQUESTS, message)
            .with_details(retry(retry_after_seconds))
    }

    /// The request timed out; it may still be executed.
    pub fn timeout(message: impl Display, retry_after_seconds: i32) -> Self {
        let message = format!("Timeout: {message}");
        Self::failure(504, StatusReason::TIMEOUT, message).with_details(retry(retry_after_seconds))
    }

    /// The server cannot execute the operation at the moment; the client should retry.
    pub fn server_timeout(
        resource: &GroupResource,
        operation: &str,
        retry_after_seconds: i32,
    ) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        let details = StatusDetails {
            retry_after_seconds,
            ..details_of(resource, operation)
        };
        Self::failure(500, StatusReason::SERVER_TIMEOUT, message).with_details(details)
    }

    /// The requested revision has been compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, StatusReason::EXPIRED, message)
    }

    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(410, StatusReason::GONE, message)
    }

    pub fn internal_error(error: impl Display) -> Self {
        let message = error.to_string();
        let text = format!("Internal error occurred: {message}");
        let cause = StatusCause {
            message,
            ..StatusCause::default()
        };
        let details = StatusDetails {
            causes: vec![cause],
            ..StatusDetails::default()
        };
        Self::failure(500, StatusReason::INTERNAL_ERROR, text).with_details(details)
    }

    /// A failure without a reason or details, as upstream.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::failure(500, StatusReason::UNKNOWN, message)
    }

    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, StatusReason::SERVICE_UNAVAILABLE, message)
    }

    /// The client requested a revision that the server has not reached yet.
    pub fn too_large_resource_version(
        wanted: Revision,
        current: Revision,
        retry_after_seconds: i32,
    ) -> Self {
        let message = format!("Too large resource version: {wanted}, current: {current}");
        let cause = StatusCause {
            reason: CauseType::RESOURCE_VERSION_TOO_LARGE,
            message: "Too large resource version".to_owned(),
            ..StatusCause::default()
        };
        let mut status = Self::timeout(message, retry_after_seconds);
        if let Some(details) = &mut status.details {
            details.causes.push(cause);
        }
        status
    }
}

fn details_of(resource: &GroupResource, name: &str) -> StatusDetails {
    StatusDetails {
        name: name.to_owned(),
        group: resource.group.to_string(),
        kind: resource.resource.to_string(),
        ..StatusDetails::default()
    }
}

fn retry(retry_after_seconds: i32) -> StatusDetails {
    StatusDetails {
        retry_after_seconds,
        ..StatusDetails::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Error, Path};

    #[test]
    fn an_invalid_object_lists_every_cause() {
        let spec = Path::new("spec");
        let pod = GroupKind::from_static("", "Pod");
        let one = ErrorList::from(Error::required(&spec.child("containers"), ""));
        let status = Status::invalid(&pod, "x", &one);
        assert_eq!(
            status.to_string(),
            "Pod \"x\" is invalid: spec.containers: Required value"
        );
        let mut two = one.clone();
        two.push(Error::invalid(&spec.child("nodeName"), "A", "bad"));
        let status = Status::invalid(&pod, "x", &two);
        let want = "Pod \"x\" is invalid: [spec.containers: Required value, spec.nodeName: Invalid value: \"A\": bad]";
        assert_eq!(status.to_string(), want);
        let causes = &status.details.as_ref().expect("has details").causes;
        assert_eq!(causes.len(), 2);
        assert_eq!(causes[1].reason.as_str(), "FieldValueInvalid");
        assert_eq!(causes[1].message, "Invalid value: \"A\": bad");
        assert_eq!(causes[1].field, "spec.nodeName");
        assert_eq!(
            Status::invalid(&pod, "x", &ErrorList::new()).to_string(),
            "Pod \"x\" is invalid"
        );
    }

    #[test]
    fn unsupported_media_types_have_upstreams_message() {
        assert_eq!(
            Status::not_acceptable(&["application/json", "application/yaml"]).message,
            "only the following media types are accepted: application/json, application/yaml"
        );
        assert_eq!(
            Status::unsupported_media_type(&["application/json", "application/yaml"]).message,
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml"
        );
    }

    #[test]
    fn too_large_resource_versions_have_the_cause_clients_expect() {
        let status = Status::too_large_resource_version(Revision::new(7), Revision::new(5), 1);
        assert_eq!(
            status.message,
            "Timeout: Too large resource version: 7, current: 5"
        );
        assert_eq!((status.code, status.reason.as_str()), (504, "Timeout"));
        let details = status.details.as_ref().expect("has details");
        assert_eq!(details.retry_after_seconds, 1);
        let want = StatusCause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        assert_eq!(details.causes, [want]);
    }

    #[test]
    fn every_error_constructor_sets_code_and_reason() {
        let pods = GroupResource::from_static("", "pods");
        let table = [
            (Status::not_found(&pods, "x"), 404, "NotFound"),
            (Status::already_exists(&pods, "x"), 409, "AlreadyExists"),
            (Status::conflict(&pods, "x", "changed"), 409, "Conflict"),
            (Status::bad_request("no"), 400, "BadRequest"),
            (Status::unauthorized(""), 401, "Unauthorized"),
            (Status::forbidden(&pods, "x", "no"), 403, "Forbidden"),
            (
                Status::method_not_supported(&pods, "patch"),
                405,
                "MethodNotAllowed",
            ),
            (Status::not_acceptable(&["a", "b"]), 406, "NotAcceptable"),
            (
                Status::unsupported_media_type(&["a"]),
                415,
                "UnsupportedMediaType",
            ),
            (
                Status::request_entity_too_large("limit is 3"),
                413,
                "RequestEntityTooLarge",
            ),
            (
                Status::too_many_requests("later", 1),
                429,
                "TooManyRequests",
            ),
            (Status::timeout("slow", 0), 504, "Timeout"),
            (
                Status::server_timeout(&pods, "list", 2),
                500,
                "ServerTimeout",
            ),
            (Status::expired("old"), 410, "Expired"),
            (Status::gone("old"), 410, "Gone"),
            (Status::internal_error("oops"), 500, "InternalError"),
            (
                Status::service_unavailable("starting"),
                503,
                "ServiceUnavailable",
            ),
        ];
        for (status, code, reason) in table {
            assert_eq!(
                (status.code, status.reason.as_str()),
                (code, reason),
                "{status}"
            );
            assert_eq!(status.status, "Failure");
        }
    }
}
