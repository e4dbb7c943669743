//! A textual dump of a [`ClusterState`] with names instead of ids, since ids depend on the order of past changes.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::pod_matchers::MatcherRule;
use crate::cluster::{
    ClusterState, DomainCounts, Id, NodeId, NodeInfo, PodMatcherId, TermCounts, TopologyDomainId,
    TopologyDomains,
};

type AmountsByName = BTreeMap<String, i64>;

/// One line per term, matcher, pod, node and index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClusterStateDump(BTreeSet<String>);

impl ClusterStateDump {
    pub(super) fn of(cluster: &mut ClusterState) -> ClusterStateDump {
        cluster.refresh_node_order();
        let cluster = &*cluster;
        let mut lines = BTreeSet::new();
        lines.extend(
            cluster
                .terms
                .iter()
                .map(|slot| describe_term(cluster, slot)),
        );
        lines.extend(cluster.matchers.iter().map(|(id, slot)| {
            let (users, terms) = (slot.references(), slot.terms.len());
            format!(
                "matcher: {users} references, {terms} terms, {}",
                describe_rule(cluster, id)
            )
        }));
        lines.extend(describe_pods(cluster));
        lines.extend(
            cluster
                .nodes()
                .iter()
                .map(|(_, slot)| describe_node(cluster, slot)),
        );
        let order = cluster.nodes().order().iter();
        lines.extend(order.map(|node| format!("in order: {}", cluster.nodes().get(*node).name)));
        lines.insert(format!("index of pods: {:?}", cluster.pods.entries()));
        lines.insert(format!(
            "matchers indexed: {}",
            cluster.matchers.is_indexed()
        ));
        lines.insert(format!("topologies: {:?}", cluster.topologies.entries()));
        ClusterStateDump(lines)
    }

    pub(super) fn assert_equals(&self, expected: &ClusterStateDump, when: &str) {
        let surplus: Vec<_> = self.0.difference(&expected.0).collect();
        let missing: Vec<_> = expected.0.difference(&self.0).collect();
        assert!(
            surplus.is_empty() && missing.is_empty(),
            "{when}\nincremental: {surplus:#?}\nrebuilt: {missing:#?}"
        );
    }
}

/// The reference count of a term, and its counts by domain value.
fn describe_term(cluster: &ClusterState, slot: &TermCounts) -> String {
    let topology = cluster.topology(slot.topology);
    let all_counts = [
        &slot.matching_pods,
        &slot.anti_affinity_owners,
        &slot.affinity_owners,
        &slot.preference_weights,
    ];
    let sums = all_counts.map(|counts| counts_by_domain(cluster, topology, counts));
    let key = topology.key().unwrap_or("each node");
    let (users, rule) = (slot.references(), describe_rule(cluster, slot.matcher));
    format!("term: {users} references, by {key}: {sums:?}, {rule}")
}

fn counts_by_domain(
    cluster: &ClusterState,
    topology: &TopologyDomains,
    counts: &DomainCounts,
) -> AmountsByName {
    let value = |domain: TopologyDomainId| match topology.key() {
        Some(_) => topology.value(domain).to_owned(),
        None => cluster
            .nodes()
            .get(NodeId::from_index(domain.index()))
            .name
            .to_string(),
    };
    let sums = counts.iter();
    sums.map(|(domain, sum)| (value(domain), sum)).collect()
}

fn describe_rule(cluster: &ClusterState, id: PodMatcherId) -> String {
    match &cluster.matchers.get(id).rule {
        MatcherRule::One(matcher) => format!("{matcher:?}"),
        MatcherRule::All(members) => {
            let members: BTreeSet<_> = members
                .iter()
                .map(|id| describe_rule(cluster, *id))
                .collect();
            format!("all of {members:?}")
        }
    }
}

fn describe_pods(cluster: &ClusterState) -> impl Iterator<Item = String> {
    cluster.pods().iter().map(|(_, slot)| {
        let node = slot.node_id().map(|node| &cluster.nodes().get(node).name);
        let matched_by: BTreeSet<_> = slot
            .matched_by()
            .iter()
            .map(|id| describe_rule(cluster, *id))
            .collect();
        let (pod, is_assumed) = (&slot.pod, slot.is_assumed());
        format!("pod: on {node:?}, assumed: {is_assumed}, {pod:?}, matched by {matched_by:?}")
    })
}

fn describe_node(cluster: &ClusterState, slot: &NodeInfo) -> String {
    let pods: BTreeSet<_> = slot
        .pods()
        .iter()
        .map(|pod| &cluster.pods.slots[*pod].pod.uid)
        .collect();
    let usage = usage_by_resource(slot);
    format!(
        "node {}: {pods:?} use {usage:?} of {:?}",
        slot.name,
        slot.node()
    )
}

fn usage_by_resource(slot: &NodeInfo) -> AmountsByName {
    let requested = &slot.requested;
    let mut usage: AmountsByName = [
        ("cpu", requested.milli_cpu),
        ("memory", requested.memory),
        ("ephemeral-storage", requested.ephemeral_storage),
        ("assumed cpu", slot.non_zero_milli_cpu),
        ("assumed memory", slot.non_zero_memory),
    ]
    .map(|(name, amount)| (name.to_owned(), amount))
    .into();
    let others = requested.scalars.iter();
    usage.extend(others.map(|(name, amount)| (name.to_string(), *amount)));
    usage.retain(|_, amount| *amount != 0);
    usage
}
