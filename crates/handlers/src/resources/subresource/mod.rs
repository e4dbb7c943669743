//! Subresources. Those that are a part of the object, such as `status`, are get, update and patch on that part; each of
//! the others has a file here.

mod binding;
mod conditions;
mod connect_options;
mod disruption_budget;
mod disruption_budget_index;
mod eviction;
mod node_connect;
mod scale;
mod token_request;

use http::StatusCode;
use rhumb_api::SubresourceKind;
use rhumb_meta::Status;

use super::{ResourceRequest, get, patch, render, update};
use crate::http::Reply;
use rhumb_registry::write::UpdateScope;

pub(super) use binding::bind_collection;
pub use disruption_budget_index::DisruptionBudgetIndex;

/// Runs the verb on a subresource.
pub(super) async fn dispatch(
    request: &ResourceRequest<'_>,
    kind: &SubresourceKind,
) -> Result<Reply, Status> {
    match kind {
        SubresourceKind::Status => serve_object_part(request, UpdateScope::Status).await,
        SubresourceKind::Approval => {
            serve_object_part(request, UpdateScope::Subresource("approval")).await
        }
        SubresourceKind::EphemeralContainers => {
            serve_object_part(request, UpdateScope::Subresource("ephemeralcontainers")).await
        }
        SubresourceKind::Resize => {
            serve_object_part(request, UpdateScope::Subresource("resize")).await
        }
        SubresourceKind::Finalize => {
            serve_object_part(request, UpdateScope::Subresource("finalize")).await
        }
        SubresourceKind::Scale {
            replicas,
            status_replicas,
            selector,
        } => {
            let paths = scale::ScalePaths {
                replicas,
                status_replicas,
                selector,
            };
            scale::serve_scale(request, paths).await
        }
        SubresourceKind::Binding => {
            render::negotiate_without_table(request)?;
            binding::bind(request).await
        }
        SubresourceKind::Eviction => {
            render::negotiate_without_table(request)?;
            eviction::evict(request).await
        }
        SubresourceKind::Token => token_request::create_token(request).await,
        SubresourceKind::NodeProxied => node_connect::connect(request).await,
    }
}

/// A Status with code 201, the response of binding and eviction.
fn created_status(request: &ResourceRequest<'_>) -> Result<Reply, Status> {
    let mut status = Status::success(None);
    status.code = StatusCode::CREATED.as_u16().into();
    let status = serde_json::to_value(status).map_err(Status::internal_error)?;
    render::value_response(request, StatusCode::CREATED, &status)
}

/// Get, update or patch of a subresource that is a part of the object.
async fn serve_object_part(
    request: &ResourceRequest<'_>,
    part: UpdateScope,
) -> Result<Reply, Status> {
    match request.verb {
        "update" => update::update(request, part).await,
        "patch" => patch::patch_object(request, part).await,
        _ => get::get(request).await,
    }
}
