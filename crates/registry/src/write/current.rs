//! Reads the object that a write changes.

use std::sync::Arc;

use bytes::Bytes;
use rhumb_api::JsonObject;
use rhumb_cache::CacheEntry;
use rhumb_meta::{ObjectKey, Revision, Status};
use rhumb_store::StoreEntry;

use super::{ObjectWrite, RetryReason, StageResult, WriteStage};
use crate::objects::ObjectMetadataMut;
use crate::{RequestContext, ResourceStorage};

/// Where an object was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadSource {
    /// From the cache, which may be behind the store.
    Cache,
    /// From the cache after it has caught up with the store.
    ConsistentCache,
    Store,
}

/// The current object in the storage version.
#[derive(Debug, Clone)]
pub struct StoredObject {
    pub object: JsonObject,
    pub revision: Revision,
    pub(super) source: ReadSource,
    /// The bytes that it was decoded from: served JSON if they are from the cache, else the stored bytes.
    pub(super) encoded: Bytes,
}

impl StoredObject {
    /// The object of a cache entry.
    pub fn from_entry(entry: &CacheEntry, source: ReadSource) -> Result<StoredObject, Status> {
        let encoded = entry.json();
        Ok(StoredObject {
            object: serde_json::from_slice(&encoded).map_err(Status::internal_error)?,
            revision: entry.revision(),
            source,
            encoded,
        })
    }

    /// Whether the object has this storage encoding, as far as its bytes tell: those from the cache may have been
    /// converted when they were read.
    pub(super) fn has_encoding(&self, storage: &ResourceStorage, bytes: &[u8]) -> bool {
        match self.source {
            ReadSource::Store => *self.encoded == *bytes,
            ReadSource::Cache | ReadSource::ConsistentCache => {
                storage.encoder.is_served_encoding(&self.encoded, bytes)
            }
        }
    }
}

impl RequestContext<'_> {
    /// The current object from the cache, after waiting for all acknowledged writes.
    pub async fn current_from_cache(&self, key: &ObjectKey) -> Result<StoredObject, Status> {
        let storage = self.storage()?;
        self.registry.await_consistent(self).await?;
        let entry = storage
            .cache
            .get(key)
            .map_err(Status::internal_error)?
            .ok_or_else(|| self.not_found())?;
        StoredObject::from_entry(&entry, ReadSource::ConsistentCache)
    }
}

impl ObjectWrite<'_> {
    /// The Read stage. The store is asked only if the object is not in the cache: another server may have just created
    /// it. A dry run has no commit that would notice a stale object, so it waits for the cache.
    pub(super) async fn read_current(&mut self) -> Result<StageResult, Status> {
        let mut source = ReadSource::Cache;
        if self.dry_run {
            self.context.registry.await_consistent(self.context).await?;
            source = ReadSource::ConsistentCache;
        }
        let current = match self.cached_entry()? {
            Some(entry) => Some(StoredObject::from_entry(&entry, source)?),
            None => self.read_from_store().await?,
        };
        Ok(StageResult::Next(WriteStage::Propose(current)))
    }

    fn cached_entry(&self) -> Result<Option<Arc<CacheEntry>>, Status> {
        let Some(key) = self.key else {
            return Ok(None);
        };
        let entry = self.context.storage()?.cache.get(key);
        entry.map_err(Status::internal_error)
    }

    /// The current object from the store.
    pub(super) async fn read_from_store(&self) -> Result<Option<StoredObject>, Status> {
        let Some(key) = self.key else {
            return Ok(None);
        };
        let context = self.context;
        let storage = context.storage()?;
        let entry = context
            .registry
            .store
            .get(&storage.prefix.object(key))
            .await;
        let entry = entry.map_err(|error| context.store_error(&error))?;
        entry.map(|entry| self.stored_object(entry)).transpose()
    }

    /// The object of a store entry.
    pub(super) fn stored_object(&self, entry: StoreEntry) -> Result<StoredObject, Status> {
        let object = self.context.storage()?.decoder.decode(&entry.value);
        let mut object = object.map_err(Status::internal_error)?;
        object.set_meta("resourceVersion", entry.modified.to_string());
        Ok(StoredObject {
            object,
            revision: entry.modified,
            source: ReadSource::Store,
            encoded: entry.value,
        })
    }

    /// After a rejection: final if it was decided on current state, else the write starts again (upstream:
    /// `origStateIsCurrent` in `GuaranteedUpdate`).
    pub(super) async fn confirm_rejection(
        &mut self,
        rejection: Status,
    ) -> Result<StageResult, Status> {
        match self.stale_read().await? {
            Some(reason) => Ok(StageResult::Retry(reason)),
            None => Err(rejection),
        }
    }

    /// Whether the write works on a cached object that is not current. On a shared store the caches catch up first; if
    /// they had missed anything, be it another object that admission has read, the write starts again.
    pub(super) async fn stale_read(&mut self) -> Result<Option<RetryReason>, Status> {
        let Some(unconfirmed) = self.unconfirmed.take() else {
            return Ok(None);
        };
        let registry = self.context.registry;
        let mut is_stale = false;
        if registry.store.is_shared() {
            registry.await_consistent(self.context).await?;
            is_stale = registry.cache_manager.applied_revision() > unconfirmed.applied;
        }
        let entry = self.cached_entry()?;
        let revision = entry.as_ref().map(|entry| entry.revision());
        if !is_stale && revision == Some(unconfirmed.revision) {
            return Ok(None);
        }
        let current = entry
            .map(|entry| StoredObject::from_entry(&entry, ReadSource::ConsistentCache))
            .transpose()?;
        Ok(Some(RetryReason::StaleRead(current)))
    }
}

/// A cached object that the store has not confirmed to be current.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnconfirmedRead {
    pub(super) revision: Revision,
    /// The revision that the caches had reached before admission read other objects.
    pub(super) applied: Revision,
}
