//! Which ports a pod is asked about.

use std::collections::BTreeMap;

use rhumb_api::addresses::Block;
use rhumb_meta::LabelSelector;
use rhumb_meta::labels::Selector;
use rhumb_netpol::objects::{Labels, Peer, Port, Rule};
use rhumb_netpol::{Name, Pod, Protocol};
use serde_json::Value;

use super::classes::{Place, single};
use crate::netpol::cluster::{Cluster, addresses, declared_ports, protocol};
use crate::netpol::ends::PortNumber;

/// What is tried where nothing tells which ports there are.
const PROBE: PortNumber = PortNumber {
    port: 80,
    protocol: Protocol::Tcp,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) port: PortNumber,
    /// Whether the pod declares it or the user asks for it, so that it says whether the pod can be reached. Ports that only
    /// policies speak of do not.
    pub(super) is_own: bool,
}

/// The ports that policies name, with whom they may matter for.
pub(super) struct Catalog<'c> {
    policies: Vec<Policy<'c>>,
    asked: &'c [PortNumber],
}

struct Policy<'c> {
    namespace: &'c str,
    selector: Selector,
    ingress: Vec<PortNumber>,
    /// Each rule with whom it is about; nobody in particular is everybody.
    egress: Vec<(Vec<To>, Vec<PortNumber>)>,
}

enum To {
    Pods {
        /// `None` is the policy's own namespace.
        namespaces: Option<Selector>,
        pods: Selector,
    },
    Block(Block),
}

impl<'c> Catalog<'c> {
    pub(super) fn new(cluster: &'c Cluster, asked: &'c [PortNumber]) -> Catalog<'c> {
        let policies = cluster.policies.iter().map(|(name, spec)| Policy {
            namespace: &name.namespace,
            selector: everything_unless(spec.pod_selector.as_ref()),
            ingress: spec.ingress.iter().flatten().flat_map(ports).collect(),
            egress: spec.egress.iter().flatten().map(egress).collect(),
        });
        let mut policies: Vec<Policy<'_>> = policies.collect();
        for policy in &mut policies {
            policy.egress.retain(|(_, ports)| !ports.is_empty());
        }
        policies.retain(|policy| !(policy.ingress.is_empty() && policy.egress.is_empty()));
        Catalog { policies, asked }
    }

    /// In order of numbers.
    pub(super) fn of(&self, name: &Name, pod: &Pod, place: &Place<'_>) -> Vec<Asked> {
        let mut found: BTreeMap<PortNumber, bool> = BTreeMap::new();
        for port in declared_ports(pod) {
            let port = PortNumber {
                port: port.port,
                protocol: port.protocol,
            };
            found.insert(port, true);
        }
        found.extend(self.asked.iter().map(|port| (*port, true)));
        let subject = Subject { name, pod, place };
        for policy in &self.policies {
            for port in policy.about(&subject) {
                found.entry(port).or_insert(false);
            }
        }
        if found.is_empty() {
            found.insert(PROBE, true);
        }
        let asked = found
            .into_iter()
            .map(|(port, is_own)| Asked { port, is_own });
        asked.collect()
    }
}

/// A pod that may be meant by a selector.
struct Subject<'p> {
    name: &'p Name,
    pod: &'p Pod,
    place: &'p Place<'p>,
}

impl Subject<'_> {
    fn labels(&self) -> &Labels {
        static NONE: Labels = Labels::new();
        self.pod.metadata.labels.as_ref().unwrap_or(&NONE)
    }
}

impl Policy<'_> {
    fn about<'a>(&'a self, subject: &'a Subject<'_>) -> impl Iterator<Item = PortNumber> + 'a {
        let is_selected =
            self.namespace == subject.name.namespace && self.selector.matches(subject.labels());
        let ingress = self.ingress.iter().filter(move |_| is_selected);
        let reaches = |to: &To| to.is(subject, self.namespace);
        let egress = self.egress.iter();
        let egress = egress.filter(move |(to, _)| to.is_empty() || to.iter().any(reaches));
        ingress.chain(egress.flat_map(|(_, ports)| ports)).copied()
    }
}

impl To {
    fn is(&self, subject: &Subject<'_>, own: &str) -> bool {
        match self {
            To::Block(block) => addresses(subject.pod).any(|it| block.contains(single(it))),
            To::Pods { namespaces, pods } => {
                let is_there = match namespaces {
                    Some(namespaces) => namespaces.matches(&subject.place.namespace_labels),
                    None => subject.name.namespace == own,
                };
                is_there && pods.matches(subject.labels())
            }
        }
    }
}

fn egress(rule: &Rule) -> (Vec<To>, Vec<PortNumber>) {
    let to = rule.to.iter().flatten().filter_map(peer);
    (to.collect(), ports(rule).collect())
}

fn peer(peer: &Peer) -> Option<To> {
    if let Some(block) = &peer.ip_block {
        return Block::parse_lax(block.cidr.as_deref()?).map(To::Block);
    }
    Some(To::Pods {
        namespaces: peer
            .namespace_selector
            .as_ref()
            .map(|it| everything_unless(Some(it))),
        pods: everything_unless(peer.pod_selector.as_ref()),
    })
}

/// A selector that cannot be read picks nothing.
fn everything_unless(selector: Option<&LabelSelector>) -> Selector {
    match selector {
        None => Selector::everything(),
        some => LabelSelector::to_selector(some).unwrap_or_else(|_| Selector::nothing()),
    }
}

/// The numbers of a rule, and of ranges both ends. Names are those of ports that pods declare.
fn ports(rule: &Rule) -> impl Iterator<Item = PortNumber> + '_ {
    rule.ports.iter().flatten().flat_map(|port: &Port| {
        let protocol = protocol(port.protocol.as_deref());
        let first = port.port.as_ref().and_then(Value::as_i64);
        let numbers = [first, first.and(port.end_port)].into_iter().flatten();
        let numbers = numbers.filter_map(|number| u16::try_from(number).ok());
        let known = numbers.filter(|number| *number > 0);
        known.filter_map(move |port| {
            Some(PortNumber {
                port,
                protocol: protocol?,
            })
        })
    })
}
