//! `create`: POST to a collection.
//!
//! Entry point: `create`.

use rhumb_api::JsonObject;
use rhumb_meta::Status;

use super::codec::DecodeBody;
use super::disabled_fields::report_disabled_fields;
use super::get::parse_uint;
use super::{ResourceRequest, render};
use crate::http::Reply;
use crate::request::WriteOptions;
use rhumb_registry::objects::{ObjectMetadata, ObjectMetadataMut};
use rhumb_registry::write::UpdateScope;
use rhumb_registry::{RequestContext, ensure_request_namespace};

pub(super) async fn create(request: &ResourceRequest<'_>) -> Result<Reply, Status> {
    let options = WriteOptions::parse(request.query, "CreateOptions")?;
    let validation =
        request.effective_field_validation(options.field_validation, UpdateScope::Main);
    let mut object = request.decode(request.expected_type(), validation)?;
    report_disabled_fields(request, &object, None, validation)?;
    check_new_object(request, &mut object)?;
    request.convert_to_stored(&mut object)?;
    let created = request.create_object(object, options.dry_run).await?;
    render::write_response(request, created)
}

/// Checks the namespace of a new object, and that it has no resourceVersion.
fn check_new_object(context: &RequestContext<'_>, object: &mut JsonObject) -> Result<(), Status> {
    ensure_request_namespace(context, object)?;
    let version = object.resource_version();
    if !version.is_empty() && parse_uint(version).is_ok_and(|version| version != 0) {
        return Err(Status::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    object.clear_meta("resourceVersion");
    Ok(())
}
