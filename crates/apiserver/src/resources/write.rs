//! The write path of existing objects, and committing with admission guards.
//!
//! Entry point: `RequestContext::guaranteed_update` (upstream: `GuaranteedUpdate` of `storage.Interface`). It reads the
//! current object, asks an `ObjectUpdate` for the new state, and commits it on condition that the object is unchanged,
//! retrying on conflicts. A write is acknowledged only after the cache has applied it.

use std::borrow::Cow;

use async_trait::async_trait;
use bytes::Bytes;
use rhumb_api::JsonObject;
use rhumb_meta::{ObjectKey, Revision, Status};
use rhumb_store::{Error, ExpectedRevision, Transaction, TransactionOp};

use super::{AllocationHold, RequestContext, ResourceStorage, store_error_status};
use crate::admission;
use crate::objects::ObjectMetadataMut;

/// How often a write is retried when concurrent writes change the same object, before the client gets a conflict.
pub(super) const WRITE_ATTEMPTS_MAX: usize = 32;

/// How often guards (namespace, quota) may change before the commit until the client gets a ServerTimeout.
const GUARD_ATTEMPTS_MAX: usize = 64;

/// The current object in the storage version, and its revision.
#[derive(Debug, Clone)]
pub(super) struct StoredObject {
    pub(super) object: JsonObject,
    pub(super) revision: Revision,
}

/// What an `ObjectUpdate` proposes to do with the current object.
#[derive(Debug)]
pub(super) enum ProposedWrite {
    /// Write this state, with the allocations made for it.
    Put(JsonObject, AllocationHold),
    /// Delete the object; this is its last state, for the response.
    Delete(JsonObject),
    /// Delete an object that was marked for deletion and whose last finalizer this update removes. The response has
    /// the previous resourceVersion.
    RemoveFinalized(JsonObject),
    /// Write nothing; this is the response.
    Unchanged(JsonObject),
}

/// Computes the new state of an object from the current one; called again after each conflict.
#[async_trait]
pub(super) trait ObjectUpdate: Sync {
    async fn propose(&self, current: &StoredObject) -> Result<ProposedWrite, Status>;

    /// Whether a conflict is final, because the client specified a resourceVersion.
    fn is_conditional(&self) -> bool;
}

/// The result of a write.
#[derive(Debug)]
pub(super) struct WriteResult {
    /// The object in the storage version, with its resourceVersion.
    pub(super) object: JsonObject,
    pub(super) deleted: bool,
}

/// The outcome of one attempt to write.
enum WriteAttempt {
    Done(WriteResult),
    /// A concurrent write changed the object since it was read.
    ObjectChanged,
    /// A concurrent write took one of the allocations; a retry chooses others.
    AllocationTaken,
}

/// What one attempt writes.
enum WritePlan {
    /// Nothing to write; this is the response.
    NoWrite(JsonObject),
    /// The object is unchanged, but its stored encoding may differ from these bytes and is rewritten then.
    RewriteIfEncodingDiffers(Bytes, PreparedWrite),
    Commit(PreparedWrite),
}

/// A transaction that is ready to be committed.
struct PreparedWrite {
    transaction: Transaction,
    /// The object for the response.
    object: JsonObject,
    deleted: bool,
    allocations: AllocationHold,
    /// Whether the response has the previous resourceVersion.
    keeps_version: bool,
}

impl PreparedWrite {
    fn set_resource_version(&mut self, version: Revision) {
        self.object.set_meta("resourceVersion", version.to_string());
    }
}

impl RequestContext<'_> {
    /// The current object from the cache, after waiting for all acknowledged writes.
    pub(super) async fn current_from_cache(&self, key: &ObjectKey) -> Result<StoredObject, Status> {
        let storage = self.storage()?;
        self.state.await_consistent(self).await?;
        let entry = storage
            .cache
            .get(key)
            .map_err(Status::internal_error)?
            .ok_or_else(|| self.not_found())?;
        let object = serde_json::from_slice(entry.json_slice()).map_err(Status::internal_error)?;
        Ok(StoredObject {
            object,
            revision: entry.revision(),
        })
    }

    /// The current object from the store. Used after a conflict, when the cache may lag behind.
    async fn current_from_store(&self, key: &ObjectKey) -> Result<StoredObject, Status> {
        let storage = self.storage()?;
        let entry = self
            .state
            .store
            .get(&storage.prefix.object(key))
            .await
            .map_err(|error| self.store_error(&error))?
            .ok_or_else(|| self.not_found())?;
        let mut object = storage
            .decoder
            .decode(&entry.value)
            .map_err(Status::internal_error)?;
        object.set_meta("resourceVersion", entry.modified.to_string());
        Ok(StoredObject {
            object,
            revision: entry.modified,
        })
    }

    pub(crate) fn store_error(&self, error: &Error) -> Status {
        store_error_status(error, &self.resource.group_resource, self.verb)
    }

    /// Updates or deletes an existing object, retrying on conflicts with concurrent writes.
    pub(super) async fn guaranteed_update(
        &self,
        key: &ObjectKey,
        dry_run: bool,
        update: &dyn ObjectUpdate,
    ) -> Result<WriteResult, Status> {
        let mut current = self.current_from_cache(key).await?;
        for _ in 0..WRITE_ATTEMPTS_MAX {
            match self.attempt_write(key, dry_run, update, &current).await? {
                WriteAttempt::Done(result) => return Ok(result),
                WriteAttempt::ObjectChanged if update.is_conditional() => {
                    return Err(self.object_modified(key.name()));
                }
                WriteAttempt::ObjectChanged => current = self.current_from_store(key).await?,
                WriteAttempt::AllocationTaken => {
                    self.state.await_consistent(self).await?;
                    current = self.current_from_store(key).await?;
                }
            }
        }
        Err(self.object_modified(key.name()))
    }

    pub(super) fn object_modified(&self, name: &str) -> Status {
        Status::conflict(
            &self.resource.group_resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    async fn attempt_write(
        &self,
        key: &ObjectKey,
        dry_run: bool,
        update: &dyn ObjectUpdate,
        current: &StoredObject,
    ) -> Result<WriteAttempt, Status> {
        let storage_key = self.storage()?.prefix.object(key);
        let change = update.propose(current).await?;
        let mut step = match self.plan_write(&storage_key, current, change)? {
            WritePlan::NoWrite(object) => return Ok(write_done(object, false)),
            WritePlan::RewriteIfEncodingDiffers(bytes, mut step) => match self
                .is_stored_encoding(&storage_key, current.revision, &bytes)
                .await?
            {
                None => return Ok(WriteAttempt::ObjectChanged),
                Some(false) => step,
                Some(true) => {
                    step.set_resource_version(current.revision);
                    return Ok(write_done(step.object, false));
                }
            },
            WritePlan::Commit(step) => step,
        };
        if dry_run {
            step.set_resource_version(current.revision);
            return Ok(write_done(step.object, step.deleted));
        }
        let transaction = std::mem::take(&mut step.transaction);
        let outcome = match step.deleted {
            true => self.state.commit(transaction).await,
            false => {
                self.commit_update(&current.object, &step.object, transaction)
                    .await?
            }
        };
        match outcome {
            Ok(revision) => {
                let keeps_version = step.keeps_version;
                step.set_resource_version(if keeps_version {
                    current.revision
                } else {
                    revision
                });
                Ok(write_done(step.object, step.deleted))
            }
            Err(Error::Conflict(conflict)) if *conflict.key == *storage_key => {
                Ok(WriteAttempt::ObjectChanged)
            }
            Err(Error::Conflict(conflict)) => match step.allocations.rejection_for(&conflict.key) {
                Some(rejection) => Err(rejection.clone()),
                None => Ok(WriteAttempt::AllocationTaken),
            },
            Err(error) => Err(self.store_error(&error)),
        }
    }

    async fn commit_update(
        &self,
        old: &JsonObject,
        new: &JsonObject,
        transaction: Transaction,
    ) -> Result<Result<Revision, Error>, Status> {
        let attributes = self.admission_attributes(admission::Operation::Update, Some(old), false);
        let object = || Ok(Cow::Borrowed(new));
        self.commit_with_guards(&attributes, object, transaction)
            .await
    }

    /// Commits on condition that the guards of admission (namespace is active, quota is reserved) still hold, and
    /// evaluates them again if they changed. `object` decodes the object for each evaluation; it is dropped before the
    /// commit is awaited.
    pub(super) async fn commit_with_guards<'t>(
        &self,
        attributes: &admission::AdmissionAttributes<'_>,
        mut object: impl FnMut() -> Result<Cow<'t, JsonObject>, String>,
        transaction: Transaction,
    ) -> Result<Result<Revision, Error>, Status> {
        for _ in 0..GUARD_ATTEMPTS_MAX {
            if attributes.deadline_exceeded() {
                break;
            }
            let guards = {
                let object = object().map_err(Status::internal_error)?;
                self.state
                    .admission
                    .acquire_guards(attributes, &object)
                    .await?
            };
            let committed = guards.commit(self.state, transaction.clone()).await;
            if !committed.precondition_failed {
                return Ok(committed.outcome);
            }
            self.state.await_consistent(self).await?;
        }
        Err(Status::server_timeout(
            &self.resource.group_resource,
            self.verb,
            1,
        ))
    }

    /// Whether exactly these bytes are stored; `None` if the revision is no longer the latest. A write that changes
    /// nothing still rewrites an object that is stored in another encoding or version, or that is fixed up on read:
    /// storage version migration relies on this.
    async fn is_stored_encoding(
        &self,
        key: &str,
        revision: Revision,
        bytes: &[u8],
    ) -> Result<Option<bool>, Status> {
        let entry = self
            .state
            .store
            .get(key)
            .await
            .map_err(|error| self.store_error(&error))?;
        Ok(entry
            .filter(|entry| entry.modified == revision)
            .map(|entry| *entry.value == *bytes))
    }

    /// Turns a proposed write into a transaction.
    fn plan_write(
        &self,
        key: &str,
        current: &StoredObject,
        change: ProposedWrite,
    ) -> Result<WritePlan, Status> {
        let storage = self.storage()?;
        let expect = ExpectedRevision::At(current.revision);
        let old = &current.object;
        let remove = |object: JsonObject, keeps_version: bool| {
            let allocation_operations = self.allocation_operations(Some(old), None)?;
            Ok(WritePlan::Commit(PreparedWrite {
                transaction: with_operations(
                    Transaction::new().delete(key, expect),
                    allocation_operations,
                ),
                object,
                deleted: true,
                allocations: AllocationHold::default(),
                keeps_version,
            }))
        };
        match change {
            ProposedWrite::Unchanged(object) => Ok(WritePlan::NoWrite(object)),
            ProposedWrite::Delete(object) => remove(object, false),
            ProposedWrite::RemoveFinalized(mut object) => {
                rhumb_schema::canonicalize(self.state.table, storage.schema, &mut object);
                remove(object, true)
            }
            ProposedWrite::Put(mut object, hold) => {
                let bytes = self.encode_stored(storage, &mut object);
                if bytes == self.encode_stored(storage, &mut old.clone()) {
                    let step = PreparedWrite {
                        transaction: Transaction::new().put(key, bytes.clone(), expect),
                        object,
                        deleted: false,
                        allocations: hold,
                        keeps_version: false,
                    };
                    return Ok(WritePlan::RewriteIfEncodingDiffers(bytes, step));
                }
                let allocation_operations = self.allocation_operations(Some(old), Some(&object))?;
                Ok(WritePlan::Commit(PreparedWrite {
                    transaction: with_operations(
                        Transaction::new().put(key, bytes, expect),
                        allocation_operations,
                    ),
                    object,
                    deleted: false,
                    allocations: hold,
                    keeps_version: false,
                }))
            }
        }
    }

    /// Encodes an object in the canonical storage encoding.
    pub(super) fn encode_stored(
        &self,
        storage: &ResourceStorage,
        object: &mut JsonObject,
    ) -> Bytes {
        let encoder = &storage.encoder;
        encoder.encode_canonical(self.state.table, storage.schema, object)
    }
}

fn write_done(object: JsonObject, deleted: bool) -> WriteAttempt {
    WriteAttempt::Done(WriteResult { object, deleted })
}

/// Appends operations to a transaction.
pub(crate) fn with_operations(
    transaction: Transaction,
    allocation_operations: Vec<TransactionOp>,
) -> Transaction {
    allocation_operations
        .into_iter()
        .fold(transaction, |transaction, operation| match operation {
            TransactionOp::Put { key, value, expect } => transaction.put(key, value, expect),
            TransactionOp::Delete { key, expect } => transaction.delete(key, expect),
            TransactionOp::Check { key, expect } => transaction.check(key, expect),
        })
}
