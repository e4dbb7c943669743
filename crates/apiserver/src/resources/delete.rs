//! DELETE of an object or a collection: preconditions, grace, finalizers, and what becomes of dependents.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, TryStreamExt};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use rhumb_api::{Object, View};
use rhumb_meta::status::StatusDetails;
use rhumb_meta::{GroupResource, ObjectKey, Status, Timestamp};
use serde_json::Value;

use super::list;
use super::propagation;
use super::render::Shape;
use super::write::{Change, Current, Edit, Written};
use super::{Call, Claim, codec, render};
use crate::admission::Operation;
use crate::http::Reply;
use crate::objects::{Metadata, MetadataMut};
use crate::request::{ALL_FORMS, DeleteOptions, ListOptions, Media};

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
/// Deletions of one collection that are under way together: they share a commit, and others find room beside
/// them.
const DELETIONS_AT_ONCE: usize = 32;

pub(super) async fn delete(call: &Call<'_>) -> Result<Reply, Status> {
    let options = delete_options(call)?;
    warn_of_orphans(call, &options);
    if let Some(reason) = call.resource.kind.rules.forbids_deletion(call.name()) {
        let resource = &call.resource.group_resource;
        return Err(Status::forbidden(resource, call.name(), reason));
    }
    let key = call.key()?;
    let written = delete_key(call, &key, &options, Admission::Ask).await?;
    let code = if !written.deleted && options.orphan_dependents == Some(false) {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    if !written.deleted || call.resource.kind.writes.returns_deleted {
        return render::object(call, code, written.object);
    }
    let details = StatusDetails {
        name: written.object.name().to_owned(),
        group: call.resource.kind.group.to_string(),
        kind: call.resource.kind.plural.to_string(),
        uid: written.object.uid().to_owned(),
        ..StatusDetails::default()
    };
    let status =
        serde_json::to_value(Status::success(Some(details))).map_err(Status::internal_error)?;
    render::value(call, code, &status)
}

pub(super) async fn delete_collection(call: &Call<'_>) -> Result<Reply, Status> {
    let options = delete_options(call)?;
    let shape = Shape::of(call, ALL_FORMS)?;
    let selection = ListOptions::parse(call.query, false)?;
    let page = list::select(call, &selection).await?;
    warn_of_orphans(call, &options);
    stream::iter(page.entries.iter().map(Ok))
        .try_for_each_concurrent(DELETIONS_AT_ONCE, |entry| {
            let options = &options;
            async move {
                match delete_key(call, entry.key(), options, Admission::Ask).await {
                    Err(status) if !status.is_not_found() => Err(status),
                    _ => Ok(()),
                }
            }
        })
        .await?;
    // As upstream does, the answer lists the objects as they were found.
    list::reply(call, &shape, page)
}

fn delete_options(call: &Call<'_>) -> Result<DeleteOptions, Status> {
    if call.body.is_empty() {
        return DeleteOptions::parse(call.query, b"");
    }
    match codec::body_media(call.header(CONTENT_TYPE))? {
        Media::Json => json_options(call, &call.body),
        Media::Yaml => {
            let value = rhumb_schema::read_yaml(&call.body)
                .map_err(|error| Status::bad_request(error.to_string()))?;
            json_options(call, value.to_string().as_bytes())
        }
        Media::Protobuf => parsed_options(call, protobuf_options(call)?),
    }
}

fn json_options(call: &Call<'_>, body: &[u8]) -> Result<DeleteOptions, Status> {
    let of = call.api.type_named(DELETE_OPTIONS)?;
    let options = rhumb_schema::Options {
        strict: false,
        whole: true,
    };
    let decoded = rhumb_schema::decode_json(call.api.table, of, body, options)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    parsed_options(call, decoded.object)
}

fn parsed_options(call: &Call<'_>, body: Object) -> Result<DeleteOptions, Status> {
    let mut body = Value::Object(body);
    let options = DeleteOptions::parse(call.query, body.to_string().as_bytes())?;
    if let Some(recorder) = call.recorder {
        recorder.record(|| {
            for (name, value) in [("kind", "DeleteOptions"), ("apiVersion", "meta.k8s.io/v1")] {
                if body[name].is_null() {
                    body[name] = value.into();
                }
            }
            body.to_string().into()
        });
    }
    Ok(options)
}

fn protobuf_options(call: &Call<'_>) -> Result<Object, Status> {
    let (found, raw) = codec::open(&call.body).map_err(Status::bad_request)?;
    let of = call.api.type_named(DELETE_OPTIONS)?;
    let mut body = rhumb_schema::protobuf::decode(call.api.table, of, raw)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    for (name, value) in [("apiVersion", found.api_version), ("kind", found.kind)] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            body.insert(name.into(), value.into());
        }
    }
    Ok(body)
}

/// Whether the chain has yet to be asked about a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Ask,
    /// The deletion is part of something that was admitted itself.
    Done,
}

pub(super) async fn delete_key(
    call: &Call<'_>,
    key: &ObjectKey,
    options: &DeleteOptions,
    admission: Admission,
) -> Result<Written, Status> {
    let edit = Remove {
        call,
        options,
        admission,
    };
    let marked = call.change(key, options.dry_run, &edit).await?;
    if marked.deleted || options.dry_run || !is_due(call, &marked.object) {
        return Ok(marked);
    }
    // Watchers are told that an object ends before they are told that it is gone, however short its grace.
    let rest = DeleteOptions {
        precondition_uid: Some(marked.object.uid().to_owned()),
        precondition_resource_version: None,
        ..options.clone()
    };
    let edit = Remove {
        call,
        options: &rest,
        admission: Admission::Done,
    };
    match call.change(key, false, &edit).await {
        Err(status) if status.is_not_found() => Ok(Written {
            deleted: true,
            ..marked
        }),
        result => result,
    }
}

/// Whether an object that is marked as ending has no grace left, and nothing holds it.
fn is_due(call: &Call<'_>, object: &Object) -> bool {
    let rules = &call.resource.kind.rules;
    let knows_grace = rules.grace_seconds(&View::root(object), None).is_some();
    knows_grace
        && object.is_deleting()
        && object.meta_int("deletionGracePeriodSeconds") == Some(0)
        && object.finalizers().is_empty()
}

/// Whether the object is the one that the client means.
pub(super) fn check_preconditions(
    call: &Call<'_>,
    options: &DeleteOptions,
    current: &Current,
) -> Result<(), Status> {
    let conflict = |message: String| {
        // Upstream names the kind here, where everything else names the resource.
        let kind = &call.resource.kind;
        let resource = GroupResource::new(kind.group.to_string(), kind.name.to_string());
        Status::conflict(&resource, current.object.name(), message)
    };
    let uid = current.object.uid();
    if let Some(wanted) = options
        .precondition_uid
        .as_deref()
        .filter(|&wanted| wanted != uid)
    {
        return Err(conflict(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        )));
    }
    let version = current.revision.to_string();
    if let Some(wanted) = options
        .precondition_resource_version
        .as_deref()
        .filter(|&wanted| wanted != version)
    {
        return Err(conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        )));
    }
    Ok(())
}

struct Remove<'a> {
    call: &'a Call<'a>,
    options: &'a DeleteOptions,
    admission: Admission,
}

/// How an object ends.
enum Grace {
    /// At once.
    None,
    /// It is marked, and whoever runs it has so many seconds.
    Seconds(i64),
    /// It is already ending, and nothing changes.
    Pending,
}

#[async_trait]
impl Edit for Remove<'_> {
    async fn edit(&self, current: &Current) -> Result<Change, Status> {
        check_preconditions(self.call, self.options, current)?;
        if self.admission == Admission::Ask {
            let old = Some(&current.object);
            let dry_run = self.options.dry_run;
            let attributes = self.call.attributes(Operation::Delete, old, dry_run);
            let attributes = attributes.with_deletion(self.options);
            self.call.api.admission.admit(&attributes, None).await?;
        }
        let mut object = current.object.clone();
        let grace = self.grace(&mut object);
        if matches!(grace, Grace::Pending) {
            return Ok(Change::Keep(object));
        }
        let writes = self.call.resource.kind.writes;
        let finalizers = propagation::finalizers(&object.finalizers(), self.options, writes);
        object.set_finalizers(finalizers);
        let held_by_kind = self.call.resource.kind.rules.hold_deletion(&mut object);
        if held_by_kind && current.object.is_deleting() {
            return Ok(Change::Keep(current.object.clone()));
        }
        let held = held_by_kind || !object.finalizers().is_empty();
        match grace {
            Grace::Seconds(seconds) if seconds > 0 || held || !self.options.dry_run => {
                Ok(Change::Put(object, Claim::default()))
            }
            Grace::None if held => {
                self.mark(&mut object, 0);
                // A kind that holds its objects back by itself has nothing to do with grace.
                if held_by_kind {
                    object.clear_meta("deletionGracePeriodSeconds");
                }
                Ok(Change::Put(object, Claim::default()))
            }
            _ => Ok(Change::Delete(object)),
        }
    }

    fn is_conditional(&self) -> bool {
        self.options.precondition_resource_version.is_some()
    }
}

impl Remove<'_> {
    /// Marks the object as ending in grace, where its kind knows grace.
    fn grace(&self, object: &mut Object) -> Grace {
        let requested = self.options.grace_period_seconds;
        let rules = &self.call.resource.kind.rules;
        let Some(seconds) = rules.grace_seconds(&View::root(object), requested) else {
            return Grace::None;
        };
        if !object.is_deleting() {
            self.mark(object, seconds);
            return Grace::Seconds(seconds);
        }
        let left = object.meta_int("deletionGracePeriodSeconds").unwrap_or(0);
        match requested {
            _ if left == 0 => Grace::None,
            Some(requested) if requested < left => {
                self.shorten(object, left, requested);
                Grace::Seconds(requested)
            }
            _ => Grace::Pending,
        }
    }

    fn mark(&self, object: &mut Object, seconds: i64) {
        if object.is_deleting() {
            object.set_meta("deletionGracePeriodSeconds", seconds);
            return;
        }
        object.set_time("deletionTimestamp", later(self.call.now, seconds));
        object.set_meta("deletionGracePeriodSeconds", seconds);
        if object.generation() > 0 {
            object.set_meta("generation", object.generation() + 1);
        }
    }

    /// A grace period can only become shorter.
    fn shorten(&self, object: &mut Object, left: i64, requested: i64) {
        let now = self.call.now;
        let end = object
            .meta_str("deletionTimestamp")
            .parse::<Timestamp>()
            .map_or(now, |end| later(end, requested - left));
        if end < now {
            object.set_time("deletionTimestamp", now);
            object.set_meta("deletionGracePeriodSeconds", requested.min(1));
        } else {
            object.set_time("deletionTimestamp", end);
            object.set_meta("deletionGracePeriodSeconds", requested);
        }
    }
}

fn warn_of_orphans(call: &Call<'_>, options: &DeleteOptions) {
    let is_silent = options.orphan_dependents.is_none() && options.propagation.is_none();
    if let Some(warning) = call.resource.kind.writes.orphan_warning
        && is_silent
    {
        call.warn(warning);
    }
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    let by = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 {
        time.saturating_sub(by)
    } else {
        time.saturating_add(by)
    }
}
