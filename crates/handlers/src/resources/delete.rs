//! `delete` and `deletecollection`: preconditions, grace periods, finalizers and propagation (upstream: `Delete` of the
//! generic registry store, `BeforeDelete`).

use std::time::Duration;

use futures_util::stream::{self, TryStreamExt};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use rhumb_api::{FieldView, JsonObject};
use rhumb_meta::status::StatusDetails;
use rhumb_meta::{GroupResource, ObjectKey, Status, Timestamp};
use serde_json::Value;

use super::list;
use super::propagation;
use super::render::ResponseFormat;
use super::{ResourceRequest, codec, render};
use crate::http::Reply;
use crate::request::{ALL_REPRESENTATIONS, ListOptions, MediaType, parse_delete_options};
use rhumb_registry::DeleteOptions;
use rhumb_registry::RequestContext;
use rhumb_registry::objects::{ObjectMetadata, ObjectMetadataMut};
use rhumb_registry::write::{ObjectUpdate, ProposedWrite, ReadSource, StoredObject};

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
/// How many objects of a collection are deleted concurrently: enough to share commits of the store, few enough to leave
/// capacity for other requests.
const CONCURRENT_DELETIONS_MAX: usize = 32;

pub(super) async fn delete(request: &ResourceRequest<'_>) -> Result<Reply, Status> {
    let options = delete_options(request)?;
    add_orphan_warning(request, &options);
    if let Some(reason) = request
        .resource
        .kind
        .strategy
        .deletion_forbidden_reason(request.name())
    {
        let resource = &request.resource.group_resource;
        return Err(Status::forbidden(resource, request.name(), reason));
    }
    let key = request.key()?;
    let deletion = DeleteRequest {
        context: request,
        options: &options,
        admission: DeletionAdmission::Required,
    };
    let result = deletion.run(&key, None).await?;
    let code = if !result.is_removed && options.orphan_dependents == Some(false) {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    if !result.is_removed || request.resource.kind.write_behavior.returns_deleted {
        return render::object_response(request, code, result.object);
    }
    let details = StatusDetails {
        name: result.object.name().to_owned(),
        group: request.resource.kind.group.to_string(),
        kind: request.resource.kind.plural.to_string(),
        uid: result.object.uid().to_owned(),
        ..StatusDetails::default()
    };
    let status =
        serde_json::to_value(Status::success(Some(details))).map_err(Status::internal_error)?;
    render::value_response(request, code, &status)
}

pub(super) async fn delete_collection(request: &ResourceRequest<'_>) -> Result<Reply, Status> {
    let options = delete_options(request)?;
    let format = ResponseFormat::negotiate(request, ALL_REPRESENTATIONS)?;
    let list_options = ListOptions::parse(request.query, false)?;
    let page = list::select_page(request, &list_options).await?;
    add_orphan_warning(request, &options);
    stream::iter(page.entries.iter().map(Ok))
        .try_for_each_concurrent(CONCURRENT_DELETIONS_MAX, |entry| {
            let deletion = DeleteRequest {
                context: request,
                options: &options,
                admission: DeletionAdmission::Required,
            };
            async move {
                let current = StoredObject::from_entry(entry, ReadSource::Cache)?;
                match deletion.run(entry.key(), Some(current)).await {
                    Err(status) if !status.is_not_found() => Err(status),
                    _ => Ok(()),
                }
            }
        })
        .await?;
    // As upstream does, the response lists the objects as they were before deletion.
    list::list_reply(request, &format, page)
}

fn delete_options(request: &ResourceRequest<'_>) -> Result<DeleteOptions, Status> {
    if request.body.is_empty() {
        return parse_delete_options(request.query, b"");
    }
    match codec::body_media_type(request.header(CONTENT_TYPE))? {
        MediaType::Json => decode_json_options(request, &request.body),
        MediaType::Yaml => {
            let value = rhumb_schema::read_yaml(&request.body)
                .map_err(|error| Status::bad_request(error.to_string()))?;
            decode_json_options(request, value.to_string().as_bytes())
        }
        MediaType::Protobuf => parse_options(request, decode_protobuf_options(request)?),
    }
}

fn decode_json_options(
    request: &ResourceRequest<'_>,
    body: &[u8],
) -> Result<DeleteOptions, Status> {
    let object_type = request.registry.schema_type(DELETE_OPTIONS)?;
    let options = rhumb_schema::DecodeOptions {
        strict: false,
        top_level: true,
    };
    let decoded = rhumb_schema::decode_json(object_type.table(), object_type.id(), body, options)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    parse_options(request, decoded.object)
}

fn parse_options(request: &ResourceRequest<'_>, body: JsonObject) -> Result<DeleteOptions, Status> {
    let mut body = Value::Object(body);
    let options = parse_delete_options(request.query, body.to_string().as_bytes())?;
    if let Some(recorder) = request.audit_recorder {
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

fn decode_protobuf_options(request: &ResourceRequest<'_>) -> Result<JsonObject, Status> {
    let (type_meta, raw) = codec::open_envelope(&request.body).map_err(Status::bad_request)?;
    let object_type = request.registry.schema_type(DELETE_OPTIONS)?;
    let mut body = rhumb_schema::protobuf::decode(object_type.table(), object_type.id(), raw)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    for (name, value) in [
        ("apiVersion", type_meta.api_version),
        ("kind", type_meta.kind),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            body.insert(name.into(), value.into());
        }
    }
    Ok(body)
}

/// Whether admission still has to run for a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeletionAdmission {
    Required,
    /// The deletion is part of an operation that was admitted as a whole, such as an eviction.
    AlreadyAdmitted,
}

/// The deletion of one object.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeleteRequest<'a> {
    pub(super) context: &'a RequestContext<'a>,
    pub(super) options: &'a DeleteOptions,
    pub(super) admission: DeletionAdmission,
}

/// The object as a deletion left it.
#[derive(Debug)]
pub(super) struct DeletionResult {
    pub(super) object: JsonObject,
    /// Whether it was removed, not just marked.
    pub(super) is_removed: bool,
}

impl DeleteRequest<'_> {
    /// Deletes an object, or marks it as deleting if it has finalizers or a grace period. `current` is its state, if the
    /// caller has read it.
    pub(super) async fn run(
        &self,
        key: &ObjectKey,
        current: Option<StoredObject>,
    ) -> Result<DeletionResult, Status> {
        let context = self.context;
        let dry_run = self.options.dry_run;
        let result = match current {
            Some(current) => {
                context
                    .update_stored_object(key, current, dry_run, self)
                    .await?
            }
            None => context.update_object(key, dry_run, self).await?,
        };
        let is_removed = result.is_deleted();
        let object = result.object.decode(context.storage()?)?;
        if is_removed || dry_run || !is_ready_to_remove(context, &object) {
            return Ok(DeletionResult { object, is_removed });
        }
        self.remove_marked(key, object).await
    }

    /// Even with a grace period of zero, watchers get a MODIFIED event with the deletionTimestamp before DELETED.
    async fn remove_marked(
        &self,
        key: &ObjectKey,
        marked: JsonObject,
    ) -> Result<DeletionResult, Status> {
        let context = self.context;
        let options = DeleteOptions {
            precondition_uid: Some(marked.uid().to_owned()),
            precondition_resource_version: None,
            ..self.options.clone()
        };
        let removal = DeleteRequest {
            context,
            options: &options,
            admission: DeletionAdmission::AlreadyAdmitted,
        };
        let result = match context.update_object(key, false, &removal).await {
            Err(status) if status.is_not_found() => {
                let (object, is_removed) = (marked, true);
                return Ok(DeletionResult { object, is_removed });
            }
            result => result?,
        };
        Ok(DeletionResult {
            is_removed: result.is_deleted(),
            object: result.object.decode(context.storage()?)?,
        })
    }
}

/// Whether an object marked for deletion can be removed now: no grace period left and no finalizers.
fn is_ready_to_remove(context: &RequestContext<'_>, object: &JsonObject) -> bool {
    let rules = &context.resource.kind.strategy;
    let has_grace_period = rules
        .grace_period_seconds(&FieldView::root(object), None)
        .is_some();
    has_grace_period
        && object.is_deleting()
        && object.meta_int("deletionGracePeriodSeconds") == Some(0)
        && object.finalizers().is_empty()
}

/// Checks the uid and resourceVersion preconditions of the delete options.
pub(super) fn check_preconditions(
    context: &RequestContext<'_>,
    options: &DeleteOptions,
    current: &StoredObject,
) -> Result<(), Status> {
    let check = |field: &str, expected: Option<&str>, actual: &str, cause: &str| match expected {
        Some(expected) if expected != actual => {
            let failure = FailedPrecondition {
                field,
                expected,
                actual,
                cause,
            };
            Err(failure.conflict(context, current.object.name()))
        }
        _ => Ok(()),
    };
    check(
        "UID",
        options.precondition_uid.as_deref(),
        current.object.uid(),
        "deleted and then recreated",
    )?;
    check(
        "ResourceVersion",
        options.precondition_resource_version.as_deref(),
        &current.revision.to_string(),
        "modified",
    )
}

/// A precondition of a delete that does not hold.
struct FailedPrecondition<'a> {
    field: &'a str,
    expected: &'a str,
    actual: &'a str,
    /// What may have happened to the object.
    cause: &'a str,
}

impl FailedPrecondition<'_> {
    fn conflict(&self, context: &RequestContext<'_>, name: &str) -> Status {
        let FailedPrecondition {
            field,
            expected,
            actual,
            cause,
        } = self;
        let kind = &context.resource.kind;
        if kind.write_behavior.storage_precondition_errors {
            let resource = &context.resource.group_resource;
            let message = format!(
                "Precondition failed: {field} in precondition: {expected}, {field} in object meta: {actual}"
            );
            return Status::conflict(resource, name, message);
        }
        // Upstream names the kind here; other conflicts name the resource.
        let resource = GroupResource::new(kind.group.to_string(), kind.name.to_string());
        let message = format!(
            "the {field} in the precondition ({expected}) does not match the {field} in record ({actual}). The object might have been {cause}"
        );
        Status::conflict(&resource, name, message)
    }
}

/// The grace period of a deletion.
enum DeletionGrace {
    /// None: the object is removed immediately.
    Immediate,
    /// The object is marked, and its node has this many seconds to terminate it.
    Seconds(i64),
    /// The object is already terminating, and its grace period does not change.
    AlreadyPending,
}

impl ObjectUpdate for DeleteRequest<'_> {
    fn propose(&self, current: Option<&StoredObject>) -> Result<ProposedWrite, Status> {
        let current = current.ok_or_else(|| self.context.not_found())?;
        check_preconditions(self.context, self.options, current)?;
        let mut object = current.object.clone();
        let grace = self.apply_grace_period(&mut object);
        if matches!(grace, DeletionGrace::AlreadyPending) {
            return Ok(ProposedWrite::Unchanged(object));
        }
        let writes = self.context.resource.kind.write_behavior;
        let finalizers =
            propagation::deletion_finalizers(&object.finalizers(), self.options, writes);
        object.set_finalizers(finalizers);
        let held_by_kind = self
            .context
            .resource
            .kind
            .strategy
            .hold_deletion(&mut object);
        if held_by_kind && current.object.is_deleting() {
            return Ok(ProposedWrite::Unchanged(current.object.clone()));
        }
        let held = held_by_kind || !object.finalizers().is_empty();
        match grace {
            DeletionGrace::Seconds(seconds) if seconds > 0 || held || !self.options.dry_run => {
                Ok(ProposedWrite::Put(object))
            }
            DeletionGrace::Immediate if held => {
                self.mark_deleting(&mut object, 0);
                // Kinds that hold deletion themselves (namespaces) have no grace period.
                if held_by_kind {
                    object.clear_meta("deletionGracePeriodSeconds");
                }
                Ok(ProposedWrite::Put(object))
            }
            _ => Ok(ProposedWrite::Delete(object)),
        }
    }

    fn is_conditional(&self) -> bool {
        self.options.precondition_resource_version.is_some()
    }

    fn admitted_deletion(&self) -> Option<&DeleteOptions> {
        (self.admission == DeletionAdmission::Required).then_some(self.options)
    }

    fn needs_object(&self) -> bool {
        true
    }
}

impl DeleteRequest<'_> {
    /// Marks the object for graceful deletion, if its kind supports that.
    fn apply_grace_period(&self, object: &mut JsonObject) -> DeletionGrace {
        let requested = self.options.grace_period_seconds;
        let rules = &self.context.resource.kind.strategy;
        let Some(seconds) = rules.grace_period_seconds(&FieldView::root(object), requested) else {
            return DeletionGrace::Immediate;
        };
        if !object.is_deleting() {
            self.mark_deleting(object, seconds);
            return DeletionGrace::Seconds(seconds);
        }
        let remaining = object.meta_int("deletionGracePeriodSeconds").unwrap_or(0);
        match requested {
            _ if remaining == 0 => DeletionGrace::Immediate,
            Some(requested) if requested < remaining => {
                self.shorten_grace_period(object, remaining, requested);
                DeletionGrace::Seconds(requested)
            }
            _ => DeletionGrace::AlreadyPending,
        }
    }

    /// Sets deletionTimestamp and deletionGracePeriodSeconds.
    fn mark_deleting(&self, object: &mut JsonObject, seconds: i64) {
        if object.is_deleting() {
            object.set_meta("deletionGracePeriodSeconds", seconds);
            return;
        }
        object.set_time("deletionTimestamp", add_seconds(self.context.now, seconds));
        object.set_meta("deletionGracePeriodSeconds", seconds);
        if object.generation() > 0 {
            object.set_meta("generation", object.generation() + 1);
        }
    }

    /// Shortens the remaining grace period, as upstream does; it can never become longer.
    fn shorten_grace_period(&self, object: &mut JsonObject, remaining: i64, requested: i64) {
        let now = self.context.now;
        let end = object
            .meta_str("deletionTimestamp")
            .parse::<Timestamp>()
            .map_or(now, |end| add_seconds(end, requested - remaining));
        if end < now {
            object.set_time("deletionTimestamp", now);
            object.set_meta("deletionGracePeriodSeconds", requested.min(1));
        } else {
            object.set_time("deletionTimestamp", end);
            object.set_meta("deletionGracePeriodSeconds", requested);
        }
    }
}

fn add_orphan_warning(context: &RequestContext<'_>, options: &DeleteOptions) {
    let is_unspecified = options.orphan_dependents.is_none() && options.propagation.is_none();
    if let Some(warning) = context.resource.kind.write_behavior.orphan_warning
        && is_unspecified
    {
        context.warn(warning);
    }
}

fn add_seconds(time: Timestamp, seconds: i64) -> Timestamp {
    let duration = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 {
        time.saturating_sub(duration)
    } else {
        time.saturating_add(duration)
    }
}
