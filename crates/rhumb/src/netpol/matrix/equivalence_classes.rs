//! Groups pods into equivalence classes: pods of a class have equal verdicts, so that only one of them is evaluated.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rhumb_api::ip_addresses::CidrBlock;
use rhumb_meta::LabelSelector;
use rhumb_netpol::objects::{Labels, NetworkPolicySpec};
use rhumb_netpol::{NamespacedName, Pod};

use super::queried_ports::{EvaluatedPort, EvaluatedPortCatalog};
use crate::netpol::cluster::{DeclaredPort, NetpolCluster, addresses, declared_ports, is_on_host};
use crate::netpol::endpoints::PortAndProtocol;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) struct PodEquivalenceClass {
    /// Indexes of pods.
    pub(super) members: Vec<usize>,
    pub(super) queried: Vec<EvaluatedPort>,
    has_v4: bool,
    has_v6: bool,
}

impl PodEquivalenceClass {
    /// Whether both have addresses of one family in their status, even if these now belong to other pods.
    pub(super) fn shares_family(&self, other: &PodEquivalenceClass) -> bool {
        self.has_v4 && other.has_v4 || self.has_v6 && other.has_v6
    }
}

/// A namespace with the labels that selectors match.
pub(super) struct NamespaceWithLabels<'c> {
    pub(super) name: &'c str,
    pub(super) namespace_labels: Labels,
}

/// All properties of a pod that can affect a verdict or the queried ports.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct EquivalenceKey<'c> {
    namespace: &'c str,
    /// Values of the labels that selectors refer to.
    labels: Vec<Option<&'c str>>,
    ports: Vec<DeclaredPort>,
    /// For each address its family, and which IP blocks contain it.
    addresses: Vec<(bool, Vec<bool>)>,
    is_on_host: bool,
    /// Node name and host addresses, if they can affect verdicts.
    node: Option<(&'c str, Vec<&'c str>)>,
    /// The index of a pod that must be in a class of its own.
    alone: Option<usize>,
}

/// The properties of pods that the policies refer to.
struct PolicyReferences<'c> {
    keys: BTreeSet<&'c str>,
    blocks: Vec<CidrBlock>,
    /// Whether the node of a pod affects verdicts: a node and its pods may always reach each other, and host-network pods
    /// count as their node.
    nodes_matter: bool,
    /// Addresses that several pods claim.
    shared: BTreeSet<IpAddr>,
}

pub(super) fn find(
    cluster: &NetpolCluster,
    pods: &[(&NamespacedName, &Pod)],
    ports: &[PortAndProtocol],
) -> Vec<PodEquivalenceClass> {
    let outlook = PolicyReferences::new(cluster);
    let catalog = EvaluatedPortCatalog::new(cluster, ports);
    let mut classes: BTreeMap<EquivalenceKey<'_>, Vec<usize>> = BTreeMap::new();
    for (position, (name, pod)) in pods.iter().enumerate() {
        let traits = outlook.traits(position, name, pod);
        classes.entry(traits).or_default().push(position);
    }
    let mut members: Vec<Vec<usize>> = classes.into_values().collect();
    members.sort();
    let mut place: Option<NamespaceWithLabels<'_>> = None;
    let mut queried = |position: usize| {
        let (name, pod) = pods.get(position)?;
        let place = match place.take() {
            Some(same) if same.name == name.namespace => place.insert(same),
            _ => place.insert(place_of(cluster, &name.namespace)),
        };
        Some(catalog.of(name, pod, place))
    };
    let classes = members.into_iter().filter_map(|members| {
        let first = *members.first()?;
        let (_, pod) = pods.get(first)?;
        Some(PodEquivalenceClass {
            queried: queried(first)?,
            has_v4: addresses(pod).any(|address| address.is_ipv4()),
            has_v6: addresses(pod).any(|address| address.is_ipv6()),
            members,
        })
    });
    classes.collect()
}

fn place_of<'c>(cluster: &NetpolCluster, name: &'c str) -> NamespaceWithLabels<'c> {
    let labels = cluster.namespaces.get(name).cloned();
    let mut namespace_labels = labels.unwrap_or_default();
    namespace_labels.insert(NAME_LABEL.to_owned(), name.to_owned());
    NamespaceWithLabels {
        name,
        namespace_labels,
    }
}

impl<'c> PolicyReferences<'c> {
    fn new(cluster: &'c NetpolCluster) -> PolicyReferences<'c> {
        let mut outlook = PolicyReferences {
            keys: BTreeSet::new(),
            blocks: Vec::new(),
            nodes_matter: cluster.pods.values().any(is_on_host),
            shared: shared_addresses(cluster),
        };
        for spec in cluster.policies.values() {
            outlook.look(spec);
        }
        outlook
            .blocks
            .sort_by_key(|block| (block.address, block.prefix));
        outlook.blocks.dedup();
        outlook
    }

    fn look(&mut self, spec: &'c NetworkPolicySpec) {
        self.keys.extend(spec.pod_selector.iter().flat_map(keys));
        let rules = spec.ingress.iter().chain(&spec.egress).flatten();
        for peer in rules.flat_map(|rule| rule.from.iter().chain(&rule.to).flatten()) {
            self.keys.extend(peer.pod_selector.iter().flat_map(keys));
            let Some(block) = &peer.ip_block else {
                continue;
            };
            let written = block.cidr.iter().chain(block.except.iter().flatten());
            self.blocks
                .extend(written.filter_map(|text| CidrBlock::parse_lax(text)));
        }
    }

    fn traits(
        &self,
        position: usize,
        name: &'c NamespacedName,
        pod: &'c Pod,
    ) -> EquivalenceKey<'c> {
        let labels = pod.metadata.labels.as_ref();
        let value = |key: &&str| labels?.get(*key).map(String::as_str);
        let is_alone = addresses(pod).any(|address| self.shared.contains(&address));
        let within = |address: IpAddr| {
            let blocks = self.blocks.iter();
            let within = blocks.map(|block| block.contains(single(address)));
            (address.is_ipv6(), within.collect())
        };
        EquivalenceKey {
            namespace: &name.namespace,
            labels: self.keys.iter().map(value).collect(),
            ports: declared_ports(pod),
            addresses: addresses(pod).map(within).collect(),
            is_on_host: is_on_host(pod),
            node: self.nodes_matter.then(|| node(pod)),
            alone: is_alone.then_some(position),
        }
    }
}

/// The block that contains only this address.
pub(super) fn single(address: IpAddr) -> CidrBlock {
    CidrBlock {
        address,
        prefix: if address.is_ipv4() { 32 } else { 128 },
    }
}

fn keys(selector: &LabelSelector) -> impl Iterator<Item = &str> {
    let expressions = selector.match_expressions.iter();
    let keys = selector.match_labels.keys();
    keys.map(String::as_str)
        .chain(expressions.map(|expression| &*expression.key))
}

fn node(pod: &Pod) -> (&str, Vec<&str>) {
    (
        pod.spec.node_name.as_deref().unwrap_or_default(),
        host_addresses(pod).collect(),
    )
}

fn host_addresses(pod: &Pod) -> impl Iterator<Item = &str> {
    let several = pod.status.host_ips.iter().flatten();
    let several = several.filter_map(|address| address.ip.as_deref());
    several.chain(pod.status.host_ip.as_deref())
}

/// Addresses claimed by two pods, or by a pod and a node. Host-network pods share the address of their node.
fn shared_addresses(cluster: &NetpolCluster) -> BTreeSet<IpAddr> {
    let (on_host, others): (Vec<&Pod>, Vec<&Pod>) =
        cluster.pods.values().partition(|pod| is_on_host(pod));
    let nodes = cluster.pods.values().flat_map(host_addresses);
    let nodes = nodes.filter_map(rhumb_api::ip_addresses::parse_lax);
    let mut seen: BTreeSet<IpAddr> = on_host.into_iter().flat_map(addresses).collect();
    seen.extend(nodes);
    let all = others.into_iter().flat_map(addresses);
    all.filter(|address| !seen.insert(*address)).collect()
}
