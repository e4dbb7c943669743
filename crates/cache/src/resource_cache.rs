//! The cache of one resource: its latest contents, its change history and its watchers. Corresponds to upstream's
//! `Cacher` with its `watchCache`.
//!
//! Entry points: [`ResourceCache`] for readers and watchers, [`CacheInner::apply`] for the store reflector.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rhumb_meta::{ObjectKey, Revision, StoragePrefix};

use crate::applied_revision::AppliedRevision;
use crate::compacted_revision::CompactedRevision;
use crate::history::ChangeHistory;
use crate::index::{
    AttributeIndex, IndexAdvisor, IndexMemoryBudget, IndexOrigin, IndexStats, IndexedAttribute,
    ListQuery, MatchingEntries, SelectorQuery,
};
use crate::manager::{CacheManagerState, ResourceCacheConfig};
use crate::object_change::{CachedObjectState, ObjectChange};
use crate::snapshot::CacheContents;
use crate::stats::{self, CacheCounters, HistogramSnapshot, IndexUsage};
use crate::string_interner::StringInterner;
use crate::watch::{
    CacheWatcher, TriggerOptions, WatchEnd, WatchFilter, WatchQueue, WatchRequest, WatchStart,
    WatcherId, WatcherIndex,
};
use crate::watch_state::WatchState;
use crate::{
    CacheEntry, CacheOptions, CacheSnapshot, CacheStats, CorruptObject, EventKind, HistoryError,
    ObjectProjection, ObjectProjector,
};

/// The objects of one resource and their watchers. Cheap to clone; all clones share one cache.
#[derive(Debug, Clone)]
pub struct ResourceCache {
    inner: Arc<CacheInner>,
}

/// Identifies one version of a cache's contents; only equality is meaningful.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheContentsTag(Revision, u64);

impl ResourceCache {
    pub(crate) fn new(inner: Arc<CacheInner>) -> Self {
        ResourceCache { inner }
    }

    pub(crate) fn inner(&self) -> &Arc<CacheInner> {
        &self.inner
    }

    /// Whether both handles refer to the same cache.
    pub(crate) fn is_same(&self, other: &ResourceCache) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub fn prefix(&self) -> &StoragePrefix {
        &self.inner.prefix
    }

    /// The latest contents: at least as new as every revision that [`crate::CacheManager::wait_for_revision`] has
    /// confirmed.
    pub fn snapshot(&self) -> CacheSnapshot {
        self.inner.snapshot()
    }

    /// The objects that match the query's selectors, in key order (the order of list pages), optionally limited to
    /// one namespace and to keys after `after`. Uses the indexes to examine as few other objects as possible.
    pub fn list<'a>(
        &'a self,
        snapshot: &'a CacheSnapshot,
        list_query: &ListQuery<'a>,
    ) -> MatchingEntries<'a> {
        let names = self.inner.projector.field_names();
        let query = SelectorQuery::new(
            list_query.namespace,
            list_query.labels,
            list_query.fields,
            names,
        );
        let query = query.after(list_query.after);
        MatchingEntries::new(&self.inner, snapshot.contents(), query, list_query.limit)
    }

    /// One object of the latest contents. Cheaper than taking a snapshot: while a snapshot is held, every change has
    /// to copy a part of the persistent map.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<CacheEntry>>, CorruptObject> {
        self.inner
            .latest()
            .get(key)
            .map(Option::<&Arc<CacheEntry>>::cloned)
    }

    /// Changes with every change of the contents: data derived from the objects is current while the version is the
    /// same. Read the version before the objects.
    pub fn version(&self) -> CacheContentsTag {
        let latest = self.inner.latest();
        CacheContentsTag(latest.revision, latest.next_sequence)
    }

    /// The contents as of a recent revision, rebuilt from the change history. Fails for revisions before the last
    /// compaction, even if nothing has changed since.
    pub fn snapshot_at(&self, revision: Revision) -> Result<CacheSnapshot, HistoryError> {
        self.inner.snapshot_at(revision)
    }

    /// Starts a watch.
    pub fn watch(&self, request: WatchRequest) -> Result<CacheWatcher, HistoryError> {
        CacheInner::watch(&self.inner, request)
    }

    /// The oldest revision that can be read or watched from.
    pub fn oldest_revision(&self) -> Revision {
        self.inner.watch_state().history.oldest_revision()
    }

    pub fn stats(&self) -> CacheStats {
        self.inner.stats()
    }

    /// Number of watchers by the label, the field, `metadata.name` or `metadata.namespace` they are indexed by.
    /// Watchers that have to evaluate every change of the resource are counted under the empty name.
    pub fn watchers_by_index(&self) -> BTreeMap<Box<str>, usize> {
        self.inner.watch_state().watchers.counts_by_index_name()
    }

    /// Number of watchers whose filter was evaluated, per change.
    pub fn watchers_evaluated(&self) -> HistogramSnapshot {
        self.inner.counters.watchers_evaluated.snapshot()
    }

    /// Microseconds per transaction from its receipt until the last watcher's queue was filled.
    pub fn dispatch_lag(&self) -> HistogramSnapshot {
        self.inner.counters.dispatch_micros.snapshot()
    }

    /// Lists by the index that served them, including indexes that have been dropped since.
    pub fn lists_by_index(&self) -> HashMap<IndexedAttribute, IndexUsage> {
        let mut lists = self.inner.counters.dropped_indexes();
        let indexes = Arc::clone(&self.inner.latest().indexes);
        for index in indexes.iter() {
            let count = lists.entry(index.attribute.clone()).or_default();
            let usage = index.usage();
            count.lists += usage.lists;
            count.examined += usage.examined;
        }
        lists
    }

    /// Walks all indexes; takes a few milliseconds per million objects.
    pub fn index_stats(&self) -> Vec<IndexStats> {
        let indexes = Arc::clone(&self.inner.latest().indexes);
        indexes.iter().map(AttributeIndex::stats).collect()
    }
}

/// The stored bytes of one key, `None` if it was deleted, or the reason why it cannot be read.
pub(crate) type StoredValue<'a> = Result<Option<&'a Bytes>, &'a str>;

/// The state shared by all clones of a [`ResourceCache`].
#[derive(Debug)]
pub(crate) struct CacheInner {
    prefix: StoragePrefix,
    pub(crate) index_advisor: IndexAdvisor,
    pub(crate) index_budget: Arc<IndexMemoryBudget>,
    pub(crate) projector: Arc<dyn ObjectProjector>,
    pub(crate) applied_revision: Arc<AppliedRevision>,
    compacted_revision: Arc<CompactedRevision>,
    pub(crate) options: Arc<CacheOptions>,
    /// Only ever locked briefly, also by the writer. Lock order: `watch_state` before `latest`.
    latest: Mutex<CacheContents>,
    watch_state: Mutex<WatchState>,
    pub(crate) counters: CacheCounters,
}

impl CacheInner {
    pub(crate) fn new(
        resource: ResourceCacheConfig,
        shared: &CacheManagerState,
        mut contents: CacheContents,
    ) -> Self {
        let options = Arc::clone(&shared.options);
        let by_label = options.index.by_label;
        let mut declared = resource.indexes;
        declared.retain(|attribute| by_label || matches!(attribute, IndexedAttribute::Field(_)));
        let now = options.clock.monotonic();
        let indexes = declared
            .iter()
            .map(|attribute| AttributeIndex::new(attribute.clone(), IndexOrigin::Configured, now));
        contents.rebuild_indexes(&indexes.collect::<Vec<_>>());
        let state = WatchState {
            history: ChangeHistory::new(contents.clone(), &options),
            watchers: WatcherIndex::new(TriggerOptions {
                field_names: resource.projector.field_names().into(),
                declared,
                by_label,
            }),
            end: None,
            pending_events: Vec::new(),
        };
        CacheInner {
            prefix: resource.prefix,
            index_advisor: IndexAdvisor::default(),
            index_budget: Arc::clone(&shared.index_budget),
            projector: resource.projector,
            applied_revision: Arc::clone(&shared.progress),
            compacted_revision: Arc::clone(&shared.compacted_revision),
            options,
            latest: Mutex::new(contents),
            watch_state: Mutex::new(state),
            counters: CacheCounters::default(),
        }
    }

    /// Projects stored bytes into the state that is served.
    pub(crate) fn project(
        &self,
        key: &ObjectKey,
        stored: StoredValue<'_>,
        revision: Revision,
        kind: EventKind,
        interner: &mut StringInterner,
    ) -> CachedObjectState {
        let projected = match stored {
            Ok(None) => return CachedObjectState::Absent,
            Ok(Some(stored)) => self
                .projector
                .project(key, stored, revision, interner)
                .map_err(|error| error.0),
            Err(reason) => Err(reason.to_owned()),
        };
        match projected {
            Ok(projection) => {
                CachedObjectState::Present(Arc::new(new_entry(key, revision, kind, projection)))
            }
            Err(reason) => {
                tracing::error!(
                    key = self.prefix.object(key),
                    %revision,
                    "failed to decode a stored object; it is omitted from lists and watches"
                );
                CachedObjectState::Corrupt(Arc::new(CorruptObject {
                    key: key.clone(),
                    revision,
                    reason: reason.into(),
                }))
            }
        }
    }

    /// Applies the changes that one transaction made to this resource and dispatches them to the watchers. Only the
    /// store reflector calls it.
    pub(crate) fn apply(
        &self,
        revision: Revision,
        changed: &[(ObjectKey, Option<Bytes>)],
        interner: &mut StringInterner,
    ) {
        let started = Instant::now();
        let base = self.latest().revision;
        // A cache that was added later has loaded this change already.
        if revision <= base || changed.is_empty() {
            return;
        }
        let states: Vec<_> = changed
            .iter()
            .map(|(key, stored)| {
                let kind = match self.latest().objects.contains_key(key) {
                    true => EventKind::Modified,
                    false => EventKind::Added,
                };
                let state = self.project(key, Ok(stored.as_ref()), revision, kind, interner);
                (key.clone(), state)
            })
            .collect();
        stats::add(&self.counters.changes, states.len() as u64);
        self.watch_state().publish(self, revision, states);
        self.counters
            .dispatch_micros
            .observe_duration(started.elapsed());
    }

    /// Sets the contents of a cache that nobody uses yet. Their indexes are built.
    pub(crate) fn set_initial_contents(&self, contents: CacheContents) {
        let mut state = self.watch_state();
        state.history = ChangeHistory::new(contents.clone(), &self.options);
        *self.latest() = contents;
    }

    /// Replaces the contents. The changes in between are unknown, so every watch ends as expired.
    pub(crate) fn reset(&self, mut contents: CacheContents) {
        let indexes = Arc::clone(&self.latest().indexes);
        contents.rebuild_indexes(&indexes);
        let mut state = self.watch_state();
        let mut latest = self.latest();
        if !same_attributes(&latest.indexes, &indexes) {
            // An adaptive index was added or dropped in the meantime.
            let indexes = Arc::clone(&latest.indexes);
            contents.rebuild_indexes(&indexes);
        }
        // The gap in the sequence invalidates every position in the old history.
        contents.next_sequence = latest.next_sequence + 1;
        state.history = ChangeHistory::new(contents.clone(), &self.options);
        *latest = contents;
        drop(latest);
        // Clients list again at once and must find the new contents, so watches end last.
        for queue in state.watchers.queues() {
            if queue.end(WatchEnd::Expired) {
                self.count_terminated();
            }
        }
    }

    /// Ends all watches and rejects new ones.
    pub(crate) fn end_watches(&self, end: WatchEnd) {
        let mut state = self.watch_state();
        state.end.get_or_insert(end);
        for queue in state.watchers.queues() {
            queue.end(end);
        }
    }

    /// Periodic maintenance: trims expired history of an idle resource and drops unused indexes.
    pub(crate) fn run_maintenance(&self) {
        let mut state = self.watch_state();
        let latest = self.latest().clone();
        let now = self.options.clock.monotonic();
        let trimmed = state.history.trim(&latest, now);
        drop(state);
        drop(trimmed);
        self.drop_unused_indexes(now);
    }

    fn snapshot(&self) -> CacheSnapshot {
        // Read the applied revision before the objects: newer objects carry their own, larger revision.
        let applied = self.applied_revision.applied();
        let version = self.latest().clone();
        CacheSnapshot::new(applied.max(version.revision), version)
    }

    fn snapshot_at(&self, revision: Revision) -> Result<CacheSnapshot, HistoryError> {
        let latest = self.snapshot();
        if revision > latest.revision() {
            return Err(HistoryError::FutureRevision {
                requested: revision,
                current: latest.revision(),
            });
        }
        let compacted = self.compacted_revision.get();
        if revision < compacted {
            return Err(HistoryError::Expired {
                requested: revision,
                oldest: compacted,
            });
        }
        // Prefer the latest contents: only they have indexes.
        if revision >= latest.contents().revision {
            return Ok(CacheSnapshot::new(revision, latest.contents().clone()));
        }
        let (mut version, changes) = self.watch_state().history.base_and_changes_at(revision)?;
        for change in changes {
            version.apply(&change);
        }
        Ok(CacheSnapshot::new(revision, version))
    }

    fn watch(this: &Arc<Self>, request: WatchRequest) -> Result<CacheWatcher, HistoryError> {
        let mut state = this.watch_state();
        if state.end.is_some() {
            return Err(HistoryError::Closed);
        }
        // Nothing is published while the watch state is locked, so the changes continue exactly at the snapshot.
        let snapshot = this.snapshot();
        let end = snapshot.next_sequence();
        let (delivered, next, initial) = match request.start {
            WatchStart::After(revision) => {
                (revision, state.history.sequence_after(revision)?, None)
            }
            WatchStart::Latest => (snapshot.revision(), end, None),
            WatchStart::InitialList => (snapshot.revision(), end, Some(snapshot)),
        };
        let filter = WatchFilter {
            scope: request.scope,
            labels: request.labels,
            fields: request.fields,
            after: delivered,
        };
        // During the initial list, changes need no queue: the watcher reads them from the history afterwards.
        let is_live = next == end && initial.is_none();
        let queue = Arc::new(WatchQueue::new(filter, next, is_live));
        let id = state.watchers.register(Arc::clone(&queue));
        drop(state);
        Ok(CacheWatcher::new(
            Arc::clone(this),
            id,
            queue,
            initial,
            delivered,
        ))
    }

    /// The next changes of the history; `None` if some of them have been trimmed. If there are none,
    /// `go_live` is called before any further change is published.
    pub(crate) fn read_history_or_go_live(
        &self,
        sequence: u64,
        limit: usize,
        go_live: impl FnOnce(),
    ) -> Option<Vec<Arc<ObjectChange>>> {
        let state = self.watch_state();
        let changes = state.history.read_from(sequence, limit)?;
        if changes.is_empty() {
            go_live();
        }
        Some(changes)
    }

    pub(crate) fn unregister_watcher(&self, id: WatcherId) {
        self.watch_state().watchers.unregister(id);
    }

    pub(crate) fn count_terminated(&self) {
        stats::add(&self.counters.expired_watchers, 1);
    }

    pub(crate) fn prefix(&self) -> &StoragePrefix {
        &self.prefix
    }

    fn stats(&self) -> CacheStats {
        let (watchers, history_changes, history_bytes) = {
            let state = self.watch_state();
            let history = &state.history;
            (state.watchers.len(), history.changes(), history.bytes())
        };
        let latest = self.latest().clone();
        CacheStats {
            objects: latest.objects.len(),
            bytes: latest.bytes,
            corrupt: latest.corrupt.len(),
            watchers,
            history_changes,
            history_bytes,
            changes: stats::read(&self.counters.changes),
            delivered_events: stats::read(&self.counters.delivered_events),
            queue_overflows: stats::read(&self.counters.queue_overflows),
            expired_watchers: stats::read(&self.counters.expired_watchers),
            list_examined: stats::read(&self.counters.list_examined),
            list_matched: stats::read(&self.counters.list_matched),
            full_scans: stats::read(&self.counters.full_scans),
            full_scan_examined: stats::read(&self.counters.full_scan_examined),
        }
    }

    pub(crate) fn latest(&self) -> MutexGuard<'_, CacheContents> {
        self.latest.lock()
    }

    pub(crate) fn watch_state(&self) -> MutexGuard<'_, WatchState> {
        self.watch_state.lock()
    }
}

fn same_attributes(a: &[AttributeIndex], b: &[AttributeIndex]) -> bool {
    let attributes = b.iter().map(|index| &index.attribute);
    a.iter().map(|index| &index.attribute).eq(attributes)
}

fn new_entry(
    key: &ObjectKey,
    revision: Revision,
    kind: EventKind,
    projection: ObjectProjection,
) -> CacheEntry {
    let ObjectProjection {
        json,
        mut labels,
        fields,
    } = projection;
    labels.sort();
    let (labels, fields) = (labels.into(), fields.into());
    CacheEntry::new(key.clone(), revision, kind, &json, labels, fields)
}
