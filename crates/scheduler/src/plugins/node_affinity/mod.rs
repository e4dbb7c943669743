//! Filter and score plugin `NodeAffinity`: node selector and node affinity, by node labels and names.

mod rejection_detail;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::node_predicate_cache::{MatchingNodes, NodePredicateCache};
use super::{
    ClusterEvent, FilterRejection, NodeFilter, NodeScorer, Plugin, PreFilterRejection,
    PreFilterResult, normalise_by_max,
};
use crate::cluster::{ClusterState, NodeId, PodInfo};
use crate::model::{Node, NodeSelector, NodeSelectorTerm, PreferredNodeTerms};

/// Node affinity that a profile adds to that of each pod (`addedAffinity`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddedAffinity {
    /// Node selector terms only: there is no counterpart of `spec.nodeSelector`.
    pub required: Option<Arc<NodeSelector>>,
    pub preferred: PreferredNodeTerms,
}

#[derive(Debug, Default)]
pub struct NodeAffinity {
    added: AddedAffinity,
    matched: NodePredicateCache<Arc<NodeSelector>>,
    preferred: NodePredicateCache<NodeSelectorTerm>,
}

impl NodeAffinity {
    pub fn new(added: AddedAffinity) -> NodeAffinity {
        NodeAffinity {
            added,
            ..NodeAffinity::default()
        }
    }

    /// The nodes that the selector matches; `None` if it matches all.
    fn matched(
        &self,
        selector: &Arc<NodeSelector>,
        cluster: &ClusterState,
    ) -> Option<Arc<MatchingNodes>> {
        if selector.is_everything() {
            return None;
        }
        let answer = self
            .matched
            .matching_nodes(selector, cluster.nodes(), |node| selector.matches(node));
        (!answer.matches_all).then_some(answer)
    }

    fn matches(&self, pod: &PodInfo, node: &Node) -> bool {
        let added = self.added.required.as_ref();
        added.is_none_or(|added| added.matches(node)) && pod.pod.node_selector.matches(node)
    }
}

const NOT_MATCHED: FilterRejection = FilterRejection {
    is_resolvable: false,
    reason_code: 0,
};
const NOT_MATCHED_BY_ADDED_AFFINITY: FilterRejection = FilterRejection {
    is_resolvable: false,
    reason_code: 1,
};

/// How the pod's own selector is evaluated.
enum SelectorEvaluation<'c> {
    AllNodes,
    Cached(Arc<MatchingNodes>),
    /// Evaluated per node: the selector names few nodes, so a cache entry would not pay.
    PerNode(&'c NodeSelector),
}

struct NodeAffinityFilter<'c> {
    added: Option<Arc<MatchingNodes>>,
    own: SelectorEvaluation<'c>,
    plugin: &'c NodeAffinity,
    selector: &'c NodeSelector,
    cluster: &'c ClusterState,
}

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn pre_filter<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
    ) -> Result<PreFilterResult<'c>, PreFilterRejection> {
        let selector = &pod.pod.node_selector;
        let added = self.added.required.as_ref();
        let added = added.and_then(|added| self.matched(added, cluster));
        let names = selector.names();
        let own = match names {
            Some([]) => {
                return Err(PreFilterRejection {
                    reason: "pod affinity terms conflict".to_owned(),
                });
            }
            Some(_) => SelectorEvaluation::PerNode(selector),
            None => self
                .matched(selector, cluster)
                .map_or(SelectorEvaluation::AllNodes, SelectorEvaluation::Cached),
        };
        if added.is_none() && matches!(own, SelectorEvaluation::AllNodes) {
            return Ok(PreFilterResult::default());
        }
        let nodes = cluster.nodes();
        let existing = |name: &str| {
            let node = nodes.find(name);
            node.filter(|node| nodes.node(*node).is_some())
        };
        Ok(PreFilterResult {
            candidate_nodes: names
                .map(|names| names.iter().filter_map(|name| existing(name)).collect()),
            filter: Some(Box::new(NodeAffinityFilter {
                added,
                own,
                plugin: self,
                selector,
                cluster,
            })),
        })
    }

    fn pre_score<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
        _nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScorer + 'c>> {
        let terms = self.added.preferred.iter().chain(&*pod.pod.preferred_nodes);
        let weighted: Vec<(Arc<MatchingNodes>, i64)> = terms
            .map(|(term, weight)| {
                let nodes = cluster.nodes();
                let answer = self
                    .preferred
                    .matching_nodes(term, nodes, |node| term.matches(node));
                (answer, i64::from(*weight))
            })
            .collect();
        (!weighted.is_empty()).then(|| {
            Box::new(NodeAffinityScorer {
                weighted_terms: weighted,
            }) as _
        })
    }

    fn queueing_hint(
        &self,
        event: &ClusterEvent<'_>,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> bool {
        let matches_now = |node: NodeId| {
            let node = cluster.nodes().node(node);
            node.is_some_and(|node| self.matches(pod, node))
        };
        match event {
            ClusterEvent::NodeAdded(node) => matches_now(*node),
            ClusterEvent::NodeUpdated { node, old } => {
                !self.matches(pod, old) && matches_now(*node)
            }
            ClusterEvent::PendingPodUpdated { old } => old.node_selector != pod.pod.node_selector,
            _ => false,
        }
    }

    fn is_event_relevant(&self, event: &ClusterEvent<'_>, cluster: &ClusterState) -> bool {
        event.adds_or_changes_node(cluster, |old, new| old.labels != new.labels)
    }
}

impl NodeFilter for NodeAffinityFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), FilterRejection> {
        let added = self.added.as_ref();
        if added.is_some_and(|added| !added.nodes.contains(node)) {
            return Err(NOT_MATCHED_BY_ADDED_AFFINITY);
        }
        let is_matched = match &self.own {
            SelectorEvaluation::AllNodes => true,
            SelectorEvaluation::Cached(answer) => answer.nodes.contains(node),
            SelectorEvaluation::PerNode(selector) => {
                let node = self.cluster.nodes().node(node);
                node.is_some_and(|node| selector.matches(node))
            }
        };
        match is_matched {
            true => Ok(()),
            false => Err(NOT_MATCHED),
        }
    }

    fn reasons(&self, rejection: FilterRejection) -> Vec<String> {
        let reason = match rejection {
            NOT_MATCHED_BY_ADDED_AFFINITY => {
                "node(s) didn't match scheduler-enforced node affinity"
            }
            _ => "node(s) didn't match Pod's node affinity/selector",
        };
        vec![reason.to_owned()]
    }

    fn detail(&self, node: NodeId, rejection: FilterRejection) -> Option<String> {
        let node = self.cluster.nodes().node(node)?;
        let selector = match rejection {
            NOT_MATCHED_BY_ADDED_AFFINITY => self.plugin.added.required.as_deref()?,
            _ => self.selector,
        };
        rejection_detail::unmet_selector(selector, node)
    }
}

struct NodeAffinityScorer {
    /// The matching nodes of each preferred term, and its weight.
    weighted_terms: Vec<(Arc<MatchingNodes>, i64)>,
}

impl NodeScorer for NodeAffinityScorer {
    fn score(&self, node: NodeId) -> i64 {
        let terms = self.weighted_terms.iter();
        terms
            .filter(|(answer, _)| answer.nodes.contains(node))
            .map(|(_, weight)| weight)
            .sum()
    }

    fn normalise(&self, _nodes: &[NodeId], scores: &mut [i64]) {
        normalise_by_max(scores);
    }
}
