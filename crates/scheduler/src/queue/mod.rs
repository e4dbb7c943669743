//! Which pod is tried next, and which wait for what.
//!
//! A pod is in one of these places:
//! - active: it is tried as soon as those before it have been;
//! - resting: it was refused a short while ago, and is tried when its back-off is over, or when nobody else is active;
//! - asleep: it was refused, and waits for something that may help;
//! - gated: it must not be tried yet;
//! - binding: it has a node, and the server is being told.

mod alike;
mod backoff;
mod classes;
mod incoming;
mod order;
mod places;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use backoff::Backoff;
pub use classes::{Memo, Refusers};
pub use incoming::{Cause, Incoming};

use crate::cluster::{IdMap, PodId};
use crate::engine::Pending;
use crate::model::Pod;
use classes::{ClassId, Classes};
use order::{Age, Order};

#[derive(Debug)]
pub struct Queue {
    backoff: Backoff,
    /// Who sleeps longer than this is tried anyway.
    sleep_max: Duration,
    waiting: IdMap<PodId, Waiting>,
    classes: Classes,
    active: BTreeMap<Order, PodId>,
    /// By when their back-off is over.
    resting: BTreeMap<Age, PodId>,
    /// Those of them that need not wait if nobody else is there: they were refused, and something happened since.
    resting_ready: BTreeMap<Order, PodId>,
    asleep: BTreeMap<Age, PodId>,
    gated: usize,
    binding: usize,
    sequence: u64,
    incoming: Incoming,
}

#[derive(Debug)]
struct Waiting {
    class: ClassId,
    order: Order,
    first_seen: Instant,
    first_tried: Option<Instant>,
    attempts: u32,
    /// Attempts in vain.
    refusals: u32,
    /// Failures in a row that were nobody's refusal.
    errors: u32,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Active,
    Resting {
        until: Instant,
        is_ready: bool,
    },
    Asleep,
    Gated,
    /// It is being tried, or has its node and the server is being told.
    Binding,
}

/// How long a pod has been here, and how often it was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    pub attempts: u32,
    pub waited: Duration,
    /// Since it was first tried.
    pub tried_for: Duration,
}

impl Queue {
    pub fn new(backoff: Backoff, sleep_max: Duration) -> Queue {
        Queue {
            backoff,
            sleep_max,
            waiting: IdMap::default(),
            classes: Classes::default(),
            active: BTreeMap::new(),
            resting: BTreeMap::new(),
            resting_ready: BTreeMap::new(),
            asleep: BTreeMap::new(),
            gated: 0,
            binding: 0,
            sequence: 0,
            incoming: Incoming::default(),
        }
    }

    pub fn contains(&self, id: PodId) -> bool {
        self.waiting.contains_key(&id)
    }

    pub fn pending(&self) -> Pending {
        Pending {
            active: self.active.len(),
            backoff: self.resting.len(),
            unschedulable: self.asleep.len(),
            gated: self.gated,
            binding: self.binding,
        }
    }

    /// When somebody's back-off is over, or somebody has slept too long.
    pub fn wakes_at(&self) -> Option<Instant> {
        let rested = self.resting.first_key_value().map(|(age, _)| age.since);
        let slept = self.asleep.first_key_value();
        let slept = slept.and_then(|(age, _)| age.since.checked_add(self.sleep_max));
        rested.into_iter().chain(slept).min()
    }

    /// What came into the queues since this was asked last, and why.
    pub fn take_incoming(&mut self) -> Incoming {
        std::mem::take(&mut self.incoming)
    }

    pub fn history(&self, id: PodId, now: Instant) -> History {
        let waiting = self.waiting.get(&id);
        let since = |instant: Option<Instant>| {
            instant.map_or(Duration::ZERO, |then| now.saturating_duration_since(then))
        };
        History {
            attempts: waiting.map_or(0, |waiting| waiting.attempts),
            waited: since(waiting.map(|waiting| waiting.first_seen)),
            tried_for: since(waiting.and_then(|waiting| waiting.first_tried)),
        }
    }

    /// The last attempt of one that is like this pod, if it was in vain.
    pub fn memo(&self, id: PodId) -> Option<&Memo> {
        self.classes.memo(self.waiting.get(&id)?.class)
    }

    pub fn profile(&self, id: PodId) -> Option<usize> {
        let class = self.waiting.get(&id)?.class;
        Some(self.classes.profile(class))
    }
}

/// Pods that come, change and go.
impl Queue {
    /// One that is held must not be tried, as one that has gates.
    pub fn add(
        &mut self,
        id: PodId,
        facts: &Arc<Pod>,
        profile: usize,
        is_held: bool,
        now: Instant,
    ) {
        let waiting = Waiting {
            class: self.classes.join(facts, profile),
            order: self.order(facts.priority, now),
            first_seen: now,
            first_tried: None,
            attempts: 0,
            refusals: 0,
            errors: 0,
            place: Place::Active,
        };
        self.waiting.insert(id, waiting);
        self.incoming.cause = Some(Cause::PodAdded);
        let is_gated = is_held || !facts.scheduling_gates.is_empty();
        let place = if is_gated {
            Place::Gated
        } else {
            Place::Active
        };
        self.enter(id, place);
    }

    /// Whether a pod may be tried, apart from its gates.
    pub fn set_held(&mut self, id: PodId, facts: &Pod, is_held: bool, now: Instant) {
        let is_gated = is_held || !facts.scheduling_gates.is_empty();
        let place = match self.place(id) {
            Some(Place::Gated) if !is_gated => Place::Active,
            Some(Place::Active | Place::Resting { .. } | Place::Asleep) if is_gated => Place::Gated,
            _ => return,
        };
        self.incoming.cause = Some(Cause::PodUpdated);
        self.exit(id);
        self.enter(id, place);
        if let Some(waiting) = self.waiting.get(&id)
            && place == Place::Gated
            && self.classes.stops_trying(waiting.class, id)
        {
            self.wake_class(waiting.class, now);
        }
    }

    pub fn remove(&mut self, id: PodId, now: Instant) {
        self.exit(id);
        if let Some(waiting) = self.waiting.remove(&id) {
            self.leave(id, waiting.class, now);
        }
    }

    /// Takes note of what a pod is now. `may_help` is asked if it sleeps: whether its being different can.
    pub fn update(
        &mut self,
        id: PodId,
        facts: &Arc<Pod>,
        is_held: bool,
        now: Instant,
        may_help: impl FnOnce(Refusers) -> bool,
    ) {
        let Some(waiting) = self.waiting.get(&id) else {
            return;
        };
        let (class, place) = (waiting.class, waiting.place);
        if self.classes.contains_alike(class, facts) {
            return self.set_held(id, facts, is_held, now);
        }
        let refusers = self.classes.refusers(class);
        self.exit(id);
        self.change_class(id, facts, self.classes.is_alone(class), now);
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.order = waiting.order.with_priority(facts.priority);
        }
        let is_gated = is_held || !facts.scheduling_gates.is_empty();
        self.incoming.cause = Some(Cause::PodUpdated);
        match place {
            _ if is_gated => self.enter(id, Place::Gated),
            Place::Gated => self.enter(id, Place::Active),
            Place::Asleep if may_help(refusers) => self.move_up(id, now),
            Place::Asleep => {
                if let Some(waiting) = self.waiting.get(&id) {
                    self.classes.refused_also(waiting.class, refusers);
                }
                self.enter_again(id, Place::Asleep);
            }
            place => self.enter_again(id, place),
        }
    }

    /// A pod that waits for a place which is kept for it is no longer like others, and is again when it has lost it.
    /// Where others make room for one, they may do so for the next that is like it.
    pub fn set_alone(&mut self, id: PodId, facts: &Arc<Pod>, is_alone: bool, now: Instant) {
        let Some(waiting) = self.waiting.get(&id) else {
            return;
        };
        let (class, place) = (waiting.class, waiting.place);
        if self.classes.is_alone(class) == is_alone {
            return;
        }
        let refusers = self.classes.refusers(class);
        self.exit(id);
        self.change_class(id, facts, is_alone, now);
        if let Some(waiting) = self.waiting.get(&id) {
            self.classes.refused_also(waiting.class, refusers);
        }
        self.enter_again(id, place);
        if is_alone {
            self.incoming.cause = Some(Cause::PodUpdated);
            self.wake_class(class, now);
        }
    }

    /// To be called while the pod is in no place.
    fn change_class(&mut self, id: PodId, facts: &Arc<Pod>, is_alone: bool, now: Instant) {
        let Some(before) = self.waiting.get(&id).map(|waiting| waiting.class) else {
            return;
        };
        let profile = self.classes.profile(before);
        let class = if is_alone {
            self.classes.join_alone(facts, profile)
        } else {
            self.classes.join(facts, profile)
        };
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.class = class;
        }
        self.leave(id, before, now);
    }

    /// Who leaves its class while it was to try for all leaves that to the next.
    fn leave(&mut self, id: PodId, class: ClassId, now: Instant) {
        self.incoming.cause = Some(Cause::PodUpdated);
        if self.classes.stops_trying(class, id) {
            self.wake_class(class, now);
        }
        self.classes.leave(class);
    }
}

/// Attempts.
impl Queue {
    /// The pod that is to be tried now. What comes of it is to be told: [`Queue::placed`] or [`Queue::refused`].
    pub fn pop(&mut self, now: Instant) -> Option<PodId> {
        self.release(now);
        let first = self.active.first_key_value();
        let first = first.or_else(|| self.resting_ready.first_key_value());
        let id = *first?.1;
        self.exit(id);
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.attempts = waiting.attempts.saturating_add(1);
            waiting.first_tried.get_or_insert(now);
        }
        self.enter(id, Place::Binding);
        Some(id)
    }

    /// It has a node. Where there was a place for one, there may be one for the next.
    pub fn placed(&mut self, id: PodId, now: Instant) {
        if let Some(waiting) = self.waiting.get(&id) {
            let class = waiting.class;
            self.classes.stops_trying(class, id);
            self.incoming.cause = Some(Cause::PodPlaced);
            self.wake_class(class, now);
        }
    }

    /// There is no node for it. `memo` is what is to be said of those that are like it, if it is the same.
    pub fn refused(&mut self, id: PodId, refusers: Refusers, memo: Option<Memo>, now: Instant) {
        self.exit(id);
        let Some(waiting) = self.waiting.get_mut(&id) else {
            return;
        };
        let class = waiting.class;
        waiting.refusals = waiting.refusals.saturating_add(1);
        waiting.errors = 0;
        self.requeue(id, now);
        self.classes.refused(class, refusers, memo);
        self.classes.stops_trying(class, id);
        self.incoming.cause = Some(Cause::AttemptFailed);
        self.enter(id, Place::Asleep);
    }

    /// Something went wrong that says nothing about the pod: it is tried again after its back-off.
    pub fn failed(&mut self, id: PodId, now: Instant) {
        self.exit(id);
        let Some(waiting) = self.waiting.get_mut(&id) else {
            return;
        };
        waiting.errors = waiting.errors.saturating_add(1);
        self.incoming.cause = Some(Cause::AttemptFailed);
        self.requeue(id, now);
        match self.rests_until(id) {
            Some(until) if until > now => self.enter(
                id,
                Place::Resting {
                    until,
                    is_ready: false,
                },
            ),
            _ => self.enter(id, Place::Active),
        }
    }

    /// It did not get the node that it was on its way to. Nothing was noted meanwhile of what it has become.
    pub fn came_back(&mut self, id: PodId, facts: &Arc<Pod>, now: Instant) {
        self.exit(id);
        self.change_class(id, facts, false, now);
        let Some(waiting) = self.waiting.get_mut(&id) else {
            return;
        };
        waiting.order = waiting.order.with_priority(facts.priority);
        if facts.scheduling_gates.is_empty() {
            self.enter(id, Place::Binding);
            self.failed(id, now);
        } else {
            self.enter(id, Place::Gated);
        }
    }

    fn requeue(&mut self, id: PodId, now: Instant) {
        let sequence = self.next_sequence();
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.order = waiting.order.again(now, sequence);
        }
    }
}

/// Waking up.
impl Queue {
    /// Wakes those of whom this is true: of their profile and who refused them, and then of the pod as well.
    pub fn wake(
        &mut self,
        cause: Cause,
        now: Instant,
        concerns: impl Fn(usize, Refusers) -> bool,
        ask: impl FnMut(PodId, usize, Refusers) -> bool,
    ) {
        self.incoming.cause = Some(cause);
        for class in self.classes.asleep(concerns, ask) {
            self.wake_class(class, now);
        }
    }

    /// Wakes a pod, if it sleeps.
    pub fn wake_one(&mut self, cause: Cause, id: PodId, now: Instant) {
        if self.place(id) == Some(Place::Asleep) {
            self.incoming.cause = Some(cause);
            self.exit(id);
            self.move_up(id, now);
        }
    }

    pub fn is_asleep(&self, id: PodId) -> bool {
        self.place(id) == Some(Place::Asleep)
    }

    fn wake_class(&mut self, class: ClassId, now: Instant) {
        if let Some(id) = self.classes.next_to_try(class) {
            if let Some(waiting) = self.waiting.get(&id) {
                self.asleep.remove(&waiting.order.age());
            }
            self.move_up(id, now);
        }
    }

    /// Lets go of those whose back-off is over, and of those who have slept too long.
    fn release(&mut self, now: Instant) {
        self.incoming.cause = Some(Cause::BackoffOver);
        while let Some((age, id)) = self.resting.first_key_value()
            && age.since <= now
        {
            let id = *id;
            self.exit(id);
            self.enter(id, Place::Active);
        }
        self.incoming.cause = Some(Cause::SleptTooLong);
        while let Some((age, id)) = self.asleep.first_key_value()
            && now.saturating_duration_since(age.since) >= self.sleep_max
        {
            let id = *id;
            self.exit(id);
            self.move_up(id, now);
        }
    }

    /// To where it is tried: at once, or after what is left of its back-off.
    fn move_up(&mut self, id: PodId, now: Instant) {
        let place = match self.rests_until(id) {
            Some(until) if until > now => Place::Resting {
                until,
                is_ready: true,
            },
            _ => Place::Active,
        };
        self.enter(id, place);
    }

    fn rests_until(&self, id: PodId) -> Option<Instant> {
        let waiting = self.waiting.get(&id)?;
        let in_vain = match waiting.errors {
            0 => waiting.refusals,
            errors => errors,
        };
        let since = waiting.order.since();
        since.checked_add(self.backoff.duration(in_vain))
    }
}
