//! All that a cluster knows, in words instead of numbers, which depend on what happened before.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::pickers::Rule;
use crate::cluster::{Cluster, Domain, NodeId, NodeSlot, PickerId, Tally, TermSlot, Topology};

type Amounts = BTreeMap<String, i64>;

/// One line for each thing that is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct State(BTreeSet<String>);

impl State {
    pub(super) fn of(cluster: &mut Cluster) -> State {
        cluster.prepare();
        let cluster = &*cluster;
        let mut lines = BTreeSet::new();
        lines.extend(cluster.terms.iter().map(|slot| term(cluster, slot)));
        lines.extend(cluster.pickers.iter().map(|(id, slot)| {
            let (users, terms) = (slot.users(), slot.terms.len());
            format!(
                "picker: {users} users, {terms} terms, {}",
                rule(cluster, id)
            )
        }));
        lines.extend(pods(cluster));
        lines.extend(cluster.nodes().iter().map(|(_, slot)| node(cluster, slot)));
        let order = cluster.nodes().order().iter();
        lines.extend(order.map(|node| format!("in order: {}", cluster.nodes().get(*node).name)));
        lines.insert(format!("index of pods: {:?}", cluster.pods.entries()));
        lines.insert(format!(
            "pickers to be found: {}",
            cluster.pickers.is_indexed()
        ));
        lines.insert(format!("topologies: {:?}", cluster.topologies.entries()));
        State(lines)
    }

    pub(super) fn assert_is(&self, expected: &State, when: &str) {
        let surplus: Vec<_> = self.0.difference(&expected.0).collect();
        let missing: Vec<_> = expected.0.difference(&self.0).collect();
        assert!(
            surplus.is_empty() && missing.is_empty(),
            "{when}\nkept: {surplus:#?}\nfresh: {missing:#?}"
        );
    }
}

/// How many use a term, and its sums by the value of the domain.
fn term(cluster: &Cluster, slot: &TermSlot) -> String {
    let topology = cluster.topology(slot.topology);
    let tallies = [
        &slot.picked,
        &slot.repelling,
        &slot.attached,
        &slot.preferring,
    ];
    let sums = tallies.map(|tally| sums(cluster, topology, tally));
    let key = topology.key().unwrap_or("each node");
    let (users, rule) = (slot.users(), rule(cluster, slot.picker));
    format!("term: {users} users, by {key}: {sums:?}, {rule}")
}

fn sums(cluster: &Cluster, topology: &Topology, tally: &Tally) -> Amounts {
    let value = |domain: Domain| match topology.key() {
        Some(_) => topology.value(domain).to_owned(),
        None => cluster.nodes().get(NodeId(domain.0)).name.to_string(),
    };
    let sums = tally.iter();
    sums.map(|(domain, sum)| (value(domain), sum)).collect()
}

fn rule(cluster: &Cluster, id: PickerId) -> String {
    match &cluster.pickers.get(id).rule {
        Rule::One(picker) => format!("{picker:?}"),
        Rule::All(members) => {
            let members: BTreeSet<_> = members.iter().map(|id| rule(cluster, *id)).collect();
            format!("all of {members:?}")
        }
    }
}

fn pods(cluster: &Cluster) -> impl Iterator<Item = String> {
    cluster.pods().iter().map(|(_, slot)| {
        let place = slot.place().map(|node| &cluster.nodes().get(node).name);
        let picked_by: BTreeSet<_> = slot
            .picked_by()
            .iter()
            .map(|id| rule(cluster, *id))
            .collect();
        let (facts, is_assumed) = (&slot.facts, slot.is_assumed());
        format!("pod: on {place:?}, assumed: {is_assumed}, {facts:?}, picked by {picked_by:?}")
    })
}

fn node(cluster: &Cluster, slot: &NodeSlot) -> String {
    let pods: BTreeSet<_> = slot
        .pods()
        .iter()
        .map(|pod| &cluster.pods.slots[*pod].facts.uid)
        .collect();
    let usage = usage(slot);
    format!(
        "node {}: {pods:?} use {usage:?} of {:?}",
        slot.name,
        slot.facts()
    )
}

fn usage(slot: &NodeSlot) -> Amounts {
    let requested = &slot.requested;
    let mut usage: Amounts = [
        ("cpu", requested.milli_cpu),
        ("memory", requested.memory),
        ("ephemeral-storage", requested.ephemeral_storage),
        ("assumed cpu", slot.assumed_milli_cpu),
        ("assumed memory", slot.assumed_memory),
    ]
    .map(|(name, amount)| (name.to_owned(), amount))
    .into();
    let others = requested.others.iter();
    usage.extend(others.map(|(name, amount)| (name.to_string(), *amount)));
    usage.retain(|_, amount| *amount != 0);
    usage
}
