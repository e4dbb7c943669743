//! Pods that no policy can tell apart, so that one of each kind is asked about and not all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rhumb_api::addresses::Block;
use rhumb_meta::LabelSelector;
use rhumb_netpol::objects::{Labels, PolicySpec};
use rhumb_netpol::{Name, Pod};

use super::ports::{Asked, Catalog};
use crate::netpol::cluster::{Cluster, Declared, addresses, declared_ports, is_on_host};
use crate::netpol::ends::PortNumber;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) struct Class {
    /// Positions of pods.
    pub(super) members: Vec<usize>,
    pub(super) asked: Vec<Asked>,
    has_v4: bool,
    has_v6: bool,
}

impl Class {
    /// Whether both say that they have addresses of one family, though another pod may have them by now.
    pub(super) fn shares_family(&self, other: &Class) -> bool {
        self.has_v4 && other.has_v4 || self.has_v6 && other.has_v6
    }
}

/// The namespace of a pod, as selectors see it.
pub(super) struct Place<'c> {
    pub(super) name: &'c str,
    pub(super) namespace_labels: Labels,
}

/// Everything about a pod that can make a difference to a verdict, or to which ports are asked about.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Traits<'c> {
    namespace: &'c str,
    /// The values of the labels that selectors look at.
    labels: Vec<Option<&'c str>>,
    ports: Vec<Declared>,
    /// Of each address its family, and which of the blocks it is in.
    addresses: Vec<(bool, Vec<bool>)>,
    is_on_host: bool,
    /// Where it runs, if that matters.
    node: Option<(&'c str, Vec<&'c str>)>,
    /// Its position, if it is unlike any other.
    alone: Option<usize>,
}

/// What policies look at in pods.
struct Outlook<'c> {
    keys: BTreeSet<&'c str>,
    blocks: Vec<Block>,
    /// A node and its own pods may always reach each other, which shows if there are pods that count as their node.
    nodes_matter: bool,
    /// Addresses that several have.
    shared: BTreeSet<IpAddr>,
}

pub(super) fn find(cluster: &Cluster, pods: &[(&Name, &Pod)], ports: &[PortNumber]) -> Vec<Class> {
    let outlook = Outlook::new(cluster);
    let catalog = Catalog::new(cluster, ports);
    let mut classes: BTreeMap<Traits<'_>, Vec<usize>> = BTreeMap::new();
    for (position, (name, pod)) in pods.iter().enumerate() {
        let traits = outlook.traits(position, name, pod);
        classes.entry(traits).or_default().push(position);
    }
    let mut members: Vec<Vec<usize>> = classes.into_values().collect();
    members.sort();
    let mut place: Option<Place<'_>> = None;
    let mut asked = |position: usize| {
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
        Some(Class {
            asked: asked(first)?,
            has_v4: addresses(pod).any(|address| address.is_ipv4()),
            has_v6: addresses(pod).any(|address| address.is_ipv6()),
            members,
        })
    });
    classes.collect()
}

fn place_of<'c>(cluster: &Cluster, name: &'c str) -> Place<'c> {
    let labels = cluster.namespaces.get(name).cloned();
    let mut namespace_labels = labels.unwrap_or_default();
    namespace_labels.insert(NAME_LABEL.to_owned(), name.to_owned());
    Place {
        name,
        namespace_labels,
    }
}

impl<'c> Outlook<'c> {
    fn new(cluster: &'c Cluster) -> Outlook<'c> {
        let mut outlook = Outlook {
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

    fn look(&mut self, spec: &'c PolicySpec) {
        self.keys.extend(spec.pod_selector.iter().flat_map(keys));
        let rules = spec.ingress.iter().chain(&spec.egress).flatten();
        for peer in rules.flat_map(|rule| rule.from.iter().chain(&rule.to).flatten()) {
            self.keys.extend(peer.pod_selector.iter().flat_map(keys));
            let Some(block) = &peer.ip_block else {
                continue;
            };
            let written = block.cidr.iter().chain(block.except.iter().flatten());
            self.blocks
                .extend(written.filter_map(|text| Block::parse_lax(text)));
        }
    }

    fn traits(&self, position: usize, name: &'c Name, pod: &'c Pod) -> Traits<'c> {
        let labels = pod.metadata.labels.as_ref();
        let value = |key: &&str| labels?.get(*key).map(String::as_str);
        let is_alone = addresses(pod).any(|address| self.shared.contains(&address));
        let within = |address: IpAddr| {
            let blocks = self.blocks.iter();
            let within = blocks.map(|block| block.contains(single(address)));
            (address.is_ipv6(), within.collect())
        };
        Traits {
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

/// A block of this address alone.
pub(super) fn single(address: IpAddr) -> Block {
    Block {
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

/// Those that two pods claim, or a pod and a node. Pods that count as their node may share its address.
fn shared_addresses(cluster: &Cluster) -> BTreeSet<IpAddr> {
    let (on_host, others): (Vec<&Pod>, Vec<&Pod>) =
        cluster.pods.values().partition(|pod| is_on_host(pod));
    let nodes = cluster.pods.values().flat_map(host_addresses);
    let nodes = nodes.filter_map(rhumb_api::addresses::parse_lax);
    let mut seen: BTreeSet<IpAddr> = on_host.into_iter().flat_map(addresses).collect();
    seen.extend(nodes);
    let all = others.into_iter().flat_map(addresses);
    all.filter(|address| !seen.insert(*address)).collect()
}
