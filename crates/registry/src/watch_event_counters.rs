//! Counters of watch events and their sizes, per served version (metrics `apiserver_watch_events_total` and `_sizes`).

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the size histogram in bytes, as upstream has them. Larger events go to a last bucket.
pub const EVENT_SIZE_BUCKETS: [usize; 8] = [
    1 << 10,
    1 << 11,
    1 << 12,
    1 << 13,
    1 << 14,
    1 << 15,
    1 << 16,
    1 << 17,
];

/// Lock-free counters that all watches of a version share.
#[derive(Debug, Default)]
pub struct WatchEventCounters {
    by_size: [AtomicU64; EVENT_SIZE_BUCKETS.len() + 1],
    bytes: AtomicU64,
}

/// A snapshot of the counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WatchEventTotals {
    /// Events in each bucket of `EVENT_SIZE_BUCKETS` (not cumulative), then those larger than the last bound.
    pub by_size: [u64; EVENT_SIZE_BUCKETS.len() + 1],
    pub bytes: u64,
}

impl WatchEventTotals {
    pub fn events(&self) -> u64 {
        self.by_size.iter().sum()
    }
}

impl WatchEventCounters {
    /// Counts an event of this size. Its bytes are added by `add_bytes`, for many events at a time.
    pub fn count_event(&self, bytes: usize) {
        let step = EVENT_SIZE_BUCKETS.partition_point(|&size| size < bytes);
        if let Some(counter) = self.by_size.get(step) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn totals(&self) -> WatchEventTotals {
        WatchEventTotals {
            by_size: std::array::from_fn(|step| {
                self.by_size
                    .get(step)
                    .map_or(0, |counter| counter.load(Ordering::Relaxed))
            }),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_by_size() {
        let events = WatchEventCounters::default();
        for bytes in [0, 1024, 1025, 131_072, 131_073, 10_000_000] {
            events.count_event(bytes);
        }
        events.add_bytes(7);
        let expect = WatchEventTotals {
            by_size: [2, 1, 0, 0, 0, 0, 0, 1, 2],
            bytes: 7,
        };
        assert_eq!(events.totals(), expect);
        assert_eq!(expect.events(), 6);
    }
}
