//! The spread constraints in effect for a pod: its own, or else the profile's defaults.

use super::PodTopologySpread;
use crate::cluster::{ClusterState, DomainCounts, PodInfo, PodMatcherId, TermId, TopologyId};
use crate::model::{TopologySpreadConstraint, WhenUnsatisfiable};

/// A spread constraint resolved against the cluster.
pub(super) struct ResolvedSpreadConstraint<'c> {
    pub(super) rule: &'c TopologySpreadConstraint,
    pub(super) topology: TopologyId,
    pub(super) matcher: PodMatcherId,
    /// Matching pods per node. `None` if the selector is empty: as upstream, it then counts no pods.
    pub(super) on_nodes: Option<&'c DomainCounts>,
    /// Matching pods per domain over all nodes; `None` if the cluster does not maintain that count.
    pub(super) by_domain: Option<&'c DomainCounts>,
    /// Whether the selector matches the incoming pod itself.
    pub(super) matches_itself: bool,
}

impl PodTopologySpread {
    pub(super) fn constraints<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
        when: WhenUnsatisfiable,
    ) -> Vec<ResolvedSpreadConstraint<'c>> {
        if pod.pod.spread_constraints.is_empty() {
            self.default_constraints(pod, cluster, when)
        } else {
            own_constraints(pod, cluster, when)
        }
    }

    fn default_constraints<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
        when: WhenUnsatisfiable,
    ) -> Vec<ResolvedSpreadConstraint<'c>> {
        let Some(term) = pod.terms().default_spread else {
            return Vec::new();
        };
        let rules = self.defaults.iter();
        let rules = rules.filter(|rule| rule.when_unsatisfiable == when);
        rules
            .filter_map(|rule| {
                let topology = cluster.find_topology(&rule.topology_key)?;
                Some(ResolvedSpreadConstraint::new(
                    rule, topology, term, None, pod, cluster,
                ))
            })
            .collect()
    }
}

fn own_constraints<'c>(
    pod: &'c PodInfo,
    cluster: &'c ClusterState,
    when: WhenUnsatisfiable,
) -> Vec<ResolvedSpreadConstraint<'c>> {
    let terms = pod.terms();
    let terms = terms.spread.iter().zip(&terms.spread_by_domain);
    let all = pod.pod.spread_constraints.iter().zip(terms);
    all.filter(|(rule, _)| rule.when_unsatisfiable == when)
        .map(|(rule, (on_nodes, by_domain))| {
            let by_domain = cluster.term_counts(*by_domain);
            let kept = Some(&by_domain.matching_pods);
            let own = ResolvedSpreadConstraint::new(
                rule,
                by_domain.topology,
                *on_nodes,
                kept,
                pod,
                cluster,
            );
            let counts_no_pods = rule.selector.is_everything();
            ResolvedSpreadConstraint {
                on_nodes: own.on_nodes.filter(|_| !counts_no_pods),
                ..own
            }
        })
        .collect()
}

impl<'c> ResolvedSpreadConstraint<'c> {
    fn new(
        rule: &'c TopologySpreadConstraint,
        topology: TopologyId,
        on_nodes: TermId,
        by_domain: Option<&'c DomainCounts>,
        pod: &PodInfo,
        cluster: &'c ClusterState,
    ) -> ResolvedSpreadConstraint<'c> {
        let term = cluster.term_counts(on_nodes);
        ResolvedSpreadConstraint {
            rule,
            topology,
            matcher: term.matcher,
            on_nodes: Some(&term.matching_pods),
            by_domain,
            matches_itself: pod.matched_by().binary_search(&term.matcher).is_ok(),
        }
    }
}
