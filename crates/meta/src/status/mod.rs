//! `metav1.Status`: the error (or success without an object) that the API returns.

mod constructors;
mod reason;
mod server_response;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use reason::{CauseType, StatusReason};
pub use server_response::GenericServerResponse;

/// The response to a request that returns no other object (upstream: `metav1.Status`, `apierrors.StatusError`).
///
/// Serialization adds `kind` and `apiVersion`. Implements [`std::error::Error`]: handlers return it as `Err`, and it
/// displays its message. Its size is limited, because it is the error of many `Result`s.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Status {
    #[serde(default)]
    pub metadata: ListMeta,
    #[serde(default)]
    pub status: Cow<'static, str>,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub reason: StatusReason,
    #[serde(default)]
    pub details: Option<Box<StatusDetails>>,
    #[serde(default)]
    pub code: i32,
}

/// The metadata of a Status: empty, except for the continue token of an expired list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListMeta {
    #[serde(default, rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<Box<str>>,
}

/// The object of a Status, and the causes of the failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusDetails {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: i32,
}

/// A machine-readable cause of a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    #[serde(skip_serializing_if = "CauseType::is_unknown")]
    pub reason: CauseType,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_zero(value: &i32) -> bool {
    *value == 0
}

impl Status {
    pub const SUCCESS: &'static str = "Success";
    pub const FAILURE: &'static str = "Failure";

    pub fn is_not_found(&self) -> bool {
        self.reason == StatusReason::NOT_FOUND
    }

    pub fn is_conflict(&self) -> bool {
        self.reason == StatusReason::CONFLICT
    }

    pub fn is_already_exists(&self) -> bool {
        self.reason == StatusReason::ALREADY_EXISTS
    }

    /// How long the client should wait before it retries, if specified.
    pub fn retry_after_seconds(&self) -> Option<i32> {
        self.details
            .as_ref()
            .map(|details| details.retry_after_seconds)
            .filter(|&seconds| seconds > 0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

impl Serialize for Status {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// Fields in upstream's order, so that responses are byte-identical.
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct StatusJson<'a> {
            kind: &'static str,
            api_version: &'static str,
            metadata: &'a ListMeta,
            #[serde(skip_serializing_if = "str::is_empty")]
            status: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            message: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            reason: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            details: Option<&'a StatusDetails>,
            #[serde(skip_serializing_if = "is_zero")]
            code: i32,
        }
        StatusJson {
            kind: "Status",
            api_version: "v1",
            metadata: &self.metadata,
            status: &self.status,
            message: &self.message,
            reason: self.reason.as_str(),
            details: self.details.as_deref(),
            code: self.code,
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gvk::GroupResource;

    #[test]
    fn a_status_round_trips() {
        let pods = GroupResource::from_static("", "pods");
        for status in [
            Status::not_found(&pods, "web"),
            Status::expired("too old").with_continue("abc"),
            Status::success(None),
            Status::too_many_requests("later", 3),
        ] {
            let json = serde_json::to_string(&status).expect("serializes");
            assert_eq!(
                serde_json::from_str::<Status>(&json).expect("parses"),
                status
            );
        }
    }

    #[test]
    fn a_status_is_serialized_in_upstreams_field_order() {
        let status = Status::not_found(&GroupResource::from_static("apps", "deployments"), "web");
        let want = concat!(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
            r#""message":"deployments.apps \"web\" not found","reason":"NotFound","#,
            r#""details":{"name":"web","group":"apps","kind":"deployments"},"code":404}"#
        );
        assert_eq!(serde_json::to_string(&status).expect("serializes"), want);
    }

    #[test]
    fn a_status_is_small_enough_to_be_an_error() {
        assert!(size_of::<Status>() < 128, "{} bytes", size_of::<Status>());
    }
}
