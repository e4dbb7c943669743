//! `update`: PUT of an object, or of a subresource that is a part of it, such as `status`.

use rhumb_api::JsonObject;
use rhumb_meta::field::ErrorList;
use rhumb_meta::{GroupKind, GroupResource, Status};

use super::codec::DecodeBody;
use super::disabled_fields::report_disabled_fields;
use super::get::parse_uint;
use super::kept_spec::{SentUnknownFields, keep_stored_spec, strict_decoding_error};
use super::{ResourceRequest, render};
use crate::http::Reply;
use crate::request::{FieldValidation, WriteOptions};
use rhumb_registry::RequestContext;
use rhumb_registry::ensure_request_namespace;
use rhumb_registry::objects::{ObjectMetadata, ObjectMetadataMut};
use rhumb_registry::write::{ObjectUpdate, ProposedWrite, StoredObject, UpdateScope};

pub(super) async fn update(
    request: &ResourceRequest<'_>,
    part: UpdateScope,
) -> Result<Reply, Status> {
    let options = WriteOptions::parse(request.query, "UpdateOptions")?;
    let validation = request.effective_field_validation(options.field_validation, part);
    let (mut object, strict) = request.decode_update(validation)?;
    ensure_request_namespace(request, &mut object)?;
    check_name(request, &object)?;
    request.convert_to_stored(&mut object)?;
    let key = request.key()?;
    let update = ReplaceUpdate {
        context: request,
        object,
        strict,
        part,
        validation,
    };
    let result = request.update_object(&key, options.dry_run, &update);
    render::write_response(request, result.await?)
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
    /// `Some` for kinds that reject unknown fields.
    strict: Option<SentUnknownFields>,
    part: UpdateScope,
    validation: FieldValidation,
}

impl ObjectUpdate for ReplaceUpdate<'_> {
    fn propose(&self, current: Option<&StoredObject>) -> Result<ProposedWrite, Status> {
        let context = self.context;
        match current {
            Some(current) => {
                check_uid(context, current.object.uid(), &self.object)?;
                let (old, validation) = (Some(&current.object), self.validation);
                if self.part.is_main() {
                    report_disabled_fields(context, &self.object, old, validation)?;
                }
                let mut new = self.object.clone();
                if let Some(body) = &self.strict {
                    keep_stored_spec(context, body, &current.object, &mut new)?;
                }
                propose_replacement(context, current, new, self.part)
            }
            None => self.propose_creation(),
        }
    }

    fn is_conditional(&self) -> bool {
        has_resource_version(&self.object)
    }
}

impl ReplaceUpdate<'_> {
    /// A PUT to an unused name creates the object, for kinds that allow it (upstream: `AllowCreateOnUpdate`).
    fn propose_creation(&self) -> Result<ProposedWrite, Status> {
        let context = self.context;
        let may_create = context.resource.kind.write_behavior.create_on_update;
        if self.part != UpdateScope::Main || !may_create {
            return Err(context.not_found());
        }
        context.authorize_create()?;
        check_uid(context, "", &self.object)?;
        if let Some(body) = &self.strict {
            context
                .report_unknown_fields(&body.problems, &[], body.validation)
                .map_err(|text| strict_decoding_error(context, text))?;
        }
        let mut object = self.object.clone();
        object.clear_meta("resourceVersion");
        Ok(ProposedWrite::Create(object))
    }
}

/// Proposes to replace the current object by a new state from the client, in the storage version.
pub(super) fn propose_replacement(
    context: &RequestContext<'_>,
    current: &StoredObject,
    mut new: JsonObject,
    part: UpdateScope,
) -> Result<ProposedWrite, Status> {
    check_resource_version(context, current, &new)?;
    if !has_resource_version(&new) {
        if !context.resource.kind.write_behavior.unconditional_update {
            return Err(resource_version_required(context));
        }
        new.copy_meta_from(&current.object, "resourceVersion");
    }
    Ok(ProposedWrite::Replace { object: new, part })
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

/// A uid in the new object is a precondition: it must be that of the current object.
pub(super) fn check_uid(
    context: &RequestContext<'_>,
    old_uid: &str,
    new: &JsonObject,
) -> Result<(), Status> {
    let uid = new.uid();
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
