//! How many transactions share a sync while many are written.
//!
//! A sync costs about the same however much it makes durable. A committer that always goes at once gets only what came
//! during the last sync, and spends the time of the processor, which those who write need, on many small syncs. So it waits
//! for as many as it had the last time. What comes while it syncs makes the next batch larger, and who does not come in time
//! makes it smaller; where transactions come one by one it waits for nobody.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// For each transaction of the last batch it is waited at most this long: where they come more slowly, it is not worth it.
const EACH: Duration = Duration::from_micros(200);

/// It is waited at most for so many times what the last batch took: a sync that takes no time is no reason to wait.
const BATCHES: u32 = 16;

/// No batch is waited for longer than this, and none that was longer ago says who will come.
const PATIENCE: Duration = Duration::from_millis(4);

/// More than there ever are.
const NOBODY: isize = isize::MAX;

/// What the committer wrote the last time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    pub(super) transactions: usize,
    pub(super) took: Duration,
    pub(super) ended: Instant,
}

impl Batch {
    /// How long to wait for as many transactions.
    fn worth_waiting(&self, now: Instant) -> Duration {
        if self.transactions < 2 || now.duration_since(self.ended) > PATIENCE {
            return Duration::ZERO;
        }
        let count = u32::try_from(self.transactions).unwrap_or(u32::MAX);
        let limits = [EACH.saturating_mul(count), self.took * BATCHES, PATIENCE];
        limits.into_iter().min().unwrap_or_default()
    }
}

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

    /// Waits, as the committer, until as many are there as were in its last batch, if that is worth it.
    pub(super) fn wait_for_as_many_as(&self, last: &Batch) {
        let begun = Instant::now();
        let deadline = begun + last.worth_waiting(begun);
        if deadline == begun {
            return;
        }
        self.committer.get_or_init(thread::current);
        let wanted = as_signed(last.transactions);
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

    const LONG: Duration = Duration::from_secs(1);

    fn batch(transactions: usize, took: Duration) -> Batch {
        Batch {
            transactions,
            took,
            ended: Instant::now(),
        }
    }

    #[test]
    fn how_long_it_waits_depends_on_the_last_batch() {
        let check = |transactions, took: Duration, since: Duration, expect: Duration| {
            let last = batch(transactions, took);
            let waits = last.worth_waiting(last.ended + since);
            assert_eq!(waits, expect, "{transactions}, {took:?}, {since:?} ago");
        };
        let (now, sync) = (Duration::ZERO, Duration::from_micros(120));
        check(0, sync, now, Duration::ZERO);
        check(1, LONG, now, Duration::ZERO);
        check(2, sync, now, 2 * EACH);
        check(9, sync, now, 9 * EACH);
        check(11, sync, now, BATCHES * sync);
        check(1000, LONG, now, PATIENCE);
        check(1000, Duration::ZERO, now, Duration::ZERO);
        check(1000, LONG, PATIENCE, PATIENCE);
        check(1000, LONG, 2 * PATIENCE, Duration::ZERO);
    }

    #[test]
    fn those_who_do_not_come_are_not_waited_for_without_end() {
        let begun = Instant::now();
        Gathering::default().wait_for_as_many_as(&batch(2, LONG));
        assert!(begun.elapsed() >= 2 * EACH);
    }

    #[test]
    fn the_committer_goes_when_as_many_are_there_as_last_time() {
        const WRITERS: usize = 50;
        let gathering = Arc::new(Gathering::default());
        let round = || {
            let others = Arc::clone(&gathering);
            let writers = thread::spawn(move || {
                while others.wanted.load(Ordering::SeqCst) == NOBODY {
                    thread::yield_now();
                }
                (0..WRITERS).for_each(|_| others.arrived());
            });
            let begun = Instant::now();
            gathering.wait_for_as_many_as(&batch(WRITERS, LONG));
            let waited = begun.elapsed();
            // If they came too late, nobody waits for them any more.
            gathering.wanted.store(0, Ordering::SeqCst);
            writers.join().expect("they arrived");
            gathering.wanted.store(NOBODY, Ordering::SeqCst);
            gathering.taken(WRITERS);
            waited
        };
        // However busy the machine is, there is a round in which they come in time.
        let quickest = (0..200).map(|_| round()).min();
        assert!(quickest < Some(PATIENCE / 2), "{quickest:?}");
    }

    #[test]
    fn one_that_was_taken_before_it_was_counted_is_not_waited_for_later() {
        let gathering = Gathering::default();
        gathering.taken(1);
        gathering.arrived();
        assert_eq!(gathering.waiting.load(Ordering::SeqCst), 0);
    }
}
