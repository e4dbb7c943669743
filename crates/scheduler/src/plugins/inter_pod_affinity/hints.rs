//! What can bring a pod those that it wants, or take away those that it minds or that mind it.

use super::filter::picks_itself;
use crate::cluster::{Cluster, Departed, PickerId, PodSlot, TermId};
use crate::model::{Labels, Node, Pod};
use crate::plugins::Event;

pub(super) fn may_help(event: &Event<'_>, pod: &PodSlot, cluster: &Cluster) -> bool {
    let asker = Asker { pod, cluster };
    match event {
        Event::PodPlaced(other) => {
            let other = cluster.pods().get(*other);
            other.is_some_and(|other| asker.wants(other.picked_by()))
        }
        Event::PodLeft(departed) => departed.place.is_some() && asker.is_rid_of(departed),
        Event::PodChanged {
            pod: other,
            before,
            picked_by_before,
        } => {
            let other = cluster.pods().get(*other);
            other.is_some_and(|other| asker.sees_change(other, before, picked_by_before))
        }
        Event::Itself { before } => {
            let now = &pod.facts;
            now.labels != before.labels
                || now.affinity.required != before.affinity.required
                || now.anti_affinity.required != before.anti_affinity.required
        }
        Event::NamespaceRelabelled { namespace, pickers } => {
            let is_own = *pod.facts.key.namespace == **namespace;
            !pickers.is_empty() && (is_own || asker.own().any(|own| pickers.contains(&own)))
        }
        Event::NodeAdded(node) => {
            let facts = cluster.nodes().facts(*node);
            facts.is_some_and(|facts| asker.could_do_with(facts))
        }
        Event::NodeLeft { before } => asker.is_elsewhere(Some(&before.labels), None),
        Event::NodeChanged { node, before } => {
            let now = cluster.nodes().facts(*node);
            let now = now.map(|now| &now.labels);
            asker.is_elsewhere(Some(&before.labels), now)
        }
        Event::GroupChanged { .. } => false,
    }
}

/// Pods that no term picks, and that pick nobody, matter to nobody.
pub(super) fn may_help_some(event: &Event<'_>, cluster: &Cluster) -> bool {
    match event {
        Event::PodPlaced(other) => {
            let other = cluster.pods().get(*other);
            other.is_some_and(|other| !other.picked_by().is_empty())
        }
        Event::PodLeft(departed) => {
            !departed.picked_by.is_empty() || !departed.facts.anti_affinity.required.is_empty()
        }
        Event::PodChanged {
            pod,
            before,
            picked_by_before,
        } => {
            let now = cluster.pods().get(*pod);
            now.is_some_and(|now| {
                now.picked_by() != *picked_by_before
                    || now.facts.anti_affinity.required != before.anti_affinity.required
            })
        }
        Event::NodeAdded(_) | Event::NodeChanged { .. } => {
            event.brings_node(cluster, |before, now| before.labels != now.labels)
        }
        Event::GroupChanged { .. } => false,
        Event::NodeLeft { .. } | Event::NamespaceRelabelled { .. } | Event::Itself { .. } => true,
    }
}

struct Asker<'a> {
    pod: &'a PodSlot,
    cluster: &'a Cluster,
}

impl Asker<'_> {
    /// Whether someone whom these pick is someone whom the affinity is about.
    fn wants(&self, picked_by: &[PickerId]) -> bool {
        // All terms count what all of them pick, so the first says it for all.
        let first = self.pod.terms().affinity.first();
        first.is_some_and(|term| self.is_picked(*term, picked_by))
    }

    fn minds(&self, picked_by: &[PickerId]) -> bool {
        let mut terms = self.pod.terms().anti_affinity.iter();
        terms.any(|term| self.is_picked(*term, picked_by))
    }

    fn is_picked(&self, term: TermId, picked_by: &[PickerId]) -> bool {
        let picker = self.cluster.term(term).picker;
        picked_by.binary_search(&picker).is_ok()
    }

    fn is_minded_by(&self, other: &Pod) -> bool {
        let pod = &self.pod.facts;
        let labels = self.cluster.namespace_labels(&pod.key.namespace);
        let mut terms = other.anti_affinity.required.iter();
        terms.any(|term| term.picker.picks(pod, labels))
    }

    /// Whether the pod could be the first of those that it wants to be with, once none of them is left.
    fn could_be_first(&self) -> bool {
        !self.pod.terms().affinity.is_empty() && picks_itself(self.pod, self.cluster)
    }

    fn is_rid_of(&self, departed: &Departed) -> bool {
        self.minds(&departed.picked_by)
            || self.is_minded_by(&departed.facts)
            || (self.wants(&departed.picked_by) && self.could_be_first())
    }

    fn sees_change(&self, other: &PodSlot, before: &Pod, picked_by_before: &[PickerId]) -> bool {
        let now = other.picked_by();
        let terms = self.pod.terms().anti_affinity.iter();
        let mut left = terms
            .filter(|term| self.is_picked(**term, picked_by_before))
            .filter(|term| !self.is_picked(**term, now));
        let (wanted, wants) = (self.wants(picked_by_before), self.wants(now));
        left.next().is_some()
            || (!wanted && wants)
            || (wanted && !wants && self.could_be_first())
            || (before.anti_affinity.required != other.facts.anti_affinity.required
                && self.is_minded_by(before))
    }

    /// The pickers of its own required terms.
    fn own(&self) -> impl Iterator<Item = PickerId> {
        let terms = self.pod.terms();
        let terms = terms.affinity.iter().chain(&terms.affinity_each);
        let terms = terms.chain(&self.pod.terms().anti_affinity);
        terms.map(|term| self.cluster.term(*term).picker)
    }

    /// The pod can go only where its affinity has a domain; whoever is there already counts in domains of its own.
    fn could_do_with(&self, node: &Node) -> bool {
        let mut terms = self.pod.facts.affinity.required.iter();
        terms.len() == 0 || terms.any(|term| node.labels.get(&term.topology_key).is_some())
    }

    /// Whether a node is in another domain now, of a term of its own or of one that picks it.
    fn is_elsewhere(&self, before: Option<&Labels>, now: Option<&Labels>) -> bool {
        let own = self.pod.terms();
        let own = own.affinity.iter().chain(&own.anti_affinity);
        let pickers = self.pod.picked_by().iter();
        let others = pickers.flat_map(|picker| self.cluster.terms_of(*picker));
        own.chain(others).any(|term| {
            let topology = self.cluster.topology(self.cluster.term(*term).topology);
            topology.key().is_some_and(|key| {
                let value = |labels: Option<&Labels>| {
                    labels.and_then(|labels| labels.get(key).map(str::to_owned))
                };
                value(before) != value(now)
            })
        })
    }
}
