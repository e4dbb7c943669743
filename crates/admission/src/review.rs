//! What is said to a webhook, and what its answer means.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhumb_meta::{GroupVersionKind, GroupVersionResource, Status};
use serde::{Deserialize, Serialize};

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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnsweredReview {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    allowed: bool,
    status: Option<Status>,
    patch: Option<String>,
    patch_type: Option<String>,
    audit_annotations: Option<BTreeMap<String, String>>,
    warnings: Option<Vec<String>>,
}

/// Why an answer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It is no review at all.
    #[error("failed to call webhook: {0}")]
    Unreadable(String),
    #[error("received invalid webhook response: {0}")]
    Invalid(String),
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
    let patch = patch_of(&response, version, mutating)?;
    Ok(Answer {
        allowed: response.allowed,
        status: response.status,
        patch,
        annotations: response.audit_annotations.unwrap_or_default(),
        warnings: response.warnings.unwrap_or_default(),
    })
}

fn patch_of(
    response: &Response,
    version: ReviewVersion,
    mutating: bool,
) -> Result<Vec<u8>, AnswerError> {
    let invalid = |text: &str| Err(AnswerError::Invalid(text.to_owned()));
    let encoded = response.patch.as_deref().unwrap_or_default();
    let has_patch = !encoded.is_empty();
    match (version, mutating, response.patch_type.as_deref()) {
        (ReviewVersion::V1Beta1, false, _) => return Ok(Vec::new()),
        (ReviewVersion::V1Beta1, true, _) => {}
        (_, false, _) if has_patch => {
            return invalid("validating webhook may not return response.patch");
        }
        (_, false, Some(_)) => {
            return invalid("validating webhook may not return response.patchType");
        }
        (_, true, None) if has_patch => {
            return invalid("webhook returned response.patch but not response.patchType");
        }
        (_, true, Some(_)) if !has_patch => {
            return invalid("webhook returned response.patchType but not response.patch");
        }
        (_, true, Some("")) => {
            return invalid("webhook returned invalid response.patchType of \"\"");
        }
        (_, true, Some(other)) if other != "JSONPatch" => {
            return Err(AnswerError::Invalid(format!(
                "unsupported patch type {other:?}"
            )));
        }
        _ => {}
    }
    STANDARD
        .decode(encoded)
        .map_err(|error| AnswerError::Unreadable(format!("response.patch: {error}")))
}
