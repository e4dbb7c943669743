//! Counters and histograms of one cache; the API server exports them as metrics.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::index::IndexedAttribute;

/// Current size of a cache, and its counters since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    pub objects: usize,
    /// Of the objects' JSON, with its watch frame.
    pub bytes: usize,
    /// Stored objects that failed to decode and are not served.
    pub corrupt: usize,
    pub watchers: usize,
    pub history_changes: usize,
    pub history_bytes: usize,
    /// Changes applied since the start.
    pub changes: u64,
    /// Events pushed into watcher queues since the start.
    pub delivered_events: u64,
    /// How often a watcher's queue was full, so that it had to catch up from the history.
    pub queue_overflows: u64,
    /// Watches that ended as expired because the history no longer had the next change.
    pub expired_watchers: u64,
    /// Objects that lists with selectors examined, and those that matched.
    pub list_examined: u64,
    pub list_matched: u64,
    /// Lists with selectors that used no index, and the objects that they examined.
    pub full_scans: u64,
    pub full_scan_examined: u64,
}

/// The live counters behind [`CacheStats`].
#[derive(Debug, Default)]
pub(crate) struct CacheCounters {
    pub(crate) changes: AtomicU64,
    pub(crate) delivered_events: AtomicU64,
    pub(crate) queue_overflows: AtomicU64,
    pub(crate) expired_watchers: AtomicU64,
    pub(crate) list_examined: AtomicU64,
    pub(crate) list_matched: AtomicU64,
    pub(crate) full_scans: AtomicU64,
    pub(crate) full_scan_examined: AtomicU64,
    /// Usage of dropped indexes, by attribute.
    dropped_indexes: Mutex<HashMap<IndexedAttribute, IndexUsage>>,
    pub(crate) watchers_evaluated: Histogram,
    pub(crate) dispatch_micros: Histogram,
}

/// Number of buckets: zero, powers of four from one on, and overflow.
const BUCKETS: usize = 12;

/// The contents of a [`Histogram`] at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// Inclusive upper bound and count of each bucket. Larger values are only in `count` and `sum`.
    pub buckets: Vec<(u64, u64)>,
    pub count: u64,
    pub sum: u64,
}

/// A lock-free histogram with exponential buckets.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// The first bucket counts zeros, the last is the overflow bucket.
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl Histogram {
    pub(crate) fn observe(&self, size: u64) {
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

    pub(crate) fn observe_duration(&self, time: Duration) {
        self.observe(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn snapshot(&self) -> HistogramSnapshot {
        let counts: Vec<u64> = self.buckets.iter().map(read).collect();
        let bounds = std::iter::once(0).chain((0..).map(|power| 4u64.pow(power)));
        HistogramSnapshot {
            count: counts.iter().sum(),
            sum: read(&self.sum),
            buckets: bounds.zip(counts).take(BUCKETS - 1).collect(),
        }
    }
}

/// Lists that used an index, and the objects that they examined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexUsage {
    pub lists: u64,
    pub examined: u64,
}

/// Usage is kept for at most this many dropped indexes: clients choose the label keys, so the number is unbounded.
const DROPPED_INDEXES_MAX: usize = 128;

impl CacheCounters {
    /// Keeps the usage counters of an index that is dropped.
    pub(crate) fn add_dropped_index(&self, attribute: IndexedAttribute, usage: IndexUsage) {
        let mut retired = self.dropped_indexes.lock();
        if retired.len() < DROPPED_INDEXES_MAX || retired.contains_key(&attribute) {
            let count = retired.entry(attribute).or_default();
            count.lists += usage.lists;
            count.examined += usage.examined;
        }
    }

    pub(crate) fn dropped_indexes(&self) -> HashMap<IndexedAttribute, IndexUsage> {
        let retired = self.dropped_indexes.lock();
        retired.clone()
    }

    pub(crate) fn record_list(&self, examined: usize, matched: usize, is_scan: bool) {
        add(&self.list_examined, examined as u64);
        add(&self.list_matched, matched as u64);
        if is_scan {
            add(&self.full_scans, 1);
            add(&self.full_scan_examined, examined as u64);
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
    fn values_are_counted_in_the_right_bucket() {
        let histogram = Histogram::default();
        for size in [0, 0, 1, 2, 4, 5, 16, 17, u64::MAX / 2] {
            histogram.observe(size);
        }
        let read = histogram.snapshot();
        let filled = [(0, 2), (1, 1), (4, 2), (16, 2), (64, 1)];
        assert_eq!(read.buckets[..5], filled);
        assert_eq!(read.buckets.len(), BUCKETS - 1);
        assert_eq!(read.count, 9, "the overflow bucket is part of the count");
    }
}
