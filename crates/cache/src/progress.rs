//! How far the caches are, and who waits for more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rhumb_meta::Revision;
use tokio::sync::{Notify, oneshot};

/// Every waiter is woken once, when its own revision has been applied: with one waiter for each write, waking
/// all of them at each change would cost more than the change.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    applied: AtomicU64,
    waiters: Mutex<Waiters>,
    /// Tells the reader that somebody began to wait.
    pub(crate) wanted: Notify,
}

#[derive(Debug, Default)]
struct Waiters {
    next_id: u64,
    by_revision: BTreeMap<(Revision, u64), oneshot::Sender<()>>,
}

impl Progress {
    /// All changes up to this revision are visible in every cache and have been told to every watcher.
    pub(crate) fn applied(&self) -> Revision {
        Revision::new(self.applied.load(Ordering::SeqCst))
    }

    /// Only the reader calls it, after it applied everything up to `revision`.
    pub(crate) fn advance(&self, revision: Revision) {
        let mut waiters = self.waiters();
        self.applied.store(revision.get(), Ordering::SeqCst);
        while let Some(first) = waiters.by_revision.first_entry() {
            if first.key().0 > revision {
                return;
            }
            // Whoever stopped waiting need not be told.
            let _ = first.remove().send(());
        }
    }

    /// Whether somebody waits for more.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.waiters().by_revision.is_empty()
    }

    /// Waits until `revision` has been applied. Dropping the future ends the waiting.
    pub(crate) async fn reach(&self, revision: Revision) {
        let Some((waiting, told)) = self.enlist(revision) else {
            return;
        };
        self.wanted.notify_one();
        // The sender lives in the map until it is used: an error cannot come before that.
        let _ = told.await;
        drop(waiting);
    }

    fn enlist(&self, revision: Revision) -> Option<(Waiting<'_>, oneshot::Receiver<()>)> {
        let mut waiters = self.waiters();
        // Under the lock, so that no advance falls between the look and the entry.
        if self.applied() >= revision {
            return None;
        }
        let (tell, told) = oneshot::channel();
        let key = (revision, waiters.next_id);
        waiters.next_id += 1;
        waiters.by_revision.insert(key, tell);
        let waiting = Waiting {
            progress: self,
            key,
        };
        Some((waiting, told))
    }

    /// A thread that panicked while it held the lock left nothing half done.
    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Strikes its waiter off the list, also when the wait is given up.
#[derive(Debug)]
struct Waiting<'a> {
    progress: &'a Progress,
    key: (Revision, u64),
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.progress.waiters().by_revision.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn each_waiter_is_told_when_its_own_revision_comes() {
        let progress = Progress::default();
        let at = |revision| progress.reach(Revision::new(revision));
        progress.advance(Revision::new(5));
        at(5).await;
        let soon = Duration::from_millis(1);
        let early = tokio::time::timeout(soon, async { tokio::join!(at(6), at(7)) }).await;
        assert!(early.is_err());
        assert!(!progress.is_wanted(), "whoever gave up is forgotten");
        let waiting = async { tokio::join!(at(6), at(7)) };
        let advancing = async {
            tokio::task::yield_now().await;
            progress.advance(Revision::new(6));
            assert!(progress.is_wanted());
            progress.advance(Revision::new(9));
            assert!(!progress.is_wanted());
        };
        tokio::join!(waiting, advancing);
        assert_eq!(progress.applied(), Revision::new(9));
    }
}
