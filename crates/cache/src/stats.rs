//! Numbers about one cache.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::index::{Attribute, IndexStats};

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
    /// Objects that lists with selectors looked at, and those that they picked.
    pub list_looked_at: u64,
    pub list_picked: u64,
    /// Lists with selectors that no index served, and the objects that they looked at.
    pub scans: u64,
    pub scan_looked_at: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) changes: AtomicU64,
    pub(crate) deliveries: AtomicU64,
    pub(crate) overflows: AtomicU64,
    pub(crate) terminated: AtomicU64,
    pub(crate) list_looked_at: AtomicU64,
    pub(crate) list_picked: AtomicU64,
    pub(crate) scans: AtomicU64,
    pub(crate) scan_looked_at: AtomicU64,
    /// What indexes that are no more had done, by their attributes.
    retired: Mutex<HashMap<Attribute, ListCount>>,
    pub(crate) watchers_asked: Histogram,
    pub(crate) dispatch_micros: Histogram,
}

/// How many buckets a distribution has: powers of four from one on, and what is beyond.
const BUCKETS: usize = 12;

/// How often something had which size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// The largest size in a bucket, and how many there were in it; those beyond all buckets are in none.
    pub buckets: Vec<(u64, u64)>,
    pub count: u64,
    pub sum: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// The first is for nothing.
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl Histogram {
    pub(crate) fn note(&self, size: u64) {
        let bucket = match size.checked_sub(1) {
            None => 0,
            Some(0) => 1,
            Some(below) => below.ilog(4) as usize + 2,
        };
        if let Some(bucket) = self.buckets.get(bucket.min(BUCKETS - 1)) {
            add(bucket, 1);
        }
        add(&self.sum, size);
    }

    pub(crate) fn note_time(&self, time: Duration) {
        self.note(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn read(&self) -> Distribution {
        let counts: Vec<u64> = self.buckets.iter().map(read).collect();
        let bounds = std::iter::once(0).chain((0..).map(|power| 4u64.pow(power)));
        Distribution {
            count: counts.iter().sum(),
            sum: read(&self.sum),
            buckets: bounds.zip(counts).take(BUCKETS - 1).collect(),
        }
    }
}

/// Lists, and the objects that they looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListCount {
    pub lists: u64,
    pub looked_at: u64,
}

/// Indexes beyond so many are forgotten when they go: clients choose their names.
const RETIRED_MAX: usize = 128;

impl Counters {
    /// An index is dropped; what it did stays counted.
    pub(crate) fn retire(&self, stats: &IndexStats) {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        if retired.len() < RETIRED_MAX || retired.contains_key(&stats.attribute) {
            let count = retired.entry(stats.attribute.clone()).or_default();
            count.lists += stats.lists;
            count.looked_at += stats.looked_at;
        }
    }

    pub(crate) fn retired(&self) -> HashMap<Attribute, ListCount> {
        let retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.clone()
    }

    pub(crate) fn note_list(&self, looked_at: usize, picked: usize, is_scan: bool) {
        add(&self.list_looked_at, looked_at as u64);
        add(&self.list_picked, picked as u64);
        if is_scan {
            add(&self.scans, 1);
            add(&self.scan_looked_at, looked_at as u64);
        }
    }
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_the_bucket_that_they_fit_in() {
        let histogram = Histogram::default();
        for size in [0, 0, 1, 2, 4, 5, 16, 17, u64::MAX / 2] {
            histogram.note(size);
        }
        let read = histogram.read();
        let filled = [(0, 2), (1, 1), (4, 2), (16, 2), (64, 1)];
        assert_eq!(read.buckets[..5], filled);
        assert_eq!(read.buckets.len(), BUCKETS - 1);
        assert_eq!(read.count, 9, "the last is beyond all buckets");
    }
}
