//! Publishes changes: appends them to the change history and dispatches them to the watchers. Corresponds to
//! `dispatchEvent` of upstream's `Cacher`.
//!
//! Entry point: [`WatchState::publish`].

use std::sync::Arc;

use rhumb_meta::{ObjectKey, Revision};

use crate::history::ChangeHistory;
use crate::object_change::{CachedObjectState, ObjectChange};
use crate::resource_cache::CacheInner;
use crate::stats;
use crate::watch::{PendingEvent, WatchEnd, WatcherIndex};

/// History and registered watchers. Its lock serialises publishing with the start of watches.
#[derive(Debug)]
pub(crate) struct WatchState {
    pub(crate) history: ChangeHistory,
    pub(crate) watchers: WatcherIndex,
    /// Set when the cache is closed or removed: no further watches can start.
    pub(crate) end: Option<WatchEnd>,
    /// Buffer for the events of one transaction, reused.
    pub(crate) pending_events: Vec<PendingEvent>,
}

impl WatchState {
    pub(crate) fn publish(
        &mut self,
        cache: &CacheInner,
        revision: Revision,
        states: Vec<(ObjectKey, CachedObjectState)>,
    ) {
        let now = cache.options.clock.monotonic();
        let mut latest = cache.latest();
        self.history.start_segment_if_full(&latest, now);
        let mut changes = Vec::with_capacity(states.len());
        for (key, new) in states {
            let old = latest.objects.get(&key).cloned();
            let change = ObjectChange::new(
                latest.next_sequence,
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
        let trimmed = self.history.trim(&latest, now);
        // Unblock readers before freeing the trimmed history and dispatching.
        drop(latest);
        drop(trimmed);
        self.dispatch(cache, &changes);
    }

    /// Queues the events of one transaction. A watcher receives all of its events in one step.
    fn dispatch(&mut self, cache: &CacheInner, changes: &[Arc<ObjectChange>]) {
        let mut pending_events = std::mem::take(&mut self.pending_events);
        for change in changes {
            let evaluated = self.watchers.collect_events(change, &mut pending_events);
            cache.counters.watchers_evaluated.observe(evaluated as u64);
        }
        if changes.len() > 1 {
            // A stable sort keeps the order of each watcher's events.
            pending_events.sort_by_key(|(id, ..)| *id);
        }
        stats::add(
            &cache.counters.delivered_events,
            pending_events.len() as u64,
        );
        for events in pending_events.chunk_by(|(a, ..), (b, ..)| a == b) {
            let queue = events.first().and_then(|(id, ..)| self.watchers.queue(*id));
            if queue.is_some_and(|queue| queue.push(events, cache.options.watcher_queue_max)) {
                stats::add(&cache.counters.queue_overflows, 1);
            }
        }
        pending_events.clear();
        self.pending_events = pending_events;
    }
}
