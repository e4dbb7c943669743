//! Who stands in the way of a pod, or who is missing.

use super::filter::{AFFINITY, ANTI_AFFINITY, AffinityFilter, Counted, repelling};
use crate::cluster::{Cluster, Domain, NodeId, PodSlot, Topology};
use crate::model::Term;
use crate::plugins::Refusal;

pub(super) fn detail(
    filter: &AffinityFilter<'_>,
    node: NodeId,
    refusal: Refusal,
) -> Option<String> {
    match refusal {
        AFFINITY => missing(filter, node),
        ANTI_AFFINITY => not_wanted(filter, node),
        _ => repelled(filter, node),
    }
}

fn missing(filter: &AffinityFilter<'_>, node: NodeId) -> Option<String> {
    let terms = filter.pod.facts.affinity.required.iter();
    let mut terms = terms.zip(&filter.affinity);
    terms.find_map(|(term, counted)| match counted.topology.domain(node) {
        None => Some(format!("the node has no label {}", term.topology_key)),
        Some(domain) if !counted.has_any(domain) => {
            let place = place(term, counted.topology, domain);
            let who = &term.picker.selector;
            Some(match filter.affinity.len() {
                1 => format!("no pod that the affinity is about ({who}) is in {place}"),
                _ => format!("no pod that all terms of the affinity are about is in {place}"),
            })
        }
        Some(_) => None,
    })
}

fn not_wanted(filter: &AffinityFilter<'_>, node: NodeId) -> Option<String> {
    let ids = filter.pod.terms().anti_affinity.iter();
    let terms = filter.pod.facts.anti_affinity.required.iter().zip(ids);
    let mut terms = terms.zip(&filter.anti_affinity);
    terms.find_map(|((term, id), counted)| {
        let domain = domain_with_any(counted, node)?;
        let picker = filter.cluster.term(*id).picker;
        let is_picked = |pod: &PodSlot| pod.picked_by().binary_search(&picker).is_ok();
        let other = pod_in(filter.cluster, counted.topology, domain, is_picked)?;
        let place = place(term, counted.topology, domain);
        Some(format!(
            "pod {} is in {place}, and the pod's anti-affinity is about it ({})",
            other.facts.key, term.picker.selector
        ))
    })
}

fn repelled(filter: &AffinityFilter<'_>, node: NodeId) -> Option<String> {
    let mut terms = repelling(filter.pod, filter.cluster);
    terms.find_map(|(id, counted)| {
        let domain = domain_with_any(&counted, node)?;
        let has_term = |pod: &PodSlot| pod.terms().anti_affinity.contains(&id);
        let other = pod_in(filter.cluster, counted.topology, domain, has_term)?;
        let ids = other.terms().anti_affinity.iter();
        let mut terms = other.facts.anti_affinity.required.iter().zip(ids);
        let (term, _) = terms.find(|(_, other)| **other == id)?;
        let place = place(term, counted.topology, domain);
        Some(format!(
            "pod {} is in {place}, and its anti-affinity is about this pod ({})",
            other.facts.key, term.picker.selector
        ))
    })
}

fn domain_with_any(counted: &Counted<'_>, node: NodeId) -> Option<Domain> {
    let domain = counted.topology.domain(node)?;
    counted.has_any(domain).then_some(domain)
}

fn place(term: &Term, topology: &Topology, domain: Domain) -> String {
    format!("{}={}", term.topology_key, topology.value(domain))
}

/// One of the pods in a domain of which something holds.
fn pod_in<'c>(
    cluster: &'c Cluster,
    topology: &Topology,
    domain: Domain,
    holds: impl Fn(&PodSlot) -> bool,
) -> Option<&'c PodSlot> {
    let nodes = cluster.nodes().iter();
    let nodes = nodes.filter(|(node, _)| topology.domain(*node) == Some(domain));
    let pods = nodes.flat_map(|(_, slot)| slot.pods());
    let mut pods = pods.filter_map(|pod| cluster.pods().get(*pod));
    pods.find(|pod| holds(pod))
}
