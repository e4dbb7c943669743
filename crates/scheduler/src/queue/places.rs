//! Where a pod is, and how it gets there.

use std::time::Instant;

use super::order::Order;
use super::{Place, Queue};
use crate::cluster::PodId;

impl Queue {
    pub(super) fn place(&self, id: PodId) -> Option<Place> {
        self.waiting.get(&id).map(|waiting| waiting.place)
    }

    /// The same for one that is where it was.
    pub(super) fn enter_again(&mut self, id: PodId, place: Place) {
        self.incoming.cause = None;
        self.enter(id, place);
    }

    pub(super) fn enter(&mut self, id: PodId, place: Place) {
        self.incoming.note(place);
        let Some(waiting) = self.waiting.get_mut(&id) else {
            return;
        };
        waiting.place = place;
        let order = waiting.order;
        match place {
            Place::Active => {
                self.active.insert(order, id);
            }
            Place::Resting { until, is_ready } => {
                self.resting.insert(order.at(until), id);
                if is_ready {
                    self.resting_ready.insert(order, id);
                }
            }
            Place::Asleep => {
                self.asleep.insert(order.age(), id);
                self.classes.sleep(waiting.class, order, id);
            }
            Place::Gated => self.gated += 1,
            Place::Binding => self.binding += 1,
        }
    }

    /// Takes a pod out of its place. It is to enter another, or to be removed.
    pub(super) fn exit(&mut self, id: PodId) {
        let Some(waiting) = self.waiting.get(&id) else {
            return;
        };
        let order = waiting.order;
        match waiting.place {
            Place::Active => {
                self.active.remove(&order);
            }
            Place::Resting { until, .. } => {
                self.resting.remove(&order.at(until));
                self.resting_ready.remove(&order);
            }
            Place::Asleep => {
                self.asleep.remove(&order.age());
                self.classes.wake_one(waiting.class, order);
            }
            Place::Gated => self.gated -= 1,
            Place::Binding => self.binding -= 1,
        }
    }

    pub(super) fn order(&mut self, priority: i32, now: Instant) -> Order {
        let sequence = self.next_sequence();
        Order::new(priority, now, sequence)
    }

    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}
