//! The two ends of a watch: the queue that the dispatcher fills, and the watcher that reads it. Corresponds to
//! upstream's `cacheWatcher`; entry points [`CacheWatcher::next`] and [`WatchQueue::push`].
//!
//! ```text
//!            ┌────────── queue full ──────────┐
//!            ▼                                │
//!   catching up: reads the history, ──────► live: the dispatcher pushes
//!   the dispatcher skips the watcher         events into the queue
//!            │        history read to its end
//!            ▼
//!        expired, if the next change has been trimmed from the history
//! ```

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;

use rhumb_meta::Revision;
use tokio::sync::Notify;

use super::watcher_index::{PendingEvent, WatcherId};
use super::{WatchEnd, WatchEvent, WatchFilter, WatchMessage, WatchScope};
use crate::index::{ListPlan, ListStats, SelectorQuery};
use crate::object_change::ObjectChange;
use crate::resource_cache::CacheInner;
use crate::{CacheEntry, CacheSnapshot, EventKind};

/// Steps without a message after which `try_next` returns, so that other tasks can run.
const IDLE_STEPS_MAX: usize = 64;

/// Changes or objects that a watcher examines per step.
const BATCH: usize = 256;

/// An empty queue with more capacity than this is freed.
const IDLE_CAPACITY: usize = 16;

/// The bounded event queue between the dispatcher and one watcher.
#[derive(Debug)]
pub(crate) struct WatchQueue {
    pub(crate) filter: WatchFilter,
    state: Mutex<WatchQueueState>,
    changed: Notify,
}

/// The locked part of a [`WatchQueue`].
#[derive(Debug)]
struct WatchQueueState {
    events: VecDeque<(Arc<ObjectChange>, EventKind)>,
    mode: DeliveryMode,
    /// Set when no further events follow those in the queue.
    end: Option<WatchEnd>,
}

/// Where a watcher gets its next event from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeliveryMode {
    /// From the history, starting at this sequence.
    CatchingUp(u64),
    /// From the queue.
    Live,
}

impl WatchQueue {
    /// For a watcher that has received the changes before `next`. `live` requires that no later changes exist yet.
    pub(crate) fn new(filter: WatchFilter, next: u64, live: bool) -> Self {
        let mode = match live {
            true => DeliveryMode::Live,
            false => DeliveryMode::CatchingUp(next),
        };
        WatchQueue {
            filter,
            state: Mutex::new(WatchQueueState {
                events: VecDeque::new(),
                mode,
                end: None,
            }),
            changed: Notify::new(),
        }
    }

    /// Pushes the events of one transaction together. Returns whether the queue overflowed: it is then cleared, and
    /// the watcher reads these and the undelivered events from the history.
    pub(crate) fn push(&self, pending_events: &[PendingEvent], queue_max: usize) -> bool {
        let mut queue = self.state();
        let (DeliveryMode::Live, Some((_, first, _))) = (queue.mode, pending_events.first()) else {
            return false;
        };
        let overflows = queue.events.len() + pending_events.len() > queue_max;
        if overflows {
            let oldest = queue.events.front().map_or(first, |(change, _)| change);
            queue.mode = DeliveryMode::CatchingUp(oldest.sequence);
            queue.events = VecDeque::new();
        } else {
            let events = pending_events.iter();
            queue
                .events
                .extend(events.map(|(_, change, kind)| (Arc::clone(change), *kind)));
        }
        drop(queue);
        self.changed.notify_one();
        overflows
    }

    /// Ends the watch after the queued events. Returns false if it had ended already.
    pub(crate) fn end(&self, end: WatchEnd) -> bool {
        let mut queue = self.state();
        let is_first = queue.end.is_none();
        queue.end.get_or_insert(end);
        drop(queue);
        self.changed.notify_one();
        is_first
    }

    fn go_live(&self) {
        self.state().mode = DeliveryMode::Live;
    }

    fn set_catch_up_position(&self, sequence: u64) {
        self.state().mode = DeliveryMode::CatchingUp(sequence);
    }

    /// Whether the watcher is live and has received every event.
    fn is_drained(&self) -> bool {
        let queue = self.state();
        queue.mode == DeliveryMode::Live && queue.events.is_empty() && queue.end.is_none()
    }

    fn pop(&self) -> WatchQueueItem {
        let mut queue = self.state();
        if let Some((change, kind)) = queue.events.pop_front() {
            if queue.events.is_empty() && queue.events.capacity() > IDLE_CAPACITY {
                queue.events = VecDeque::new();
            }
            return WatchQueueItem::Event(change, kind);
        }
        match (queue.end, queue.mode) {
            (Some(end), _) => WatchQueueItem::End(end),
            (None, DeliveryMode::CatchingUp(next)) => WatchQueueItem::CatchUp(next),
            (None, DeliveryMode::Live) => WatchQueueItem::Empty,
        }
    }

    /// Ignores poisoning: no critical section leaves the state inconsistent.
    fn state(&self) -> MutexGuard<'_, WatchQueueState> {
        self.state.lock()
    }
}

/// What a watcher finds when it reads its queue.
enum WatchQueueItem {
    Event(Arc<ObjectChange>, EventKind),
    CatchUp(u64),
    Empty,
    End(WatchEnd),
}

/// The result of one step of a watcher.
enum WatcherStep {
    Message(WatchMessage),
    /// A batch was processed and produced no message; call again.
    Again,
    /// Nothing to do until the queue changes.
    Wait,
}

/// Notifies that a watcher may have a message, for a task other than the one that reads it. Supports one listener.
#[derive(Debug, Clone)]
pub struct WatchNotifier(Arc<WatchQueue>);

impl WatchNotifier {
    /// Waits for the next notification; returns at once if one is pending. Wakeups may be spurious.
    pub async fn notified(&self) {
        self.0.changed.notified().await;
    }
}

/// The receiving end of a watch: yields the matching changes in order, each once.
///
/// Dropping it ends the watch.
#[derive(Debug)]
pub struct CacheWatcher {
    cache: Arc<CacheInner>,
    id: WatcherId,
    queue: Arc<WatchQueue>,
    /// Pending initial list. Boxed, as it is short-lived and the watch is not.
    initial_events: Option<Box<InitialEvents>>,
    /// Events read from the history and not delivered yet.
    backlog: VecDeque<(Arc<ObjectChange>, EventKind)>,
    /// All events up to this revision have been delivered.
    delivered_revision: Revision,
}

impl CacheWatcher {
    pub(crate) fn new(
        cache: Arc<CacheInner>,
        id: WatcherId,
        queue: Arc<WatchQueue>,
        initial: Option<CacheSnapshot>,
        delivered: Revision,
    ) -> Self {
        CacheWatcher {
            cache,
            id,
            queue,
            initial_events: initial.map(|snapshot| Box::new(InitialEvents::new(snapshot))),
            backlog: VecDeque::new(),
            delivered_revision: delivered,
        }
    }

    /// Waits for the next message. Cancel safe. After an error the watch is over.
    pub async fn next(&mut self) -> Result<WatchMessage, WatchEnd> {
        loop {
            match self.step()? {
                WatcherStep::Message(message) => return Ok(message),
                WatcherStep::Again => tokio::task::yield_now().await,
                WatcherStep::Wait => self.queue.changed.notified().await,
            }
        }
    }

    /// The next message if one is available. The events of one transaction become available together.
    ///
    /// Also returns `None` after examining many objects without a match; [`CacheWatcher::next`] then continues and
    /// yields to other tasks in between.
    pub fn try_next(&mut self) -> Result<Option<WatchMessage>, WatchEnd> {
        for _ in 0..IDLE_STEPS_MAX {
            match self.step()? {
                WatcherStep::Message(message) => return Ok(Some(message)),
                WatcherStep::Again => {}
                WatcherStep::Wait => return Ok(None),
            }
        }
        Ok(None)
    }

    /// A handle to wait for messages independently of the task that reads them.
    pub fn notifier(&self) -> WatchNotifier {
        WatchNotifier(Arc::clone(&self.queue))
    }

    /// A revision for a bookmark: all events up to it have been delivered, and no older event follows. `None` while
    /// events are pending. It never decreases, and is never less than the revision of a delivered event.
    pub fn progress(&self) -> Option<Revision> {
        if self.initial_events.is_some() || !self.backlog.is_empty() {
            return None;
        }
        // Read the revision before the queue: an event that arrives in between then counts as pending.
        let applied = self.cache.applied_revision.applied();
        self.queue
            .is_drained()
            .then(|| applied.max(self.delivered_revision))
    }

    fn step(&mut self) -> Result<WatcherStep, WatchEnd> {
        if let Some(initial_events) = &mut self.initial_events {
            let step = initial_events.step(&self.queue.filter, &self.cache);
            if let WatcherStep::Message(WatchMessage::InitialEventsEnd(revision)) = step {
                self.initial_events = None;
                self.delivered_revision = revision;
            }
            return Ok(step);
        }
        if let Some((change, kind)) = self.backlog.pop_front() {
            return Ok(self.deliver(change, kind));
        }
        match self.queue.pop() {
            WatchQueueItem::Event(change, kind) => Ok(self.deliver(change, kind)),
            WatchQueueItem::Empty => Ok(WatcherStep::Wait),
            WatchQueueItem::End(end) => Err(end),
            WatchQueueItem::CatchUp(next) => self.catch_up(next),
        }
    }

    fn deliver(&mut self, change: Arc<ObjectChange>, kind: EventKind) -> WatcherStep {
        self.delivered_revision = change.revision;
        match WatchEvent::from_change(change, kind) {
            Some(event) => WatcherStep::Message(WatchMessage::Event(event)),
            None => WatcherStep::Again,
        }
    }

    /// Reads the next batch of the history, or goes live at its end.
    fn catch_up(&mut self, next: u64) -> Result<WatcherStep, WatchEnd> {
        let go_live = || self.queue.go_live();
        let Some(changes) = self.cache.read_history_or_go_live(next, BATCH, go_live) else {
            if self.queue.end(WatchEnd::Expired) {
                self.cache.count_terminated();
            }
            return Err(WatchEnd::Expired);
        };
        if !changes.is_empty() {
            self.queue
                .set_catch_up_position(next + changes.len() as u64);
        }
        let names = self.cache.projector.field_names();
        for change in changes {
            if let Some(kind) = self.queue.filter.classify(&change, names) {
                self.backlog.push_back((change, kind));
            }
        }
        Ok(WatcherStep::Again)
    }
}

impl Drop for CacheWatcher {
    fn drop(&mut self) {
        self.cache.unregister_watcher(self.id);
    }
}

/// The initial list of a watch: the matching objects of a snapshot, read in batches.
#[derive(Debug)]
struct InitialEvents {
    snapshot: CacheSnapshot,
    /// Matched and not delivered yet.
    ready: VecDeque<Arc<CacheEntry>>,
    /// How the objects are found; `None` before the first batch.
    plan: Option<ListPlan>,
    /// The last object that was examined; `None` before the first batch.
    last_examined: Option<Arc<CacheEntry>>,
    is_exhausted: bool,
    examined: usize,
    matched: usize,
}

impl InitialEvents {
    fn new(snapshot: CacheSnapshot) -> Self {
        InitialEvents {
            snapshot,
            ready: VecDeque::new(),
            plan: None,
            last_examined: None,
            is_exhausted: false,
            examined: 0,
            matched: 0,
        }
    }

    fn step(&mut self, filter: &WatchFilter, cache: &Arc<CacheInner>) -> WatcherStep {
        if let Some(entry) = self.ready.pop_front() {
            return WatcherStep::Message(WatchMessage::Event(WatchEvent::from_initial_list(entry)));
        }
        if self.is_exhausted {
            self.record_list(filter, cache);
            return WatcherStep::Message(WatchMessage::InitialEventsEnd(self.snapshot.revision()));
        }
        let names = cache.projector.field_names();
        match &filter.scope {
            WatchScope::Object { .. } => {
                let entry = filter
                    .scope
                    .object_key()
                    .and_then(|key| self.snapshot.find(&key));
                let matched = entry.filter(|entry| filter.matches(entry, names));
                self.ready.extend(matched.cloned());
                self.is_exhausted = true;
            }
            WatchScope::All | WatchScope::Namespace(_) => self.read_batch(filter.query(names)),
        }
        WatcherStep::Again
    }

    fn read_batch(&mut self, query: SelectorQuery<'_>) {
        let version = self.snapshot.contents();
        let query = query.after(self.last_examined.as_ref().map(|entry| entry.key()));
        let plan = *self
            .plan
            .get_or_insert_with(|| ListPlan::choose(version, &query, usize::MAX));
        let limit = match plan.finds_all_at_once() {
            true => usize::MAX,
            false => BATCH,
        };
        let batch: Vec<_> = plan.entries(version, &query).take(limit).cloned().collect();
        self.is_exhausted = batch.len() < limit;
        self.last_examined = batch.last().cloned();
        self.examined += batch.len();
        let matched = batch.into_iter().filter(|entry| query.matches(entry));
        self.ready.extend(matched);
        self.matched += self.ready.len();
    }

    /// Counts the initial list as a list in the statistics.
    fn record_list(&self, filter: &WatchFilter, cache: &Arc<CacheInner>) {
        let query = filter.query(cache.projector.field_names());
        let Some(plan) = self.plan.filter(|_| !query.is_everything()) else {
            return;
        };
        let list_stats = ListStats {
            query: &query,
            is_scan: plan.is_scan(),
            examined: self.examined,
            matched: self.matched,
        };
        CacheInner::record_list(cache, plan.index(self.snapshot.contents()), &list_stats);
    }
}
