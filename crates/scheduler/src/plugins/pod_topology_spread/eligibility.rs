//! The nodes that count for a spread constraint: those with all topology labels that also pass the constraint's
//! node affinity and taint policies.

use std::cell::RefCell;
use std::sync::Arc;

use super::constraints::ResolvedSpreadConstraint;
use crate::cluster::{ClusterState, Id, NodeBitSet, TopologyId};
use crate::model::{NodeInclusionPolicy, NodeSelector, Pod, Toleration};
use crate::plugins::node_predicate_cache::{LruCache, NodePredicateCache};
use crate::plugins::taint_toleration::untolerated_taint;

/// Caches the eligible nodes by constraint. An entry is valid until any node changes.
#[derive(Debug, Default)]
pub(super) struct EligibilityCache {
    matched: NodePredicateCache<Arc<NodeSelector>>,
    tolerated: NodePredicateCache<Arc<[Toleration]>>,
    entries: RefCell<LruCache<EligibilityKey, Arc<EligibleDomains>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct EligibilityKey {
    topology: TopologyId,
    /// Topologies of the pod's other constraints, whose labels nodes must have as well.
    others: Vec<TopologyId>,
    /// `None` if ignored by policy, or if it matches all nodes.
    selector: Option<Arc<NodeSelector>>,
    /// `None` if taints are ignored by policy.
    tolerations: Option<Arc<[Toleration]>>,
}

#[derive(Debug, Default)]
pub(super) struct EligibleDomains {
    version: u64,
    pub(super) nodes: NodeBitSet,
    /// Whether all nodes with the constraint's topology label are eligible.
    pub(super) includes_all_labelled: bool,
    /// By domain index: whether the domain has an eligible node.
    pub(super) has_node: Vec<bool>,
    /// The number of domains with an eligible node.
    pub(super) domain_count: usize,
}

impl EligibilityCache {
    /// Eligible nodes for one constraint; `required` are the topologies whose labels a node must have.
    pub(super) fn eligible(
        &self,
        constraint: &ResolvedSpreadConstraint<'_>,
        required: &[TopologyId],
        pod: &Pod,
        cluster: &ClusterState,
    ) -> Arc<EligibleDomains> {
        let rule = constraint.rule;
        let honors_selector = rule.node_affinity_policy == NodeInclusionPolicy::Honor
            && !pod.node_selector.is_everything();
        let honors_taints = rule.node_taints_policy == NodeInclusionPolicy::Honor;
        let others = required.iter().copied();
        let key = EligibilityKey {
            topology: constraint.topology,
            others: others
                .filter(|topology| *topology != constraint.topology)
                .collect(),
            selector: honors_selector.then(|| pod.node_selector.clone()),
            tolerations: honors_taints.then(|| pod.tolerations.clone()),
        };
        let mut entries = self.entries.borrow_mut();
        let eligible = entries.get_or_insert_with(&key, || self.compute(&key, cluster));
        if eligible.version != cluster.nodes().version() {
            *eligible = self.compute(&key, cluster);
        }
        eligible.clone()
    }

    fn compute(&self, key: &EligibilityKey, cluster: &ClusterState) -> Arc<EligibleDomains> {
        let nodes = cluster.nodes();
        let matched = key.selector.as_ref().map(|selector| {
            self.matched
                .matching_nodes(selector, nodes, |node| selector.matches(node))
        });
        let tolerated = key.tolerations.as_ref().map(|tolerations| {
            self.tolerated.matching_nodes(tolerations, nodes, |node| {
                untolerated_taint(node, tolerations).is_none()
            })
        });
        let answers: Vec<_> = matched.into_iter().chain(tolerated).collect();
        let topology = cluster.topology(key.topology);
        let others = key.others.iter();
        let others: Vec<_> = others.map(|other| cluster.topology(*other)).collect();
        let mut eligible = EligibleDomains {
            version: nodes.version(),
            includes_all_labelled: true,
            has_node: vec![false; topology.domains_bound()],
            ..EligibleDomains::default()
        };
        for (id, _) in nodes.iter() {
            let Some(domain) = topology.domain(id) else {
                continue;
            };
            let has_all = others.iter().all(|other| other.domain(id).is_some());
            if has_all && answers.iter().all(|answer| answer.nodes.contains(id)) {
                eligible.nodes.set(id, true);
                let has = &mut eligible.has_node[domain.index()];
                eligible.domain_count += usize::from(!std::mem::replace(has, true));
            } else {
                eligible.includes_all_labelled = false;
            }
        }
        Arc::new(eligible)
    }
}
