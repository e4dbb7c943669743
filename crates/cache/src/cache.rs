//! The objects of one resource: the latest version, the history, and who watches.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use rhumb_meta::{ObjectKey, Revision, StoragePrefix};

use crate::change::{Change, State};
use crate::history::History;
use crate::hub::{Resource, Shared};
use crate::index::{Advice, Asked, Attribute, Budget, Index, IndexStats, Origin, Query, Selection};
use crate::intern::Texts;
use crate::progress::Progress;
use crate::snapshot::Version;
use crate::stats::{self, Counters, Distribution, ListCount};
use crate::watch::{Delivery, Filter, Mailbox, Places, Start, WatchEnd, WatchRequest, Watcher};
use crate::{
    Entry, EventKind, HistoryError, Options, Projection, Projector, Snapshot, Stats, Unreadable,
};

/// The objects of one resource. Cheap to clone; all clones are the same cache.
#[derive(Debug, Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

/// Tells versions of a cache apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheVersion(Revision, u64);

impl Cache {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Cache { inner }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Whether both are the same cache.
    pub(crate) fn is(&self, other: &Cache) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub fn prefix(&self) -> &StoragePrefix {
        &self.inner.prefix
    }

    /// The latest version: at least as new as every revision that [`crate::Hub::wait_for`] has confirmed.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.snapshot()
    }

    /// The objects that selectors pick, in key order, as pages of a list follow it: those of one namespace if one
    /// is given, and only those after a key if one is given. Looks at as few others as the indexes allow.
    pub fn select<'a>(&'a self, snapshot: &'a Snapshot, asked: &Asked<'a>) -> Selection<'a> {
        let names = self.inner.projector.fields();
        let query = Query::new(asked.namespace, asked.labels, asked.fields, names);
        let query = query.after(asked.after);
        Selection::new(&self.inner, snapshot.version(), query, asked.limit)
    }

    /// One object of the latest version. Cheaper than a snapshot for that: while somebody holds one, every change
    /// has to copy a part of the tree.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<Entry>>, Unreadable> {
        self.inner
            .latest()
            .get(key)
            .map(Option::<&Arc<Entry>>::cloned)
    }

    /// Another value after every change: what was made of the objects is up to date while it stays the same. To be
    /// read before the objects are.
    pub fn version(&self) -> CacheVersion {
        let latest = self.inner.latest();
        CacheVersion(latest.revision, latest.sequence)
    }

    /// The version as of a revision of the recent past.
    pub fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, HistoryError> {
        self.inner.snapshot_at(revision)
    }

    /// Begins a watch.
    pub fn watch(&self, request: WatchRequest) -> Result<Watcher, HistoryError> {
        Inner::watch(&self.inner, request)
    }

    /// The oldest revision that can be read or watched from.
    pub fn oldest(&self) -> Revision {
        self.inner.core().history.oldest()
    }

    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// How many watchers are found by a label, a field, `metadata.name` or `metadata.namespace`. Those that every
    /// change of the resource is shown to are under the empty name.
    pub fn watchers_by_index(&self) -> BTreeMap<Box<str>, usize> {
        self.inner.core().places.counts()
    }

    /// How many watchers a change was shown to.
    pub fn watchers_asked(&self) -> Distribution {
        self.inner.counters.watchers_asked.read()
    }

    /// How long changes took from the store to the last watcher's queue, in microseconds.
    pub fn dispatch_lag(&self) -> Distribution {
        self.inner.counters.dispatch_micros.read()
    }

    /// Lists by what index served them, those of indexes that are no more included.
    pub fn lists_by_index(&self) -> HashMap<Attribute, ListCount> {
        let mut lists = self.inner.counters.retired();
        for stats in self.index_stats() {
            let count = lists.entry(stats.attribute).or_default();
            count.lists += stats.lists;
            count.looked_at += stats.looked_at;
        }
        lists
    }

    pub fn index_stats(&self) -> Vec<IndexStats> {
        let indexes = Arc::clone(&self.inner.latest().indexes);
        indexes.iter().map(Index::stats).collect()
    }
}

/// What the reader hands over of one key: what is stored, nothing when it was deleted, or why it cannot be read.
pub(crate) type Stored<'a> = Result<Option<&'a Bytes>, &'a str>;

#[derive(Debug)]
pub(crate) struct Inner {
    prefix: StoragePrefix,
    pub(crate) advice: Advice,
    pub(crate) budget: Arc<Budget>,
    pub(crate) projector: Arc<dyn Projector>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) options: Arc<Options>,
    /// Held for a moment only, also by the writer. Taken after `core` when both are needed.
    latest: Mutex<Version>,
    core: Mutex<Core>,
    pub(crate) counters: Counters,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) history: History,
    places: Places,
    /// Why there are no more watches.
    end: Option<WatchEnd>,
    /// Reused for the deliveries of each transaction.
    deliveries: Vec<Delivery>,
}

impl Inner {
    pub(crate) fn new(resource: Resource, shared: &Shared, mut contents: Version) -> Self {
        let options = Arc::clone(&shared.options);
        if options.index.enabled {
            let now = options.clock.monotonic();
            let wanted = resource.indexes.into_iter();
            let indexes = wanted.map(|attribute| Index::new(attribute, Origin::Configured, now));
            contents.index(&indexes.collect::<Vec<_>>());
        }
        let core = Core {
            history: History::new(contents.clone(), &options),
            places: Places::new(resource.projector.fields(), options.index.enabled),
            end: None,
            deliveries: Vec::new(),
        };
        Inner {
            prefix: resource.prefix,
            advice: Advice::default(),
            budget: Arc::clone(&shared.index_budget),
            projector: resource.projector,
            progress: Arc::clone(&shared.progress),
            options,
            latest: Mutex::new(contents),
            core: Mutex::new(core),
            counters: Counters::default(),
        }
    }

    /// Makes what is served of what is stored.
    pub(crate) fn state(
        &self,
        key: &ObjectKey,
        stored: Stored<'_>,
        revision: Revision,
        kind: EventKind,
        texts: &mut Texts,
    ) -> State {
        let projected = match stored {
            Ok(None) => return State::Absent,
            Ok(Some(stored)) => self
                .projector
                .project(key, stored, revision, texts)
                .map_err(|error| error.0),
            Err(reason) => Err(reason.to_owned()),
        };
        match projected {
            Ok(projection) => State::Served(Arc::new(entry(key, revision, kind, projection))),
            Err(reason) => {
                tracing::error!(
                    key = self.prefix.object(key),
                    "a stored object cannot be served"
                );
                State::Unreadable(Arc::new(Unreadable {
                    key: key.clone(),
                    revision,
                    reason: reason.into(),
                }))
            }
        }
    }

    /// Applies what one transaction did to this resource, and tells whom it concerns. Only the reader calls it.
    pub(crate) fn apply(
        &self,
        revision: Revision,
        changed: &[(ObjectKey, Option<Bytes>)],
        texts: &mut Texts,
    ) {
        let began = Instant::now();
        let base = self.latest().revision;
        // A cache that was added later has read this already.
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
                let state = self.state(key, Ok(stored.as_ref()), revision, kind, texts);
                (key.clone(), state)
            })
            .collect();
        stats::add(&self.counters.changes, states.len() as u64);
        self.core().publish(self, revision, states);
        self.counters.dispatch_micros.note_time(began.elapsed());
    }

    /// Begins anew with these contents. Nobody knows what happened in between, so every watch ends as expired.
    pub(crate) fn reset(&self, mut contents: Version) {
        let indexes = Arc::clone(&self.latest().indexes);
        contents.index(&indexes);
        let mut core = self.core();
        let mut latest = self.latest();
        if !same_attributes(&latest.indexes, &indexes) {
            // One came or went meanwhile.
            let indexes = Arc::clone(&latest.indexes);
            contents.index(&indexes);
        }
        // The gap in the sequence makes all cursors too old.
        contents.sequence = latest.sequence + 1;
        core.history = History::new(contents.clone(), &self.options);
        *latest = contents;
        drop(latest);
        // Whoever is told begins anew at once, and must find the new contents.
        for mailbox in core.places.mailboxes() {
            if mailbox.end(WatchEnd::Expired) {
                self.count_terminated();
            }
        }
    }

    /// Ends all watches, and lets none begin.
    pub(crate) fn end(&self, end: WatchEnd) {
        let mut core = self.core();
        core.end.get_or_insert(end);
        for mailbox in core.places.mailboxes() {
            mailbox.end(end);
        }
    }

    /// Gives up history that is old though nothing new came.
    pub(crate) fn trim(&self) {
        let mut core = self.core();
        let latest = self.latest().clone();
        let now = self.options.clock.monotonic();
        let given_up = core.history.trim(&latest, now);
        drop(core);
        drop(given_up);
        self.tend_indexes(now);
    }

    fn snapshot(&self) -> Snapshot {
        // First the revision, then the objects: they may be newer than it, and then say so themselves.
        let applied = self.progress.applied();
        let version = self.latest().clone();
        Snapshot::new(applied.max(version.revision), version)
    }

    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, HistoryError> {
        let latest = self.snapshot();
        if revision > latest.revision() {
            return Err(HistoryError::Future {
                requested: revision,
                current: latest.revision(),
            });
        }
        // The latest version has indexes.
        if revision >= latest.version().revision {
            return Ok(Snapshot::new(revision, latest.version().clone()));
        }
        let (mut version, changes) = self.core().history.version_at(revision)?;
        for change in changes {
            version.apply(&change);
        }
        Ok(Snapshot::new(revision, version))
    }

    fn watch(this: &Arc<Self>, request: WatchRequest) -> Result<Watcher, HistoryError> {
        let mut core = this.core();
        if core.end.is_some() {
            return Err(HistoryError::Closed);
        }
        // While the core is locked nothing is published: the snapshot is where the changes begin.
        let snapshot = this.snapshot();
        let end = snapshot.sequence();
        let (told, next, listed) = match request.start {
            Start::After(revision) => (revision, core.history.sequence_after(revision)?, None),
            Start::Latest => (snapshot.revision(), end, None),
            Start::List => (snapshot.revision(), end, Some(snapshot)),
        };
        let filter = Filter {
            scope: request.scope,
            labels: request.labels,
            fields: request.fields,
            after: told,
        };
        // While the list is told, changes wait in the history, which has them anyway.
        let is_live = next == end && listed.is_none();
        let mailbox = Arc::new(Mailbox::new(filter, next, is_live));
        let seat = core.places.sit(Arc::clone(&mailbox));
        drop(core);
        Ok(Watcher::new(Arc::clone(this), seat, mailbox, listed, told))
    }

    /// The next changes of the history; `None` if some are no longer there. When there are none to come,
    /// `go_live` is called before any further change is published.
    pub(crate) fn history_from(
        &self,
        sequence: u64,
        limit: usize,
        go_live: impl FnOnce(),
    ) -> Option<Vec<Arc<Change>>> {
        let core = self.core();
        let changes = core.history.read_from(sequence, limit)?;
        if changes.is_empty() {
            go_live();
        }
        Some(changes)
    }

    pub(crate) fn leave(&self, seat: usize) {
        self.core().places.leave(seat);
    }

    pub(crate) fn count_terminated(&self) {
        stats::add(&self.counters.terminated, 1);
    }

    pub(crate) fn prefix(&self) -> &StoragePrefix {
        &self.prefix
    }

    fn stats(&self) -> Stats {
        let (watchers, history_changes, history_bytes) = {
            let core = self.core();
            let history = &core.history;
            (core.places.len(), history.changes(), history.bytes())
        };
        let latest = self.latest().clone();
        Stats {
            objects: latest.objects.len(),
            bytes: latest.bytes,
            unreadable: latest.unreadable.len(),
            watchers,
            history_changes,
            history_bytes,
            changes: stats::read(&self.counters.changes),
            deliveries: stats::read(&self.counters.deliveries),
            overflows: stats::read(&self.counters.overflows),
            terminated: stats::read(&self.counters.terminated),
            list_looked_at: stats::read(&self.counters.list_looked_at),
            list_picked: stats::read(&self.counters.list_picked),
            scans: stats::read(&self.counters.scans),
            scan_looked_at: stats::read(&self.counters.scan_looked_at),
        }
    }

    pub(crate) fn latest(&self) -> MutexGuard<'_, Version> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    fn publish(&mut self, cache: &Inner, revision: Revision, states: Vec<(ObjectKey, State)>) {
        let now = cache.options.clock.monotonic();
        let mut latest = cache.latest();
        self.history.make_room(&latest, now);
        let mut changes = Vec::with_capacity(states.len());
        for (key, new) in states {
            let old = latest.objects.get(&key).cloned();
            let change = Change::new(
                latest.sequence,
                revision,
                key,
                old,
                new,
                Arc::clone(&cache.projector),
            );
            latest.apply(&change);
            changes.push(Arc::new(change));
        }
        self.history.push(&changes, now);
        let given_up = self.history.trim(&latest, now);
        // Readers need not wait for what follows.
        drop(latest);
        drop(given_up);
        self.deliver(cache, &changes);
    }

    /// Every watcher finds the events of the transaction together.
    fn deliver(&mut self, cache: &Inner, changes: &[Arc<Change>]) {
        let mut deliveries = std::mem::take(&mut self.deliveries);
        for change in changes {
            let asked = self.places.find(change, &mut deliveries);
            cache.counters.watchers_asked.note(asked as u64);
        }
        if changes.len() > 1 {
            // Stable: the order of a watcher's own events stays.
            deliveries.sort_by_key(|(seat, ..)| *seat);
        }
        stats::add(&cache.counters.deliveries, deliveries.len() as u64);
        for events in deliveries.chunk_by(|(a, ..), (b, ..)| a == b) {
            let mailbox = events
                .first()
                .and_then(|(seat, ..)| self.places.mailbox(*seat));
            if mailbox.is_some_and(|mailbox| mailbox.put(events, cache.options.watcher_queue_max)) {
                stats::add(&cache.counters.overflows, 1);
            }
        }
        deliveries.clear();
        self.deliveries = deliveries;
    }
}

fn same_attributes(a: &[Index], b: &[Index]) -> bool {
    let attributes = b.iter().map(|index| &index.attribute);
    a.iter().map(|index| &index.attribute).eq(attributes)
}

fn entry(key: &ObjectKey, revision: Revision, kind: EventKind, projection: Projection) -> Entry {
    let Projection {
        json,
        mut labels,
        fields,
    } = projection;
    labels.sort();
    let (labels, fields) = (labels.into(), fields.into());
    Entry::new(key.clone(), revision, kind, &json, labels, fields)
}
