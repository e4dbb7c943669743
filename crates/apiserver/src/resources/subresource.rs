//! What is asked of a part of an object, or of something beside it.

use rhumb_api::SubresourceKind;
use rhumb_meta::Status;

use super::write::Part;
use super::{Call, get, patch, update};
use crate::http::Reply;

/// The answer of a subresource; `None` if it does not know the verb.
pub(super) async fn answer(
    call: &Call<'_>,
    kind: SubresourceKind,
) -> Result<Option<Reply>, Status> {
    match kind {
        SubresourceKind::Status => part(call, Part::Status).await.map(Some),
        _ => Err(Status::method_not_supported(
            &call.resource.group_resource,
            call.verb,
        )),
    }
}

async fn part(call: &Call<'_>, part: Part) -> Result<Reply, Status> {
    match call.verb {
        "update" => update::update(call, part).await,
        "patch" => patch::patch_object(call, part).await,
        _ => get::get(call).await,
    }
}
