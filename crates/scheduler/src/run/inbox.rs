//! The queue of the scheduling thread: watch events and binding results from many tasks, taken in batches. Bounded:
//! watches wait when it is full, which pushes back on the API server.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::Semaphore;

use crate::engine::SchedulerEvent;

/// Limit on queued watch events.
const QUEUED_EVENTS_MAX: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct SchedulerInbox {
    state: Mutex<InboxState>,
    changed: Condvar,
    capacity: Semaphore,
}

#[derive(Debug, Default)]
struct InboxState {
    events: Vec<SchedulerEvent>,
    /// The number of queued events that count against the limit.
    counted_events: usize,
    /// Woken without an event.
    is_woken: bool,
    unsynced_lists: usize,
    may_schedule: bool,
    /// The thread has seen that it may not schedule; all its earlier outcomes are sent.
    has_stopped: bool,
    is_closed: bool,
}

/// What the scheduling thread does after taking a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopAction {
    /// All lists are complete: schedule on the full state.
    Schedule,
    /// Apply events only: lists are incomplete, or scheduling was stopped.
    ApplyEventsOnly,
    Stop,
}

impl SchedulerInbox {
    /// Scheduling starts once this number of lists is complete.
    pub(super) fn new(lists: usize) -> SchedulerInbox {
        SchedulerInbox {
            state: Mutex::new(InboxState {
                unsynced_lists: lists,
                may_schedule: true,
                ..InboxState::default()
            }),
            changed: Condvar::new(),
            capacity: Semaphore::new(QUEUED_EVENTS_MAX),
        }
    }

    /// Queues a watch event; waits while the queue is full.
    pub(super) async fn send(&self, event: SchedulerEvent) {
        // The semaphore is never closed.
        if let Ok(permit) = self.capacity.acquire().await {
            permit.forget();
            let mut state = self.lock();
            state.events.push(event);
            state.counted_events += 1;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Queues the result of a write. Not limited: results are bounded by the number of writes in flight.
    pub(super) fn send_result(&self, result: SchedulerEvent) {
        self.lock().events.push(result);
        self.changed.notify_one();
    }

    /// The initial list of one watch has been sent completely.
    pub(super) fn list_synced(&self) {
        let mut state = self.lock();
        state.unsynced_lists = state.unsynced_lists.saturating_sub(1);
        state.is_woken = true;
        drop(state);
        self.changed.notify_one();
    }

    pub(super) fn wake(&self) {
        self.lock().is_woken = true;
        self.changed.notify_one();
    }

    /// Asks the thread to stop scheduling; `has_stopped` says when it has.
    pub(super) fn stop_scheduling(&self) {
        let mut state = self.lock();
        state.may_schedule = false;
        state.is_woken = true;
        drop(state);
        self.changed.notify_one();
    }

    /// Whether the thread will send no further outcomes.
    pub(super) fn has_stopped(&self) -> bool {
        self.lock().has_stopped
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Waits until there is an event or a wake-up, or until the deadline, and takes all events. `None` waits
    /// indefinitely.
    pub(super) fn take(
        &self,
        into: &mut Vec<SchedulerEvent>,
        until: Option<Instant>,
    ) -> LoopAction {
        let mut state = self.lock();
        while state.events.is_empty() && !state.is_woken && !state.is_closed {
            match until {
                None => self.changed.wait(&mut state),
                Some(until) if self.changed.wait_until(&mut state, until).timed_out() => break,
                Some(_) => {}
            }
        }
        into.append(&mut state.events);
        self.capacity
            .add_permits(std::mem::take(&mut state.counted_events));
        state.is_woken = false;
        state.has_stopped = !state.may_schedule;
        match &*state {
            InboxState {
                is_closed: true, ..
            } => LoopAction::Stop,
            InboxState {
                unsynced_lists: 0,
                may_schedule: true,
                ..
            } => LoopAction::Schedule,
            _ => LoopAction::ApplyEventsOnly,
        }
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        // No critical section can leave the state inconsistent, so poisoning is ignored.
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::Event;

    fn change() -> SchedulerEvent {
        SchedulerEvent::Node(Event::Deleted("n".into()))
    }

    #[tokio::test]
    async fn scheduling_starts_when_all_lists_are_synced() {
        let inbox = SchedulerInbox::new(2);
        let now = Some(Instant::now());
        let mut taken = Vec::new();
        assert_eq!(inbox.take(&mut taken, now), LoopAction::ApplyEventsOnly);
        inbox.send(change()).await;
        inbox.list_synced();
        assert_eq!(inbox.take(&mut taken, None), LoopAction::ApplyEventsOnly);
        inbox.list_synced();
        assert_eq!(inbox.take(&mut taken, None), LoopAction::Schedule);
        assert_eq!(taken.len(), 1);
        inbox.stop_scheduling();
        inbox.send_result(change());
        assert!(!inbox.has_stopped());
        assert_eq!(inbox.take(&mut taken, None), LoopAction::ApplyEventsOnly);
        assert!(inbox.has_stopped());
        assert_eq!(taken.len(), 2);
        inbox.close();
        assert_eq!(inbox.take(&mut taken, None), LoopAction::Stop);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_inbox_blocks_events_but_not_results() {
        let inbox = SchedulerInbox::new(0);
        for _ in 0..QUEUED_EVENTS_MAX {
            inbox.send(change()).await;
        }
        let full = tokio::time::timeout(Duration::from_secs(1), inbox.send(change())).await;
        assert!(full.is_err());
        inbox.send_result(change());
        let mut taken = Vec::new();
        inbox.take(&mut taken, None);
        assert_eq!(taken.len(), QUEUED_EVENTS_MAX + 1);
        inbox.send(change()).await;
        inbox.take(&mut taken, None);
        assert_eq!(taken.len(), QUEUED_EVENTS_MAX + 2);
    }
}
