//! What can change how evenly pods are spread.

use super::PodTopologySpread;
use super::constraints::Constraint;
use crate::cluster::{Cluster, PickerId, PodSlot};
use crate::model::{Node, NodePolicy, Pod, WhenUnsatisfiable};
use crate::plugins::Event;
use crate::plugins::taint_toleration::repelling_taint;

pub(super) fn may_help(
    plugin: &PodTopologySpread,
    event: &Event<'_>,
    pod: &PodSlot,
    cluster: &Cluster,
) -> bool {
    let constraints = plugin.constraints(pod, cluster, WhenUnsatisfiable::DoNotSchedule);
    let any = |test: &dyn Fn(&Constraint<'_>) -> bool| constraints.iter().any(test);
    let counts = |pickers: &[PickerId], constraint: &Constraint<'_>| {
        pickers.binary_search(&constraint.picker).is_ok()
    };
    match event {
        Event::PodPlaced(other) => {
            let other = cluster.pods().get(*other);
            other.is_some_and(|other| any(&|one| counts(other.picked_by(), one)))
        }
        Event::PodLeft(departed) => {
            departed.place.is_some() && any(&|one| counts(&departed.picked_by, one))
        }
        Event::PodChanged {
            pod: other,
            picked_by_before,
            ..
        } => {
            let other = cluster.pods().get(*other);
            other.is_some_and(|other| {
                any(&|one| counts(other.picked_by(), one) != counts(picked_by_before, one))
            })
        }
        Event::Itself { before } => is_other_question(&pod.facts, before),
        Event::NodeAdded(node) => {
            let facts = cluster.nodes().facts(*node);
            facts.is_some_and(|facts| has_all_labels(facts, &constraints))
        }
        Event::NodeLeft { before } => has_all_labels(before, &constraints),
        Event::NodeChanged { node, before } => {
            let now = cluster.nodes().facts(*node);
            now.is_some_and(|now| counts_differently(now, before, &pod.facts, &constraints))
        }
        Event::GroupChanged { namespace } => {
            *pod.facts.key.namespace == **namespace
                && pod.facts.spread.is_empty()
                && plugin
                    .defaults
                    .iter()
                    .any(|rule| rule.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule)
        }
        Event::NamespaceRelabelled { .. } => false,
    }
}

/// Pods that no term picks are counted by nobody.
pub(super) fn may_help_some(event: &Event<'_>, cluster: &Cluster) -> bool {
    match event {
        Event::PodPlaced(other) => {
            let other = cluster.pods().get(*other);
            other.is_some_and(|other| !other.picked_by().is_empty())
        }
        Event::PodLeft(departed) => !departed.picked_by.is_empty(),
        Event::PodChanged {
            pod,
            picked_by_before,
            ..
        } => {
            let now = cluster.pods().get(*pod);
            now.is_some_and(|now| now.picked_by() != *picked_by_before)
        }
        Event::NamespaceRelabelled { .. } => false,
        Event::NodeLeft { .. } | Event::GroupChanged { .. } | Event::Itself { .. } => true,
        Event::NodeAdded(_) | Event::NodeChanged { .. } => event
            .brings_node(cluster, |before, now| {
                before.labels != now.labels || before.taints != now.taints
            }),
    }
}

fn is_other_question(now: &Pod, before: &Pod) -> bool {
    now.labels != before.labels
        || now.spread != before.spread
        || now.tolerations != before.tolerations
        || now.nodes != before.nodes
}

fn has_all_labels(node: &Node, constraints: &[Constraint<'_>]) -> bool {
    let mut constraints = constraints.iter();
    constraints.all(|one| node.labels.get(&one.rule.topology_key).is_some())
}

/// Whether a node is in other domains than before, or counts where it did not, or the other way round.
fn counts_differently(
    now: &Node,
    before: &Node,
    pod: &Pod,
    constraints: &[Constraint<'_>],
) -> bool {
    let has_all = has_all_labels(now, constraints);
    if has_all != has_all_labels(before, constraints) {
        return true;
    }
    let differs = |constraint: &Constraint<'_>| {
        let rule = constraint.rule;
        let key = &rule.topology_key;
        let is_tolerated = |node: &Node| repelling_taint(node, &pod.tolerations).is_none();
        now.labels.get(key) != before.labels.get(key)
            || (rule.node_affinity_policy == NodePolicy::Honor
                && pod.nodes.matches(now) != pod.nodes.matches(before))
            || (rule.node_taints_policy == NodePolicy::Honor
                && is_tolerated(now) != is_tolerated(before))
    };
    has_all && constraints.iter().any(differs)
}
