//! Group commit delay: how long the committer waits for more transactions to share a sync (PostgreSQL: `commit_delay`).
//!
//! A sync costs about the same however much it writes. A committer that never waits only gets the transactions that
//! arrived during the last sync, and spends CPU time on many small syncs. So it waits until as many transactions are
//! queued as were in the last batch. Transactions that arrive during the sync make the next batch larger; a timeout
//! makes it smaller. With a single writer it does not wait.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The maximum wait per transaction of the last batch: if transactions arrive more slowly, waiting does not pay off.
const WAIT_PER_TRANSACTION: Duration = Duration::from_micros(200);

/// The maximum wait as a multiple of the duration of the last commit: with fast syncs waiting does not pay off.
const WAIT_PER_COMMIT_TIME: u32 = 16;

/// The maximum wait. A last batch that is older than this does not predict the next one.
const WAIT_MAX: Duration = Duration::from_millis(4);

/// A wake threshold that is never reached.
const NO_WAKE_THRESHOLD: isize = isize::MAX;

/// Size and timing of the last batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastBatchStats {
    pub(super) transactions: usize,
    pub(super) commit_time: Duration,
    pub(super) finished_at: Instant,
}

impl LastBatchStats {
    /// How long to wait at most for the same number of transactions.
    fn max_wait(&self, now: Instant) -> Duration {
        if self.transactions < 2 || now.duration_since(self.finished_at) > WAIT_MAX {
            return Duration::ZERO;
        }
        let count = u32::try_from(self.transactions).unwrap_or(u32::MAX);
        let limits = [
            WAIT_PER_TRANSACTION.saturating_mul(count),
            self.commit_time * WAIT_PER_COMMIT_TIME,
            WAIT_MAX,
        ];
        limits.into_iter().min().unwrap_or_default()
    }
}

/// Counts queued transactions and lets the committer wait for enough of them.
#[derive(Debug)]
pub(super) struct GroupCommitDelay {
    /// Queued transactions. Briefly negative when one is dequeued before it is counted.
    queued: AtomicIsize,
    /// The committer sleeps until this many are queued.
    wake_threshold: AtomicIsize,
    committer_thread: OnceLock<Thread>,
}

impl Default for GroupCommitDelay {
    fn default() -> Self {
        GroupCommitDelay {
            queued: AtomicIsize::new(0),
            wake_threshold: AtomicIsize::new(NO_WAKE_THRESHOLD),
            committer_thread: OnceLock::new(),
        }
    }
}

impl GroupCommitDelay {
    /// Called after a transaction was queued.
    pub(super) fn transaction_queued(&self) {
        let waiting = self.queued.fetch_add(1, Ordering::SeqCst) + 1;
        if waiting >= self.wake_threshold.load(Ordering::SeqCst)
            && let Some(committer) = self.committer_thread.get()
        {
            committer.unpark();
        }
    }

    /// Called when `count` transactions were taken from the queue.
    pub(super) fn transactions_dequeued(&self, count: usize) {
        self.queued.fetch_sub(as_signed(count), Ordering::SeqCst);
    }

    /// Blocks the committer until as many transactions are queued as were in the last batch, or the maximum wait
    /// passes.
    pub(super) fn wait_for_batch_like(&self, last: &LastBatchStats) {
        let started = Instant::now();
        let deadline = started + last.max_wait(started);
        if deadline == started {
            return;
        }
        self.committer_thread.get_or_init(thread::current);
        let wanted = as_signed(last.transactions);
        self.wake_threshold.store(wanted, Ordering::SeqCst);
        while self.queued.load(Ordering::SeqCst) < wanted {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::park_timeout(left);
        }
        self.wake_threshold
            .store(NO_WAKE_THRESHOLD, Ordering::SeqCst);
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

    fn batch(transactions: usize, took: Duration) -> LastBatchStats {
        LastBatchStats {
            transactions,
            commit_time: took,
            finished_at: Instant::now(),
        }
    }

    #[test]
    fn the_wait_depends_on_the_last_batch() {
        let check = |transactions, took: Duration, since: Duration, expect: Duration| {
            let last = batch(transactions, took);
            let waits = last.max_wait(last.finished_at + since);
            assert_eq!(waits, expect, "{transactions}, {took:?}, {since:?} ago");
        };
        let (now, sync) = (Duration::ZERO, Duration::from_micros(120));
        check(0, sync, now, Duration::ZERO);
        check(1, LONG, now, Duration::ZERO);
        check(2, sync, now, 2 * WAIT_PER_TRANSACTION);
        check(9, sync, now, 9 * WAIT_PER_TRANSACTION);
        check(11, sync, now, WAIT_PER_COMMIT_TIME * sync);
        check(1000, LONG, now, WAIT_MAX);
        check(1000, Duration::ZERO, now, Duration::ZERO);
        check(1000, LONG, WAIT_MAX, WAIT_MAX);
        check(1000, LONG, 2 * WAIT_MAX, Duration::ZERO);
    }

    #[test]
    fn the_wait_for_missing_writers_is_bounded() {
        let started = Instant::now();
        GroupCommitDelay::default().wait_for_batch_like(&batch(2, LONG));
        assert!(started.elapsed() >= 2 * WAIT_PER_TRANSACTION);
    }

    #[test]
    fn the_committer_wakes_when_the_last_batch_size_is_reached() {
        const WRITERS: usize = 50;
        let group_commit = Arc::new(GroupCommitDelay::default());
        let round = || {
            let others = Arc::clone(&group_commit);
            let writers = thread::spawn(move || {
                while others.wake_threshold.load(Ordering::SeqCst) == NO_WAKE_THRESHOLD {
                    thread::yield_now();
                }
                (0..WRITERS).for_each(|_| others.transaction_queued());
            });
            let started = Instant::now();
            group_commit.wait_for_batch_like(&batch(WRITERS, LONG));
            let waited = started.elapsed();
            // If the writers were too late, let their loop end.
            group_commit.wake_threshold.store(0, Ordering::SeqCst);
            writers.join().expect("writer thread");
            group_commit
                .wake_threshold
                .store(NO_WAKE_THRESHOLD, Ordering::SeqCst);
            group_commit.transactions_dequeued(WRITERS);
            waited
        };
        // Even on a busy machine there is a round in which the writers are in time.
        let quickest = (0..200).map(|_| round()).min();
        assert!(quickest < Some(WAIT_MAX / 2), "{quickest:?}");
    }

    #[test]
    fn a_transaction_dequeued_before_it_is_counted_is_not_counted() {
        let group_commit = GroupCommitDelay::default();
        group_commit.transactions_dequeued(1);
        group_commit.transaction_queued();
        assert_eq!(group_commit.queued.load(Ordering::SeqCst), 0);
    }
}
