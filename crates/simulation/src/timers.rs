//! One queue for everything that happens later.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tokio::time::Instant;

/// What was put in comes out when its time has come, the earliest first.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    heap: BinaryHeap<Timer<T>>,
}

#[derive(Debug)]
struct Timer<T> {
    at: Instant,
    what: T,
}

impl<T> Timers<T> {
    pub(crate) fn new() -> Timers<T> {
        Timers {
            heap: BinaryHeap::new(),
        }
    }

    pub(crate) fn add(&mut self, at: Instant, what: T) {
        self.heap.push(Timer { at, what });
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|timer| timer.at)
    }

    /// One that is due, if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> Option<T> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|timer| timer.what)
    }
}

impl<T> PartialEq for Timer<T> {
    fn eq(&self, other: &Timer<T>) -> bool {
        self.at == other.at
    }
}

impl<T> Eq for Timer<T> {}

impl<T> PartialOrd for Timer<T> {
    fn partial_cmp(&self, other: &Timer<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The heap has the greatest on top: that is to be the earliest.
impl<T> Ord for Timer<T> {
    fn cmp(&self, other: &Timer<T>) -> Ordering {
        other.at.cmp(&self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_earliest_comes_first_and_none_before_its_time() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut timers = Timers::new();
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
