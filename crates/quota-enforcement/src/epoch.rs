//! Quota epochs: one key per namespace that decides which server may admit writes against its quotas.
//!
//! Every change of a namespace's quotas touches its epoch key. A commit with the precondition that the key is
//! unchanged is therefore valid under the quotas that were checked. Where several servers share a store, the key also
//! names its holder: only the holder admits writes, so it knows all reservations in progress. Another server takes the
//! epoch over when it has a write to admit; uncommitted writes of the previous holder then fail their precondition and
//! are checked again. A new holder keeps the epoch for a short tenure, so that it can commit something.

use parking_lot::{Mutex, MutexGuard};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use rhumb_api::JsonObject;
use rhumb_cache::{
    CacheEntry, EventKind, ResourceCache, RestartingWatchMessage, WatchEvent, WatchRequest,
    WatchStart,
};
use rhumb_meta::{ObjectKey, Revision, Status, Timestamp};
use rhumb_store::{Error, ExpectedRevision, Transaction, TransactionOp};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use rhumb_registry::Registry;
use rhumb_registry::objects::ObjectMetadata;
use rhumb_registry::write::Precondition;
use rhumb_registry::{InFlightAllocations, RequestContext, ResourceAllocator};

/// Storage path of epoch keys below the store's root. Without a dot it cannot collide with the group of a custom
/// resource.
pub const EPOCHS_PATH: &str = "rhumb-quota-turns";

/// For how long other servers leave the epoch to a new holder. A server that lost the epoch before it could commit
/// anything, because its watch lags, doubles the tenure, up to 256 times.
const TENURE: Duration = Duration::from_millis(10);
const TENURE_DOUBLINGS_MAX: u32 = 8;

/// Value of an epoch key.
#[derive(Debug, Deserialize, Serialize)]
struct EpochRecord<'a> {
    #[serde(borrow)]
    server: Cow<'a, str>,
    /// In milliseconds, counted from when another server observes the record.
    tenure: u64,
}

/// The epoch keys of all namespaces, as this server observes and takes them.
#[derive(Debug)]
pub struct QuotaEpochs {
    cache: ResourceCache,
    server: String,
    is_shared: bool,
    /// Revision and local time of the last change of each namespace's epoch since this server started.
    changed_at: Mutex<HashMap<Box<str>, (Revision, Instant)>>,
}

/// An epoch key as observed in the cache.
#[derive(Debug)]
pub(super) struct EpochView {
    pub(super) precondition: Precondition,
    pub(super) is_held_here: bool,
    entry: Option<Arc<CacheEntry>>,
}

/// This server's takeovers of a namespace's epoch, for the tenure backoff.
#[derive(Debug, Default)]
pub(super) struct TakeoverBackoff {
    has_taken_over: bool,
    /// Recent takeovers without a commit; each doubles the next tenure.
    unused_takeovers: u32,
}

impl QuotaEpochs {
    pub fn new(cache: ResourceCache, is_shared: bool) -> QuotaEpochs {
        QuotaEpochs {
            cache,
            server: uuid::Uuid::new_v4().to_string(),
            is_shared,
            changed_at: Mutex::default(),
        }
    }

    /// The epoch as the cache shows it, after waiting until all caches have reached its revision.
    pub(super) async fn view(
        &self,
        registry: &Registry,
        namespace: &str,
    ) -> Result<EpochView, Status> {
        let key = ObjectKey::cluster(namespace).map_err(Status::internal_error)?;
        let entry = self.cache.get(&key).map_err(Status::internal_error)?;
        if let Some(entry) = &entry
            && entry.revision() > registry.cache_manager.applied_revision()
        {
            registry.await_revision(entry.revision()).await?;
        }
        let expect = match &entry {
            Some(entry) => ExpectedRevision::At(entry.revision()),
            None => ExpectedRevision::Absent,
        };
        Ok(EpochView {
            is_held_here: self.is_own_record(entry.as_deref()),
            precondition: Precondition {
                key: self.cache.prefix().object(&key),
                expect,
            },
            entry,
        })
    }

    /// Whether the record names this server. Always true on a store that is not shared.
    fn is_own_record(&self, entry: Option<&CacheEntry>) -> bool {
        let is_holder = |holder: EpochRecord<'_>| holder.server == self.server;
        !self.is_shared || entry.and_then(decode_record).is_some_and(is_holder)
    }

    /// End of the current holder's tenure; `None` if it is unknown.
    fn tenure_end(&self, entry: &CacheEntry) -> Option<Instant> {
        let tenure = Duration::from_millis(decode_record(entry)?.tenure);
        let since = self.lock_changed_at();
        let &(revision, since) = since.get(entry.key().name())?;
        (revision == entry.revision()).then_some(since + tenure)
    }

    /// Tries to take the epoch over after the holder's tenure; another server may win. `has_written` tells whether this
    /// server committed anything since its last takeover.
    pub(super) async fn take_over(
        &self,
        context: &RequestContext<'_>,
        takeover: &mut TakeoverBackoff,
        view: EpochView,
        has_written: bool,
    ) -> Result<(), Status> {
        let entry = view.entry.as_deref();
        if let Some(tenure_end) = entry.and_then(|entry| self.tenure_end(entry)) {
            tokio::time::sleep_until(tenure_end).await;
        }
        takeover.unused_takeovers = match takeover.has_taken_over && !has_written {
            true => TENURE_DOUBLINGS_MAX.min(takeover.unused_takeovers + 1),
            false => takeover.unused_takeovers.saturating_sub(1),
        };
        let Precondition { key, expect } = view.precondition;
        let operation =
            Transaction::new().put(key, self.encode_record(takeover.unused_takeovers)?, expect);
        match context.registry.store.commit(operation).await {
            Ok(revision) => {
                takeover.has_taken_over = true;
                context.registry.await_applied(revision).await;
                Ok(())
            }
            Err(Error::Conflict(_)) => {
                takeover.has_taken_over = false;
                context.registry.await_consistent(context).await
            }
            Err(error) => Err(context.store_error(&error)),
        }
    }

    /// The record that this server writes into an epoch key.
    fn encode_record(&self, losses: u32) -> Result<Bytes, Status> {
        let tenure = TENURE * 2_u32.pow(losses.min(TENURE_DOUBLINGS_MAX));
        let holder = EpochRecord {
            server: Cow::Borrowed(&self.server),
            tenure: u64::try_from(tenure.as_millis()).unwrap_or(u64::MAX),
        };
        let claim = serde_json::to_vec(&holder).map_err(Status::internal_error)?;
        Ok(claim.into())
    }

    fn lock_changed_at(&self) -> MutexGuard<'_, HashMap<Box<str>, (Revision, Instant)>> {
        self.changed_at.lock()
    }

    /// Spawns the watch that records when epochs change. It ends with the server.
    pub fn spawn_watch(self: &Arc<Self>) {
        if self.is_shared {
            let (cache, epochs) = (self.cache.clone(), Arc::downgrade(self));
            tokio::spawn(watch_epochs(cache, epochs));
        }
    }

    fn record_change(&self, event: &WatchEvent) {
        let namespace = event.entry().key().name();
        let mut since = self.lock_changed_at();
        if event.kind() == EventKind::Deleted {
            since.remove(namespace);
        } else {
            since.insert(namespace.into(), (event.revision(), Instant::now()));
        }
    }

    fn key_operation(&self, namespace: &str, is_deleting: bool) -> Result<TransactionOp, Status> {
        let key = ObjectKey::cluster(namespace).map_err(Status::internal_error)?;
        let key = self.cache.prefix().object(&key).into();
        let expect = ExpectedRevision::Any;
        Ok(match is_deleting {
            true => TransactionOp::Delete { key, expect },
            false => TransactionOp::Put {
                key,
                value: self.encode_record(0)?,
                expect,
            },
        })
    }
}

fn decode_record(entry: &CacheEntry) -> Option<EpochRecord<'_>> {
    serde_json::from_slice(entry.json_slice()).ok()
}

async fn watch_epochs(cache: ResourceCache, epochs: Weak<QuotaEpochs>) {
    let mut watcher = cache.watch_with_restarts(WatchRequest::everything(WatchStart::Latest));
    while let Some(message) = watcher.next().await {
        let Some(epochs) = epochs.upgrade() else {
            return;
        };
        if let RestartingWatchMessage::Event(event) = message {
            epochs.record_change(&event);
        }
    }
}

/// Adds epoch operations to writes: a created, deleted or changed quota touches the epoch key of its namespace; a
/// deleted namespace deletes the key.
#[derive(Debug)]
pub struct EpochSideEffects {
    epochs: Arc<QuotaEpochs>,
    trigger: EpochSideEffectResource,
}

/// The resource whose writes change epoch keys.
#[derive(Debug)]
enum EpochSideEffectResource {
    Quotas,
    Namespaces,
}

impl EpochSideEffects {
    pub fn for_quotas(epochs: Arc<QuotaEpochs>) -> EpochSideEffects {
        EpochSideEffects {
            epochs,
            trigger: EpochSideEffectResource::Quotas,
        }
    }

    pub fn for_namespaces(epochs: Arc<QuotaEpochs>) -> EpochSideEffects {
        EpochSideEffects {
            epochs,
            trigger: EpochSideEffectResource::Namespaces,
        }
    }
}

impl ResourceAllocator for EpochSideEffects {
    fn allocate(
        &self,
        _context: &RequestContext<'_>,
        _object: &mut JsonObject,
        _old: Option<&JsonObject>,
        _dry_run: bool,
    ) -> Result<InFlightAllocations, Status> {
        Ok(InFlightAllocations::default())
    }

    fn record_operations(
        &self,
        _registry: &Registry,
        _now: Timestamp,
        old: Option<&JsonObject>,
        new: Option<&JsonObject>,
    ) -> Result<Vec<TransactionOp>, Status> {
        let Some(object) = new.or(old) else {
            return Ok(Vec::new());
        };
        let is_same = || {
            old.zip(new)
                .is_some_and(|(old, new)| old.get("spec") == new.get("spec"))
        };
        let operation = match self.trigger {
            EpochSideEffectResource::Quotas if !is_same() => {
                self.epochs.key_operation(object.namespace(), false)?
            }
            EpochSideEffectResource::Namespaces if new.is_none() => {
                self.epochs.key_operation(object.name(), true)?
            }
            EpochSideEffectResource::Quotas | EpochSideEffectResource::Namespaces => {
                return Ok(Vec::new());
            }
        };
        Ok(vec![operation])
    }

    fn missing_records(
        &self,
        _registry: &Registry,
        _now: Timestamp,
        _object: &JsonObject,
    ) -> Result<Vec<TransactionOp>, Status> {
        Ok(Vec::new())
    }
}
