//! The Commit stage: evaluates the guards and commits.

use bytes::Bytes;
use rhumb_api::JsonObject;
use rhumb_meta::{ObjectKey, Revision, Status};
use rhumb_store::{Error, RevisionConflict, Transaction, TransactionOp};
use tokio::time::Instant;

use super::guards::{CommitGuard, CommitGuards, EncodedObject};
use super::{
    ObjectWrite, PendingWrite, RetryReason, StageResult, WriteOutcome, WriteResult, WrittenObject,
};
use crate::objects::{ObjectMetadata, ObjectMetadataMut};
use crate::{InFlightAllocations, RequestContext, ResourceStorage, store_error_status};

/// A transaction that is ready to be committed, and what its result is.
#[derive(Debug)]
pub(super) struct PreparedWrite {
    pub(super) key: ObjectKey,
    pub(super) storage_key: String,
    pub(super) transaction: Transaction,
    pub(super) effect: PreparedChange,
    /// Empty for deletions.
    pub(super) guards: Vec<Box<dyn CommitGuard>>,
    pub(super) allocations: InFlightAllocations,
    /// What the Prepare stage starts from if another name or other allocations are needed.
    pub(super) restart: Option<Box<PendingWrite>>,
}

/// What a prepared write does to its object.
#[derive(Debug)]
pub(super) enum PreparedChange {
    Create {
        bytes: Bytes,
        has_generated_name: bool,
    },
    Update {
        bytes: Bytes,
        /// The object, if the caller needs it.
        object: Option<JsonObject>,
        /// The revision that is replaced.
        replaces: Revision,
    },
    Delete {
        /// The last state of the object.
        object: JsonObject,
        /// The resourceVersion in the response, if it is not that of the deletion.
        version: Option<Revision>,
    },
}

impl PreparedChange {
    /// The bytes to be stored; `None` for a deletion.
    fn bytes(&self) -> Option<&Bytes> {
        match self {
            PreparedChange::Create { bytes, .. } | PreparedChange::Update { bytes, .. } => {
                Some(bytes)
            }
            PreparedChange::Delete { .. } => None,
        }
    }

    /// The result of the commit at this revision.
    fn committed(self, revision: Revision) -> WriteResult {
        match self {
            PreparedChange::Create { bytes, .. } => {
                WriteResult::encoded(WriteOutcome::Created, bytes, Some(revision))
            }
            PreparedChange::Update { bytes, object, .. } => match object {
                Some(object) => WriteResult::decoded(WriteOutcome::Updated, object, revision),
                None => WriteResult::encoded(WriteOutcome::Updated, bytes, Some(revision)),
            },
            PreparedChange::Delete { object, version } => {
                let version = version.unwrap_or(revision);
                WriteResult::decoded(WriteOutcome::Deleted, object, version)
            }
        }
    }

    /// The result of a dry run, which has no revision of its own.
    fn dry_run(self) -> WriteResult {
        match self {
            PreparedChange::Create { bytes, .. } => {
                WriteResult::encoded(WriteOutcome::Created, bytes, None)
            }
            PreparedChange::Update { replaces, .. } => self.committed(replaces),
            PreparedChange::Delete { version, .. } => {
                self.committed(version.unwrap_or(Revision::ZERO))
            }
        }
    }
}

impl WriteResult {
    pub(super) fn encoded(
        outcome: WriteOutcome,
        bytes: Bytes,
        revision: Option<Revision>,
    ) -> WriteResult {
        WriteResult {
            outcome,
            object: WrittenObject::Encoded { bytes, revision },
        }
    }

    fn decoded(outcome: WriteOutcome, mut object: JsonObject, version: Revision) -> WriteResult {
        object.set_meta("resourceVersion", version.to_string());
        WriteResult {
            outcome,
            object: WrittenObject::Decoded(object),
        }
    }
}

impl ObjectWrite<'_> {
    pub(super) async fn commit(
        &mut self,
        mut prepared: PreparedWrite,
    ) -> Result<StageResult, Status> {
        if self.dry_run {
            return self.check_without_commit(prepared).await;
        }
        let context = self.context;
        let deadline = self.deadline();
        let guards = prepared.acquire_guards(context, deadline).await?;
        // From here on the transaction itself checks that the object is current.
        self.unconfirmed = None;
        let transaction = match prepared.guards.is_empty() {
            true => std::mem::take(&mut prepared.transaction),
            false => prepared.transaction.clone(),
        };
        let committed = guards.commit(context.registry, transaction).await;
        match committed.outcome {
            Ok(revision) => Ok(StageResult::Done(prepared.effect.committed(revision))),
            Err(_) if committed.precondition_failed => Ok(StageResult::Retry(
                RetryReason::GuardChanged(Box::new(prepared)),
            )),
            Err(Error::Conflict(conflict)) => self
                .conflict_retry(prepared, *conflict)
                .map(StageResult::Retry),
            Err(error) => Err(context.store_error(&error)),
        }
    }

    /// What to do after a conflict on the object's own key or on that of an allocation.
    fn conflict_retry(
        &self,
        prepared: PreparedWrite,
        conflict: RevisionConflict,
    ) -> Result<RetryReason, Status> {
        let context = self.context;
        if *conflict.key != *prepared.storage_key {
            return match prepared.allocations.rejection_for(&conflict.key) {
                Some(rejection) => Err(rejection.clone()),
                None => Ok(RetryReason::AllocationTaken(prepared.restart)),
            };
        }
        if let PreparedChange::Create {
            has_generated_name, ..
        } = prepared.effect
            && self.key.is_none()
        {
            let exists = context.already_exists(context.storage()?, &prepared.key);
            return match prepared.restart.filter(|_| has_generated_name) {
                Some(pending) => Ok(RetryReason::NameTaken(pending, exists)),
                None => Err(exists),
            };
        }
        let found = conflict.found.map(|entry| self.stored_object(entry));
        Ok(RetryReason::ObjectChanged(found.transpose()?))
    }

    /// A dry run ends here: guards are checked but nothing is reserved, and a new object must not exist.
    async fn check_without_commit(&self, prepared: PreparedWrite) -> Result<StageResult, Status> {
        let context = self.context;
        let storage = context.storage()?;
        if let Some(object) = prepared.encoded_object(storage) {
            for guard in &prepared.guards {
                guard.check(context, &object).await?;
            }
        }
        if matches!(prepared.effect, PreparedChange::Create { .. }) {
            context.registry.await_consistent(context).await?;
            if !matches!(storage.cache.get(&prepared.key), Ok(None)) {
                return Err(context.already_exists(storage, &prepared.key));
            }
        }
        Ok(StageResult::Done(prepared.effect.dry_run()))
    }
}

impl PreparedWrite {
    /// Evaluates the guards.
    pub(super) async fn acquire_guards(
        &self,
        context: &RequestContext<'_>,
        deadline: Instant,
    ) -> Result<CommitGuards, Status> {
        match self.encoded_object(context.storage()?) {
            Some(object) => CommitGuards::acquire(&self.guards, context, &object, deadline).await,
            None => Ok(CommitGuards::default()),
        }
    }

    fn encoded_object<'a>(&'a self, storage: &'a ResourceStorage) -> Option<EncodedObject<'a>> {
        Some(EncodedObject {
            key: &self.key,
            bytes: self.effect.bytes()?,
            decoder: &storage.decoder,
        })
    }
}

impl RequestContext<'_> {
    pub fn store_error(&self, error: &Error) -> Status {
        store_error_status(error, &self.resource.group_resource, self.verb)
    }

    pub fn object_modified(&self, name: &str) -> Status {
        Status::conflict(
            &self.resource.group_resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The error for a write that was retried for too long.
    pub fn retry_later(&self) -> Status {
        Status::server_timeout(&self.resource.group_resource, self.verb, 1)
    }

    /// The AlreadyExists error; its message says if the existing object is being deleted.
    fn already_exists(&self, storage: &ResourceStorage, key: &ObjectKey) -> Status {
        let mut status = Status::already_exists(&self.resource.group_resource, key.name());
        let existing = storage.cache.get(key).ok().flatten();
        let is_deleting = existing
            .and_then(|entry| serde_json::from_slice::<JsonObject>(entry.json_slice()).ok())
            .is_some_and(|object| object.is_deleting());
        if is_deleting {
            status.message = format!("object is being deleted: {}", status.message);
        }
        status
    }
}

/// Appends operations to a transaction.
pub fn with_operations(transaction: Transaction, operations: Vec<TransactionOp>) -> Transaction {
    operations
        .into_iter()
        .fold(transaction, |transaction, operation| match operation {
            TransactionOp::Put { key, value, expect } => transaction.put(key, value, expect),
            TransactionOp::Delete { key, expect } => transaction.delete(key, expect),
            TransactionOp::Check { key, expect } => transaction.check(key, expect),
        })
}
