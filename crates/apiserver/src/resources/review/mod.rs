//! Questions that are asked by creating an object: who am I, whose token is this, may they do that.

mod access;
mod token;

use http::StatusCode;
use rhumb_meta::Status;
use serde_json::{Value, json};

use super::create::place_in_namespace;
use super::{Call, render};
use crate::admission::Operation;
use crate::http::Reply;
use crate::objects::Metadata;
use crate::request::WriteOptions;

/// The answer to a review; `None` if the kind is none.
pub(super) async fn answer(call: &Call<'_>) -> Option<Result<Reply, Status>> {
    let review = match &*call.resource.kind.name {
        "SelfSubjectReview" => self_subject,
        "TokenReview" => token::review,
        "SubjectAccessReview" => access::subject,
        "LocalSubjectAccessReview" => access::local_subject,
        "SelfSubjectAccessReview" => access::self_subject,
        "SelfSubjectRulesReview" => access::self_rules,
        _ => return None,
    };
    Some(run(call, review).await)
}

/// Fills in the status of a review. Its answer is the review itself.
async fn run(
    call: &Call<'_>,
    review: fn(&Call<'_>, &mut Value) -> Result<(), Status>,
) -> Result<Reply, Status> {
    let options = WriteOptions::parse(call.query, "CreateOptions")?;
    let mut object = call.decode(call.expected(), options.field_validation)?;
    place_in_namespace(call, &mut object)?;
    let attributes = call.attributes(Operation::Create, None, options.dry_run);
    let chain = &call.api.admission;
    chain.admit(&attributes, Some(&mut object)).await?;
    let has_metadata = object
        .metadata()
        .is_some_and(|metadata| !metadata.is_empty());
    let mut object = Value::Object(object);
    if !has_metadata {
        object["metadata"] = json!({});
    }
    review(call, &mut object)?;
    render::value(call, StatusCode::CREATED, &object)
}

fn self_subject(call: &Call<'_>, review: &mut Value) -> Result<(), Status> {
    review["metadata"]["creationTimestamp"] = call.now.rfc3339().to_string().into();
    review["status"] = json!({"userInfo": call.user});
    Ok(())
}
