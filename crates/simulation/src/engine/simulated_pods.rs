//! State of the pods on simulated nodes: pending requests, timers, addresses.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rhumb_client::Error;
use rhumb_client::informer::Event;
use tokio::time::Instant;

use super::pod_events::InvalidAnnotationEvent;
use super::simulated_nodes::SimulatedNodes;
use super::{DelayedWork, EVENTS_MAX, FAILURES_QUIET, PodUid, WorkQueues, pause};
use crate::node_pools::PodIpAllocator;
use crate::partial_objects;
use crate::pods::lifecycle::{PodAction, PodTransition, next};
use crate::pods::observed_pod::{ObservedPod, PodStage, StageObservation};
use crate::pods::status;

/// How long the watch may take to deliver the change that made a write fail.
const HEARD_OF_MAX: Duration = Duration::from_secs(5);

/// Maximum length of a timer; longer waits take several. Limits the number of timers of deleted pods.
const TIMER_MAX: Duration = Duration::from_secs(300);

type PodRequestFuture = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

struct SimulatedPod {
    facts: ObservedPod,
    node: usize,
    sight: StageObservation,
    slot: Option<u32>,
    /// Deadline of its timer; other timers of the pod in the queue are obsolete.
    due: Option<Timestamp>,
    is_queued: bool,
    /// It waits for the registration of its node.
    is_waiting_for_node: bool,
    /// The resourceVersion that the request in flight is based on.
    writing: Option<String>,
    /// The resourceVersion that was handled completely; the next step needs a newer one.
    acted_on: Option<String>,
    problems: Vec<String>,
    failures: u32,
}

pub(super) fn uid_of(pod: &partial_objects::Pod) -> PodUid {
    pod.metadata.uid.as_deref().unwrap_or_default().into()
}

/// The unfinished pods. A finished pod is forgotten until it is deleted.
#[derive(Default)]
pub(super) struct SimulatedPods {
    pods: HashMap<PodUid, SimulatedPod>,
    /// Set after the first list: only then it is known which addresses are in use.
    has_begun: bool,
}

impl SimulatedPods {
    pub(super) fn note(
        &mut self,
        event: Event<partial_objects::Pod, PodUid>,
        nodes: &mut SimulatedNodes,
        queues: &mut WorkQueues,
    ) {
        match event {
            Event::Applied(pod) => self.is_seen(pod, nodes, queues),
            Event::Deleted(uid) => self.forget(&uid, nodes),
            Event::Replaced(uids) => {
                let gone = self.pods.keys().filter(|uid| !uids.contains(*uid));
                for uid in gone.cloned().collect::<Vec<_>>() {
                    self.forget(&uid, nodes);
                }
                if !std::mem::replace(&mut self.has_begun, true) {
                    let all: Vec<PodUid> = self.pods.keys().cloned().collect();
                    self.consider_all(all, nodes, queues);
                }
            }
        }
    }

    /// Handles an added or updated pod. Other pods than those on simulated nodes are ignored.
    fn is_seen(
        &mut self,
        seen: partial_objects::Pod,
        nodes: &mut SimulatedNodes,
        queues: &mut WorkQueues,
    ) {
        let Some(node) = nodes.find(&seen.spec.node_name) else {
            return;
        };
        let (facts, problems) = ObservedPod::read(seen);
        let uid = PodUid::from(facts.uid.as_str());
        let stage = facts.stage();
        if matches!(
            stage,
            PodStage::Finished | PodStage::Stopped { is_confirmed: true }
        ) {
            return self.forget(&uid, nodes);
        }
        let now = Timestamp::now();
        let slot = nodes.slot_of(node, &facts.status.pod_ip);
        match self.pods.get_mut(&uid) {
            Some(pod) => {
                pod.sight.update(stage, now);
                pod.facts = facts;
            }
            None => {
                let pod = SimulatedPod {
                    sight: StageObservation::new(stage, now),
                    facts,
                    node,
                    slot: None,
                    due: None,
                    is_queued: false,
                    is_waiting_for_node: false,
                    writing: None,
                    acted_on: None,
                    problems: Vec::new(),
                    failures: 0,
                };
                self.pods.insert(uid.clone(), pod);
            }
        }
        let Some(pod) = self.pods.get_mut(&uid) else {
            return;
        };
        if slot.is_some() && pod.slot != slot {
            pod.move_to(slot, nodes);
        }
        pod.queue_problem_events(problems, queues);
        self.consider(&uid, nodes, queues);
    }

    fn forget(&mut self, uid: &str, nodes: &mut SimulatedNodes) {
        if let Some(mut pod) = self.pods.remove(uid) {
            if pod.is_waiting_for_node {
                nodes.let_go(pod.node, uid);
            }
            pod.move_to(None, nodes);
        }
    }

    /// Continues with pods whose node has registered.
    pub(super) fn resume(
        &mut self,
        waiting_pods: Vec<PodUid>,
        nodes: &mut SimulatedNodes,
        queues: &mut WorkQueues,
    ) {
        for uid in &waiting_pods {
            if let Some(pod) = self.pods.get_mut(uid) {
                pod.is_waiting_for_node = false;
            }
        }
        self.consider_all(waiting_pods, nodes, queues);
    }

    fn consider_all(
        &mut self,
        pods: impl IntoIterator<Item = PodUid>,
        nodes: &mut SimulatedNodes,
        queues: &mut WorkQueues,
    ) {
        for uid in pods {
            self.consider(&uid, nodes, queues);
        }
    }

    /// Queues the next request of a pod, or sets a timer for it.
    fn consider(&mut self, uid: &PodUid, nodes: &mut SimulatedNodes, queues: &mut WorkQueues) {
        let Some(pod) = self.pods.get_mut(uid) else {
            return;
        };
        let is_busy = pod.is_queued || pod.is_waiting_for_node || pod.writing.is_some();
        if is_busy || !self.has_begun || pod.acted_on.as_ref() == Some(&pod.facts.version) {
            return;
        }
        if !nodes.is_there(pod.node) {
            pod.is_waiting_for_node = true;
            return nodes.add_waiting_pod(pod.node, uid);
        }
        let now = Timestamp::now();
        match next(&pod.facts, &pod.sight, now) {
            PodAction::Rest => pod.due = None,
            PodAction::Wait(due) => pod.schedule_at(uid, due, now, queues),
            PodAction::Write(_) | PodAction::Delete => {
                pod.is_queued = true;
                queues.pod_work.push_back(uid.clone());
            }
        }
    }

    pub(super) fn on_timer(
        &mut self,
        uid: &PodUid,
        at: Timestamp,
        nodes: &mut SimulatedNodes,
        queues: &mut WorkQueues,
    ) {
        if let Some(pod) = self.pods.get_mut(uid)
            && pod.due == Some(at)
        {
            pod.due = None;
            pod.acted_on = None;
            self.consider(uid, nodes, queues);
        }
    }

    /// The request of a queued pod, computed again because the pod may have changed while it was queued.
    pub(super) fn job(
        &mut self,
        uid: &PodUid,
        nodes: &mut SimulatedNodes,
        queues: &mut WorkQueues,
    ) -> Option<PodRequestFuture> {
        let pod = self.pods.get_mut(uid)?;
        pod.is_queued = false;
        let now = Timestamp::now();
        let change = match next(&pod.facts, &pod.sight, now) {
            PodAction::Write(change) if nodes.is_there(pod.node) => Some(change),
            PodAction::Delete if nodes.is_there(pod.node) => None,
            _ => {
                self.consider(uid, nodes, queues);
                return None;
            }
        };
        let server = queues.server.clone();
        let (namespace, name) = (pod.facts.namespace.clone(), pod.facts.name.clone());
        let Some(change) = change else {
            pod.writing = Some(pod.facts.version.clone());
            let uid = uid.clone();
            return Some(Box::pin(async move {
                server.delete_pod(&namespace, &name, &uid).await
            }));
        };
        if !pod.find_address(change, nodes) {
            pod.fail("the node has no free pod address", uid, queues);
            return None;
        }
        pod.writing = Some(pod.facts.version.clone());
        let addresses = nodes.addresses(pod.node, pod.slot)?;
        let patch = status::patch(&pod.facts, change, addresses, now);
        Some(Box::pin(async move {
            server.patch_pod_status(&namespace, &name, &patch).await
        }))
    }

    pub(super) fn on_status_patched(
        &mut self,
        uid: &PodUid,
        result: Result<(), Error>,
        nodes: &mut SimulatedNodes,
        queues: &mut WorkQueues,
    ) {
        let Some(pod) = self.pods.get_mut(uid) else {
            return;
        };
        let version = pod.writing.take();
        match result {
            Ok(()) => {
                pod.failures = 0;
                pod.acted_on = version;
                self.consider(uid, nodes, queues);
            }
            // The watch will deliver the deletion or change.
            Err(error) if error.is_not_found() || error.is_conflict() => {
                pod.acted_on = version;
                let now = Timestamp::now();
                let at = now.checked_add(HEARD_OF_MAX).unwrap_or(Timestamp::MAX);
                pod.schedule_at(uid, at, now, queues);
                self.consider(uid, nodes, queues);
            }
            Err(error) => pod.fail(&error.to_string(), uid, queues),
        }
    }
}

impl SimulatedPod {
    fn schedule_at(
        &mut self,
        uid: &PodUid,
        due: Timestamp,
        now: Timestamp,
        queues: &mut WorkQueues,
    ) {
        if self.due != Some(due) {
            self.due = Some(due);
            let left = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            let at = Instant::now() + left.min(TIMER_MAX);
            queues.timers.add(at, DelayedWork::Pod(uid.clone(), due));
        }
    }

    fn fail(&mut self, problem: &str, uid: &PodUid, queues: &mut WorkQueues) {
        self.failures = self.failures.saturating_add(1);
        if self.failures == FAILURES_QUIET + 1 {
            let (namespace, pod) = (&self.facts.namespace, &self.facts.name);
            tracing::warn!(
                namespace,
                pod,
                problem,
                "request of simulated pod keeps failing; retrying"
            );
        }
        let now = Timestamp::now();
        let at = now.checked_add(pause(self.failures));
        self.acted_on = Some(self.facts.version.clone());
        self.schedule_at(uid, at.unwrap_or(Timestamp::MAX), now, queues);
    }

    /// Allocates an address if the pod needs one. False if there is none left.
    fn find_address(&mut self, change: PodTransition, nodes: &mut SimulatedNodes) -> bool {
        let needs_one =
            matches!(change, PodTransition::Start { .. }) && !self.facts.spec.host_network;
        if needs_one && self.slot.is_none() {
            self.slot = nodes.slots(self.node).and_then(PodIpAllocator::take);
        }
        !needs_one || self.slot.is_some()
    }

    fn move_to(&mut self, slot: Option<u32>, nodes: &mut SimulatedNodes) {
        if let Some(slots) = nodes.slots(self.node) {
            if let Some(before) = self.slot {
                slots.release(before);
            }
            if let Some(slot) = slot {
                slots.reserve(slot);
            }
            self.slot = slot;
        }
    }

    /// Queues an event for each new problem.
    fn queue_problem_events(&mut self, problems: Vec<String>, queues: &mut WorkQueues) {
        for problem in &problems {
            if !self.problems.contains(problem) && queues.events.len() < EVENTS_MAX {
                queues
                    .events
                    .push_back(InvalidAnnotationEvent::new(&self.facts, problem));
            }
        }
        self.problems = problems;
    }
}
