//! Selects the ports to evaluate for each pod: declared ports, ports in policies that may apply, and ports from flags.

use std::collections::BTreeMap;

use rhumb_api::ip_addresses::CidrBlock;
use rhumb_meta::LabelSelector;
use rhumb_meta::labels::Selector;
use rhumb_netpol::objects::{Labels, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicyRule};
use rhumb_netpol::{NamespacedName, Pod, Protocol};
use serde_json::Value;

use super::equivalence_classes::{NamespaceWithLabels, single};
use crate::netpol::cluster::{NetpolCluster, addresses, declared_ports, protocol};
use crate::netpol::endpoints::PortAndProtocol;

/// Evaluated if a pod declares no port and no policy names one.
const DEFAULT_PORT: PortAndProtocol = PortAndProtocol {
    port: 80,
    protocol: Protocol::Tcp,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EvaluatedPort {
    pub(super) port: PortAndProtocol,
    /// Whether the pod declares the port or the user gave it. Only these ports decide whether the pod counts as reachable;
    /// ports that only policies name do not.
    pub(super) is_own: bool,
}

/// The ports named by policies, with the pods that they may apply to.
pub(super) struct EvaluatedPortCatalog<'c> {
    policies: Vec<PolicyPorts<'c>>,
    queried: &'c [PortAndProtocol],
}

struct PolicyPorts<'c> {
    namespace: &'c str,
    selector: Selector,
    ingress: Vec<PortAndProtocol>,
    /// Peers and ports of each rule; no peers means all.
    egress: Vec<(Vec<EgressPeer>, Vec<PortAndProtocol>)>,
}

enum EgressPeer {
    Pods {
        /// `None` selects the policy's own namespace.
        namespaces: Option<Selector>,
        pods: Selector,
    },
    Block(CidrBlock),
}

impl<'c> EvaluatedPortCatalog<'c> {
    pub(super) fn new(
        cluster: &'c NetpolCluster,
        queried: &'c [PortAndProtocol],
    ) -> EvaluatedPortCatalog<'c> {
        let policies = cluster.policies.iter().map(|(name, spec)| PolicyPorts {
            namespace: &name.namespace,
            selector: everything_unless(spec.pod_selector.as_ref()),
            ingress: spec.ingress.iter().flatten().flat_map(ports).collect(),
            egress: spec.egress.iter().flatten().map(egress).collect(),
        });
        let mut policies: Vec<PolicyPorts<'_>> = policies.collect();
        for policy in &mut policies {
            policy.egress.retain(|(_, ports)| !ports.is_empty());
        }
        policies.retain(|policy| !(policy.ingress.is_empty() && policy.egress.is_empty()));
        EvaluatedPortCatalog { policies, queried }
    }

    /// The ports to evaluate for a pod, in ascending order.
    pub(super) fn of(
        &self,
        name: &NamespacedName,
        pod: &Pod,
        namespace: &NamespaceWithLabels<'_>,
    ) -> Vec<EvaluatedPort> {
        let mut found: BTreeMap<PortAndProtocol, bool> = BTreeMap::new();
        for port in declared_ports(pod) {
            let port = PortAndProtocol {
                port: port.port,
                protocol: port.protocol,
            };
            found.insert(port, true);
        }
        found.extend(self.queried.iter().map(|port| (*port, true)));
        let subject = CandidatePod {
            name,
            pod,
            namespace,
        };
        for policy in &self.policies {
            for port in policy.about(&subject) {
                found.entry(port).or_insert(false);
            }
        }
        if found.is_empty() {
            found.insert(DEFAULT_PORT, true);
        }
        let queried = found
            .into_iter()
            .map(|(port, is_own)| EvaluatedPort { port, is_own });
        queried.collect()
    }
}

/// A pod to match against selectors.
struct CandidatePod<'p> {
    name: &'p NamespacedName,
    pod: &'p Pod,
    namespace: &'p NamespaceWithLabels<'p>,
}

impl CandidatePod<'_> {
    fn labels(&self) -> &Labels {
        static NONE: Labels = Labels::new();
        self.pod.metadata.labels.as_ref().unwrap_or(&NONE)
    }
}

impl PolicyPorts<'_> {
    fn about<'a>(
        &'a self,
        subject: &'a CandidatePod<'_>,
    ) -> impl Iterator<Item = PortAndProtocol> + 'a {
        let is_selected =
            self.namespace == subject.name.namespace && self.selector.matches(subject.labels());
        let ingress = self.ingress.iter().filter(move |_| is_selected);
        let reaches = |to: &EgressPeer| to.is(subject, self.namespace);
        let egress = self.egress.iter();
        let egress = egress.filter(move |(to, _)| to.is_empty() || to.iter().any(reaches));
        ingress.chain(egress.flat_map(|(_, ports)| ports)).copied()
    }
}

impl EgressPeer {
    fn is(&self, subject: &CandidatePod<'_>, own: &str) -> bool {
        match self {
            EgressPeer::Block(block) => addresses(subject.pod).any(|it| block.contains(single(it))),
            EgressPeer::Pods { namespaces, pods } => {
                let is_there = match namespaces {
                    Some(namespaces) => namespaces.matches(&subject.namespace.namespace_labels),
                    None => subject.name.namespace == own,
                };
                is_there && pods.matches(subject.labels())
            }
        }
    }
}

fn egress(rule: &NetworkPolicyRule) -> (Vec<EgressPeer>, Vec<PortAndProtocol>) {
    let to = rule.to.iter().flatten().filter_map(peer);
    (to.collect(), ports(rule).collect())
}

fn peer(peer: &NetworkPolicyPeer) -> Option<EgressPeer> {
    if let Some(block) = &peer.ip_block {
        return CidrBlock::parse_lax(block.cidr.as_deref()?).map(EgressPeer::Block);
    }
    Some(EgressPeer::Pods {
        namespaces: peer
            .namespace_selector
            .as_ref()
            .map(|it| everything_unless(Some(it))),
        pods: everything_unless(peer.pod_selector.as_ref()),
    })
}

/// An absent selector matches everything, an invalid one nothing.
fn everything_unless(selector: Option<&LabelSelector>) -> Selector {
    match selector {
        None => Selector::everything(),
        some => LabelSelector::to_selector(some).unwrap_or_else(|_| Selector::nothing()),
    }
}

/// The numeric ports of a rule, and both ends of port ranges. Named ports are covered by the declared ports of pods.
fn ports(rule: &NetworkPolicyRule) -> impl Iterator<Item = PortAndProtocol> + '_ {
    rule.ports
        .iter()
        .flatten()
        .flat_map(|port: &NetworkPolicyPort| {
            let protocol = protocol(port.protocol.as_deref());
            let first = port.port.as_ref().and_then(Value::as_i64);
            let numbers = [first, first.and(port.end_port)].into_iter().flatten();
            let numbers = numbers.filter_map(|number| u16::try_from(number).ok());
            let known = numbers.filter(|number| *number > 0);
            known.filter_map(move |port| {
                Some(PortAndProtocol {
                    port,
                    protocol: protocol?,
                })
            })
        })
}
