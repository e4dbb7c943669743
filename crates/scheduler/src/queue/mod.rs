//! [`SchedulingQueue`]: the pending pods (upstream: `PriorityQueue` in `backend/queue`).
//!
//! A pod is in one of these states:
//! - active: ready to be scheduled, in order of priority (upstream: activeQ);
//! - backoff: requeued after a recent failure; scheduled when its backoff expires, or, if a queueing hint requeued it,
//!   as soon as the active queue is empty (upstream: backoffQ);
//! - unschedulable: waits for an event that may make it schedulable;
//! - gated: has scheduling gates or is held, and must not be scheduled;
//! - in flight: is being scheduled, or assumed and being bound.

mod equivalence;
mod equivalence_classes;
mod incoming_pods;
mod order;
mod queue_state;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use equivalence_classes::{CachedFailure, UnschedulablePlugins};
pub use incoming_pods::{IncomingPodCounts, QueueingEvent};

use rhumb_meta::Backoff;

use crate::cluster::{IdMap, PodId};
use crate::engine::PendingPodCounts;
use crate::model::Pod;
use equivalence_classes::{EquivalenceClassId, EquivalenceClasses};
use order::{QueueOrderKey, QueueTimeKey};

/// All pending pods of our profiles.
#[derive(Debug)]
pub struct SchedulingQueue {
    /// The backoff of unschedulable pods, by their number of failed attempts. A maximum of zero disables it.
    backoff: Backoff,
    /// An unschedulable pod is requeued after this time.
    max_unschedulable_duration: Duration,
    pods: IdMap<PodId, QueuedPodInfo>,
    classes: EquivalenceClasses,
    active: BTreeMap<QueueOrderKey, PodId>,
    /// By the end of the backoff.
    backoff_by_expiry: BTreeMap<QueueTimeKey, PodId>,
    /// The subset of pods in backoff that a queueing hint requeued: they are popped when the active queue is empty.
    backoff_ready: BTreeMap<QueueOrderKey, PodId>,
    unschedulable: BTreeMap<QueueTimeKey, PodId>,
    gated: usize,
    in_flight: usize,
    sequence: u64,
    incoming: IncomingPodCounts,
}

/// A pending pod.
#[derive(Debug)]
struct QueuedPodInfo {
    class: EquivalenceClassId,
    order: QueueOrderKey,
    enqueued_at: Instant,
    first_attempt_at: Option<Instant>,
    attempts: u32,
    /// Attempts without a feasible node.
    unschedulable_count: u32,
    /// Consecutive failures that are not about feasibility, such as failed bindings.
    consecutive_errors: u32,
    state: QueuedPodState,
}

/// The state of a pending pod. See the module documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueuedPodState {
    Active,
    Backoff { until: Instant, is_ready: bool },
    Unschedulable,
    Gated,
    InFlight,
}

/// The number of attempts of a pod and their times, for metrics and logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptHistory {
    pub attempts: u32,
    pub since_enqueued: Duration,
    pub since_first_attempt: Duration,
}

impl SchedulingQueue {
    pub fn new(backoff: Backoff, max_unschedulable_duration: Duration) -> SchedulingQueue {
        SchedulingQueue {
            backoff,
            max_unschedulable_duration,
            pods: IdMap::default(),
            classes: EquivalenceClasses::default(),
            active: BTreeMap::new(),
            backoff_by_expiry: BTreeMap::new(),
            backoff_ready: BTreeMap::new(),
            unschedulable: BTreeMap::new(),
            gated: 0,
            in_flight: 0,
            sequence: 0,
            incoming: IncomingPodCounts::default(),
        }
    }

    pub fn contains(&self, id: PodId) -> bool {
        self.pods.contains_key(&id)
    }

    pub fn pending_pods(&self) -> PendingPodCounts {
        PendingPodCounts {
            active: self.active.len(),
            backoff: self.backoff_by_expiry.len(),
            unschedulable: self.unschedulable.len(),
            gated: self.gated,
            binding: self.in_flight,
        }
    }

    /// When the next backoff or unschedulable timeout expires.
    pub fn next_deadline(&self) -> Option<Instant> {
        let backoff = self
            .backoff_by_expiry
            .first_key_value()
            .map(|(age, _)| age.since);
        let timeout = self.unschedulable.first_key_value();
        let timeout =
            timeout.and_then(|(age, _)| age.since.checked_add(self.max_unschedulable_duration));
        backoff.into_iter().chain(timeout).min()
    }

    /// The pods added to each queue since the last call, by event.
    pub fn take_incoming_counts(&mut self) -> IncomingPodCounts {
        std::mem::take(&mut self.incoming)
    }

    pub fn history(&self, id: PodId, now: Instant) -> AttemptHistory {
        let waiting = self.pods.get(&id);
        let since = |instant: Option<Instant>| {
            instant.map_or(Duration::ZERO, |then| now.saturating_duration_since(then))
        };
        AttemptHistory {
            attempts: waiting.map_or(0, |waiting| waiting.attempts),
            since_enqueued: since(waiting.map(|waiting| waiting.enqueued_at)),
            since_first_attempt: since(waiting.and_then(|waiting| waiting.first_attempt_at)),
        }
    }

    /// The last failed attempt of an equivalent pod.
    pub fn cached_failure(&self, id: PodId) -> Option<&CachedFailure> {
        self.classes.cached_failure(self.pods.get(&id)?.class)
    }

    pub fn profile(&self, id: PodId) -> Option<usize> {
        let class = self.pods.get(&id)?.class;
        Some(self.classes.profile(class))
    }
}

/// Adding, updating and removing pods.
impl SchedulingQueue {
    /// Adds a pod. A held pod is gated, like a pod with scheduling gates.
    pub fn add(&mut self, id: PodId, pod: &Arc<Pod>, profile: usize, is_held: bool, now: Instant) {
        let waiting = QueuedPodInfo {
            class: self.classes.join(pod, profile),
            order: self.new_order(pod.priority, now),
            enqueued_at: now,
            first_attempt_at: None,
            attempts: 0,
            unschedulable_count: 0,
            consecutive_errors: 0,
            state: QueuedPodState::Active,
        };
        self.pods.insert(id, waiting);
        self.incoming.event = Some(QueueingEvent::PodAdded);
        let is_gated = is_held || !pod.scheduling_gates.is_empty();
        let state = if is_gated {
            QueuedPodState::Gated
        } else {
            QueuedPodState::Active
        };
        self.enter(id, state);
    }

    /// Gates a pod that is held, or activates a gated pod that is neither held nor has scheduling gates.
    pub fn set_held(&mut self, id: PodId, pod: &Pod, is_held: bool, now: Instant) {
        let is_gated = is_held || !pod.scheduling_gates.is_empty();
        let state = match self.state(id) {
            Some(QueuedPodState::Gated) if !is_gated => QueuedPodState::Active,
            Some(
                QueuedPodState::Active
                | QueuedPodState::Backoff { .. }
                | QueuedPodState::Unschedulable,
            ) if is_gated => QueuedPodState::Gated,
            _ => return,
        };
        self.incoming.event = Some(QueueingEvent::PodUpdated);
        self.exit(id);
        self.enter(id, state);
        if let Some(waiting) = self.pods.get(&id)
            && state == QueuedPodState::Gated
            && self.classes.end_probe(waiting.class, id)
        {
            self.activate_class(waiting.class, now);
        }
    }

    pub fn remove(&mut self, id: PodId, now: Instant) {
        self.exit(id);
        if let Some(waiting) = self.pods.remove(&id) {
            self.leave_class(id, waiting.class, now);
        }
    }

    /// Updates a pod. If it is unschedulable, `may_help` evaluates the queueing hints for the update.
    pub fn update(
        &mut self,
        id: PodId,
        pod: &Arc<Pod>,
        is_held: bool,
        now: Instant,
        may_help: impl FnOnce(UnschedulablePlugins) -> bool,
    ) {
        let Some(waiting) = self.pods.get(&id) else {
            return;
        };
        let (class, state) = (waiting.class, waiting.state);
        if self.classes.is_equivalent_to(class, pod) {
            return self.set_held(id, pod, is_held, now);
        }
        let rejected_by = self.classes.unschedulable_plugins(class);
        self.exit(id);
        self.change_class(id, pod, self.classes.is_singleton(class), now);
        if let Some(waiting) = self.pods.get_mut(&id) {
            waiting.order = waiting.order.with_priority(pod.priority);
        }
        let is_gated = is_held || !pod.scheduling_gates.is_empty();
        self.incoming.event = Some(QueueingEvent::PodUpdated);
        match state {
            _ if is_gated => self.enter(id, QueuedPodState::Gated),
            QueuedPodState::Gated => self.enter(id, QueuedPodState::Active),
            QueuedPodState::Unschedulable if may_help(rejected_by) => {
                self.enter_active_or_backoff(id, now);
            }
            QueuedPodState::Unschedulable => {
                if let Some(waiting) = self.pods.get(&id) {
                    self.classes
                        .add_unschedulable_plugins(waiting.class, rejected_by);
                }
                self.reenter(id, QueuedPodState::Unschedulable);
            }
            state => self.reenter(id, state),
        }
    }

    /// Moves a nominated pod into a singleton class, or back when it has lost its nomination. When preemption worked
    /// for one pod of a class it may work for the next, so the class is activated.
    pub fn set_singleton(&mut self, id: PodId, pod: &Arc<Pod>, is_alone: bool, now: Instant) {
        let Some(waiting) = self.pods.get(&id) else {
            return;
        };
        let (class, state) = (waiting.class, waiting.state);
        if self.classes.is_singleton(class) == is_alone {
            return;
        }
        let rejected_by = self.classes.unschedulable_plugins(class);
        self.exit(id);
        self.change_class(id, pod, is_alone, now);
        if let Some(waiting) = self.pods.get(&id) {
            self.classes
                .add_unschedulable_plugins(waiting.class, rejected_by);
        }
        self.reenter(id, state);
        if is_alone {
            self.incoming.event = Some(QueueingEvent::PodUpdated);
            self.activate_class(class, now);
        }
    }

    /// Must be called while the pod is in no queue.
    fn change_class(&mut self, id: PodId, pod: &Arc<Pod>, is_alone: bool, now: Instant) {
        let Some(old_class) = self.pods.get(&id).map(|waiting| waiting.class) else {
            return;
        };
        let profile = self.classes.profile(old_class);
        let class = if is_alone {
            self.classes.join_singleton(pod, profile)
        } else {
            self.classes.join(pod, profile)
        };
        if let Some(waiting) = self.pods.get_mut(&id) {
            waiting.class = class;
        }
        self.leave_class(id, old_class, now);
    }

    /// Removes a pod from its class. If it was the probe, the next pod becomes it.
    fn leave_class(&mut self, id: PodId, class: EquivalenceClassId, now: Instant) {
        self.incoming.event = Some(QueueingEvent::PodUpdated);
        if self.classes.end_probe(class, id) {
            self.activate_class(class, now);
        }
        self.classes.leave(class);
    }
}

/// Attempts.
impl SchedulingQueue {
    /// The next pod to schedule. The caller must report the result with [`SchedulingQueue::on_assumed`] or
    /// [`SchedulingQueue::on_unschedulable`].
    pub fn pop(&mut self, now: Instant) -> Option<PodId> {
        self.flush_expired(now);
        let first = self.active.first_key_value();
        let first = first.or_else(|| self.backoff_ready.first_key_value());
        let id = *first?.1;
        self.exit(id);
        if let Some(waiting) = self.pods.get_mut(&id) {
            waiting.attempts = waiting.attempts.saturating_add(1);
            waiting.first_attempt_at.get_or_insert(now);
        }
        self.enter(id, QueuedPodState::InFlight);
        Some(id)
    }

    /// The pod was assumed on a node: the next pod of its class may be schedulable too.
    pub fn on_assumed(&mut self, id: PodId, now: Instant) {
        if let Some(waiting) = self.pods.get(&id) {
            let class = waiting.class;
            self.classes.end_probe(class, id);
            self.incoming.event = Some(QueueingEvent::AssignedPodAdded);
            self.activate_class(class, now);
        }
    }

    /// The pod has no feasible node. `failure` is cached for equivalent pods, if it applies to them.
    pub fn on_unschedulable(
        &mut self,
        id: PodId,
        rejected_by: UnschedulablePlugins,
        failure: Option<CachedFailure>,
        now: Instant,
    ) {
        self.exit(id);
        let Some(waiting) = self.pods.get_mut(&id) else {
            return;
        };
        let class = waiting.class;
        waiting.unschedulable_count = waiting.unschedulable_count.saturating_add(1);
        waiting.consecutive_errors = 0;
        self.renew_order(id, now);
        self.classes.record_failure(class, rejected_by, failure);
        self.classes.end_probe(class, id);
        self.incoming.event = Some(QueueingEvent::AttemptFailed);
        self.enter(id, QueuedPodState::Unschedulable);
    }

    /// The attempt failed for a reason other than feasibility: the pod is retried after its backoff.
    pub fn on_error(&mut self, id: PodId, now: Instant) {
        self.exit(id);
        let Some(waiting) = self.pods.get_mut(&id) else {
            return;
        };
        waiting.consecutive_errors = waiting.consecutive_errors.saturating_add(1);
        self.incoming.event = Some(QueueingEvent::AttemptFailed);
        self.renew_order(id, now);
        match self.backoff_expiry(id) {
            Some(until) if until > now => self.enter(
                id,
                QueuedPodState::Backoff {
                    until,
                    is_ready: false,
                },
            ),
            _ => self.enter(id, QueuedPodState::Active),
        }
    }

    /// The binding of an assumed pod failed. Also applies the updates of the pod, which are not tracked while it is in
    /// flight.
    pub fn on_binding_failed(&mut self, id: PodId, pod: &Arc<Pod>, now: Instant) {
        self.exit(id);
        self.change_class(id, pod, false, now);
        let Some(waiting) = self.pods.get_mut(&id) else {
            return;
        };
        waiting.order = waiting.order.with_priority(pod.priority);
        if pod.scheduling_gates.is_empty() {
            self.enter(id, QueuedPodState::InFlight);
            self.on_error(id, now);
        } else {
            self.enter(id, QueuedPodState::Gated);
        }
    }

    fn renew_order(&mut self, id: PodId, now: Instant) {
        let sequence = self.next_sequence();
        if let Some(waiting) = self.pods.get_mut(&id) {
            waiting.order = waiting.order.requeued(now, sequence);
        }
    }
}

/// Requeueing after events and timeouts.
impl SchedulingQueue {
    /// Requeues unschedulable pods: `concerns` filters by profile and unschedulable plugins, then `should_requeue` by pod.
    pub fn move_matching_to_active_or_backoff(
        &mut self,
        cause: QueueingEvent,
        now: Instant,
        concerns: impl Fn(usize, UnschedulablePlugins) -> bool,
        should_requeue: impl FnMut(PodId, usize, UnschedulablePlugins) -> bool,
    ) {
        self.incoming.event = Some(cause);
        for class in self.classes.idle_matching(concerns, should_requeue) {
            self.activate_class(class, now);
        }
    }

    /// Requeues a pod if it is unschedulable.
    pub fn move_to_active_or_backoff(&mut self, cause: QueueingEvent, id: PodId, now: Instant) {
        if self.state(id) == Some(QueuedPodState::Unschedulable) {
            self.incoming.event = Some(cause);
            self.exit(id);
            self.enter_active_or_backoff(id, now);
        }
    }

    pub fn is_unschedulable(&self, id: PodId) -> bool {
        self.state(id) == Some(QueuedPodState::Unschedulable)
    }

    /// Requeues the first unschedulable pod of a class as its probe.
    fn activate_class(&mut self, class: EquivalenceClassId, now: Instant) {
        if let Some(id) = self.classes.start_probe(class) {
            if let Some(waiting) = self.pods.get(&id) {
                self.unschedulable.remove(&waiting.order.time_key());
            }
            self.enter_active_or_backoff(id, now);
        }
    }

    /// Activates the pods whose backoff has expired and requeues those that were unschedulable for too long.
    fn flush_expired(&mut self, now: Instant) {
        self.incoming.event = Some(QueueingEvent::BackoffComplete);
        while let Some((age, id)) = self.backoff_by_expiry.first_key_value()
            && age.since <= now
        {
            let id = *id;
            self.exit(id);
            self.enter(id, QueuedPodState::Active);
        }
        self.incoming.event = Some(QueueingEvent::UnschedulableTimeout);
        while let Some((age, id)) = self.unschedulable.first_key_value()
            && now.saturating_duration_since(age.since) >= self.max_unschedulable_duration
        {
            let id = *id;
            self.exit(id);
            self.enter_active_or_backoff(id, now);
        }
    }

    /// Puts a pod into the active queue, or into the backoff queue if its backoff has not expired.
    fn enter_active_or_backoff(&mut self, id: PodId, now: Instant) {
        let state = match self.backoff_expiry(id) {
            Some(until) if until > now => QueuedPodState::Backoff {
                until,
                is_ready: true,
            },
            _ => QueuedPodState::Active,
        };
        self.enter(id, state);
    }

    fn backoff_expiry(&self, id: PodId) -> Option<Instant> {
        let waiting = self.pods.get(&id)?;
        let failures = match waiting.consecutive_errors {
            0 => waiting.unschedulable_count,
            errors => errors,
        };
        let since = waiting.order.since();
        since.checked_add(self.backoff.delay_after(failures))
    }
}
