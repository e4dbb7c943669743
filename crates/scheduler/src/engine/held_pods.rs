//! Pods that must not be scheduled yet: held by `SchedulerEvent::HoldPods`, or in a namespace that is not known. They
//! are queued as gated.
//!
//! Affinity terms select namespaces by label, so a pod in an unknown namespace could be placed in violation of a term.
//! Once the namespaces have been listed, an unknown one is new, and its watch event is about to arrive.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use super::{NominationUpdate, PodScheduledReason, SchedulerCore, SchedulingOutcome};
use crate::cluster::PodId;
use crate::model::Pod;

/// A pod that waits longer for its namespace gets a condition.
const NAMESPACE_WAIT_MAX: Duration = Duration::from_secs(10);

/// The pods that are held, and those that wait for their namespace.
#[derive(Debug, Default)]
pub(super) struct HeldPods {
    by_uid: HashSet<Box<str>>,
    /// The first list of namespaces is complete.
    are_namespaces_synced: bool,
    /// Uids of pods in unknown namespaces, the earliest first.
    awaiting_namespace: VecDeque<(Instant, Box<str>)>,
}

impl HeldPods {
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let (since, _) = self.awaiting_namespace.front()?;
        since.checked_add(NAMESPACE_WAIT_MAX)
    }
}

impl SchedulerCore {
    pub(super) fn is_held(&self, pod: &Pod) -> bool {
        self.held_pods.by_uid.contains(&pod.uid) || self.is_namespace_unknown(pod)
    }

    fn is_namespace_unknown(&self, pod: &Pod) -> bool {
        self.held_pods.are_namespaces_synced && !self.cluster.has_namespace(&pod.key.namespace)
    }

    pub(super) fn hold(&mut self, uids: HashSet<Box<str>>, now: Instant) {
        let pods = uids.iter().filter_map(|uid| self.cluster.pods().find(uid));
        let pods: Vec<PodId> = pods.collect();
        self.held_pods.by_uid.extend(uids);
        self.refresh_gating(pods, now);
    }

    pub(super) fn release_pod(&mut self, uid: &str, now: Instant) {
        self.held_pods.by_uid.remove(uid);
        let pod = self.cluster.pods().find(uid);
        self.refresh_gating(pod.into_iter().collect(), now);
    }

    pub(super) fn release_namespace(&mut self, name: &str, now: Instant) {
        let pods = self.cluster.pods().in_namespace(name).collect();
        self.refresh_gating(pods, now);
    }

    /// Called when the namespaces have been listed: from now on, pods in unknown namespaces are gated.
    pub(super) fn on_namespaces_synced(&mut self, now: Instant) {
        self.held_pods.are_namespaces_synced = true;
        let pods = self.cluster.pods().iter().map(|(id, _)| id);
        let waiting: Vec<PodId> = pods.filter(|id| self.queue.contains(*id)).collect();
        for id in &waiting {
            if let Some(pod) = self.pod(*id) {
                self.track_unknown_namespace(&pod, now);
            }
        }
        self.refresh_gating(waiting, now);
    }

    /// Must be called when a pod is added to the queue.
    pub(super) fn track_unknown_namespace(&mut self, pod: &Pod, now: Instant) {
        if self.is_namespace_unknown(pod) {
            self.held_pods
                .awaiting_namespace
                .push_back((now, pod.uid.clone()));
        }
    }

    /// The outcome for a pod that has waited too long for its namespace. The pod stays gated.
    pub(super) fn report_unknown_namespace(&mut self, now: Instant) -> Option<SchedulingOutcome> {
        while self
            .held_pods
            .next_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            let (_, uid) = self.held_pods.awaiting_namespace.pop_front()?;
            let id = self.cluster.pods().find(&uid);
            let waiting = id.filter(|id| self.queue.contains(*id));
            let pod = waiting.and_then(|id| self.pod(id));
            if let Some(pod) = pod.filter(|pod| self.is_namespace_unknown(pod)) {
                let message = format!("namespace {:?} is not known", pod.key.namespace);
                return Some(SchedulingOutcome::Unscheduled {
                    pod,
                    reason: PodScheduledReason::SchedulerError,
                    message,
                    nominated: NominationUpdate::Unchanged,
                    victims: Vec::new(),
                    attempts: 0,
                });
            }
        }
        None
    }

    /// Recomputes whether queued pods are gated.
    fn refresh_gating(&mut self, pods: Vec<PodId>, now: Instant) {
        for id in pods {
            if let Some(pod) = self.pod(id) {
                let is_held = self.is_held(&pod);
                self.queue.set_held(id, &pod, is_held, now);
            }
        }
    }
}
