//! How many transactions share a sync while many are written.
//!
//! A sync costs the same however much it makes durable. A committer that always goes at once gets only what came during
//! the last sync, and spends the time of the processor, which those who write need, on many small syncs. So it waits until
//! as many have come as last time, but not for long, and not at all where nobody writes beside others.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// For each transaction of the last batch it is waited at most this long. As long as fewer come in this time, batches
/// stay small and nobody waits for long; when more come, they grow.
const EACH: Duration = Duration::from_micros(200);

/// No batch is waited for longer than this.
const PATIENCE: Duration = Duration::from_millis(2);

/// More than there ever are.
const NOBODY: isize = isize::MAX;

/// Who waits for the committer, and for whom it waits.
#[derive(Debug)]
pub(super) struct Gathering {
    /// Transactions that are in no batch yet. For a moment less than none, when one is taken before it is counted.
    waiting: AtomicIsize,
    /// The committer sleeps until so many wait.
    wanted: AtomicIsize,
    committer: OnceLock<Thread>,
}

impl Default for Gathering {
    fn default() -> Self {
        Gathering {
            waiting: AtomicIsize::new(0),
            wanted: AtomicIsize::new(NOBODY),
            committer: OnceLock::new(),
        }
    }
}

impl Gathering {
    /// A transaction is in the queue.
    pub(super) fn arrived(&self) {
        let waiting = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        if waiting >= self.wanted.load(Ordering::SeqCst)
            && let Some(committer) = self.committer.get()
        {
            committer.unpark();
        }
    }

    /// So many are in a batch now.
    pub(super) fn taken(&self, count: usize) {
        self.waiting.fetch_sub(as_signed(count), Ordering::SeqCst);
    }

    /// Waits, as the committer, until as many are there as were in its last batch.
    pub(super) fn wait_for_more(&self, last_batch: usize) {
        if last_batch < 2 {
            return;
        }
        self.committer.get_or_init(thread::current);
        let wanted = as_signed(last_batch);
        let each = u32::try_from(last_batch).unwrap_or(u32::MAX);
        let deadline = Instant::now() + EACH.saturating_mul(each).min(PATIENCE);
        self.wanted.store(wanted, Ordering::SeqCst);
        while self.waiting.load(Ordering::SeqCst) < wanted {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::park_timeout(left);
        }
        self.wanted.store(NOBODY, Ordering::SeqCst);
    }
}

fn as_signed(count: usize) -> isize {
    isize::try_from(count).unwrap_or(isize::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Long enough that nothing but a wait for others can have taken it.
    const LONG: Duration = Duration::from_micros(350);

    fn time_of(wait: impl FnOnce()) -> Duration {
        let begun = Instant::now();
        wait();
        begun.elapsed()
    }

    #[test]
    fn one_who_writes_alone_waits_for_nobody() {
        let gathering = Gathering::default();
        let quickest = (0..20).map(|_| time_of(|| gathering.wait_for_more(1)));
        assert!(quickest.min() < Some(LONG));
    }

    #[test]
    fn those_who_do_not_come_are_not_waited_for_without_end() {
        let gathering = Gathering::default();
        let time = time_of(|| gathering.wait_for_more(2));
        assert!(time >= 2 * EACH, "{time:?}");
        let time = time_of(|| gathering.wait_for_more(1000));
        assert!(time >= PATIENCE, "{time:?}");
    }

    #[test]
    fn the_committer_goes_when_as_many_are_there_as_last_time() {
        let gathering = Arc::new(Gathering::default());
        // Each round the same number comes while the committer waits; that it need not wait to the end shows in the
        // quickest round, however busy the machine is.
        let round = || {
            let others = Arc::clone(&gathering);
            let writers = thread::spawn(move || (0..4).for_each(|_| others.arrived()));
            let time = time_of(|| gathering.wait_for_more(4));
            writers.join().expect("they arrived");
            gathering.taken(4);
            time
        };
        let quickest = (0..50).map(|_| round()).min();
        assert!(quickest < Some(PATIENCE), "{quickest:?}");
    }

    #[test]
    fn one_that_was_taken_before_it_was_counted_is_not_waited_for_later() {
        let gathering = Gathering::default();
        gathering.taken(1);
        gathering.arrived();
        assert_eq!(gathering.waiting.load(Ordering::SeqCst), 0);
    }
}
