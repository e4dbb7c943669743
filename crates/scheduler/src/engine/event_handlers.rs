//! Handlers of [`SchedulerEvent`]s: update the cluster state and the queue (upstream: `eventhandlers.go`).

use std::collections::HashSet;
use std::time::Instant;

use super::queueing_hints::any_hint_queues;
use super::{Event, Namespace, SchedulerCore, SchedulerEvent};
use crate::cluster::{DepartedPod, NodeId, PodId, PodMatcherId, PodUpsertResult};
use crate::model::{
    DisruptionBudget, Labels, NamespacedName, Node, Pod, SpreadOwner, SpreadOwnerKey,
    SpreadOwnerKind,
};
use crate::plugins::ClusterEvent;
use crate::queue::QueueingEvent;

impl SchedulerCore {
    /// Applies an event. Pending pods that it may make schedulable are requeued.
    pub fn apply(&mut self, change: SchedulerEvent, now: Instant) {
        match change {
            SchedulerEvent::Pod(Event::Applied(pod)) => self.set_pod(*pod, now),
            SchedulerEvent::Pod(Event::Deleted(uid)) => self.remove_pod(&uid, now),
            SchedulerEvent::Pod(Event::Replaced(uids)) => self.retain_pods(&uids, now),
            SchedulerEvent::Node(Event::Applied(node)) => self.set_node(*node, now),
            SchedulerEvent::Node(Event::Deleted(name)) => self.remove_node(&name, now),
            SchedulerEvent::Node(Event::Replaced(names)) => self.retain_nodes(&names, now),
            SchedulerEvent::Namespace(event) => self.on_namespace_event(event, now),
            SchedulerEvent::DisruptionBudget(event) => self.on_disruption_budget_event(event),
            SchedulerEvent::SpreadOwner(kind, event) => {
                self.on_spread_owner_event(kind, event, now);
            }
            SchedulerEvent::HoldPods(uids) => self.hold(uids, now),
            SchedulerEvent::ReleasePod { uid } => self.release_pod(&uid, now),
            SchedulerEvent::BindingSucceeded { uid } => self.on_binding_succeeded(&uid, now),
            SchedulerEvent::BindingConflict { uid } => self.on_binding_failed(&uid, None, now),
            SchedulerEvent::BindingRejected { uid, problem } => {
                self.on_binding_failed(&uid, Some(problem), now);
            }
            SchedulerEvent::PreemptionFailed { uid } => self.on_preemption_failed(&uid, now),
        }
    }
}

/// Pod events.
impl SchedulerCore {
    fn set_pod(&mut self, mut pod: Pod, now: Instant) {
        if !self.namespace_selectors {
            pod.drop_namespace_selectors();
        }
        match self.cluster.set_pod(pod) {
            PodUpsertResult::Added(id) => match self.assigned_node(id) {
                Some(_) => {
                    self.update_priority_counts(id, None);
                    self.on_cluster_event(&ClusterEvent::AssignedPodAdded(id), now);
                }
                None => self.enqueue(id, None, now),
            },
            PodUpsertResult::Updated {
                id,
                old_pod,
                previous_node,
                old_matched_by,
            } => self.on_pod_updated(id, &old_pod, previous_node, old_matched_by, now),
            PodUpsertResult::Unchanged(id) => self.dequeue_if_bound(id, now),
            PodUpsertResult::Removed(Some(removed)) => self.on_pod_removed(&removed, now),
            PodUpsertResult::Removed(None) => {}
        }
    }

    fn on_pod_updated(
        &mut self,
        id: PodId,
        old: &Pod,
        previous_node: Option<NodeId>,
        old_matched_by: Vec<PodMatcherId>,
        now: Instant,
    ) {
        let node_id = self.assigned_node(id);
        self.update_priority_counts(id, previous_node.map(|node_id| (node_id, old.priority)));
        match (previous_node, node_id) {
            (None, None) => self.enqueue(id, Some(old), now),
            (None, Some(_)) => {
                self.dequeue_if_bound(id, now);
                self.on_cluster_event(&ClusterEvent::AssignedPodAdded(id), now);
            }
            (Some(from), Some(to)) if from == to => {
                self.dequeue_if_bound(id, now);
                let event = ClusterEvent::AssignedPodUpdated {
                    pod: id,
                    old,
                    old_matched_by: &old_matched_by,
                };
                self.on_cluster_event(&event, now);
            }
            (Some(from), _) => {
                let removed = DepartedPod {
                    id,
                    pod: std::sync::Arc::new(old.clone()),
                    node_id: Some(from),
                    matched_by: old_matched_by,
                };
                self.on_cluster_event(&ClusterEvent::AssignedPodDeleted(&removed), now);
                match node_id {
                    Some(_) => {
                        self.dequeue_if_bound(id, now);
                        self.on_cluster_event(&ClusterEvent::AssignedPodAdded(id), now);
                    }
                    None => self.enqueue(id, None, now),
                }
            }
        }
    }

    /// Adds an unassigned pod to the queue, or updates it there. Removes it if it names none of our profiles or is
    /// terminating.
    fn enqueue(&mut self, id: PodId, old: Option<&Pod>, now: Instant) {
        let Some(pod) = self.pod(id) else { return };
        let profile = self.profile_by_name.get(&pod.scheduler_name).copied();
        let (Some(profile), false) = (profile, pod.is_terminating) else {
            self.dequeue(id, now);
            return;
        };
        let is_held = self.is_held(&pod);
        match old {
            Some(old) if self.queue.contains(id) => {
                let (profiles, cluster) = (&self.profiles, &self.cluster);
                let event = ClusterEvent::PendingPodUpdated { old };
                self.queue.update(id, &pod, is_held, now, |rejected_by| {
                    any_hint_queues(profiles, cluster, &event, id, profile, rejected_by)
                });
            }
            _ => {
                self.queue.add(id, &pod, profile, is_held, now);
                self.track_unknown_namespace(&pod, now);
            }
        }
        self.sync_nomination(id, old, now);
    }

    fn remove_pod(&mut self, uid: &str, now: Instant) {
        if let Some(removed) = self.cluster.remove_pod(uid) {
            self.on_pod_removed(&removed, now);
        }
    }

    fn on_pod_removed(&mut self, removed: &DepartedPod, now: Instant) {
        // First of all, since the pod id can be reused.
        self.queue.remove(removed.id, now);
        self.unconfirmed_nominations.forget(removed.id);
        self.remove_nomination_of_removed(removed, now);
        if let Some(node_id) = removed.node_id {
            self.priority_counts
                .remove_pod(node_id, removed.pod.priority);
            self.on_cluster_event(&ClusterEvent::AssignedPodDeleted(removed), now);
        }
    }

    fn retain_pods(&mut self, uids: &HashSet<Box<str>>, now: Instant) {
        let pods = self.cluster.pods().iter();
        let gone: Vec<Box<str>> = pods
            .map(|(_, slot)| &slot.pod.uid)
            .filter(|uid| !uids.contains(*uid))
            .cloned()
            .collect();
        for uid in gone {
            self.remove_pod(&uid, now);
        }
    }

    /// Updates the priority counts after a pod's node or priority changed; `old` is what was counted.
    pub(super) fn update_priority_counts(&mut self, id: PodId, old: Option<(NodeId, i32)>) {
        if let Some((node_id, priority)) = old {
            self.priority_counts.remove_pod(node_id, priority);
        }
        let slot = self.cluster.pods().get(id);
        if let Some((node_id, priority)) =
            slot.and_then(|slot| Some((slot.node_id()?, slot.pod.priority)))
        {
            self.priority_counts.add_pod(node_id, priority);
        }
    }

    fn assigned_node(&self, id: PodId) -> Option<NodeId> {
        self.cluster.pods().get(id)?.node_id()
    }
}

/// Results of bindings and preemptions.
impl SchedulerCore {
    fn on_binding_succeeded(&mut self, uid: &str, now: Instant) {
        if let Some(id) = self.cluster.pods().find(uid)
            && self.assigned_node(id).is_some()
        {
            self.dequeue(id, now);
        }
    }

    /// Removes a pod from the queue once the API server reports its node. The binding of an assumed pod can still fail.
    fn dequeue_if_bound(&mut self, id: PodId, now: Instant) {
        let slot = self.cluster.pods().get(id);
        if slot.is_some_and(|slot| slot.pod.node_name.is_some()) {
            self.dequeue(id, now);
        }
    }

    fn dequeue(&mut self, id: PodId, now: Instant) {
        self.queue.remove(id, now);
        self.unconfirmed_nominations.forget(id);
        self.finish_nomination(id, now);
    }

    fn on_binding_failed(&mut self, uid: &str, problem: Option<String>, now: Instant) {
        let Some(id) = self.cluster.pods().find(uid) else {
            return;
        };
        let Some(slot) = self.cluster.pods().get(id) else {
            return;
        };
        if !slot.is_assumed() {
            return;
        }
        let removed = DepartedPod {
            id,
            pod: slot.pod.clone(),
            node_id: slot.node_id(),
            matched_by: slot.matched_by().to_vec(),
        };
        self.cluster.forget(id);
        let old = removed
            .node_id
            .map(|node_id| (node_id, removed.pod.priority));
        self.update_priority_counts(id, old);
        if removed.pod.is_terminating {
            self.dequeue(id, now);
        } else if self.queue.contains(id) {
            self.queue.on_binding_failed(id, &removed.pod, now);
            self.clear_nomination_after_failure(id, &removed.pod, problem, now);
        } else {
            self.enqueue(id, None, now);
        }
        self.on_cluster_event(&ClusterEvent::AssignedPodDeleted(&removed), now);
    }

    fn on_preemption_failed(&mut self, uid: &str, now: Instant) {
        let Some(id) = self.cluster.pods().find(uid) else {
            return;
        };
        if let Some(nomination) = self.nominator.get_mut(id) {
            nomination.victims.clear();
        }
        self.state_version += 1;
        if self.queue.is_unschedulable(id) {
            self.queue.on_error(id, now);
        }
    }
}

/// Events of disruption budgets, services, controllers, nodes and namespaces.
impl SchedulerCore {
    fn on_disruption_budget_event(&mut self, event: Event<Box<DisruptionBudget>, NamespacedName>) {
        self.state_version += 1;
        match event {
            Event::Applied(budget) => self.disruption_budgets.set(*budget),
            Event::Deleted(key) => self.disruption_budgets.remove(&key.namespace, &key.name),
            Event::Replaced(keys) => self.disruption_budgets.retain(&keys),
        }
    }

    fn on_spread_owner_event(
        &mut self,
        kind: SpreadOwnerKind,
        event: Event<Box<SpreadOwner>, SpreadOwnerKey>,
        now: Instant,
    ) {
        match event {
            Event::Applied(owner) => {
                let namespace = owner.key.namespace.clone();
                if self.cluster.set_spread_owner(*owner) {
                    let namespace = &namespace;
                    self.on_cluster_event(&ClusterEvent::SpreadOwnerChanged { namespace }, now);
                }
            }
            Event::Deleted(key) => self.remove_spread_owner(&key, now),
            Event::Replaced(keys) => {
                let known = self.cluster.spread_owner_keys(kind).into_iter();
                for gone in known.filter(|key| !keys.contains(key)) {
                    self.remove_spread_owner(&gone, now);
                }
            }
        }
    }

    fn on_namespace_event(&mut self, event: Event<Namespace, Box<str>>, now: Instant) {
        match event {
            Event::Applied(Namespace { name, labels }) => {
                self.set_namespace(&name, Some(labels), now);
            }
            Event::Deleted(name) => self.set_namespace(&name, None, now),
            Event::Replaced(names) => self.retain_namespaces(&names, now),
        }
    }

    fn remove_spread_owner(&mut self, key: &SpreadOwnerKey, now: Instant) {
        if self.cluster.remove_spread_owner(key) {
            let namespace = &key.namespace;
            self.on_cluster_event(&ClusterEvent::SpreadOwnerChanged { namespace }, now);
        }
    }

    fn set_node(&mut self, node: Node, now: Instant) {
        let (id, old) = self.cluster.set_node(node);
        match old {
            None => self.on_cluster_event(&ClusterEvent::NodeAdded(id), now),
            Some(old) if self.cluster.nodes().node(id) == Some(&old) => {}
            Some(old) => {
                let event = ClusterEvent::NodeUpdated {
                    node: id,
                    old: &old,
                };
                self.on_cluster_event(&event, now);
            }
        }
    }

    fn remove_node(&mut self, name: &str, now: Instant) {
        let Some(old) = self.cluster.remove_node(name) else {
            return;
        };
        self.on_cluster_event(&ClusterEvent::NodeDeleted { old: &old }, now);
        // Pods nominated for this node must find another one.
        for pod in self.nominator.pods_on(name).to_vec() {
            self.queue
                .move_to_active_or_backoff(QueueingEvent::NodeDeleted, pod, now);
        }
    }

    fn retain_nodes(&mut self, names: &HashSet<Box<str>>, now: Instant) {
        let nodes = self.cluster.nodes().iter();
        let gone: Vec<Box<str>> = nodes
            .filter(|(_, slot)| slot.node().is_some() && !names.contains(&slot.name))
            .map(|(_, slot)| slot.name.clone())
            .collect();
        for name in gone {
            self.remove_node(&name, now);
        }
    }

    fn set_namespace(&mut self, name: &str, labels: Option<Labels>, now: Instant) {
        let is_new = labels.is_some() && !self.cluster.has_namespace(name);
        let matchers = match labels {
            Some(labels) => self.cluster.set_namespace(name, labels),
            None => self.cluster.remove_namespace(name),
        };
        if !matchers.is_empty() {
            let event = ClusterEvent::NamespaceRelabelled {
                namespace: name,
                matchers: &matchers,
            };
            self.on_cluster_event(&event, now);
        }
        if is_new {
            self.release_namespace(name, now);
        }
    }

    fn retain_namespaces(&mut self, names: &HashSet<Box<str>>, now: Instant) {
        let known = self.cluster.namespace_names();
        let gone: Vec<Box<str>> = known
            .filter(|name| !names.contains(*name))
            .map(Box::from)
            .collect();
        for name in gone {
            self.set_namespace(&name, None, now);
        }
        self.on_namespaces_synced(now);
    }
}
