//! Moves of pods between the queues.

use std::time::Instant;

use super::order::QueueOrderKey;
use super::{QueuedPodState, SchedulingQueue};
use crate::cluster::PodId;

impl SchedulingQueue {
    pub(super) fn state(&self, id: PodId) -> Option<QueuedPodState> {
        self.pods.get(&id).map(|waiting| waiting.state)
    }

    /// Puts a pod back into the queue it was in, which is not counted as incoming.
    pub(super) fn reenter(&mut self, id: PodId, state: QueuedPodState) {
        self.incoming.event = None;
        self.enter(id, state);
    }

    /// Puts a pod into a queue.
    pub(super) fn enter(&mut self, id: PodId, state: QueuedPodState) {
        self.incoming.record(state);
        let Some(waiting) = self.pods.get_mut(&id) else {
            return;
        };
        waiting.state = state;
        let order = waiting.order;
        match state {
            QueuedPodState::Active => {
                self.active.insert(order, id);
            }
            QueuedPodState::Backoff { until, is_ready } => {
                self.backoff_by_expiry.insert(order.time_key_at(until), id);
                if is_ready {
                    self.backoff_ready.insert(order, id);
                }
            }
            QueuedPodState::Unschedulable => {
                self.unschedulable.insert(order.time_key(), id);
                self.classes.add_unschedulable(waiting.class, order, id);
            }
            QueuedPodState::Gated => self.gated += 1,
            QueuedPodState::InFlight => self.in_flight += 1,
        }
    }

    /// Takes a pod out of its queue. The caller must put it into another one, or remove it.
    pub(super) fn exit(&mut self, id: PodId) {
        let Some(waiting) = self.pods.get(&id) else {
            return;
        };
        let order = waiting.order;
        match waiting.state {
            QueuedPodState::Active => {
                self.active.remove(&order);
            }
            QueuedPodState::Backoff { until, .. } => {
                self.backoff_by_expiry.remove(&order.time_key_at(until));
                self.backoff_ready.remove(&order);
            }
            QueuedPodState::Unschedulable => {
                self.unschedulable.remove(&order.time_key());
                self.classes.remove_unschedulable(waiting.class, order);
            }
            QueuedPodState::Gated => self.gated -= 1,
            QueuedPodState::InFlight => self.in_flight -= 1,
        }
    }

    pub(super) fn new_order(&mut self, priority: i32, now: Instant) -> QueueOrderKey {
        let sequence = self.next_sequence();
        QueueOrderKey::new(priority, now, sequence)
    }

    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}
