//! Numbers about one cache.

use std::sync::atomic::{AtomicU64, Ordering};

/// How large a cache is and what it did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    pub objects: usize,
    /// Of the objects' JSON.
    pub bytes: usize,
    /// Objects that are stored but cannot be served.
    pub unreadable: usize,
    pub watchers: usize,
    pub history_changes: usize,
    pub history_bytes: usize,
    /// Changes applied since the start.
    pub changes: u64,
    /// Events put into the queues of watchers since the start.
    pub deliveries: u64,
    /// How often a watcher had to catch up from the history because its queue was full.
    pub overflows: u64,
    /// Watchers that ended because the history no longer had what they needed.
    pub terminated: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) changes: AtomicU64,
    pub(crate) deliveries: AtomicU64,
    pub(crate) overflows: AtomicU64,
    pub(crate) terminated: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
