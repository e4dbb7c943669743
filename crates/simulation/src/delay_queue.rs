//! Priority queue of delayed items (a simple version of tokio-util's `DelayQueue`).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tokio::time::Instant;

/// Yields each item once its deadline has passed, earliest first.
#[derive(Debug)]
pub(crate) struct DelayQueue<T> {
    heap: BinaryHeap<DelayedItem<T>>,
}

#[derive(Debug)]
struct DelayedItem<T> {
    at: Instant,
    what: T,
}

impl<T> DelayQueue<T> {
    pub(crate) fn new() -> DelayQueue<T> {
        DelayQueue {
            heap: BinaryHeap::new(),
        }
    }

    pub(crate) fn add(&mut self, at: Instant, what: T) {
        self.heap.push(DelayedItem { at, what });
    }

    /// Deadline of the earliest item.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|timer| timer.at)
    }

    /// Removes the earliest item if it is due.
    pub(crate) fn take(&mut self, now: Instant) -> Option<T> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|timer| timer.what)
    }
}

impl<T> PartialEq for DelayedItem<T> {
    fn eq(&self, other: &DelayedItem<T>) -> bool {
        self.at == other.at
    }
}

impl<T> Eq for DelayedItem<T> {}

impl<T> PartialOrd for DelayedItem<T> {
    fn partial_cmp(&self, other: &DelayedItem<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Reversed: `BinaryHeap` is a max-heap, and the earliest item must be on top.
impl<T> Ord for DelayedItem<T> {
    fn cmp(&self, other: &DelayedItem<T>) -> Ordering {
        other.at.cmp(&self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn items_are_popped_in_order_when_due() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut timers = DelayQueue::new();
        timers.add(at(3), "c");
        timers.add(at(1), "a");
        timers.add(at(2), "b");
        assert_eq!(timers.take(begin), None);
        assert_eq!(timers.next(), Some(at(1)));
        assert_eq!(timers.take(at(2)), Some("a"));
        assert_eq!(timers.take(at(2)), Some("b"));
        assert_eq!(timers.take(at(2)), None);
        assert_eq!(timers.take(at(3)), Some("c"));
        assert_eq!(timers.next(), None);
    }
}
