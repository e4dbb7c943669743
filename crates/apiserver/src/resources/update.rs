//! `update`: PUT of an object, or of a subresource that is a part of it, such as `status`.

use async_trait::async_trait;
use rhumb_api::JsonObject;
use rhumb_meta::field::ErrorList;
use rhumb_meta::{GroupKind, GroupResource, Status};

use super::create::{create_object, ensure_request_namespace};
use super::get::parse_uint;
use super::prepare::ObjectPart;
use super::write::{ObjectUpdate, ProposedWrite, StoredObject};
use super::{RequestContext, render};
use crate::http::Reply;
use crate::objects::{ObjectMetadata, ObjectMetadataMut};
use crate::request::WriteOptions;

pub(super) async fn update(
    context: &RequestContext<'_>,
    part: ObjectPart,
) -> Result<Reply, Status> {
    let options = WriteOptions::parse(context.query, "UpdateOptions")?;
    let validation = context.effective_field_validation(options.field_validation, part);
    let mut object = context.decode(context.expected_type(), validation)?;
    ensure_request_namespace(context, &mut object)?;
    check_name(context, &object)?;
    context.convert_to_stored(&mut object)?;
    let key = context.key()?;
    let replace = ReplaceUpdate {
        context,
        object,
        part,
        dry_run: options.dry_run,
    };
    match context
        .guaranteed_update(&key, options.dry_run, &replace)
        .await
    {
        Ok(result) => render::write_response(context, result, options.dry_run),
        Err(status)
            if status.is_not_found()
                && part == ObjectPart::Main
                && context.resource.kind.write_behavior.create_on_update =>
        {
            create_on_update(context, replace.object, options.dry_run).await
        }
        Err(status) => Err(status),
    }
}

/// Creates the object of a PUT to an unused name, for kinds that allow it (upstream: `AllowCreateOnUpdate`).
async fn create_on_update(
    context: &RequestContext<'_>,
    mut object: JsonObject,
    dry_run: bool,
) -> Result<Reply, Status> {
    context.state.authorize_create(context)?;
    let empty_stored_object = StoredObject {
        object: JsonObject::new(),
        revision: rhumb_meta::Revision::ZERO,
    };
    check_uid(context, &empty_stored_object, &object)?;
    object.clear_meta("resourceVersion");
    let created = create_object(context, object, dry_run).await?;
    render::created_response(context, created)
}

/// The name in the object must be the one in the path.
pub(super) fn check_name(context: &RequestContext<'_>, object: &JsonObject) -> Result<(), Status> {
    let name = object.name();
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            context.name()
        )));
    }
    if name != context.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            context.name()
        )));
    }
    Ok(())
}

/// Replaces the current object by that of the request.
struct ReplaceUpdate<'a> {
    context: &'a RequestContext<'a>,
    object: JsonObject,
    part: ObjectPart,
    dry_run: bool,
}

#[async_trait]
impl ObjectUpdate for ReplaceUpdate<'_> {
    async fn propose(&self, current: &StoredObject) -> Result<ProposedWrite, Status> {
        check_uid(self.context, current, &self.object)?;
        propose_update(
            self.context,
            current,
            self.object.clone(),
            self.part,
            self.dry_run,
        )
        .await
    }

    fn is_conditional(&self) -> bool {
        has_resource_version(&self.object)
    }
}

/// Proposes an update from the current object to a new state from the client, in the storage version.
pub(super) async fn propose_update(
    context: &RequestContext<'_>,
    current: &StoredObject,
    new: JsonObject,
    part: ObjectPart,
    dry_run: bool,
) -> Result<ProposedWrite, Status> {
    let old = &current.object;
    check_resource_version(context, current, &new)?;
    let mut new = new;
    if !has_resource_version(&new) {
        if !context.resource.kind.write_behavior.unconditional_update {
            return Err(resource_version_required(context));
        }
        new.copy_meta_from(old, "resourceVersion");
    }
    let (new, hold) = context.prepare_update(old, new, part, dry_run).await?;
    if is_finalized(context, &new) {
        return Ok(ProposedWrite::RemoveFinalized(new));
    }
    Ok(ProposedWrite::Put(new, hold))
}

/// Whether an object has a resourceVersion. As upstream does, "0" counts as none.
fn has_resource_version(object: &JsonObject) -> bool {
    !matches!(object.resource_version(), "" | "0")
}

/// The error for a missing resourceVersion. Like upstream's, it names the resource instead of the kind.
fn resource_version_required(context: &RequestContext<'_>) -> Status {
    let GroupResource { group, resource } = &context.resource.group_resource;
    let mut errors = ErrorList::new();
    errors.push(rhumb_api::metadata::version_required());
    Status::invalid(
        &GroupKind::new(group.clone(), resource.clone()),
        context.name(),
        &errors,
    )
}

/// Whether an object is marked for deletion and has no finalizers and no grace period left.
pub(super) fn is_finalized(context: &RequestContext<'_>, object: &JsonObject) -> bool {
    object.is_deleting()
        && object.finalizers().is_empty()
        && object.meta_int("deletionGracePeriodSeconds").unwrap_or(0) == 0
        && !context
            .resource
            .kind
            .strategy
            .hold_deletion(&mut object.clone())
}

/// A uid in the new object is a precondition: it must be that of the current object.
pub(super) fn check_uid(
    context: &RequestContext<'_>,
    current: &StoredObject,
    new: &JsonObject,
) -> Result<(), Status> {
    let (uid, old_uid) = (new.uid(), current.object.uid());
    if uid.is_empty() || uid == old_uid {
        return Ok(());
    }
    let key = context.storage()?.prefix.object(&context.key()?);
    Err(Status::conflict(
        &context.resource.group_resource,
        context.name(),
        format_args!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}"
        ),
    ))
}

pub(super) fn check_resource_version(
    context: &RequestContext<'_>,
    current: &StoredObject,
    new: &JsonObject,
) -> Result<(), Status> {
    let version = new.resource_version();
    if version.is_empty() {
        return Ok(());
    }
    match parse_uint(version) {
        Err(error) => Err(Status::bad_request(error)),
        Ok(0) => Ok(()),
        Ok(version) if version == current.revision.get() => Ok(()),
        Ok(_) => Err(context.object_modified(context.name())),
    }
}
