//! Explains a rejection by `InterPodAffinity`: the conflicting pod, or the affinity that no pod meets.

use super::filter::{
    AFFINITY_UNMET, ANTI_AFFINITY_VIOLATED, InterPodAffinityFilter, TermDomainCounts,
    existing_anti_affinity_terms,
};
use crate::cluster::{ClusterState, NodeId, PodInfo, TopologyDomainId, TopologyDomains};
use crate::model::PodAffinityTerm;
use crate::plugins::FilterRejection;

pub(super) fn detail(
    filter: &InterPodAffinityFilter<'_>,
    node: NodeId,
    rejection: FilterRejection,
) -> Option<String> {
    match rejection {
        AFFINITY_UNMET => unmet_affinity(filter, node),
        ANTI_AFFINITY_VIOLATED => violated_anti_affinity(filter, node),
        _ => violated_existing_anti_affinity(filter, node),
    }
}

fn unmet_affinity(filter: &InterPodAffinityFilter<'_>, node: NodeId) -> Option<String> {
    let terms = filter.pod.pod.affinity.required.iter();
    let mut terms = terms.zip(&filter.affinity);
    terms.find_map(|(term, counted)| match counted.topology.domain(node) {
        None => Some(format!("the node has no label {}", term.topology_key)),
        Some(domain) if !counted.has_any(domain) => {
            let domain_text = domain_label(term, counted.topology, domain);
            let matcher = &term.matcher;
            Some(match filter.affinity.len() {
                1 => format!("no pod matching the affinity ({matcher}) is in {domain_text}"),
                _ => format!("no pod matching all affinity terms is in {domain_text}"),
            })
        }
        Some(_) => None,
    })
}

fn violated_anti_affinity(filter: &InterPodAffinityFilter<'_>, node: NodeId) -> Option<String> {
    let ids = filter.pod.terms().anti_affinity.iter();
    let terms = filter.pod.pod.anti_affinity.required.iter().zip(ids);
    let mut terms = terms.zip(&filter.anti_affinity);
    terms.find_map(|((term, id), counted)| {
        let domain = occupied_domain(counted, node)?;
        let matcher = filter.cluster.term_counts(*id).matcher;
        let is_matched = |pod: &PodInfo| pod.matched_by().binary_search(&matcher).is_ok();
        let other = pod_in(filter.cluster, counted.topology, domain, is_matched)?;
        let domain_text = domain_label(term, counted.topology, domain);
        Some(format!(
            "pod {} in {domain_text} matches the pod's anti-affinity ({})",
            other.pod.key, term.matcher
        ))
    })
}

fn violated_existing_anti_affinity(
    filter: &InterPodAffinityFilter<'_>,
    node: NodeId,
) -> Option<String> {
    let mut terms = existing_anti_affinity_terms(filter.pod, filter.cluster);
    terms.find_map(|(id, counted)| {
        let domain = occupied_domain(&counted, node)?;
        let has_term = |pod: &PodInfo| pod.terms().anti_affinity.contains(&id);
        let other = pod_in(filter.cluster, counted.topology, domain, has_term)?;
        let ids = other.terms().anti_affinity.iter();
        let mut terms = other.pod.anti_affinity.required.iter().zip(ids);
        let (term, _) = terms.find(|(_, other)| **other == id)?;
        let domain_text = domain_label(term, counted.topology, domain);
        Some(format!(
            "pod {} in {domain_text} has an anti-affinity that matches the pod ({})",
            other.pod.key, term.matcher
        ))
    })
}

fn occupied_domain(counted: &TermDomainCounts<'_>, node: NodeId) -> Option<TopologyDomainId> {
    let domain = counted.topology.domain(node)?;
    counted.has_any(domain).then_some(domain)
}

fn domain_label(
    term: &PodAffinityTerm,
    topology: &TopologyDomains,
    domain: TopologyDomainId,
) -> String {
    format!("{}={}", term.topology_key, topology.value(domain))
}

/// Some pod in the domain for which the predicate holds.
fn pod_in<'c>(
    cluster: &'c ClusterState,
    topology: &TopologyDomains,
    domain: TopologyDomainId,
    holds: impl Fn(&PodInfo) -> bool,
) -> Option<&'c PodInfo> {
    let nodes = cluster.nodes().iter();
    let nodes = nodes.filter(|(node, _)| topology.domain(*node) == Some(domain));
    let pods = nodes.flat_map(|(_, slot)| slot.pods());
    let mut pods = pods.filter_map(|pod| cluster.pods().get(*pod));
    pods.find(|pod| holds(pod))
}
