//! What is said to a webhook, and what its answer means.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhumb_meta::status::{CauseType, ListMeta, StatusCause, StatusDetails, StatusReason};
use rhumb_meta::{GroupVersionKind, GroupVersionResource, Status};
use serde::{Deserialize, Deserializer, Serialize};

use crate::Object;
use crate::facts::{Names, Operation};

/// The versions of reviews that the server writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    pub(crate) fn named(name: &str) -> Option<ReviewVersion> {
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

/// Who asks.
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

/// A write as a webhook sees it, and as expressions see it by the name `request`.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub uid: &'a str,
    /// Under which names the webhook wanted to see it.
    pub seen: &'a Names,
    pub asked: &'a Names,
    pub subresource: &'a str,
    pub name: &'a str,
    pub namespace: &'a str,
    pub operation: Operation,
    pub user: UserInfo<'a>,
    /// In the version of `seen`.
    pub object: Option<&'a Object>,
    pub old: Option<&'a Object>,
    pub dry_run: bool,
    pub options: Option<&'a Object>,
}

#[derive(Serialize)]
struct Kind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

#[derive(Serialize)]
struct Resource<'a> {
    group: &'a str,
    version: &'a str,
    resource: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestBody<'a> {
    uid: &'a str,
    kind: Kind<'a>,
    resource: Resource<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    sub_resource: &'a str,
    request_kind: Kind<'a>,
    request_resource: Resource<'a>,
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
struct Review<'a> {
    kind: &'static str,
    api_version: &'static str,
    request: RequestBody<'a>,
}

impl<'a> Request<'a> {
    /// The review to send.
    pub fn to_json(&self, version: ReviewVersion) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&Review {
            kind: "AdmissionReview",
            api_version: version.api_version(),
            request: self.body(),
        })
    }

    /// What expressions see: all but the objects, which they have by names of their own.
    pub fn to_value(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(RequestBody {
            object: None,
            old_object: None,
            ..self.body()
        })
    }

    fn body(&self) -> RequestBody<'a> {
        RequestBody {
            uid: self.uid,
            kind: kind(&self.seen.kind),
            resource: resource(&self.seen.resource),
            sub_resource: self.subresource,
            request_kind: kind(&self.asked.kind),
            request_resource: resource(&self.asked.resource),
            request_sub_resource: self.subresource,
            name: self.name,
            namespace: self.namespace,
            operation: self.operation,
            user_info: self.user,
            object: self.object,
            old_object: self.old,
            dry_run: self.dry_run,
            options: self.options,
        }
    }
}

fn kind(kind: &GroupVersionKind) -> Kind<'_> {
    Kind {
        group: &kind.group,
        version: &kind.version,
        kind: &kind.kind,
    }
}

fn resource(resource: &GroupVersionResource) -> Resource<'_> {
    Resource {
        group: &resource.group,
        version: &resource.version,
        resource: &resource.resource,
    }
}

/// An answer that can be used.
#[derive(Debug)]
pub struct Answer {
    pub allowed: bool,
    /// Why not.
    pub status: Option<Status>,
    /// The JSON of a patch; empty if there is none.
    pub patch: Vec<u8>,
    pub annotations: BTreeMap<String, String>,
    pub warnings: Vec<String>,
}

/// An answer as it is written, with null wherever Go reads one as nothing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnsweredReview {
    #[serde(default, deserialize_with = "or_nothing")]
    api_version: String,
    #[serde(default, deserialize_with = "or_nothing")]
    kind: String,
    response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default, deserialize_with = "or_nothing")]
    uid: String,
    #[serde(default, deserialize_with = "or_nothing")]
    allowed: bool,
    status: Option<AnsweredStatus>,
    patch: Option<String>,
    patch_type: Option<String>,
    audit_annotations: Option<BTreeMap<String, Option<String>>>,
    warnings: Option<Vec<Option<String>>>,
}

#[derive(Deserialize)]
struct AnsweredStatus {
    #[serde(default, deserialize_with = "or_nothing")]
    metadata: ListMeta,
    #[serde(default, deserialize_with = "or_nothing")]
    status: String,
    #[serde(default, deserialize_with = "or_nothing")]
    message: String,
    #[serde(default, deserialize_with = "or_nothing")]
    reason: StatusReason,
    details: Option<AnsweredDetails>,
    #[serde(default, deserialize_with = "or_nothing")]
    code: i32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnsweredDetails {
    #[serde(default, deserialize_with = "or_nothing")]
    name: String,
    #[serde(default, deserialize_with = "or_nothing")]
    group: String,
    #[serde(default, deserialize_with = "or_nothing")]
    kind: String,
    #[serde(default, deserialize_with = "or_nothing")]
    uid: String,
    causes: Option<Vec<Option<AnsweredCause>>>,
    #[serde(default, deserialize_with = "or_nothing")]
    retry_after_seconds: i32,
}

#[derive(Deserialize)]
struct AnsweredCause {
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

impl AnsweredStatus {
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

impl AnsweredDetails {
    fn into_details(self) -> StatusDetails {
        let causes = self.causes.unwrap_or_default().into_iter();
        let cause = |cause: AnsweredCause| StatusCause {
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

/// Why an answer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It is no review at all.
    #[error("failed to call webhook: {0}")]
    Unreadable(String),
    #[error("received invalid webhook response: {0}")]
    Invalid(String),
    #[error("unsupported patch type {0:?}")]
    UnsupportedPatch(String),
}

/// Reads the answer to the review with this uid.
pub fn read_answer(
    bytes: &[u8],
    uid: &str,
    version: ReviewVersion,
    mutating: bool,
) -> Result<Answer, AnswerError> {
    let review: AnsweredReview = serde_json::from_slice(bytes)
        .map_err(|error| AnswerError::Unreadable(error.to_string()))?;
    let invalid = |text: String| Err(AnswerError::Invalid(text));
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
    // A patch counts only where the write is allowed: whatever is wrong with it, a rejection stays one.
    let patch = match response.allowed && mutating {
        true => patch_of(&response, version)?,
        false => Vec::new(),
    };
    let annotations = response.audit_annotations.unwrap_or_default().into_iter();
    let warnings = response.warnings.unwrap_or_default().into_iter();
    Ok(Answer {
        allowed: response.allowed,
        status: response.status.map(AnsweredStatus::into_status),
        patch,
        annotations: annotations
            .map(|(key, value)| (key, value.unwrap_or_default()))
            .collect(),
        warnings: warnings.map(Option::unwrap_or_default).collect(),
    })
}

/// Whether there is a patch where there may be one, and its type with it.
fn check_patch_fields(response: &Response, mutating: bool) -> Result<(), AnswerError> {
    let has_patch = response.patch.as_ref().is_some_and(|it| !it.is_empty());
    let problem = match (mutating, has_patch, response.patch_type.as_deref()) {
        (false, true, _) => "validating webhook may not return response.patch",
        (false, false, Some(_)) => "validating webhook may not return response.patchType",
        (true, true, None) => "webhook returned response.patch but not response.patchType",
        (true, false, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, true, Some("")) => "webhook returned invalid response.patchType of \"\"",
        _ => return Ok(()),
    };
    Err(AnswerError::Invalid(problem.to_owned()))
}

/// In v1beta1 nobody looks at the type of a patch.
fn patch_of(response: &Response, version: ReviewVersion) -> Result<Vec<u8>, AnswerError> {
    let is_supported = |name: &str| version == ReviewVersion::V1Beta1 || name == "JSONPatch";
    if let Some(other) = response
        .patch_type
        .as_deref()
        .filter(|it| !is_supported(it))
    {
        return Err(AnswerError::UnsupportedPatch(other.to_owned()));
    }
    STANDARD
        .decode(response.patch.as_deref().unwrap_or_default())
        .map_err(|error| AnswerError::Unreadable(format!("response.patch: {error}")))
}
