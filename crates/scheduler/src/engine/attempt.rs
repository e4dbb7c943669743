//! Scheduling attempts: takes a pod from the queue, runs the scheduling cycle and, if that fails, preemption (upstream:
//! `scheduleOne`). Entry point: [`SchedulerCore::next_outcome`].

use std::sync::Arc;
use std::time::Instant;

use super::{NominationUpdate, PodScheduledReason, SchedulerCore, SchedulingOutcome};
use crate::cluster::{NodeId, PodId};
use crate::cycle::{Diagnosis, NO_NODES, Nomination, ScheduleResult};
use crate::plugins::ClusterEvent;
use crate::preemption::{
    PreemptionCandidate, PreemptionEvaluator, PreemptionResult, VICTIM_TERMINATION_TIMEOUT,
};
use crate::queue::{CachedFailure, UnschedulablePlugins};

impl SchedulerCore {
    /// The next outcome to write to the API server: a queued one, or that of the next scheduling attempt. `None` if no
    /// pod is due.
    pub fn next_outcome(&mut self, now: Instant) -> Option<SchedulingOutcome> {
        if let Some(outcome) = self.queued_outcomes.pop_front() {
            return Some(outcome);
        }
        if let Some(outcome) = self.report_unknown_namespace(now) {
            return Some(outcome);
        }
        self.retry_expired_preemptions(now);
        let id = self.queue.pop(now)?;
        self.schedule_one(id, now)
    }

    fn schedule_one(&mut self, id: PodId, now: Instant) -> Option<SchedulingOutcome> {
        self.cluster.refresh_node_order();
        if let Some(failure) = self.queue.cached_failure(id)
            && failure.state_version == self.state_version
        {
            let failure = failure.clone();
            return self.requeue(
                id,
                failure.plugins,
                Some(failure.clone()),
                &failure.message,
                now,
            );
        }
        let profile = self.queue.profile(id)?;
        if self.cluster.nodes().order().is_empty() {
            return self.fail_class(id, UnschedulablePlugins::default(), NO_NODES, now);
        }
        let decision = self
            .profiles
            .get(profile)?
            .profile
            .schedule_with_nominated_pods(&self.nominator, &mut self.cluster, id, &mut self.search);
        match decision {
            ScheduleResult::Scheduled {
                node,
                evaluated_nodes,
                feasible_nodes,
            } => self.assume_node(id, node, evaluated_nodes, feasible_nodes, now),
            ScheduleResult::Unschedulable(diagnosis) => {
                self.on_unschedulable(id, profile, &diagnosis, now)
            }
        }
    }

    /// Assumes the pod on its node and removes its nomination.
    fn assume_node(
        &mut self,
        id: PodId,
        node: NodeId,
        evaluated_nodes: usize,
        feasible_nodes: usize,
        now: Instant,
    ) -> Option<SchedulingOutcome> {
        let name = self.cluster.nodes().name(node)?.into();
        self.cluster.assume(id, node);
        self.update_priority_counts(id, None);
        let history = self.queue.history(id, now);
        self.finish_nomination(id, now);
        self.on_cluster_event(&ClusterEvent::AssignedPodAdded(id), now);
        self.queue.on_assumed(id, now);
        Some(SchedulingOutcome::Bind {
            pod: self.pod(id)?,
            node: name,
            attempts: history.attempts,
            since_enqueued: history.since_enqueued,
            since_first_attempt: history.since_first_attempt,
            evaluated_nodes,
            feasible_nodes,
        })
    }

    /// Tries preemption for a pod without a feasible node.
    fn on_unschedulable(
        &mut self,
        id: PodId,
        profile: usize,
        diagnosis: &Diagnosis,
        now: Instant,
    ) -> Option<SchedulingOutcome> {
        let rejected_by: UnschedulablePlugins = diagnosis.plugins().collect();
        let message = diagnosis.message(self.cluster.nodes().order().len());
        let known = self.profiles.get(profile)?;
        let Some(settings) = known.preemption else {
            return self.fail_class(id, rejected_by, &message, now);
        };
        let preemptor = PreemptionEvaluator {
            profile: &known.profile,
            args: settings,
            nominator: &self.nominator,
            disruption_budgets: &self.disruption_budgets,
            priority_counts: &self.priority_counts,
        };
        self.preemption_attempts += 1;
        let shuffle = &mut self.search.shuffle;
        match preemptor.evaluate(&mut self.cluster, id, diagnosis, shuffle, now) {
            PreemptionResult::Victims(candidate) => {
                self.nominate_and_preempt(id, rejected_by, &message, candidate, now)
            }
            PreemptionResult::NotEligible(pre_filter_rejection) => self.fail_class(
                id,
                rejected_by,
                &format!("{message} preemption: {pre_filter_rejection}"),
                now,
            ),
            PreemptionResult::NotHelpful {
                message: pre_filter_rejection,
                plugins,
            } => {
                // Also requeue the pod when something that prevents preemption changes.
                let rejected_by = rejected_by.union(plugins.into_iter().collect());
                let message = format!("{message} preemption: {pre_filter_rejection}");
                let was_nominated = self.nominator.get(id).is_some();
                if !was_nominated {
                    return self.fail_class(id, rejected_by, &message, now);
                }
                let mut outcome = self.requeue(id, rejected_by, None, &message, now)?;
                self.remove_nomination(id, now);
                self.unconfirmed_nominations.record(id, None, now);
                if let SchedulingOutcome::Unscheduled { nominated, .. } = &mut outcome {
                    *nominated = NominationUpdate::Clear;
                }
                Some(outcome)
            }
        }
    }

    /// Nominates the pod for the node of the candidate, whose victims are to be evicted.
    fn nominate_and_preempt(
        &mut self,
        id: PodId,
        rejected_by: UnschedulablePlugins,
        message: &str,
        candidate: PreemptionCandidate,
        now: Instant,
    ) -> Option<SchedulingOutcome> {
        let node: Box<str> = self.cluster.nodes().name(candidate.node)?.into();
        let evicted: Vec<_> = candidate
            .victims
            .iter()
            .filter_map(|victim| self.pod(*victim))
            .collect();
        let pod = self.pod(id)?;
        self.clear_lower_nominations(&node, pod.priority, now);
        let mut outcome = self.requeue(id, rejected_by, None, message, now)?;
        let nomination = Nomination {
            node: node.clone(),
            priority: pod.priority,
            victims: evicted.iter().map(|victim| victim.uid.clone()).collect(),
            since: now,
        };
        self.nominate(id, nomination, now);
        self.unconfirmed_nominations
            .record(id, Some(node.clone()), now);
        self.victim_deadlines
            .push_back((now + VICTIM_TERMINATION_TIMEOUT, id));
        if let SchedulingOutcome::Unscheduled {
            nominated, victims, ..
        } = &mut outcome
        {
            *nominated = NominationUpdate::Set(node);
            *victims = evicted;
        }
        Some(outcome)
    }

    /// Requeues the pod as unschedulable and caches the failure for equivalent pods until the state changes.
    fn fail_class(
        &mut self,
        id: PodId,
        rejected_by: UnschedulablePlugins,
        message: &str,
        now: Instant,
    ) -> Option<SchedulingOutcome> {
        // A nominated pod is equivalent to no other pod.
        let is_shared = self.nominator.get(id).is_none();
        let failure = is_shared.then(|| CachedFailure {
            state_version: self.state_version,
            plugins: rejected_by,
            message: Arc::from(message),
        });
        self.requeue(id, rejected_by, failure, message, now)
    }

    /// Requeues the pod as unschedulable.
    fn requeue(
        &mut self,
        id: PodId,
        rejected_by: UnschedulablePlugins,
        failure: Option<CachedFailure>,
        message: &str,
        now: Instant,
    ) -> Option<SchedulingOutcome> {
        let attempts = self.queue.history(id, now).attempts;
        self.queue.on_unschedulable(id, rejected_by, failure, now);
        Some(SchedulingOutcome::Unscheduled {
            pod: self.pod(id)?,
            reason: PodScheduledReason::Unschedulable,
            message: message.to_owned(),
            nominated: NominationUpdate::Unchanged,
            victims: Vec::new(),
            attempts,
        })
    }
}
