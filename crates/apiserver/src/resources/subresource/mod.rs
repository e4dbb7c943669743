//! What is asked of a part of an object, or of something beside it. One file for each that is more than a part.

mod binding;
mod budget;
mod conditions;
mod eviction;
mod node;
mod scale;
mod token;

use http::StatusCode;
use rhumb_api::SubresourceKind;
use rhumb_meta::Status;

use super::prepare::Part;
use super::{Call, get, patch, render, update};
use crate::http::Reply;

pub(super) use binding::bind_collection;

/// The answer of a subresource.
pub(super) async fn answer(call: &Call<'_>, kind: SubresourceKind) -> Result<Reply, Status> {
    match kind {
        SubresourceKind::Status => part(call, Part::Status).await,
        SubresourceKind::Approval => part(call, Part::Own("approval")).await,
        SubresourceKind::EphemeralContainers => part(call, Part::Own("ephemeralcontainers")).await,
        SubresourceKind::Resize => part(call, Part::Own("resize")).await,
        SubresourceKind::Finalize => part(call, Part::Own("finalize")).await,
        SubresourceKind::Scale {
            replicas,
            status_replicas,
            selector,
        } => {
            let paths = scale::Paths {
                replicas,
                status_replicas,
                selector,
            };
            scale::answer(call, paths).await
        }
        SubresourceKind::Binding => binding::bind(call).await,
        SubresourceKind::Eviction => eviction::evict(call).await,
        SubresourceKind::Token => token::create(call).await,
        SubresourceKind::Node => node::answer(call).await,
    }
}

/// The answer to what was done and shows nothing.
fn created(call: &Call<'_>) -> Result<Reply, Status> {
    let mut status = Status::success(None);
    status.code = StatusCode::CREATED.as_u16().into();
    let status = serde_json::to_value(status).map_err(Status::internal_error)?;
    render::value(call, StatusCode::CREATED, &status)
}

async fn part(call: &Call<'_>, part: Part) -> Result<Reply, Status> {
    match call.verb {
        "update" => update::update(call, part).await,
        "patch" => patch::patch_object(call, part).await,
        _ => get::get(call).await,
    }
}
