//! What the thread that decides is told: from many tasks, in batches, and never too much at once.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Semaphore;

use crate::engine::Change;

/// Changes that may wait. Those who watch wait beyond that, and the server with them.
const WAITING_MAX: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    arrived: Condvar,
    room: Semaphore,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Change>,
    /// How many of them took room.
    watched: usize,
    /// Something happened that is no change.
    is_woken: bool,
    lists_missing: usize,
    may_decide: bool,
    /// The thread knows that it may not, and has told all that it decided before.
    has_stopped: bool,
    is_closed: bool,
}

/// What the thread may do after it took a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permission {
    /// All lists are in, so that whatever is decided is decided on all that there is.
    Decide,
    /// Something is still to come, or it is time to end.
    Listen,
    End,
}

impl Mailbox {
    /// So many lists have to be complete before anything is decided.
    pub(super) fn new(lists: usize) -> Mailbox {
        Mailbox {
            state: Mutex::new(State {
                lists_missing: lists,
                may_decide: true,
                ..State::default()
            }),
            arrived: Condvar::new(),
            room: Semaphore::new(WAITING_MAX),
        }
    }

    /// Puts a change in as soon as there is room.
    pub(super) async fn send(&self, change: Change) {
        // It is closed by nobody.
        if let Ok(permit) = self.room.acquire().await {
            permit.forget();
            let mut state = self.lock();
            state.waiting.push(change);
            state.watched += 1;
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// Answers to what was decided are as few as decisions may be under way: they need no room.
    pub(super) fn answer(&self, change: Change) {
        self.lock().waiting.push(change);
        self.arrived.notify_one();
    }

    /// All that is there when a watch begins has been sent, of one of the lists.
    pub(super) fn list_is_complete(&self) {
        let mut state = self.lock();
        state.lists_missing = state.lists_missing.saturating_sub(1);
        state.is_woken = true;
        drop(state);
        self.arrived.notify_one();
    }

    pub(super) fn wake(&self) {
        self.lock().is_woken = true;
        self.arrived.notify_one();
    }

    /// As soon as the thread hears of it, nothing is decided any more: see [`Mailbox::has_stopped`].
    pub(super) fn stop_deciding(&self) {
        let mut state = self.lock();
        state.may_decide = false;
        state.is_woken = true;
        drop(state);
        self.arrived.notify_one();
    }

    /// Whether nothing more is to come of the thread.
    pub(super) fn has_stopped(&self) -> bool {
        self.lock().has_stopped
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Waits until something is there, or for as long as it is said, and takes all of it. `None` waits for as long as
    /// it takes.
    pub(super) fn take(&self, into: &mut Vec<Change>, until: Option<Instant>) -> Permission {
        let mut state = self.lock();
        while state.waiting.is_empty() && !state.is_woken && !state.is_closed {
            state = match until {
                None => self
                    .arrived
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    let waited = self.arrived.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        into.append(&mut state.waiting);
        self.room.add_permits(std::mem::take(&mut state.watched));
        state.is_woken = false;
        state.has_stopped = !state.may_decide;
        match &*state {
            State {
                is_closed: true, ..
            } => Permission::End,
            State {
                lists_missing: 0,
                may_decide: true,
                ..
            } => Permission::Decide,
            _ => Permission::Listen,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No state is left half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn change() -> Change {
        Change::NodeGone { name: "n".into() }
    }

    #[tokio::test]
    async fn nothing_is_decided_before_all_lists_are_in() {
        let mailbox = Mailbox::new(2);
        let now = Some(Instant::now());
        let mut taken = Vec::new();
        assert_eq!(mailbox.take(&mut taken, now), Permission::Listen);
        mailbox.send(change()).await;
        mailbox.list_is_complete();
        assert_eq!(mailbox.take(&mut taken, None), Permission::Listen);
        mailbox.list_is_complete();
        assert_eq!(mailbox.take(&mut taken, None), Permission::Decide);
        assert_eq!(taken.len(), 1);
        mailbox.stop_deciding();
        mailbox.answer(change());
        assert!(!mailbox.has_stopped());
        assert_eq!(mailbox.take(&mut taken, None), Permission::Listen);
        assert!(mailbox.has_stopped());
        assert_eq!(taken.len(), 2);
        mailbox.close();
        assert_eq!(mailbox.take(&mut taken, None), Permission::End);
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_too_much_waits_and_answers_do_not() {
        let mailbox = Mailbox::new(0);
        for _ in 0..WAITING_MAX {
            mailbox.send(change()).await;
        }
        let full = tokio::time::timeout(Duration::from_secs(1), mailbox.send(change())).await;
        assert!(full.is_err());
        mailbox.answer(change());
        let mut taken = Vec::new();
        mailbox.take(&mut taken, None);
        assert_eq!(taken.len(), WAITING_MAX + 1);
        mailbox.send(change()).await;
        mailbox.take(&mut taken, None);
        assert_eq!(taken.len(), WAITING_MAX + 2);
    }
}
