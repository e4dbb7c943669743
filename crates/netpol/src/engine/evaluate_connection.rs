//! Evaluates a connection against the policies of both endpoints and explains the result.

use std::net::IpAddr;

use super::ids::PodId;
use super::policy_cluster_state::PolicyClusterState;
use super::policy_table::{CompiledPeer, CompiledPort, CompiledRule, PolicyTableEntry};
use crate::verdict::{
    AddressPairVerdict, AllowingRule, ConnectionEndpoint, ConnectionQuery, ConnectionVerdict,
    DenyingPolicy, DirectionVerdict,
};
use crate::{Direction, IpFamily, Protocol};

/// One endpoint of an address pair.
#[derive(Debug, Clone, Copy)]
struct ResolvedEndpoint {
    address: IpAddr,
    /// The pod that owns the address; `None` for pods in the host network.
    pod: Option<PodId>,
}

/// Evaluates one direction of a connection: egress of the source or ingress of the destination.
struct DirectionEvaluator<'a> {
    cluster: &'a PolicyClusterState,
    direction: Direction,
    peer: ResolvedEndpoint,
    destination: ResolvedEndpoint,
    protocol: Protocol,
    port: u16,
}

impl PolicyClusterState {
    pub(super) fn evaluate(&self, query: &ConnectionQuery) -> Option<ConnectionVerdict> {
        let (from, to) = (
            self.resolve_endpoint(&query.from)?,
            self.resolve_endpoint(&query.to)?,
        );
        let pairs = from
            .iter()
            .flat_map(|from| to.iter().map(|to| (*from, *to)));
        let pairs =
            pairs.filter(|(from, to)| IpFamily::of(from.address) == IpFamily::of(to.address));
        let pairs: Vec<AddressPairVerdict> = pairs
            .map(|(from, to)| AddressPairVerdict {
                from: from.address,
                to: to.address,
                egress: self.evaluate_direction(Direction::Egress, from, to, query),
                ingress: self.evaluate_direction(Direction::Ingress, from, to, query),
            })
            .collect();
        (!pairs.is_empty()).then_some(ConnectionVerdict { pairs })
    }

    /// Resolves an endpoint to addresses, without those that another pod has taken over.
    fn resolve_endpoint(&self, end: &ConnectionEndpoint) -> Option<Vec<ResolvedEndpoint>> {
        let addresses: Vec<IpAddr> = match end {
            ConnectionEndpoint::Address(address) => vec![address.to_canonical()],
            ConnectionEndpoint::Pod(name) => {
                let id = self.pods.find(name)?;
                let pod = &self.pods[id];
                match pod.attributes.is_host_network {
                    true => pod.attributes.addresses.to_vec(),
                    false => self.owned_addresses(id).collect(),
                }
            }
        };
        let endpoints = addresses.into_iter().map(|address| ResolvedEndpoint {
            address,
            pod: self.address_owners.owner_of(address),
        });
        Some(endpoints.collect())
    }

    fn evaluate_direction(
        &self,
        direction: Direction,
        from: ResolvedEndpoint,
        to: ResolvedEndpoint,
        query: &ConnectionQuery,
    ) -> DirectionVerdict {
        let (own, peer) = match direction {
            Direction::Ingress => (to, from),
            Direction::Egress => (from, to),
        };
        let Some(pod) = own.pod else {
            return DirectionVerdict::NoPod;
        };
        if peer.pod == Some(pod) {
            return DirectionVerdict::Itself;
        }
        let attributes = &self.pods[pod].attributes;
        if peer.pod.is_none() && self.node_addresses.is_own_node(attributes, peer.address) {
            return DirectionVerdict::OwnNode;
        }
        let view = DirectionEvaluator {
            cluster: self,
            direction,
            peer,
            destination: to,
            protocol: query.protocol,
            port: query.port,
        };
        view.evaluate_pod(pod)
    }
}

impl DirectionEvaluator<'_> {
    fn evaluate_pod(&self, pod: PodId) -> DirectionVerdict {
        let policies = self.cluster.isolating_policies(pod, self.direction);
        if policies.is_empty() {
            return DirectionVerdict::NotIsolated;
        }
        let (mut grants, mut denials) = (Vec::new(), Vec::new());
        for id in policies {
            let policy = &self.cluster.policies[id];
            let mut reasons = Vec::new();
            let rules = policy.compiled.rules(self.direction).unwrap_or_default();
            for (at, rule) in rules.iter().enumerate() {
                match self.match_rule(policy, at, rule) {
                    Ok(grant) => grants.push(grant),
                    Err(reason) => reasons.push(reason),
                }
            }
            denials.push(DenyingPolicy {
                policy: (*policy.name).clone(),
                rules: reasons,
            });
        }
        match grants.is_empty() {
            true => DirectionVerdict::Denied { policies: denials },
            false => DirectionVerdict::Allowed { grants },
        }
    }

    /// What in the rule allows the connection, or why it does not match.
    fn match_rule(
        &self,
        policy: &PolicyTableEntry,
        at: usize,
        rule: &CompiledRule,
    ) -> Result<AllowingRule, String> {
        let scope = format!("spec.{}[{at}]", self.direction.rules_field());
        let peer = rule.peers.iter().position(|peer| self.peer_matches(peer));
        if peer.is_none() && !rule.peers.is_empty() {
            return Err(format!(
                "{scope}: no peer is {}",
                self.describe_endpoint(self.peer)
            ));
        }
        let port = rule.ports.iter().position(|port| self.port_matches(port));
        if port.is_none() && !rule.ports.is_empty() {
            let (number, protocol) = (self.port, self.protocol);
            let names = self.describe_named_ports(&rule.ports);
            return Err(format!("{scope}: no port is {number}/{protocol}{names}"));
        }
        let peers_field = self.direction.peers_field();
        Ok(AllowingRule {
            policy: (*policy.name).clone(),
            rule: scope,
            peer: peer.map(|at| format!("{peers_field}[{at}]")),
            port: port.map(|at| format!("ports[{at}]")),
        })
    }

    fn peer_matches(&self, peer: &CompiledPeer) -> bool {
        match peer {
            CompiledPeer::NoMatch => false,
            CompiledPeer::Block(ranges) => ranges.contains(self.peer.address),
            CompiledPeer::Pods(selection) => {
                let selection = &self.cluster.selections[*selection];
                let pod = self.peer.pod;
                pod.is_some_and(|pod| self.cluster.selection_matches(selection, pod))
            }
        }
    }

    fn port_matches(&self, port: &CompiledPort) -> bool {
        match port {
            CompiledPort::NoMatch => false,
            CompiledPort::All(protocol) => *protocol == self.protocol,
            CompiledPort::Range(protocol, first, last) => {
                *protocol == self.protocol && (*first..=*last).contains(&self.port)
            }
            CompiledPort::Named(protocol, name) => {
                let attributes = self
                    .destination
                    .pod
                    .map(|pod| &self.cluster.pods[pod].attributes);
                let number =
                    attributes.and_then(|attributes| attributes.named_port(name, *protocol));
                *protocol == self.protocol && number == Some(self.port)
            }
        }
    }

    fn describe_endpoint(&self, endpoint: ResolvedEndpoint) -> String {
        match endpoint.pod {
            Some(pod) => format!("{} (pod {})", endpoint.address, self.cluster.pods[pod].name),
            None => format!("{} (no pod)", endpoint.address),
        }
    }

    /// The port numbers that named ports resolve to at the destination.
    fn describe_named_ports(&self, ports: &[CompiledPort]) -> String {
        let names = ports.iter().filter_map(|port| match port {
            CompiledPort::Named(protocol, name) if *protocol == self.protocol => Some(name),
            _ => None,
        });
        let meant = names.map(|name| {
            let shown = name.as_ref();
            let Some(pod) = self.destination.pod else {
                return format!("{shown:?} is only a port of pods");
            };
            let pod = &self.cluster.pods[pod];
            match pod.attributes.named_port(name, self.protocol) {
                Some(number) => format!("{shown:?} is {number} of pod {}", pod.name),
                None => format!("pod {} has none named {shown:?}", pod.name),
            }
        });
        let meant: Vec<String> = meant.collect();
        match meant.is_empty() {
            true => String::new(),
            false => format!(" ({})", meant.join(", ")),
        }
    }
}
