//! The webhook protocol: encodes `AdmissionReview` requests and decodes the responses.

#[cfg(test)]
mod response_tests;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhumb_meta::status::{CauseType, ListMeta, StatusCause, StatusDetails, StatusReason};
use rhumb_meta::{GroupVersionKind, GroupVersionResource, Status};
use serde::{Deserialize, Deserializer, Serialize};

use crate::Object;
use crate::match_attributes::{Operation, ResourceAndKind};

/// The `AdmissionReview` versions that the server supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    pub(crate) fn from_name(name: &str) -> Option<ReviewVersion> {
        match name {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1Beta1),
            _ => None,
        }
    }

    const fn api_version(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "admission.k8s.io/v1",
            ReviewVersion::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// The user of the request.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct UserInfo<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub uid: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: &'a BTreeMap<String, Vec<String>>,
}

/// The request of an `AdmissionReview`, also available to expressions as `request`.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionRequest<'a> {
    pub uid: &'a str,
    /// The resource and kind as which the webhook's rules matched.
    pub matched: &'a ResourceAndKind,
    pub requested: &'a ResourceAndKind,
    pub subresource: &'a str,
    pub name: &'a str,
    pub namespace: &'a str,
    pub operation: Operation,
    pub user: UserInfo<'a>,
    /// In the version of `matched`.
    pub object: Option<&'a Object>,
    pub old_object: Option<&'a Object>,
    pub dry_run: bool,
    pub options: Option<&'a Object>,
}

#[derive(Serialize)]
struct GroupVersionKindJson<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

#[derive(Serialize)]
struct GroupVersionResourceJson<'a> {
    group: &'a str,
    version: &'a str,
    resource: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionRequestJson<'a> {
    uid: &'a str,
    kind: GroupVersionKindJson<'a>,
    resource: GroupVersionResourceJson<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    sub_resource: &'a str,
    request_kind: GroupVersionKindJson<'a>,
    request_resource: GroupVersionResourceJson<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_sub_resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    operation: Operation,
    user_info: UserInfo<'a>,
    object: Option<&'a Object>,
    old_object: Option<&'a Object>,
    dry_run: bool,
    options: Option<&'a Object>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReviewJson<'a> {
    kind: &'static str,
    api_version: &'static str,
    request: AdmissionRequestJson<'a>,
}

impl<'a> AdmissionRequest<'a> {
    /// The `AdmissionReview` to send.
    pub fn to_json(&self, version: ReviewVersion) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&AdmissionReviewJson {
            kind: "AdmissionReview",
            api_version: version.api_version(),
            request: self.body(),
        })
    }

    /// The value of `request` in expressions: without the objects, which have variables of their own.
    pub fn to_value(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(AdmissionRequestJson {
            object: None,
            old_object: None,
            ..self.body()
        })
    }

    fn body(&self) -> AdmissionRequestJson<'a> {
        AdmissionRequestJson {
            uid: self.uid,
            kind: kind(&self.matched.kind),
            resource: resource(&self.matched.resource),
            sub_resource: self.subresource,
            request_kind: kind(&self.requested.kind),
            request_resource: resource(&self.requested.resource),
            request_sub_resource: self.subresource,
            name: self.name,
            namespace: self.namespace,
            operation: self.operation,
            user_info: self.user,
            object: self.object,
            old_object: self.old_object,
            dry_run: self.dry_run,
            options: self.options,
        }
    }
}

fn kind(kind: &GroupVersionKind) -> GroupVersionKindJson<'_> {
    GroupVersionKindJson {
        group: &kind.group,
        version: &kind.version,
        kind: &kind.kind,
    }
}

fn resource(resource: &GroupVersionResource) -> GroupVersionResourceJson<'_> {
    GroupVersionResourceJson {
        group: &resource.group,
        version: &resource.version,
        resource: &resource.resource,
    }
}

/// A valid response of a webhook.
#[derive(Debug)]
pub struct AdmissionResponse {
    pub allowed: bool,
    /// The reason if not allowed.
    pub status: Option<Status>,
    /// The JSON patch; empty if there is none.
    pub patch: Vec<u8>,
    pub annotations: BTreeMap<String, String>,
    pub warnings: Vec<String>,
}

/// A response as it is encoded. Like in Go, null is accepted for any field and means its default.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReviewResponseJson {
    #[serde(default, deserialize_with = "or_nothing")]
    api_version: String,
    #[serde(default, deserialize_with = "or_nothing")]
    kind: String,
    response: Option<AdmissionResponseJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionResponseJson {
    #[serde(default, deserialize_with = "or_nothing")]
    uid: String,
    #[serde(default, deserialize_with = "or_nothing")]
    allowed: bool,
    status: Option<StatusJson>,
    patch: Option<String>,
    patch_type: Option<String>,
    audit_annotations: Option<BTreeMap<String, Option<String>>>,
    warnings: Option<Vec<Option<String>>>,
}

#[derive(Deserialize)]
struct StatusJson {
    #[serde(default, deserialize_with = "or_nothing")]
    metadata: ListMeta,
    #[serde(default, deserialize_with = "or_nothing")]
    status: String,
    #[serde(default, deserialize_with = "or_nothing")]
    message: String,
    #[serde(default, deserialize_with = "or_nothing")]
    reason: StatusReason,
    details: Option<StatusDetailsJson>,
    #[serde(default, deserialize_with = "or_nothing")]
    code: i32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusDetailsJson {
    #[serde(default, deserialize_with = "or_nothing")]
    name: String,
    #[serde(default, deserialize_with = "or_nothing")]
    group: String,
    #[serde(default, deserialize_with = "or_nothing")]
    kind: String,
    #[serde(default, deserialize_with = "or_nothing")]
    uid: String,
    causes: Option<Vec<Option<StatusCauseJson>>>,
    #[serde(default, deserialize_with = "or_nothing")]
    retry_after_seconds: i32,
}

#[derive(Deserialize)]
struct StatusCauseJson {
    #[serde(default, deserialize_with = "or_nothing")]
    reason: CauseType,
    #[serde(default, deserialize_with = "or_nothing")]
    message: String,
    #[serde(default, deserialize_with = "or_nothing")]
    field: String,
}

fn or_nothing<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl StatusJson {
    fn into_status(self) -> Status {
        Status {
            metadata: self.metadata,
            status: self.status.into(),
            message: self.message,
            reason: self.reason,
            details: self.details.map(|details| Box::new(details.into_details())),
            code: self.code,
        }
    }
}

impl StatusDetailsJson {
    fn into_details(self) -> StatusDetails {
        let causes = self.causes.unwrap_or_default().into_iter();
        let cause = |cause: StatusCauseJson| StatusCause {
            reason: cause.reason,
            message: cause.message,
            field: cause.field,
        };
        StatusDetails {
            name: self.name,
            group: self.group,
            kind: self.kind,
            uid: self.uid,
            causes: causes.map(|it| it.map(cause).unwrap_or_default()).collect(),
            retry_after_seconds: self.retry_after_seconds,
        }
    }
}

/// Why a response is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionResponseError {
    /// It cannot be decoded.
    #[error("failed to call webhook: {0}")]
    Unreadable(String),
    #[error("received invalid webhook response: {0}")]
    Invalid(String),
    #[error("unsupported patch type {0:?}")]
    UnsupportedPatch(String),
}

/// Decodes and validates the response to the review with this uid.
pub fn parse_response(
    bytes: &[u8],
    uid: &str,
    version: ReviewVersion,
    mutating: bool,
) -> Result<AdmissionResponse, AdmissionResponseError> {
    let review: AdmissionReviewResponseJson = serde_json::from_slice(bytes)
        .map_err(|error| AdmissionResponseError::Unreadable(error.to_string()))?;
    let invalid = |text: String| Err(AdmissionResponseError::Invalid(text));
    let Some(response) = review.response else {
        return invalid("webhook response was absent".into());
    };
    if version == ReviewVersion::V1 {
        if response.uid != uid {
            return invalid(format!(
                "expected response.uid={uid:?}, got {:?}",
                response.uid
            ));
        }
        if (&*review.api_version, &*review.kind) != (version.api_version(), "AdmissionReview") {
            let (group, version) = review
                .api_version
                .split_once('/')
                .unwrap_or(("", &review.api_version));
            return invalid(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {group}/{version}, Kind={}",
                review.kind
            ));
        }
    }
    if version == ReviewVersion::V1 {
        check_patch_fields(&response, mutating)?;
    }
    // A patch matters only if the request is allowed: an invalid patch does not change a rejection.
    let patch = match response.allowed && mutating {
        true => decode_patch(&response, version)?,
        false => Vec::new(),
    };
    let annotations = response.audit_annotations.unwrap_or_default().into_iter();
    let warnings = response.warnings.unwrap_or_default().into_iter();
    Ok(AdmissionResponse {
        allowed: response.allowed,
        status: response.status.map(StatusJson::into_status),
        patch,
        annotations: annotations
            .map(|(key, value)| (key, value.unwrap_or_default()))
            .collect(),
        warnings: warnings.map(Option::unwrap_or_default).collect(),
    })
}

/// Checks that `patch` and `patchType` are present together, and only in responses of mutating webhooks.
fn check_patch_fields(
    response: &AdmissionResponseJson,
    mutating: bool,
) -> Result<(), AdmissionResponseError> {
    let has_patch = response.patch.as_ref().is_some_and(|it| !it.is_empty());
    let problem = match (mutating, has_patch, response.patch_type.as_deref()) {
        (false, true, _) => "validating webhook may not return response.patch",
        (false, false, Some(_)) => "validating webhook may not return response.patchType",
        (true, true, None) => "webhook returned response.patch but not response.patchType",
        (true, false, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, true, Some("")) => "webhook returned invalid response.patchType of \"\"",
        _ => return Ok(()),
    };
    Err(AdmissionResponseError::Invalid(problem.to_owned()))
}

/// Decodes the patch. In v1beta1 the patch type is not checked, as upstream.
fn decode_patch(
    response: &AdmissionResponseJson,
    version: ReviewVersion,
) -> Result<Vec<u8>, AdmissionResponseError> {
    let is_supported = |name: &str| version == ReviewVersion::V1Beta1 || name == "JSONPatch";
    if let Some(other) = response
        .patch_type
        .as_deref()
        .filter(|it| !is_supported(it))
    {
        return Err(AdmissionResponseError::UnsupportedPatch(other.to_owned()));
    }
    STANDARD
        .decode(response.patch.as_deref().unwrap_or_default())
        .map_err(|error| AdmissionResponseError::Unreadable(format!("response.patch: {error}")))
}
