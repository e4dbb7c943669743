//! PUT of an object, and of the parts of it that are subresources.

use async_trait::async_trait;
use rhumb_api::Object;
use rhumb_meta::field::ErrorList;
use rhumb_meta::{GroupKind, GroupResource, Status};

use super::create::{create_object, place_in_namespace};
use super::get::parse_uint;
use super::prepare::Part;
use super::write::{Change, Current, Edit};
use super::{Call, render};
use crate::http::Reply;
use crate::objects::{Metadata, MetadataMut};
use crate::request::WriteOptions;

pub(super) async fn update(call: &Call<'_>, part: Part) -> Result<Reply, Status> {
    let options = WriteOptions::parse(call.query, "UpdateOptions")?;
    let validation = call.validation(options.field_validation, part);
    let mut object = call.decode(call.expected(), validation)?;
    place_in_namespace(call, &mut object)?;
    check_name(call, &object)?;
    call.to_stored(&mut object)?;
    let key = call.key()?;
    let replace = Replace {
        call,
        object,
        part,
        dry_run: options.dry_run,
    };
    match call.change(&key, options.dry_run, &replace).await {
        Ok(written) => render::written(call, written, options.dry_run),
        Err(status)
            if status.is_not_found()
                && part == Part::Main
                && call.resource.kind.writes.create_on_update =>
        {
            create_instead(call, replace.object, options.dry_run).await
        }
        Err(status) => Err(status),
    }
}

async fn create_instead(
    call: &Call<'_>,
    mut object: Object,
    dry_run: bool,
) -> Result<Reply, Status> {
    call.api.authorize_create(call)?;
    let nothing = Current {
        object: Object::new(),
        revision: rhumb_meta::Revision::ZERO,
    };
    check_uid(call, &nothing, &object)?;
    object.clear_meta("resourceVersion");
    let created = create_object(call, object, dry_run).await?;
    render::created(call, created)
}

/// The name in the object must be the one in the path.
pub(super) fn check_name(call: &Call<'_>, object: &Object) -> Result<(), Status> {
    let name = object.name();
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name()
        )));
    }
    if name != call.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name()
        )));
    }
    Ok(())
}

struct Replace<'a> {
    call: &'a Call<'a>,
    object: Object,
    part: Part,
    dry_run: bool,
}

#[async_trait]
impl Edit for Replace<'_> {
    async fn edit(&self, current: &Current) -> Result<Change, Status> {
        check_uid(self.call, current, &self.object)?;
        update_to(
            self.call,
            current,
            self.object.clone(),
            self.part,
            self.dry_run,
        )
        .await
    }

    fn is_conditional(&self) -> bool {
        names_version(&self.object)
    }
}

/// The change from the current object to a new state that a client gave, in stored form.
pub(super) async fn update_to(
    call: &Call<'_>,
    current: &Current,
    new: Object,
    part: Part,
    dry_run: bool,
) -> Result<Change, Status> {
    let old = &current.object;
    check_version(call, current, &new)?;
    let mut new = new;
    if !names_version(&new) {
        if !call.resource.kind.writes.unconditional_update {
            return Err(version_required(call));
        }
        new.carry_meta(old, "resourceVersion");
    }
    let (new, claim) = call.prepare_update(old, new, part, dry_run).await?;
    if is_finished(call, &new) {
        return Ok(Change::Finish(new));
    }
    Ok(Change::Put(new, claim))
}

/// Whether an object says which version of it is meant. Zero is none, as upstream has it.
fn names_version(object: &Object) -> bool {
    !matches!(object.resource_version(), "" | "0")
}

/// The error names the resource where others name the kind, as upstream's does.
fn version_required(call: &Call<'_>) -> Status {
    let GroupResource { group, resource } = &call.resource.group_resource;
    let mut errors = ErrorList::new();
    errors.push(rhumb_api::metadata::version_required());
    Status::invalid(
        &GroupKind::new(group.clone(), resource.clone()),
        call.name(),
        &errors,
    )
}

/// A deleted object that nothing holds any more.
pub(super) fn is_finished(call: &Call<'_>, object: &Object) -> bool {
    object.is_deleting()
        && object.finalizers().is_empty()
        && object.meta_int("deletionGracePeriodSeconds").unwrap_or(0) == 0
        && !call.resource.kind.rules.hold_deletion(&mut object.clone())
}

/// Who replaces an object and names its uid means that one and no later one of the same name.
pub(super) fn check_uid(call: &Call<'_>, current: &Current, new: &Object) -> Result<(), Status> {
    let (uid, old_uid) = (new.uid(), current.object.uid());
    if uid.is_empty() || uid == old_uid {
        return Ok(());
    }
    let key = call.storage()?.prefix.object(&call.key()?);
    Err(Status::conflict(
        &call.resource.group_resource,
        call.name(),
        format_args!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}"
        ),
    ))
}

pub(super) fn check_version(
    call: &Call<'_>,
    current: &Current,
    new: &Object,
) -> Result<(), Status> {
    let version = new.resource_version();
    if version.is_empty() {
        return Ok(());
    }
    match parse_uint(version) {
        Err(error) => Err(Status::bad_request(error)),
        Ok(0) => Ok(()),
        Ok(version) if version == current.revision.get() => Ok(()),
        Ok(_) => Err(call.modified(call.name())),
    }
}
