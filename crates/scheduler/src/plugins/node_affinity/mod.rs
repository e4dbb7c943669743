//! `NodeAffinity`: nodes by their labels and names.

mod detail;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::answers::{Answer, NodeAnswers};
use super::{
    Event, Filtering, NodeFilter, NodeScore, Plugin, Refusal, Unschedulable, normalise_by_best,
};
use crate::cluster::{Cluster, NodeId, PodSlot};
use crate::model::{Node, NodeSelector, NodeTerm, PreferredNodes};

/// What holds for all pods of a profile beside what they say themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddedAffinity {
    /// As the terms of a pod's own; `spec.nodeSelector` has no part in it.
    pub required: Option<Arc<NodeSelector>>,
    pub preferred: PreferredNodes,
}

#[derive(Debug, Default)]
pub struct NodeAffinity {
    added: AddedAffinity,
    matched: NodeAnswers<Arc<NodeSelector>>,
    preferred: NodeAnswers<NodeTerm>,
}

impl NodeAffinity {
    pub fn new(added: AddedAffinity) -> NodeAffinity {
        NodeAffinity {
            added,
            ..NodeAffinity::default()
        }
    }

    /// `None` if it matches all nodes.
    fn matched(&self, selector: &Arc<NodeSelector>, cluster: &Cluster) -> Option<Arc<Answer>> {
        if selector.is_everything() {
            return None;
        }
        let answer = self
            .matched
            .ask(selector, cluster.nodes(), |node| selector.matches(node));
        (!answer.is_everywhere).then_some(answer)
    }

    fn matches(&self, pod: &PodSlot, node: &Node) -> bool {
        let added = self.added.required.as_ref();
        added.is_none_or(|added| added.matches(node)) && pod.facts.nodes.matches(node)
    }
}

const NOT_MATCHED: Refusal = Refusal {
    is_resolvable: false,
    what: 0,
};
const NOT_MATCHED_BY_ADDED: Refusal = Refusal {
    is_resolvable: false,
    what: 1,
};

enum Asked<'c> {
    Everything,
    Known(Arc<Answer>),
    /// About few nodes, so that it is not worth to keep what is found.
    Each(&'c NodeSelector),
}

struct AffinityFilter<'c> {
    added: Option<Arc<Answer>>,
    own: Asked<'c>,
    plugin: &'c NodeAffinity,
    selector: &'c NodeSelector,
    cluster: &'c Cluster,
}

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn filter<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
    ) -> Result<Filtering<'c>, Unschedulable> {
        let selector = &pod.facts.nodes;
        let added = self.added.required.as_ref();
        let added = added.and_then(|added| self.matched(added, cluster));
        let names = selector.names();
        let own = match names {
            Some([]) => {
                return Err(Unschedulable {
                    reason: "pod affinity terms conflict".to_owned(),
                });
            }
            Some(_) => Asked::Each(selector),
            None => self
                .matched(selector, cluster)
                .map_or(Asked::Everything, Asked::Known),
        };
        if added.is_none() && matches!(own, Asked::Everything) {
            return Ok(Filtering::default());
        }
        let nodes = cluster.nodes();
        let found = |name: &str| {
            let node = nodes.find(name);
            node.filter(|node| nodes.facts(*node).is_some())
        };
        Ok(Filtering {
            only: names.map(|names| names.iter().filter_map(|name| found(name)).collect()),
            filter: Some(Box::new(AffinityFilter {
                added,
                own,
                plugin: self,
                selector,
                cluster,
            })),
        })
    }

    fn score<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
        _nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>> {
        let terms = self
            .added
            .preferred
            .iter()
            .chain(&*pod.facts.preferred_nodes);
        let worths: Vec<(Arc<Answer>, i64)> = terms
            .map(|(term, weight)| {
                let nodes = cluster.nodes();
                let answer = self.preferred.ask(term, nodes, |node| term.matches(node));
                (answer, i64::from(*weight))
            })
            .collect();
        (!worths.is_empty()).then(|| Box::new(PreferenceScore { worths }) as _)
    }

    fn may_help(&self, event: &Event<'_>, pod: &PodSlot, cluster: &Cluster) -> bool {
        let matches_now = |node: NodeId| {
            let facts = cluster.nodes().facts(node);
            facts.is_some_and(|facts| self.matches(pod, facts))
        };
        match event {
            Event::NodeAdded(node) => matches_now(*node),
            Event::NodeChanged { node, before } => !self.matches(pod, before) && matches_now(*node),
            Event::Itself { before } => before.nodes != pod.facts.nodes,
            _ => false,
        }
    }

    fn may_help_some(&self, event: &Event<'_>, cluster: &Cluster) -> bool {
        event.brings_node(cluster, |before, now| before.labels != now.labels)
    }
}

impl NodeFilter for AffinityFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), Refusal> {
        let added = self.added.as_ref();
        if added.is_some_and(|added| !added.nodes.contains(node)) {
            return Err(NOT_MATCHED_BY_ADDED);
        }
        let is_matched = match &self.own {
            Asked::Everything => true,
            Asked::Known(answer) => answer.nodes.contains(node),
            Asked::Each(selector) => {
                let facts = self.cluster.nodes().facts(node);
                facts.is_some_and(|facts| selector.matches(facts))
            }
        };
        match is_matched {
            true => Ok(()),
            false => Err(NOT_MATCHED),
        }
    }

    fn reasons(&self, refusal: Refusal) -> Vec<String> {
        let reason = match refusal {
            NOT_MATCHED_BY_ADDED => "node(s) didn't match scheduler-enforced node affinity",
            _ => "node(s) didn't match Pod's node affinity/selector",
        };
        vec![reason.to_owned()]
    }

    fn detail(&self, node: NodeId, refusal: Refusal) -> Option<String> {
        let node = self.cluster.nodes().facts(node)?;
        let selector = match refusal {
            NOT_MATCHED_BY_ADDED => self.plugin.added.required.as_deref()?,
            _ => self.selector,
        };
        detail::unmet(selector, node)
    }
}

struct PreferenceScore {
    /// The nodes of each term, and what it is worth.
    worths: Vec<(Arc<Answer>, i64)>,
}

impl NodeScore for PreferenceScore {
    fn score(&self, node: NodeId) -> i64 {
        let worths = self.worths.iter();
        worths
            .filter(|(answer, _)| answer.nodes.contains(node))
            .map(|(_, worth)| worth)
            .sum()
    }

    fn normalise(&self, _nodes: &[NodeId], scores: &mut [i64]) {
        normalise_by_best(scores);
    }
}
