//! The applied revision of all caches, and the tasks that wait for a later one. Corresponds to upstream's
//! `waitUntilFreshAndBlock`.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use rhumb_meta::Revision;
use tokio::sync::{Notify, oneshot};

/// The revision up to which all changes have been applied.
///
/// Each waiter is woken once, when its own revision has been applied: with one waiter per write, waking all of them
/// at every change would cost more than the change itself.
#[derive(Debug, Default)]
pub(crate) struct AppliedRevision {
    get: AtomicU64,
    waiters: Mutex<RevisionWaiters>,
    /// Notifies the store reflector that a waiter was added, so that it requests progress.
    pub(crate) waiter_added: Notify,
}

/// Tasks that wait, ordered by the revision that they wait for.
#[derive(Debug, Default)]
struct RevisionWaiters {
    next_id: u64,
    by_revision: BTreeMap<(Revision, u64), oneshot::Sender<()>>,
}

impl AppliedRevision {
    /// All changes up to this revision are visible in every cache and have been dispatched to every watcher.
    pub(crate) fn applied(&self) -> Revision {
        Revision::new(self.get.load(Ordering::SeqCst))
    }

    /// Called only by the store reflector, after it has applied everything up to `revision`.
    pub(crate) fn advance(&self, revision: Revision) {
        let mut waiters = self.waiters();
        self.get.store(revision.get(), Ordering::SeqCst);
        while let Some(first) = waiters.by_revision.first_entry() {
            if first.key().0 > revision {
                return;
            }
            // The send fails if the waiter has given up.
            let _ = first.remove().send(());
        }
    }

    /// Whether a task waits for a later revision.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiters().by_revision.is_empty()
    }

    /// Waits until `revision` has been applied. Cancel safe.
    pub(crate) async fn wait_for(&self, revision: Revision) {
        let Some((guard, applied)) = self.register_waiter(revision) else {
            return;
        };
        self.waiter_added.notify_one();
        // The sender stays in the map until it is used, so the receiver cannot fail before that.
        let _ = applied.await;
        drop(guard);
    }

    fn register_waiter(
        &self,
        revision: Revision,
    ) -> Option<(RevisionWaiterGuard<'_>, oneshot::Receiver<()>)> {
        let mut waiters = self.waiters();
        // Checked under the lock, so that no advance can happen between the check and the insertion.
        if self.applied() >= revision {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let key = (revision, waiters.next_id);
        waiters.next_id += 1;
        waiters.by_revision.insert(key, sender);
        let guard = RevisionWaiterGuard {
            progress: self,
            key,
        };
        Some((guard, receiver))
    }

    /// Ignores poisoning: no critical section leaves the state inconsistent.
    fn waiters(&self) -> MutexGuard<'_, RevisionWaiters> {
        self.waiters.lock()
    }
}

/// Removes its waiter when dropped, also if the wait was cancelled.
#[derive(Debug)]
struct RevisionWaiterGuard<'a> {
    progress: &'a AppliedRevision,
    key: (Revision, u64),
}

impl Drop for RevisionWaiterGuard<'_> {
    fn drop(&mut self) {
        self.progress.waiters().by_revision.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn each_waiter_is_woken_when_its_own_revision_is_applied() {
        let progress = AppliedRevision::default();
        let at = |revision| progress.wait_for(Revision::new(revision));
        progress.advance(Revision::new(5));
        at(5).await;
        let soon = Duration::from_millis(1);
        let early = tokio::time::timeout(soon, async { tokio::join!(at(6), at(7)) }).await;
        assert!(early.is_err());
        assert!(!progress.has_waiters(), "cancelled waiters are removed");
        let waiting = async { tokio::join!(at(6), at(7)) };
        let advancing = async {
            tokio::task::yield_now().await;
            progress.advance(Revision::new(6));
            assert!(progress.has_waiters());
            progress.advance(Revision::new(9));
            assert!(!progress.has_waiters());
        };
        tokio::join!(waiting, advancing);
        assert_eq!(progress.applied(), Revision::new(9));
    }
}
