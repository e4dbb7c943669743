//! [`SchedulerCore`]: the scheduler without I/O. Combines cluster state, scheduling queue, scheduling cycle,
//! nominations and preemption.
//!
//! The caller passes in [`SchedulerEvent`]s with [`SchedulerCore::apply`], writes what
//! [`SchedulerCore::next_outcome`] returns to the API server, and provides the current time, which makes the core
//! deterministic.

mod attempt;
mod event_handlers;
mod held_pods;
mod nominations;
mod outcome;
mod queueing_hints;
mod scheduler_event;
#[cfg(test)]
mod tests;
mod unconfirmed_nominations;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_meta::Backoff;

pub use outcome::{NominationUpdate, PendingPodCounts, PodScheduledReason, SchedulingOutcome};
pub use scheduler_event::{Event, Namespace, SchedulerEvent};

pub use crate::preemption::DefaultPreemptionArgs;

use self::held_pods::HeldPods;
use crate::cluster::{ClusterState, PodId};
use crate::cycle::{NodeSearch, Nominator, PluginTimingObserver, Profile};
use crate::preemption::{DisruptionBudgets, PodPriorityCounts};
use crate::queue::{IncomingPodCounts, SchedulingQueue};
use unconfirmed_nominations::UnconfirmedNominations;

/// The settings of a [`SchedulerCore`].
#[derive(Debug)]
pub struct SchedulerCoreSettings {
    pub profiles: Vec<ProfileSettings>,
    /// The backoff after the first failed attempt; doubles with each further one.
    pub pod_initial_backoff: Duration,
    pub pod_max_backoff: Duration,
    /// An unschedulable pod is retried after this time even without an event.
    pub pod_max_unschedulable: Duration,
    /// Whether `namespaceSelector` of affinity terms is honoured (feature gate `PodAffinityNamespaceSelector`).
    pub namespace_selectors: bool,
    /// Receives the timings of plugins.
    pub observer: Option<Arc<dyn PluginTimingObserver>>,
}

impl SchedulerCoreSettings {
    pub fn new(profiles: Vec<ProfileSettings>) -> SchedulerCoreSettings {
        SchedulerCoreSettings {
            profiles,
            pod_initial_backoff: Duration::from_secs(1),
            pod_max_backoff: Duration::from_secs(10),
            pod_max_unschedulable: Duration::from_secs(5 * 60),
            namespace_selectors: true,
            observer: None,
        }
    }
}

/// A profile with its preemption settings.
#[derive(Debug)]
pub struct ProfileSettings {
    pub profile: Profile,
    /// `None` if preemption is disabled.
    pub preemption: Option<DefaultPreemptionArgs>,
}

/// The state of the scheduler. See the module documentation.
#[derive(Debug)]
pub struct SchedulerCore {
    profiles: Vec<ProfileSettings>,
    profile_by_name: HashMap<Box<str>, usize>,
    namespace_selectors: bool,
    cluster: ClusterState,
    search: NodeSearch,
    queue: SchedulingQueue,
    nominator: Nominator,
    unconfirmed_nominations: UnconfirmedNominations,
    /// Preemptors, with the time by which their victims must be terminating.
    victim_deadlines: VecDeque<(Instant, PodId)>,
    disruption_budgets: DisruptionBudgets,
    priority_counts: PodPriorityCounts,
    /// Incremented by everything that can change the result of a scheduling attempt; invalidates cached failures.
    state_version: u64,
    /// The number of preemption evaluations, for metrics.
    preemption_attempts: u64,
    held_pods: HeldPods,
    /// Outcomes to return before the next attempt.
    queued_outcomes: VecDeque<SchedulingOutcome>,
}

impl SchedulerCore {
    /// If several profiles have the same name, the first is used.
    pub fn new(settings: SchedulerCoreSettings) -> SchedulerCore {
        let backoff = Backoff::new(settings.pod_initial_backoff, settings.pod_max_backoff);
        let mut profile_by_name = HashMap::new();
        let mut cluster = ClusterState::default();
        for (index, known) in settings.profiles.iter().enumerate() {
            let name = known.profile.scheduler_name.clone();
            profile_by_name.entry(name).or_insert(index);
            known.profile.register_topologies(&mut cluster);
        }
        SchedulerCore {
            profiles: settings.profiles,
            profile_by_name,
            namespace_selectors: settings.namespace_selectors,
            cluster,
            search: NodeSearch::with_observer(settings.observer),
            queue: SchedulingQueue::new(backoff, settings.pod_max_unschedulable),
            nominator: Nominator::default(),
            unconfirmed_nominations: UnconfirmedNominations::default(),
            victim_deadlines: VecDeque::new(),
            disruption_budgets: DisruptionBudgets::default(),
            priority_counts: PodPriorityCounts::default(),
            state_version: 0,
            preemption_attempts: 0,
            held_pods: HeldPods::default(),
            queued_outcomes: VecDeque::new(),
        }
    }

    /// When to call `next_outcome` again even if no event arrives.
    pub fn next_deadline(&self) -> Option<Instant> {
        let victim_deadline = self.victim_deadlines.front().map(|(end, _)| *end);
        let deadlines = [
            self.queue.next_deadline(),
            self.held_pods.next_deadline(),
            victim_deadline,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// The number of queued pods per queue.
    pub fn pending_pods(&self) -> PendingPodCounts {
        self.queue.pending_pods()
    }

    /// The pods added to each queue since the last call, by event.
    pub fn take_incoming_counts(&mut self) -> IncomingPodCounts {
        self.queue.take_incoming_counts()
    }

    /// The number of preemption evaluations, whether victims were found or not.
    pub fn preemption_attempts(&self) -> u64 {
        self.preemption_attempts
    }

    pub fn cluster(&self) -> &ClusterState {
        &self.cluster
    }

    pub fn nominator(&self) -> &Nominator {
        &self.nominator
    }

    /// The profile with this scheduler name.
    pub fn profile(&self, scheduler_name: &str) -> Option<&Profile> {
        let index = self.profile_by_name.get(scheduler_name)?;
        Some(&self.profiles.get(*index)?.profile)
    }
}
