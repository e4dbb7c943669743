//! Keeps the nominations up to date: with preemption, with `status.nominatedNodeName`, and when pods are bound or
//! deleted.

use std::sync::Arc;
use std::time::Instant;

use super::{NominationUpdate, PodScheduledReason, SchedulerCore, SchedulingOutcome};
use crate::cluster::{DepartedPod, PodId, PodInfo};
use crate::cycle::Nomination;
use crate::model::Pod;
use crate::plugins::ClusterEvent;
use crate::preemption::VICTIM_TERMINATION_TIMEOUT;
use crate::queue::QueueingEvent;

impl SchedulerCore {
    /// Nominates a pending pod for a node. A previous nomination for another node is removed.
    pub(super) fn nominate(&mut self, id: PodId, nomination: Nomination, now: Instant) {
        let Some(pod) = self.pod(id) else { return };
        let node = nomination.node.clone();
        let old = self.nominator.insert(id, nomination);
        self.state_version += 1;
        self.queue.set_singleton(id, &pod, true, now);
        if let Some(old) = old
            && old.node != node
        {
            self.on_nomination_removed(id, &old, now);
        }
    }

    /// Removes the nomination of a pending pod.
    pub(super) fn remove_nomination(&mut self, id: PodId, now: Instant) {
        let Some(old) = self.nominator.remove(id) else {
            return;
        };
        if let Some(pod) = self.pod(id) {
            self.queue.set_singleton(id, &pod, false, now);
        }
        self.on_nomination_removed(id, &old, now);
    }

    /// For other pods, a removed nomination has the same effect as a pod deleted from that node.
    fn on_nomination_removed(&mut self, id: PodId, nomination: &Nomination, now: Instant) {
        let Some(slot) = self.cluster.pods().get(id) else {
            return;
        };
        let removed = DepartedPod {
            id,
            pod: slot.pod.clone(),
            node_id: self.cluster.nodes().find(&nomination.node),
            matched_by: slot.matched_by().to_vec(),
        };
        self.on_cluster_event(&ClusterEvent::AssignedPodDeleted(&removed), now);
    }

    /// Removes the nomination of a pod that was removed from the cluster state.
    pub(super) fn remove_nomination_of_removed(&mut self, removed: &DepartedPod, now: Instant) {
        if let Some(nomination) = self.nominator.remove(removed.id) {
            let removed = DepartedPod {
                node_id: self.cluster.nodes().find(&nomination.node),
                ..removed.clone()
            };
            self.on_cluster_event(&ClusterEvent::AssignedPodDeleted(&removed), now);
        }
    }

    /// Removes the nomination of a pod that was assigned to a node or left the queue.
    pub(super) fn finish_nomination(&mut self, id: PodId, now: Instant) {
        let Some(nomination) = self.nominator.remove(id) else {
            return;
        };
        self.state_version += 1;
        let node_id = self.cluster.pods().get(id).and_then(PodInfo::node_id);
        let is_there = node_id.is_some() && node_id == self.cluster.nodes().find(&nomination.node);
        if !is_there {
            self.on_nomination_removed(id, &nomination, now);
        }
    }

    /// Adopts `status.nominatedNodeName` of a pending pod as received from the API server.
    pub(super) fn sync_nomination(&mut self, id: PodId, old: Option<&Pod>, now: Instant) {
        let Some(pod) = self.pod(id) else { return };
        let previous = old.map(|old| &old.nominated_node_name);
        match &pod.nominated_node_name {
            // Unchanged on the server: our own write may not have arrived yet.
            same if previous.is_some_and(|old| old == same) => {}
            None if previous.is_none() => {}
            // The event of an older write of ours; that of the newer one is still to come.
            name if self
                .unconfirmed_nominations
                .is_superseded(id, name.as_deref(), now) => {}
            None => self.remove_nomination(id, now),
            Some(node) => {
                let known = self.nominator.get(id);
                if known.is_none_or(|known| known.node != *node) {
                    let nomination = Nomination {
                        node: node.clone(),
                        priority: pod.priority,
                        victims: Vec::new(),
                        since: now,
                    };
                    self.nominate(id, nomination, now);
                }
            }
        }
        if let Some(nomination) = self.nominator.get_mut(id) {
            nomination.priority = pod.priority;
        }
    }

    /// Removes the nominations of lower-priority pods for a node that a pod of this priority is nominated for, and
    /// requeues them: they may fit on another node, or still on this one.
    pub(super) fn clear_lower_nominations(&mut self, node: &str, priority: i32, now: Instant) {
        let pods: Vec<PodId> = self.nominator.pods_on(node).to_vec();
        for id in pods {
            let is_lower = self
                .nominator
                .get(id)
                .is_some_and(|nomination| nomination.priority < priority);
            if let Some(pod) = self.pod(id)
                && is_lower
            {
                self.remove_nomination(id, now);
                self.unconfirmed_nominations.record(id, None, now);
                self.queue
                    .move_to_active_or_backoff(QueueingEvent::PodUpdated, id, now);
                self.queued_outcomes
                    .push_back(SchedulingOutcome::NominationCleared { pod });
            }
        }
    }

    /// Requeues the preemptors whose victims were not terminated in time.
    pub(super) fn retry_expired_preemptions(&mut self, now: Instant) {
        while let Some((end, id)) = self.victim_deadlines.front().copied()
            && end <= now
        {
            self.victim_deadlines.pop_front();
            // The pod may be assigned, or have a newer nomination, by now.
            let nomination = self.nominator.get(id);
            let still_waits = nomination.is_some_and(|known| {
                !known.victims.is_empty() && known.since + VICTIM_TERMINATION_TIMEOUT <= now
            });
            if still_waits {
                self.queue
                    .move_to_active_or_backoff(QueueingEvent::UnschedulableTimeout, id, now);
            }
        }
    }

    /// After a failed binding: the nomination was removed when the pod was assumed, so it must be cleared on the server
    /// too. If there is a `problem`, it is reported in the same status write.
    pub(super) fn clear_nomination_after_failure(
        &mut self,
        id: PodId,
        pod: &Arc<Pod>,
        problem: Option<String>,
        now: Instant,
    ) {
        let is_nominated_on_server = match self.unconfirmed_nominations.last(id) {
            Some(written) => written.is_some(),
            None => pod.nominated_node_name.is_some(),
        };
        if is_nominated_on_server {
            self.unconfirmed_nominations.record(id, None, now);
        }
        let pod = pod.clone();
        match problem {
            Some(message) => self
                .queued_outcomes
                .push_back(SchedulingOutcome::Unscheduled {
                    pod,
                    reason: PodScheduledReason::SchedulerError,
                    message,
                    nominated: NominationUpdate::Clear,
                    victims: Vec::new(),
                    attempts: self.queue.history(id, now).attempts,
                }),
            None if is_nominated_on_server => {
                self.queued_outcomes
                    .push_back(SchedulingOutcome::NominationCleared { pod });
            }
            None => {}
        }
    }

    pub(super) fn pod(&self, id: PodId) -> Option<Arc<Pod>> {
        self.cluster.pods().get(id).map(|slot| slot.pod.clone())
    }
}
