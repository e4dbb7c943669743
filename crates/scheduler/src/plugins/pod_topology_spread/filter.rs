//! Filter: rejects nodes whose domain would exceed `maxSkew` (`whenUnsatisfiable: DoNotSchedule`).

use std::sync::Arc;

use super::PodTopologySpread;
use super::constraints::ResolvedSpreadConstraint;
use super::eligibility::EligibleDomains;
use super::eligible_counts::EligiblePodCounts;
use crate::cluster::{
    ClusterState, Id, NodeId, PodInfo, TopologyDomainId, TopologyDomains, TopologyId,
};
use crate::model::WhenUnsatisfiable;
use crate::plugins::{FilterRejection, NodeFilter};

const LABEL_MISSING: FilterRejection = FilterRejection {
    is_resolvable: false,
    reason_code: 0,
};
const SKEWED: FilterRejection = FilterRejection {
    is_resolvable: true,
    reason_code: 1,
};

pub(super) struct TopologySpreadFilter<'c> {
    limits: Vec<SkewLimit<'c>>,
}

/// One constraint and the number of matching pods it allows per domain.
struct SkewLimit<'c> {
    constraint: ResolvedSpreadConstraint<'c>,
    topology: &'c TopologyDomains,
    eligible: Arc<EligibleDomains>,
    counts: EligiblePodCounts<'c>,
    /// The smallest count of all eligible domains; 0 if there are fewer than `minDomains` (upstream: global minimum).
    min_count: i64,
    /// The most matching pods that a domain may have before the incoming pod is added.
    existing_max: i64,
}

impl<'c> TopologySpreadFilter<'c> {
    /// `None` if the pod has no hard constraints.
    pub(super) fn new(
        plugin: &'c PodTopologySpread,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
    ) -> Option<TopologySpreadFilter<'c>> {
        let constraints = plugin.constraints(pod, cluster, WhenUnsatisfiable::DoNotSchedule);
        if constraints.is_empty() {
            return None;
        }
        let topologies: Vec<TopologyId> = constraints.iter().map(|one| one.topology).collect();
        let limit = |constraint: ResolvedSpreadConstraint<'c>| {
            let eligible = plugin
                .eligibility
                .eligible(&constraint, &topologies, &pod.pod, cluster);
            let topology = cluster.topology(constraint.topology);
            let sums = EligiblePodCounts::new(&constraint, &eligible, topology);
            let domains_min = usize::try_from(constraint.rule.min_domains.unwrap_or(1));
            let least = match eligible.domain_count < domains_min.unwrap_or_default() {
                true => 0,
                false => sums.min(&eligible),
            };
            let itself = i64::from(constraint.matches_itself);
            SkewLimit {
                existing_max: i64::from(constraint.rule.max_skew) + least - itself,
                constraint,
                topology,
                eligible,
                counts: sums,
                min_count: least,
            }
        };
        Some(TopologySpreadFilter {
            limits: constraints.into_iter().map(limit).collect(),
        })
    }
}

impl NodeFilter for TopologySpreadFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), FilterRejection> {
        for limit in &self.limits {
            let Some(domain) = limit.topology.domain(node) else {
                return Err(LABEL_MISSING);
            };
            if limit.counts.at(domain) > limit.existing_max {
                return Err(SKEWED);
            }
        }
        Ok(())
    }

    fn reasons(&self, rejection: FilterRejection) -> Vec<String> {
        let reason = match rejection {
            LABEL_MISSING => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            _ => "node(s) didn't match pod topology spread constraints",
        };
        vec![reason.to_owned()]
    }

    fn detail(&self, node: NodeId, _refusal: FilterRejection) -> Option<String> {
        self.limits.iter().find_map(|limit| limit.detail(node))
    }
}

impl SkewLimit<'_> {
    fn detail(&self, node: NodeId) -> Option<String> {
        let rule = self.constraint.rule;
        let key = &rule.topology_key;
        let Some(domain) = self.topology.domain(node) else {
            return Some(format!("the node has no label {key}"));
        };
        let existing = self.counts.at(domain);
        if existing <= self.existing_max {
            return None;
        }
        let value = self.topology.value(domain);
        let count = existing + i64::from(self.constraint.matches_itself);
        let least = match self.min_domain() {
            Some(least) => format!("{} in {key}={}", self.min_count, self.topology.value(least)),
            None => format!(
                "0 because only {} of {} domains exist",
                self.eligible.domain_count,
                rule.min_domains.unwrap_or(1)
            ),
        };
        Some(format!(
            "{key}={value} would have {count} matching pods, the minimum is {least}, and maxSkew is {}",
            rule.max_skew
        ))
    }

    fn min_domain(&self) -> Option<TopologyDomainId> {
        let domains = self.eligible.has_node.iter().enumerate();
        let mut domains = domains
            .filter(|(_, has)| **has)
            .map(|(index, _)| TopologyDomainId::from_index(index));
        domains.find(|domain| self.counts.at(*domain) == self.min_count)
    }
}
