//! Whether a node is in a domain that has too many already.

use std::sync::Arc;

use super::PodTopologySpread;
use super::constraints::Constraint;
use super::eligible::Eligible;
use super::sums::Sums;
use crate::cluster::{Cluster, Domain, Id, NodeId, PodSlot, Topology, TopologyId};
use crate::model::WhenUnsatisfiable;
use crate::plugins::{NodeFilter, Refusal};

const LABEL_MISSING: Refusal = Refusal {
    is_resolvable: false,
    what: 0,
};
const SKEWED: Refusal = Refusal {
    is_resolvable: true,
    what: 1,
};

pub(super) struct SpreadFilter<'c> {
    limits: Vec<Limit<'c>>,
}

/// One constraint: how many there may be.
struct Limit<'c> {
    constraint: Constraint<'c>,
    topology: &'c Topology,
    eligible: Arc<Eligible>,
    sums: Sums<'c>,
    /// The smallest of all domains; 0 if there are fewer domains than there should be.
    least: i64,
    /// So many may be in a domain before the pod comes.
    before_max: i64,
}

impl<'c> SpreadFilter<'c> {
    /// `None` if the pod may go anywhere.
    pub(super) fn new(
        plugin: &'c PodTopologySpread,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
    ) -> Option<SpreadFilter<'c>> {
        let constraints = plugin.constraints(pod, cluster, WhenUnsatisfiable::DoNotSchedule);
        if constraints.is_empty() {
            return None;
        }
        let topologies: Vec<TopologyId> = constraints.iter().map(|one| one.topology).collect();
        let limit = |constraint: Constraint<'c>| {
            let eligible = plugin
                .eligible
                .ask(&constraint, &topologies, &pod.facts, cluster);
            let topology = cluster.topology(constraint.topology);
            let sums = Sums::new(&constraint, &eligible, topology);
            let domains_min = usize::try_from(constraint.rule.min_domains.unwrap_or(1));
            let least = match eligible.domains < domains_min.unwrap_or_default() {
                true => 0,
                false => sums.min(&eligible),
            };
            let itself = i64::from(constraint.picks_itself);
            Limit {
                before_max: i64::from(constraint.rule.max_skew) + least - itself,
                constraint,
                topology,
                eligible,
                sums,
                least,
            }
        };
        Some(SpreadFilter {
            limits: constraints.into_iter().map(limit).collect(),
        })
    }
}

impl NodeFilter for SpreadFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), Refusal> {
        for limit in &self.limits {
            let Some(domain) = limit.topology.domain(node) else {
                return Err(LABEL_MISSING);
            };
            if limit.sums.at(domain) > limit.before_max {
                return Err(SKEWED);
            }
        }
        Ok(())
    }

    fn reasons(&self, refusal: Refusal) -> Vec<String> {
        let reason = match refusal {
            LABEL_MISSING => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            _ => "node(s) didn't match pod topology spread constraints",
        };
        vec![reason.to_owned()]
    }

    fn detail(&self, node: NodeId, _refusal: Refusal) -> Option<String> {
        self.limits.iter().find_map(|limit| limit.detail(node))
    }
}

impl Limit<'_> {
    fn detail(&self, node: NodeId) -> Option<String> {
        let rule = self.constraint.rule;
        let key = &rule.topology_key;
        let Some(domain) = self.topology.domain(node) else {
            return Some(format!("the node has no label {key}"));
        };
        let there = self.sums.at(domain);
        if there <= self.before_max {
            return None;
        }
        let value = self.topology.value(domain);
        let with_it = there + i64::from(self.constraint.picks_itself);
        let least = match self.least_domain() {
            Some(least) => format!("{} in {key}={}", self.least, self.topology.value(least)),
            None => format!(
                "0, since there are only {} of {} domains",
                self.eligible.domains,
                rule.min_domains.unwrap_or(1)
            ),
        };
        Some(format!(
            "{key}={value} would have {with_it} of these pods, the least is {least}, and maxSkew is {}",
            rule.max_skew
        ))
    }

    fn least_domain(&self) -> Option<Domain> {
        let domains = self.eligible.has.iter().enumerate();
        let mut domains = domains
            .filter(|(_, has)| **has)
            .map(|(index, _)| Domain::from_index(index));
        domains.find(|domain| self.sums.at(*domain) == self.least)
    }
}
