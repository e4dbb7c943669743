//! Queueing hints of `PodTopologySpread`: whether an event changes the counts or domains of the pod's hard constraints.

use super::PodTopologySpread;
use super::constraints::ResolvedSpreadConstraint;
use crate::cluster::{ClusterState, PodInfo, PodMatcherId};
use crate::model::{Node, NodeInclusionPolicy, Pod, WhenUnsatisfiable};
use crate::plugins::ClusterEvent;
use crate::plugins::taint_toleration::untolerated_taint;

pub(super) fn queueing_hint(
    plugin: &PodTopologySpread,
    event: &ClusterEvent<'_>,
    pod: &PodInfo,
    cluster: &ClusterState,
) -> bool {
    let constraints = plugin.constraints(pod, cluster, WhenUnsatisfiable::DoNotSchedule);
    let any = |test: &dyn Fn(&ResolvedSpreadConstraint<'_>) -> bool| constraints.iter().any(test);
    let counts = |matchers: &[PodMatcherId], constraint: &ResolvedSpreadConstraint<'_>| {
        matchers.binary_search(&constraint.matcher).is_ok()
    };
    match event {
        ClusterEvent::AssignedPodAdded(other) => {
            let other = cluster.pods().get(*other);
            other.is_some_and(|other| any(&|constraint| counts(other.matched_by(), constraint)))
        }
        ClusterEvent::AssignedPodDeleted(removed) => {
            removed.node_id.is_some() && any(&|constraint| counts(&removed.matched_by, constraint))
        }
        ClusterEvent::AssignedPodUpdated {
            pod: other,
            old_matched_by,
            ..
        } => {
            let other = cluster.pods().get(*other);
            other.is_some_and(|other| {
                any(&|constraint| {
                    counts(other.matched_by(), constraint) != counts(old_matched_by, constraint)
                })
            })
        }
        ClusterEvent::PendingPodUpdated { old } => changes_spreading(&pod.pod, old),
        ClusterEvent::NodeAdded(node) => {
            let node = cluster.nodes().node(*node);
            node.is_some_and(|node| has_all_labels(node, &constraints))
        }
        ClusterEvent::NodeDeleted { old } => has_all_labels(old, &constraints),
        ClusterEvent::NodeUpdated { node, old } => {
            let new = cluster.nodes().node(*node);
            new.is_some_and(|new| counts_differently(new, old, &pod.pod, &constraints))
        }
        ClusterEvent::SpreadOwnerChanged { namespace } => {
            *pod.pod.key.namespace == **namespace
                && pod.pod.spread_constraints.is_empty()
                && plugin
                    .defaults
                    .iter()
                    .any(|rule| rule.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule)
        }
        ClusterEvent::NamespaceRelabelled { .. } => false,
    }
}

/// Pods that no term matches are counted by no constraint.
pub(super) fn is_event_relevant(event: &ClusterEvent<'_>, cluster: &ClusterState) -> bool {
    match event {
        ClusterEvent::AssignedPodAdded(other) => {
            let other = cluster.pods().get(*other);
            other.is_some_and(|other| !other.matched_by().is_empty())
        }
        ClusterEvent::AssignedPodDeleted(removed) => !removed.matched_by.is_empty(),
        ClusterEvent::AssignedPodUpdated {
            pod,
            old_matched_by,
            ..
        } => {
            let new = cluster.pods().get(*pod);
            new.is_some_and(|new| new.matched_by() != *old_matched_by)
        }
        ClusterEvent::NamespaceRelabelled { .. } => false,
        ClusterEvent::NodeDeleted { .. }
        | ClusterEvent::SpreadOwnerChanged { .. }
        | ClusterEvent::PendingPodUpdated { .. } => true,
        ClusterEvent::NodeAdded(_) | ClusterEvent::NodeUpdated { .. } => event
            .adds_or_changes_node(cluster, |old, new| {
                old.labels != new.labels || old.taints != new.taints
            }),
    }
}

fn changes_spreading(new: &Pod, old: &Pod) -> bool {
    new.labels != old.labels
        || new.spread_constraints != old.spread_constraints
        || new.tolerations != old.tolerations
        || new.node_selector != old.node_selector
}

fn has_all_labels(node: &Node, constraints: &[ResolvedSpreadConstraint<'_>]) -> bool {
    let mut constraints = constraints.iter();
    constraints.all(|one| node.labels.get(&one.rule.topology_key).is_some())
}

/// Whether an updated node changed its domain or its eligibility for one of the constraints.
fn counts_differently(
    new: &Node,
    old: &Node,
    pod: &Pod,
    constraints: &[ResolvedSpreadConstraint<'_>],
) -> bool {
    let has_all = has_all_labels(new, constraints);
    if has_all != has_all_labels(old, constraints) {
        return true;
    }
    let differs = |constraint: &ResolvedSpreadConstraint<'_>| {
        let rule = constraint.rule;
        let key = &rule.topology_key;
        let is_tolerated = |node: &Node| untolerated_taint(node, &pod.tolerations).is_none();
        new.labels.get(key) != old.labels.get(key)
            || (rule.node_affinity_policy == NodeInclusionPolicy::Honor
                && pod.node_selector.matches(new) != pod.node_selector.matches(old))
            || (rule.node_taints_policy == NodeInclusionPolicy::Honor
                && is_tolerated(new) != is_tolerated(old))
    };
    has_all && constraints.iter().any(differs)
}
