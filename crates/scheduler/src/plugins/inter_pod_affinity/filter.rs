//! Filter: the incoming pod's required affinity and anti-affinity, and the required anti-affinity of existing pods.
//! Domain counts are maintained by `cluster`; nothing is counted here.

use crate::cluster::{
    ClusterState, DomainCounts, Id, NodeId, PodInfo, TermId, TopologyDomainId, TopologyDomains,
};
use crate::plugins::{FilterRejection, NodeFilter};

/// Above this number of matching terms, their domains are merged into one set per topology before nodes are checked.
const UNMERGED_TERMS_MAX: usize = 4;

/// One affinity term: its matching pods per topology domain.
#[derive(Clone, Copy)]
pub(super) struct TermDomainCounts<'c> {
    counts: &'c DomainCounts,
    pub(super) topology: &'c TopologyDomains,
}

impl TermDomainCounts<'_> {
    pub(super) fn has_any(&self, domain: TopologyDomainId) -> bool {
        self.counts.get(domain) > 0
    }
}

pub(super) struct InterPodAffinityFilter<'c> {
    pub(super) pod: &'c PodInfo,
    pub(super) cluster: &'c ClusterState,
    pub(super) affinity: Vec<TermDomainCounts<'c>>,
    /// No pod matches the affinity yet, but the pod itself does: as upstream, the first pod of a group may go anywhere.
    is_first_of_group: bool,
    pub(super) anti_affinity: Vec<TermDomainCounts<'c>>,
    existing_anti_affinity: Vec<TermDomainCounts<'c>>,
    /// Domains blocked by existing pods' anti-affinity, merged when there are many terms.
    blocked_domains: Vec<(&'c TopologyDomains, Vec<bool>)>,
}

pub(super) const AFFINITY_UNMET: FilterRejection = FilterRejection {
    is_resolvable: false,
    reason_code: 0,
};
pub(super) const ANTI_AFFINITY_VIOLATED: FilterRejection = FilterRejection {
    is_resolvable: true,
    reason_code: 1,
};
const EXISTING_ANTI_AFFINITY_VIOLATED: FilterRejection = FilterRejection {
    is_resolvable: true,
    reason_code: 2,
};

impl<'c> InterPodAffinityFilter<'c> {
    /// `None` if the pod has no required terms and no existing pod's anti-affinity matches it.
    pub(super) fn new(
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
    ) -> Option<InterPodAffinityFilter<'c>> {
        let counted = |term: &TermId| {
            let slot = cluster.term_counts(*term);
            TermDomainCounts {
                counts: &slot.matching_pods,
                topology: cluster.topology(slot.topology),
            }
        };
        let affinity: Vec<_> = pod.terms().affinity.iter().map(counted).collect();
        let anti_affinity: Vec<_> = pod.terms().anti_affinity.iter().map(counted).collect();
        let repelling: Vec<_> = existing_anti_affinity_terms(pod, cluster)
            .map(|(_, counted)| counted)
            .collect();
        if affinity.is_empty() && anti_affinity.is_empty() && repelling.is_empty() {
            return None;
        }
        let is_first =
            affinity.iter().all(|term| term.counts.is_empty()) && matches_itself(pod, cluster);
        let (repelling, repelled) = match repelling.len() {
            0..=UNMERGED_TERMS_MAX => (repelling, Vec::new()),
            _ => (Vec::new(), merge_blocked_domains(&repelling)),
        };
        Some(InterPodAffinityFilter {
            pod,
            cluster,
            affinity,
            is_first_of_group: is_first,
            anti_affinity,
            existing_anti_affinity: repelling,
            blocked_domains: repelled,
        })
    }

    fn satisfies_affinity(&self, node: NodeId) -> bool {
        let mut has_all = true;
        for term in &self.affinity {
            match term.topology.domain(node) {
                None => return false,
                Some(domain) => has_all &= term.has_any(domain),
            }
        }
        has_all || self.is_first_of_group
    }

    fn violates_existing_anti_affinity(&self, node: NodeId) -> bool {
        let any = |term: &TermDomainCounts<'_>| {
            let domain = term.topology.domain(node);
            domain.is_some_and(|domain| term.has_any(domain))
        };
        self.existing_anti_affinity.iter().any(any)
            || self.blocked_domains.iter().any(|(topology, domains)| {
                let domain = topology.domain(node);
                domain.is_some_and(|domain| domains[domain.index()])
            })
    }
}

/// Required anti-affinity terms of existing pods that match this pod.
pub(super) fn existing_anti_affinity_terms<'c>(
    pod: &'c PodInfo,
    cluster: &'c ClusterState,
) -> impl Iterator<Item = (TermId, TermDomainCounts<'c>)> {
    let matchers = pod.matched_by().iter();
    let terms = matchers.flat_map(|matcher| cluster.terms_using(*matcher));
    terms.filter_map(|id| {
        let slot = cluster.term_counts(*id);
        let topology = cluster.topology(slot.topology);
        (!slot.anti_affinity_owners.is_empty()).then_some((
            *id,
            TermDomainCounts {
                counts: &slot.anti_affinity_owners,
                topology,
            },
        ))
    })
}

/// Whether all terms of the pod's affinity match the pod itself.
pub(super) fn matches_itself(pod: &PodInfo, cluster: &ClusterState) -> bool {
    let mut terms = pod.terms().affinity_single.iter();
    terms.all(|term| {
        pod.matched_by()
            .contains(&cluster.term_counts(*term).matcher)
    })
}

fn merge_blocked_domains<'c>(
    terms: &[TermDomainCounts<'c>],
) -> Vec<(&'c TopologyDomains, Vec<bool>)> {
    let mut merged: Vec<(&'c TopologyDomains, Vec<bool>)> = Vec::new();
    for term in terms {
        let existing = merged
            .iter()
            .position(|(topology, _)| std::ptr::eq(*topology, term.topology));
        let index = existing.unwrap_or_else(|| {
            merged.push((term.topology, vec![false; term.topology.domains_bound()]));
            merged.len() - 1
        });
        for (domain, _) in term.counts.iter() {
            merged[index].1[domain.index()] = true;
        }
    }
    merged
}

impl NodeFilter for InterPodAffinityFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), FilterRejection> {
        if !self.satisfies_affinity(node) {
            return Err(AFFINITY_UNMET);
        }
        let is_near = |term: &TermDomainCounts<'_>| {
            let domain = term.topology.domain(node);
            domain.is_some_and(|domain| term.has_any(domain))
        };
        if self.anti_affinity.iter().any(is_near) {
            return Err(ANTI_AFFINITY_VIOLATED);
        }
        if self.violates_existing_anti_affinity(node) {
            return Err(EXISTING_ANTI_AFFINITY_VIOLATED);
        }
        Ok(())
    }

    fn reasons(&self, rejection: FilterRejection) -> Vec<String> {
        let reason = match rejection {
            AFFINITY_UNMET => "node(s) didn't match pod affinity rules",
            ANTI_AFFINITY_VIOLATED => "node(s) didn't match pod anti-affinity rules",
            _ => "node(s) didn't satisfy existing pods anti-affinity rules",
        };
        vec![reason.to_owned()]
    }
    fn detail(&self, node: NodeId, rejection: FilterRejection) -> Option<String> {
        super::rejection_detail::detail(self, node, rejection)
    }
}
