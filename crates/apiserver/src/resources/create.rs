//! `create`: POST to a collection.
//!
//! Entry point: `create`. `create_object` is shared with updates that create the object.

use std::borrow::Cow;

use bytes::Bytes;
use rhumb_api::JsonObject;
use rhumb_meta::{ObjectKey, Revision, Status};
use rhumb_store::{Error, ExpectedRevision, Transaction};

use super::get::parse_uint;
use super::prepare::ObjectPart;
use super::write::with_operations;
use super::{AllocationHold, RequestContext, ResourceStorage, render};
use crate::admission;
use crate::http::Reply;
use crate::objects::{ObjectMetadata, ObjectMetadataMut};
use crate::request::WriteOptions;

/// How many names are generated from `generateName` before the client gets a conflict.
const NAME_ATTEMPTS_MAX: usize = 8;

/// How often new allocations (addresses, ports) are chosen after a concurrent write took the chosen ones. Each failed
/// attempt means that another write succeeded, so few attempts suffice.
const ALLOCATION_ATTEMPTS_MAX: usize = 64;

/// How much of `generateName` is kept in a generated name.
const NAME_PREFIX_BYTES_MAX: usize = 58;

/// The outcome of a create.
#[derive(Debug)]
pub(super) enum CreateOutcome {
    /// A dry run: the object as it would be stored.
    DryRun(JsonObject),
    /// The stored bytes and their revision.
    Stored(Bytes, Revision),
}

pub(super) async fn create(context: &RequestContext<'_>) -> Result<Reply, Status> {
    let options = WriteOptions::parse(context.query, "CreateOptions")?;
    let validation = context.effective_field_validation(options.field_validation, ObjectPart::Main);
    let mut object = context.decode(context.expected_type(), validation)?;
    check_new_object(context, &mut object)?;
    context.convert_to_stored(&mut object)?;
    let created = create_object(context, object, options.dry_run).await?;
    render::created_response(context, created)
}

/// Stores a new object, given in the storage version, under its own or a generated name.
pub(super) async fn create_object(
    context: &RequestContext<'_>,
    mut object: JsonObject,
    dry_run: bool,
) -> Result<CreateOutcome, Status> {
    context.admit_create(&mut object, dry_run).await?;
    let generated = object.name().is_empty() && !object.meta_str("generateName").is_empty();
    if !generated {
        return store_with_allocations(context, object, dry_run).await;
    }
    let mut attempts_left = NAME_ATTEMPTS_MAX;
    loop {
        let mut named_object = object.clone();
        let name = generate_name(named_object.meta_str("generateName"));
        named_object.set_meta("name", name);
        attempts_left -= 1;
        match store_with_allocations(context, named_object, dry_run).await {
            Err(status) if status.is_already_exists() => {
                if attempts_left == 0 {
                    let name = status.details.as_ref().map_or("", |details| &details.name);
                    return Err(Status::generate_name_conflict(
                        &context.resource.group_resource,
                        name,
                        1,
                    ));
                }
            }
            result => return result,
        }
    }
}

/// Stores the object, choosing other allocations as long as concurrent writes take the chosen ones.
async fn store_with_allocations(
    context: &RequestContext<'_>,
    object: JsonObject,
    dry_run: bool,
) -> Result<CreateOutcome, Status> {
    if context
        .state
        .allocators
        .for_resource(context.resource)
        .is_none()
    {
        // The resource has no allocations, so only the object's own key can conflict.
        let created = try_store(context, object, dry_run).await?;
        return created.ok_or_else(|| context.object_modified(""));
    }
    for _ in 0..ALLOCATION_ATTEMPTS_MAX {
        if let Some(created) = try_store(context, object.clone(), dry_run).await? {
            return Ok(created);
        }
        context.state.await_consistent(context).await?;
    }
    Err(Status::server_timeout(
        &context.resource.group_resource,
        context.verb,
        1,
    ))
}

/// One attempt to store the object; `None` if a concurrent write took one of its allocations.
async fn try_store(
    context: &RequestContext<'_>,
    mut object: JsonObject,
    dry_run: bool,
) -> Result<Option<CreateOutcome>, Status> {
    let storage = context.storage()?;
    let hold = context.prepare_create(&mut object, dry_run).await?;
    let key = ObjectKey::new(context.namespace(), object.name())
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let bytes = context.encode_stored(storage, &mut object);
    let exists = || already_exists(context, storage, &key);
    if dry_run {
        context.state.await_consistent(context).await?;
        return match storage.cache.get(&key) {
            Ok(None) => Ok(Some(CreateOutcome::DryRun(object))),
            _ => Err(exists()),
        };
    }
    let storage_key = storage.prefix.object(&key);
    let transaction = Transaction::new().put(
        storage_key.as_str(),
        bytes.clone(),
        ExpectedRevision::Absent,
    );
    let allocation_operations = context.allocation_operations(None, Some(&object))?;
    let attributes = context.admission_attributes(admission::Operation::Create, None, false);
    // The decoded object is dropped before the store is awaited: with many concurrent writers, the memory of waiting
    // requests would evict the working set of running ones from the CPU caches. Only creates that may retry with
    // another name or allocation keep a copy. If a guard fails, the object is decoded again from its bytes.
    let mut encoded = Some(object);
    let decoded = || match encoded.take() {
        Some(object) => Ok(Cow::Owned(object)),
        None => storage.decoder.decode(&bytes).map(Cow::Owned),
    };
    let committed = context.commit_with_guards(
        &attributes,
        decoded,
        with_operations(transaction, allocation_operations),
    );
    match committed.await? {
        Ok(revision) => Ok(Some(CreateOutcome::Stored(bytes, revision))),
        Err(Error::Conflict(conflict)) if *conflict.key == *storage_key => Err(exists()),
        Err(Error::Conflict(conflict)) => match hold.rejection_for(&conflict.key) {
            Some(rejection) => Err(rejection.clone()),
            None => Ok(None),
        },
        Err(error) => Err(context.store_error(&error)),
    }
}

/// The AlreadyExists error; its message says if the existing object is being deleted.
fn already_exists(
    context: &RequestContext<'_>,
    storage: &ResourceStorage,
    key: &ObjectKey,
) -> Status {
    let mut status = Status::already_exists(&context.resource.group_resource, key.name());
    let existing = storage.cache.get(key).ok().flatten();
    let is_deleting = existing
        .and_then(|entry| serde_json::from_slice::<JsonObject>(entry.json_slice()).ok())
        .is_some_and(|object| object.is_deleting());
    if is_deleting {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
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

/// Sets the namespace of the request path on the object, or fails if the object names another one (upstream:
/// `EnsureObjectNamespaceMatchesRequestNamespace`).
pub(super) fn ensure_request_namespace(
    context: &RequestContext<'_>,
    object: &mut JsonObject,
) -> Result<(), Status> {
    let request_namespace = context.namespace().unwrap_or_default();
    let object_namespace = object.namespace();
    if object_namespace == request_namespace {
        return Ok(());
    }
    if request_namespace.is_empty() {
        object.clear_meta("namespace");
    } else if object_namespace.is_empty() {
        object.set_meta("namespace", request_namespace);
    } else {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// The prefix and five random characters, without vowels and look-alikes (upstream: `SimpleNameGenerator`).
pub(crate) fn generate_name(prefix: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut end = prefix.len().min(NAME_PREFIX_BYTES_MAX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let random = uuid::Uuid::new_v4();
    let suffix = random
        .as_bytes()
        .iter()
        .take(5)
        .map(|&byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]));
    prefix[..end].chars().chain(suffix).collect()
}

impl RequestContext<'_> {
    /// Defaults, admits and validates an object that the server itself creates, as if a client had sent it.
    pub(crate) async fn admit_and_prepare_create(
        &self,
        object: &mut JsonObject,
    ) -> Result<AllocationHold, Status> {
        self.convert_to_stored(object)?;
        self.admit_create(object, false).await?;
        self.prepare_create(object, false).await
    }

    pub(crate) fn encode_for_storage(&self, object: &mut JsonObject) -> Result<Bytes, Status> {
        Ok(self.encode_stored(self.storage()?, object))
    }
}
