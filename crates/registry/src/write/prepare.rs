//! The Prepare stage: chooses the name, applies the strategy of the kind, encodes the object and builds the transaction.

use bytes::Bytes;
use rhumb_api::JsonObject;
use rhumb_meta::{ObjectKey, Status};
use rhumb_store::{ExpectedRevision, Transaction};

use super::commit::{PreparedChange, PreparedWrite, with_operations};
use super::{
    ObjectUpdate, ObjectWrite, PendingWrite, ProposedWrite, ReadSource, RetryReason, StageResult,
    StoredObject, WriteOutcome, WriteResult, WriteStage, WrittenObject,
};
use crate::admission::Operation;
use crate::generate_name;
use crate::objects::{ObjectMetadata, ObjectMetadataMut};
use crate::{InFlightAllocations, RequestContext, ResourceStorage};

impl ObjectWrite<'_> {
    pub(super) async fn prepare(&mut self, pending: PendingWrite) -> Result<StageResult, Status> {
        let restart = self
            .may_restart(&pending)
            .then(|| Box::new(pending.clone()));
        let PendingWrite { current, proposal } = pending;
        let Some(current) = current else {
            return match proposal {
                ProposedWrite::Create(object) => self.prepare_creation(object, restart).await,
                _ => Err(self.context.not_found()),
            };
        };
        match proposal {
            ProposedWrite::Delete(object) => self.prepare_deletion(&current, object, false),
            ProposedWrite::Put(object) => {
                let hold = InFlightAllocations::default();
                self.prepare_replacement(&current, object, hold).await
            }
            ProposedWrite::Replace { mut object, part } => {
                let context = self.context;
                let old = &current.object;
                let prepared = context.prepare_update(old, &mut object, part, self.dry_run);
                let hold = prepared.await?;
                if context.is_finalized(&object) {
                    return self.prepare_deletion(&current, object, true);
                }
                self.prepare_replacement(&current, object, hold).await
            }
            ProposedWrite::Unchanged(object) => {
                if let Some(reason) = self.stale_read().await? {
                    return Ok(StageResult::Retry(reason));
                }
                Ok(StageResult::Done(WriteResult {
                    outcome: WriteOutcome::Unchanged,
                    object: WrittenObject::Decoded(object),
                }))
            }
            ProposedWrite::Create(_) | ProposedWrite::ReplaceByView { .. } => {
                Err(Status::internal_error(
                    "an existing object is neither created nor replaced without admission",
                ))
            }
        }
    }

    /// Whether the write may have to choose another name or other allocations.
    fn may_restart(&self, pending: &PendingWrite) -> bool {
        // An update that has to choose again starts from the current object.
        let ProposedWrite::Create(object) = &pending.proposal else {
            return false;
        };
        let context = self.context;
        let allocator = context.registry.allocators.for_resource(context.resource);
        allocator.is_some() || object.name().is_empty()
    }

    async fn prepare_creation(
        &self,
        mut object: JsonObject,
        restart: Option<Box<PendingWrite>>,
    ) -> Result<StageResult, Status> {
        let context = self.context;
        let prefix = object.meta_str("generateName");
        let has_generated_name = object.name().is_empty() && !prefix.is_empty();
        if has_generated_name {
            let name = generate_name(prefix);
            object.set_meta("name", name);
        }
        let hold = context.prepare_create(&mut object, self.dry_run).await?;
        let key = ObjectKey::new(context.namespace(), object.name())
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let storage = context.storage()?;
        let bytes = context.encode_stored(storage, &mut object);
        let storage_key = storage.prefix.object(&key);
        let operation = Transaction::new().put(
            storage_key.as_str(),
            bytes.clone(),
            ExpectedRevision::Absent,
        );
        let side_effects = context.allocation_operations(None, Some(&object))?;
        let attributes = context.admission_attributes(Operation::Create, None, self.dry_run);
        Ok(StageResult::Next(WriteStage::Commit(PreparedWrite {
            guards: context.registry.admission.guards(&attributes, &object),
            key,
            storage_key,
            transaction: with_operations(operation, side_effects),
            effect: PreparedChange::Create {
                bytes,
                has_generated_name,
            },
            allocations: hold,
            restart,
        })))
    }

    fn prepare_deletion(
        &self,
        current: &StoredObject,
        mut object: JsonObject,
        is_finalized: bool,
    ) -> Result<StageResult, Status> {
        let context = self.context;
        let storage = context.storage()?;
        let key = self.key()?.clone();
        let storage_key = storage.prefix.object(&key);
        let expect = ExpectedRevision::At(current.revision);
        let operation = Transaction::new().delete(storage_key.as_str(), expect);
        let side_effects = context.allocation_operations(Some(&current.object), None)?;
        if is_finalized {
            storage.schema.canonicalize(&mut object);
        }
        Ok(StageResult::Next(WriteStage::Commit(PreparedWrite {
            key,
            storage_key,
            transaction: with_operations(operation, side_effects),
            effect: PreparedChange::Delete {
                object,
                // As upstream does, an update that removes the last finalizer returns the previous version.
                version: (is_finalized || self.dry_run).then_some(current.revision),
            },
            guards: Vec::new(),
            allocations: InFlightAllocations::default(),
            restart: None,
        })))
    }

    /// The next stage is the commit, unless nothing changes.
    async fn prepare_replacement(
        &mut self,
        current: &StoredObject,
        mut object: JsonObject,
        hold: InFlightAllocations,
    ) -> Result<StageResult, Status> {
        let context = self.context;
        let storage = context.storage()?;
        let key = self.key()?.clone();
        let bytes = context.encode_stored(storage, &mut object);
        if !self.dry_run && current.has_encoding(storage, &bytes) {
            match self.confirm_unchanged(current, &bytes).await? {
                UnchangedCheck::Unchanged => {
                    return Ok(StageResult::Done(self.unchanged(current, bytes, object)));
                }
                UnchangedCheck::ObjectChanged(current) => {
                    return Ok(StageResult::Retry(RetryReason::ObjectChanged(current)));
                }
                UnchangedCheck::EncodingDiffers => {}
            }
        }
        let storage_key = storage.prefix.object(&key);
        let expect = ExpectedRevision::At(current.revision);
        let operation = Transaction::new().put(storage_key.as_str(), bytes.clone(), expect);
        let old = Some(&current.object);
        let side_effects = context.allocation_operations(old, Some(&object))?;
        let attributes = context.admission_attributes(Operation::Update, old, self.dry_run);
        Ok(StageResult::Next(WriteStage::Commit(PreparedWrite {
            guards: context.registry.admission.guards(&attributes, &object),
            key,
            storage_key,
            transaction: with_operations(operation, side_effects),
            effect: PreparedChange::Update {
                bytes,
                object: self.needs_object().then_some(object),
                replaces: current.revision,
            },
            allocations: hold,
            restart: None,
        })))
    }

    fn unchanged(
        &self,
        current: &StoredObject,
        bytes: Bytes,
        mut object: JsonObject,
    ) -> WriteResult {
        let outcome = WriteOutcome::Unchanged;
        if !self.needs_object() {
            return WriteResult::encoded(outcome, bytes, Some(current.revision));
        }
        object.set_meta("resourceVersion", current.revision.to_string());
        let object = WrittenObject::Decoded(object);
        WriteResult { outcome, object }
    }

    /// Whether an update that changes nothing can be skipped. An object that is stored in another encoding or version, or
    /// that is fixed up when it is read, is written all the same: storage version migration relies on this.
    async fn confirm_unchanged(
        &mut self,
        current: &StoredObject,
        bytes: &[u8],
    ) -> Result<UnchangedCheck, Status> {
        if current.source == ReadSource::Store {
            return Ok(UnchangedCheck::Unchanged);
        }
        let stored = self.read_from_store().await?;
        match stored {
            Some(stored) if stored.revision == current.revision => {
                self.unconfirmed = None;
                match *stored.encoded == *bytes {
                    true => Ok(UnchangedCheck::Unchanged),
                    false => Ok(UnchangedCheck::EncodingDiffers),
                }
            }
            stored => Ok(UnchangedCheck::ObjectChanged(stored)),
        }
    }

    fn needs_object(&self) -> bool {
        self.update.is_some_and(ObjectUpdate::needs_object)
    }

    fn key(&self) -> Result<&ObjectKey, Status> {
        self.key
            .ok_or_else(|| Status::internal_error("the write has no key"))
    }
}

/// Whether an update that changes nothing can be skipped.
enum UnchangedCheck {
    Unchanged,
    /// A concurrent write changed the object. This is the current one.
    ObjectChanged(Option<StoredObject>),
    /// The object is stored in another encoding.
    EncodingDiffers,
}

impl RequestContext<'_> {
    /// Encodes an object in the canonical storage encoding.
    fn encode_stored(&self, storage: &ResourceStorage, object: &mut JsonObject) -> Bytes {
        let encoder = &storage.encoder;
        encoder.encode_canonical(&storage.schema, object)
    }

    /// Whether an object is marked for deletion and has no finalizers and no grace period left.
    fn is_finalized(&self, object: &JsonObject) -> bool {
        object.is_deleting()
            && object.finalizers().is_empty()
            && object.meta_int("deletionGracePeriodSeconds").unwrap_or(0) == 0
            && !self
                .resource
                .kind
                .strategy
                .hold_deletion(&mut object.clone())
    }
}
