//! Review resources: virtual resources that answer a POST and are never stored (TokenReview, SelfSubjectReview,
//! SubjectAccessReview and its variants).

mod access_review;
mod token_review;

use http::StatusCode;
use rhumb_meta::Status;
use serde_json::{Value, json};

use super::codec::DecodeBody;
use super::{ResourceRequest, render};
use crate::http::Reply;
use crate::request::WriteOptions;
use rhumb_registry::admission::Operation;
use rhumb_registry::ensure_request_namespace;
use rhumb_registry::objects::ObjectMetadata;

/// Handles a POST of a review; `None` if the kind is not a review.
pub(super) async fn dispatch(request: &ResourceRequest<'_>) -> Option<Result<Reply, Status>> {
    let review = match &*request.resource.kind.name {
        "SelfSubjectReview" => self_subject,
        "TokenReview" => token_review::review,
        "SubjectAccessReview" => access_review::subject,
        "LocalSubjectAccessReview" => access_review::local_subject,
        "SelfSubjectAccessReview" => access_review::self_subject,
        "SelfSubjectRulesReview" => access_review::self_rules,
        _ => return None,
    };
    Some(run_review(request, review).await)
}

/// Decodes and admits a review, fills in its status, and returns it.
async fn run_review(
    request: &ResourceRequest<'_>,
    review: fn(&ResourceRequest<'_>, &mut Value) -> Result<(), Status>,
) -> Result<Reply, Status> {
    let accept = render::negotiate_without_table(request)?;
    let options = WriteOptions::parse(request.query, "CreateOptions")?;
    let mut object = request.decode(request.expected_type(), options.field_validation)?;
    ensure_request_namespace(request, &mut object)?;
    let attributes = request.admission_attributes(Operation::Create, None, options.dry_run);
    let chain = &request.registry.admission;
    chain.admit(&attributes, Some(&mut object)).await?;
    let has_metadata = object
        .metadata()
        .is_some_and(|metadata| !metadata.is_empty());
    let mut object = Value::Object(object);
    if !has_metadata {
        object["metadata"] = json!({});
    }
    review(request, &mut object)?;
    render::encode_value(request, accept, StatusCode::CREATED, &object)
}

fn self_subject(request: &ResourceRequest<'_>, review: &mut Value) -> Result<(), Status> {
    review["metadata"]["creationTimestamp"] = request.now.rfc3339().to_string().into();
    review["status"] = json!({"userInfo": request.user});
    Ok(())
}
