//! How many events the watches of one version were sent, and how large those were.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upstream's steps, in bytes. What is larger than the last has a place of its own.
pub const SIZES: [usize; 8] = [
    1 << 10,
    1 << 11,
    1 << 12,
    1 << 13,
    1 << 14,
    1 << 15,
    1 << 16,
    1 << 17,
];

/// Written by every watch of the version, and never locked.
#[derive(Debug, Default)]
pub struct WatchEvents {
    by_size: [AtomicU64; SIZES.len() + 1],
    bytes: AtomicU64,
}

/// What was sent so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Events of up to each of [`SIZES`] that are larger than the size before it, and of any size.
    pub by_size: [u64; SIZES.len() + 1],
    pub bytes: u64,
}

impl Sent {
    pub fn events(&self) -> u64 {
        self.by_size.iter().sum()
    }
}

impl WatchEvents {
    /// Counts an event of so many bytes, but not its bytes: those a watch adds up itself, for many at a time.
    pub fn count(&self, bytes: usize) {
        let step = SIZES.partition_point(|&size| size < bytes);
        if let Some(counter) = self.by_size.get(step) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn sent(&self) -> Sent {
        Sent {
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
        let events = WatchEvents::default();
        for bytes in [0, 1024, 1025, 131_072, 131_073, 10_000_000] {
            events.count(bytes);
        }
        events.add_bytes(7);
        let expect = Sent {
            by_size: [2, 1, 0, 0, 0, 0, 0, 1, 2],
            bytes: 7,
        };
        assert_eq!(events.sent(), expect);
        assert_eq!(expect.events(), 6);
    }
}
