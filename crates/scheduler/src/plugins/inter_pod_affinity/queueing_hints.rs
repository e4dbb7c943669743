//! Queueing hints of `InterPodAffinity`: whether an event may satisfy a pending pod's affinity or remove a conflicting
//! pod (upstream: `isSchedulableAfterPodChange`, `isSchedulableAfterNodeChange`).

use super::filter::matches_itself;
use crate::cluster::{ClusterState, DepartedPod, PodInfo, PodMatcherId, TermId};
use crate::model::{Labels, Node, Pod};
use crate::plugins::ClusterEvent;

pub(super) fn queueing_hint(
    event: &ClusterEvent<'_>,
    pod: &PodInfo,
    cluster: &ClusterState,
) -> bool {
    let context = AffinityHintContext { pod, cluster };
    match event {
        ClusterEvent::AssignedPodAdded(other) => {
            let other = cluster.pods().get(*other);
            other.is_some_and(|other| context.affinity_matches(other.matched_by()))
        }
        ClusterEvent::AssignedPodDeleted(removed) => {
            removed.node_id.is_some() && context.gains_from_deletion(removed)
        }
        ClusterEvent::AssignedPodUpdated {
            pod: other,
            old,
            old_matched_by,
        } => {
            let other = cluster.pods().get(*other);
            other.is_some_and(|other| context.gains_from_update(other, old, old_matched_by))
        }
        ClusterEvent::PendingPodUpdated { old } => {
            let new = &pod.pod;
            new.labels != old.labels
                || new.affinity.required != old.affinity.required
                || new.anti_affinity.required != old.anti_affinity.required
        }
        ClusterEvent::NamespaceRelabelled {
            namespace,
            matchers,
        } => {
            let is_own = *pod.pod.key.namespace == **namespace;
            !matchers.is_empty()
                && (is_own || context.own_matchers().any(|own| matchers.contains(&own)))
        }
        ClusterEvent::NodeAdded(node) => {
            let node = cluster.nodes().node(*node);
            node.is_some_and(|node| context.can_use_node(node))
        }
        ClusterEvent::NodeDeleted { old } => context.changes_domain(Some(&old.labels), None),
        ClusterEvent::NodeUpdated { node, old } => {
            let new = cluster.nodes().node(*node);
            let new = new.map(|new| &new.labels);
            context.changes_domain(Some(&old.labels), new)
        }
        ClusterEvent::SpreadOwnerChanged { .. } => false,
    }
}

/// A pod that no term matches and that has no anti-affinity affects no pending pod.
pub(super) fn is_event_relevant(event: &ClusterEvent<'_>, cluster: &ClusterState) -> bool {
    match event {
        ClusterEvent::AssignedPodAdded(other) => {
            let other = cluster.pods().get(*other);
            other.is_some_and(|other| !other.matched_by().is_empty())
        }
        ClusterEvent::AssignedPodDeleted(removed) => {
            !removed.matched_by.is_empty() || !removed.pod.anti_affinity.required.is_empty()
        }
        ClusterEvent::AssignedPodUpdated {
            pod,
            old,
            old_matched_by,
        } => {
            let new = cluster.pods().get(*pod);
            new.is_some_and(|new| {
                new.matched_by() != *old_matched_by
                    || new.pod.anti_affinity.required != old.anti_affinity.required
            })
        }
        ClusterEvent::NodeAdded(_) | ClusterEvent::NodeUpdated { .. } => {
            event.adds_or_changes_node(cluster, |old, new| old.labels != new.labels)
        }
        ClusterEvent::SpreadOwnerChanged { .. } => false,
        ClusterEvent::NodeDeleted { .. }
        | ClusterEvent::NamespaceRelabelled { .. }
        | ClusterEvent::PendingPodUpdated { .. } => true,
    }
}

/// A pending pod that was rejected by this plugin.
struct AffinityHintContext<'a> {
    pod: &'a PodInfo,
    cluster: &'a ClusterState,
}

impl AffinityHintContext<'_> {
    /// Whether a pod with these matchers matches the pending pod's affinity.
    fn affinity_matches(&self, matched_by: &[PodMatcherId]) -> bool {
        // Each affinity term counts the pods that match all terms, so the first represents all.
        let first = self.pod.terms().affinity.first();
        first.is_some_and(|term| self.term_matches(*term, matched_by))
    }

    fn anti_affinity_matches(&self, matched_by: &[PodMatcherId]) -> bool {
        let mut terms = self.pod.terms().anti_affinity.iter();
        terms.any(|term| self.term_matches(*term, matched_by))
    }

    fn term_matches(&self, term: TermId, matched_by: &[PodMatcherId]) -> bool {
        let matcher = self.cluster.term_counts(term).matcher;
        matched_by.binary_search(&matcher).is_ok()
    }

    fn is_excluded_by(&self, other: &Pod) -> bool {
        let pod = &self.pod.pod;
        let labels = self.cluster.namespace_labels(&pod.key.namespace);
        let mut terms = other.anti_affinity.required.iter();
        terms.any(|term| term.matcher.matches(pod, labels))
    }

    /// Whether the pod matches its own affinity, and so may be placed anywhere once no other matching pod is left.
    fn could_be_first(&self) -> bool {
        !self.pod.terms().affinity.is_empty() && matches_itself(self.pod, self.cluster)
    }

    fn gains_from_deletion(&self, removed: &DepartedPod) -> bool {
        self.anti_affinity_matches(&removed.matched_by)
            || self.is_excluded_by(&removed.pod)
            || (self.affinity_matches(&removed.matched_by) && self.could_be_first())
    }

    fn gains_from_update(
        &self,
        other: &PodInfo,
        old: &Pod,
        old_matched_by: &[PodMatcherId],
    ) -> bool {
        let new = other.matched_by();
        let terms = self.pod.terms().anti_affinity.iter();
        let mut no_longer_matched = terms
            .filter(|term| self.term_matches(**term, old_matched_by))
            .filter(|term| !self.term_matches(**term, new));
        let (matched_before, matches_now) = (
            self.affinity_matches(old_matched_by),
            self.affinity_matches(new),
        );
        no_longer_matched.next().is_some()
            || (!matched_before && matches_now)
            || (matched_before && !matches_now && self.could_be_first())
            || (old.anti_affinity.required != other.pod.anti_affinity.required
                && self.is_excluded_by(old))
    }

    /// The matchers of the pod's own required terms.
    fn own_matchers(&self) -> impl Iterator<Item = PodMatcherId> {
        let terms = self.pod.terms();
        let terms = terms.affinity.iter().chain(&terms.affinity_single);
        let terms = terms.chain(&self.pod.terms().anti_affinity);
        terms.map(|term| self.cluster.term_counts(*term).matcher)
    }

    /// Whether the node has a topology label of the pod's required affinity. Without one the pod cannot be placed
    /// there.
    fn can_use_node(&self, node: &Node) -> bool {
        let mut terms = self.pod.pod.affinity.required.iter();
        terms.len() == 0 || terms.any(|term| node.labels.get(&term.topology_key).is_some())
    }

    /// Whether the node moved to another domain of a term that the pod has or that matches the pod.
    fn changes_domain(&self, old: Option<&Labels>, new: Option<&Labels>) -> bool {
        let own = self.pod.terms();
        let own = own.affinity.iter().chain(&own.anti_affinity);
        let matchers = self.pod.matched_by().iter();
        let others = matchers.flat_map(|matcher| self.cluster.terms_using(*matcher));
        own.chain(others).any(|term| {
            let topology = self
                .cluster
                .topology(self.cluster.term_counts(*term).topology);
            topology.key().is_some_and(|key| {
                let value = |labels: Option<&Labels>| {
                    labels.and_then(|labels| labels.get(key).map(str::to_owned))
                };
                value(old) != value(new)
            })
        })
    }
}
