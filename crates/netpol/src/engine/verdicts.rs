//! Says of a connection what each end makes of it, and why.

use std::net::IpAddr;

use super::policies::{Peer, Policy, Port, Rule};
use super::slots::PodId;
use super::world::World;
use crate::judge::{End, Grant, Opinion, Pair, Question, Refusal, Verdict};
use crate::{Direction, Family, Protocol};

/// One end of a pair of addresses.
#[derive(Debug, Clone, Copy)]
struct Party {
    address: IpAddr,
    /// The pod that has the address, unless it is one of the host network.
    pod: Option<PodId>,
}

/// A connection as one end sees it.
struct View<'a> {
    world: &'a World,
    direction: Direction,
    peer: Party,
    destination: Party,
    protocol: Protocol,
    port: u16,
}

impl World {
    pub(super) fn judge(&self, question: &Question) -> Option<Verdict> {
        let (from, to) = (self.parties(&question.from)?, self.parties(&question.to)?);
        let pairs = from
            .iter()
            .flat_map(|from| to.iter().map(|to| (*from, *to)));
        let pairs = pairs.filter(|(from, to)| Family::of(from.address) == Family::of(to.address));
        let pairs: Vec<Pair> = pairs
            .map(|(from, to)| Pair {
                from: from.address,
                to: to.address,
                egress: self.opinion(Direction::Egress, from, to, question),
                ingress: self.opinion(Direction::Ingress, from, to, question),
            })
            .collect();
        (!pairs.is_empty()).then_some(Verdict { pairs })
    }

    /// An address that another pod has by now is not the pod's.
    fn parties(&self, end: &End) -> Option<Vec<Party>> {
        let addresses: Vec<IpAddr> = match end {
            End::Address(address) => vec![address.to_canonical()],
            End::Pod(name) => {
                let id = self.pods.find(name)?;
                let pod = &self.pods[id];
                match pod.facts.is_host_network {
                    true => pod.facts.addresses.to_vec(),
                    false => self.owned(id).collect(),
                }
            }
        };
        let parties = addresses.into_iter().map(|address| Party {
            address,
            pod: self.owners.of(address),
        });
        Some(parties.collect())
    }

    fn opinion(
        &self,
        direction: Direction,
        from: Party,
        to: Party,
        question: &Question,
    ) -> Opinion {
        let (own, peer) = match direction {
            Direction::Ingress => (to, from),
            Direction::Egress => (from, to),
        };
        let Some(pod) = own.pod else {
            return Opinion::NoPod;
        };
        if peer.pod == Some(pod) {
            return Opinion::Itself;
        }
        let facts = &self.pods[pod].facts;
        if peer.pod.is_none() && self.nodes.is_own(facts, peer.address) {
            return Opinion::OwnNode;
        }
        let view = View {
            world: self,
            direction,
            peer,
            destination: to,
            protocol: question.protocol,
            port: question.port,
        };
        view.opinion_of(pod)
    }
}

impl View<'_> {
    fn opinion_of(&self, pod: PodId) -> Opinion {
        let policies = self.world.isolating(pod, self.direction);
        if policies.is_empty() {
            return Opinion::NotIsolated;
        }
        let (mut grants, mut refusals) = (Vec::new(), Vec::new());
        for id in policies {
            let policy = &self.world.policies[id];
            let mut reasons = Vec::new();
            let rules = policy.meaning.rules(self.direction).unwrap_or_default();
            for (at, rule) in rules.iter().enumerate() {
                match self.grant(policy, at, rule) {
                    Ok(grant) => grants.push(grant),
                    Err(reason) => reasons.push(reason),
                }
            }
            refusals.push(Refusal {
                policy: (*policy.name).clone(),
                rules: reasons,
            });
        }
        match grants.is_empty() {
            true => Opinion::Denied { policies: refusals },
            false => Opinion::Allowed { grants },
        }
    }

    /// What in the rule allows the connection, or why nothing does.
    fn grant(&self, policy: &Policy, at: usize, rule: &Rule) -> Result<Grant, String> {
        let place = format!("spec.{}[{at}]", self.direction.rules_field());
        let peer = rule.peers.iter().position(|peer| self.is_peer(peer));
        if peer.is_none() && !rule.peers.is_empty() {
            return Err(format!("{place}: no peer is {}", self.describe(self.peer)));
        }
        let port = rule.ports.iter().position(|port| self.is_port(port));
        if port.is_none() && !rule.ports.is_empty() {
            let (number, protocol) = (self.port, self.protocol);
            let names = self.describe_names(&rule.ports);
            return Err(format!("{place}: no port is {number}/{protocol}{names}"));
        }
        let peers_field = self.direction.peers_field();
        Ok(Grant {
            policy: (*policy.name).clone(),
            rule: place,
            peer: peer.map(|at| format!("{peers_field}[{at}]")),
            port: port.map(|at| format!("ports[{at}]")),
        })
    }

    fn is_peer(&self, peer: &Peer) -> bool {
        match peer {
            Peer::Nobody => false,
            Peer::Block(ranges) => ranges.contains(self.peer.address),
            Peer::Pods(selection) => {
                let selection = &self.world.selections[*selection];
                let pod = self.peer.pod;
                pod.is_some_and(|pod| self.world.picks(selection, pod))
            }
        }
    }

    fn is_port(&self, port: &Port) -> bool {
        match port {
            Port::Nothing => false,
            Port::All(protocol) => *protocol == self.protocol,
            Port::Numbers(protocol, first, last) => {
                *protocol == self.protocol && (*first..=*last).contains(&self.port)
            }
            Port::Named(protocol, name) => {
                let facts = self.destination.pod.map(|pod| &self.world.pods[pod].facts);
                let number = facts.and_then(|facts| facts.port(name, *protocol));
                *protocol == self.protocol && number == Some(self.port)
            }
        }
    }

    fn describe(&self, party: Party) -> String {
        match party.pod {
            Some(pod) => format!("{} (pod {})", party.address, self.world.pods[pod].name),
            None => format!("{} (no pod)", party.address),
        }
    }

    /// What the names of ports mean at the destination.
    fn describe_names(&self, ports: &[Port]) -> String {
        let names = ports.iter().filter_map(|port| match port {
            Port::Named(protocol, name) if *protocol == self.protocol => Some(name),
            _ => None,
        });
        let meant = names.map(|name| {
            let shown = name.as_ref();
            let Some(pod) = self.destination.pod else {
                return format!("{shown:?} is only a port of pods");
            };
            let pod = &self.world.pods[pod];
            match pod.facts.port(name, self.protocol) {
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
