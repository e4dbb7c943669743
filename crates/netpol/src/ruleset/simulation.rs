//! Simulates a kernel that has loaded a ruleset: applies deltas and evaluates packets. Tests compare real kernels with
//! it.

use std::net::IpAddr;

use super::{
    AllowRule, IpSet, IpSetElement, IpSetId, NodeRuleset, PacketTuple, PeerMatch, PolicyChainId,
    PolicyGroupChange, PortMatch, RulesetDelta,
};
use crate::{Direction, IpFamily};

impl NodeRuleset {
    /// Applies a delta, in the order of the fields of [`RulesetDelta`].
    pub fn apply(&mut self, changes: &RulesetDelta) {
        for (id, kind) in &changes.new_sets {
            let set = IpSet {
                kind: *kind,
                elements: Default::default(),
            };
            self.sets.insert(*id, set);
        }
        for (id, elements) in &changes.removed_elements {
            if let Some(set) = self.sets.get_mut(id) {
                elements
                    .iter()
                    .for_each(|element| _ = set.elements.remove(element));
            }
        }
        for (id, elements) in &changes.added_elements {
            if let Some(set) = self.sets.get_mut(id) {
                set.elements.extend(elements);
            }
        }
        self.chains.extend(changes.chains.clone());
        self.groups.extend(changes.groups.clone());
        for (key, redirection) in &changes.dispatch {
            match redirection.after {
                Some(group) => _ = self.dispatch.insert(*key, group),
                None => _ = self.dispatch.remove(key),
            }
        }
        for address in &changes.known_addresses_removed {
            self.known_addresses.remove(address);
        }
        self.known_addresses.extend(&changes.known_addresses_added);
        self.remove(changes);
    }

    fn remove(&mut self, changes: &RulesetDelta) {
        for id in &changes.removed_groups {
            self.groups.remove(id);
        }
        for id in &changes.removed_chains {
            self.chains.remove(id);
        }
        for id in &changes.removed_sets {
            self.sets.remove(id);
        }
    }

    /// The delta from an empty ruleset to this one.
    pub fn delta_from_empty(&self) -> RulesetDelta {
        let mut changes = RulesetDelta {
            chains: self.chains.clone(),
            groups: self.groups.clone(),
            known_addresses_added: self.known_addresses.clone(),
            ..RulesetDelta::default()
        };
        for (id, set) in &self.sets {
            changes.new_sets.insert(*id, set.kind);
            if !set.elements.is_empty() {
                let elements = set.elements.iter().copied().collect();
                changes.added_elements.insert(*id, elements);
            }
        }
        for (key, group) in &self.dispatch {
            let redirection = PolicyGroupChange {
                before: None,
                after: Some(*group),
            };
            changes.dispatch.insert(*key, redirection);
        }
        changes
    }

    /// Whether a packet in the original direction of its connection passes.
    pub fn allows(&self, packet: &PacketTuple) -> bool {
        let ends = [
            (Direction::Egress, packet.source),
            (Direction::Ingress, packet.destination),
        ];
        let mut ends = ends.into_iter();
        packet.source == packet.destination
            || ends.all(|(direction, end)| self.endpoint_allows(direction, end, packet))
    }

    fn endpoint_allows(&self, direction: Direction, end: IpAddr, packet: &PacketTuple) -> bool {
        let Some(group) = self.dispatch.get(&(direction, end)) else {
            return true;
        };
        let mut chains = self.groups.get(group).into_iter().flatten();
        chains.any(|chain| self.chain_allows(*chain, packet))
    }

    fn chain_allows(&self, id: PolicyChainId, packet: &PacketTuple) -> bool {
        let peer = match id.direction {
            Direction::Ingress => packet.source,
            Direction::Egress => packet.destination,
        };
        let chain = self.chains.get(&id);
        let mut rules = chain.into_iter().flat_map(|chain| &chain.rules);
        rules.any(|rule| self.rule_allows(rule, peer, packet))
    }

    fn rule_allows(&self, rule: &AllowRule, peer: IpAddr, packet: &PacketTuple) -> bool {
        let is_family = |family: IpFamily| {
            let ends = [packet.source, packet.destination];
            ends.into_iter().all(|end| IpFamily::of(end) == family)
        };
        rule.family.is_none_or(is_family)
            && self.peer_matches(&rule.peer, peer)
            && self.port_matches(&rule.ports, packet)
    }

    fn peer_matches(&self, peer: &PeerMatch, address: IpAddr) -> bool {
        let port = None;
        match peer {
            PeerMatch::Any => true,
            PeerMatch::InSet(set) => self.set_contains(*set, IpSetElement { address, port }),
            PeerMatch::Ranges(ranges) => {
                let mut ranges = ranges.iter();
                ranges.any(|(first, last)| (*first..=*last).contains(&address))
            }
        }
    }

    fn port_matches(&self, ports: &PortMatch, packet: &PacketTuple) -> bool {
        let Some((protocol, number)) = packet.port else {
            return *ports == PortMatch::Any;
        };
        match ports {
            PortMatch::Any => true,
            PortMatch::AllPortsOf(of) => *of == protocol,
            PortMatch::Ranges(of, ranges) => {
                let mut ranges = ranges.iter();
                *of == protocol && ranges.any(|(first, last)| (*first..=*last).contains(&number))
            }
            PortMatch::InSet(set) => {
                let element = IpSetElement {
                    address: packet.destination,
                    port: packet.port,
                };
                self.set_contains(*set, element)
            }
        }
    }

    fn set_contains(&self, set: IpSetId, element: IpSetElement) -> bool {
        let set = self.sets.get(&set);
        set.is_some_and(|set| set.elements.contains(&element))
    }
}

impl IpSet {
    /// All elements with this address.
    pub(crate) fn elements_of_address(
        &self,
        address: IpAddr,
    ) -> impl Iterator<Item = IpSetElement> {
        let port = None;
        let from = self.elements.range(IpSetElement { address, port }..);
        from.copied()
            .take_while(move |element| element.address == address)
    }
}
