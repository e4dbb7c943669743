//! What a kernel that has a program does: the model that real ones are compared with.

use std::net::IpAddr;

use super::{
    ChainId, Changes, Element, Packet, Peer, Ports, Program, Redirection, Rule, Set, SetId,
};
use crate::{Direction, Family};

impl Program {
    /// Does what is to be done, in the order of [`Changes`].
    pub fn apply(&mut self, changes: &Changes) {
        for (id, kind) in &changes.new_sets {
            let set = Set {
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
        for (place, redirection) in &changes.dispatch {
            match redirection.after {
                Some(group) => _ = self.dispatch.insert(*place, group),
                None => _ = self.dispatch.remove(place),
            }
        }
        for address in &changes.known_removed {
            self.known.remove(address);
        }
        self.known.extend(&changes.known_added);
        self.remove(changes);
    }

    fn remove(&mut self, changes: &Changes) {
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

    /// What makes this program of an empty one.
    pub fn everything(&self) -> Changes {
        let mut changes = Changes {
            chains: self.chains.clone(),
            groups: self.groups.clone(),
            known_added: self.known.clone(),
            ..Changes::default()
        };
        for (id, set) in &self.sets {
            changes.new_sets.insert(*id, set.kind);
            if !set.elements.is_empty() {
                let elements = set.elements.iter().copied().collect();
                changes.added_elements.insert(*id, elements);
            }
        }
        for (place, group) in &self.dispatch {
            let redirection = Redirection {
                before: None,
                after: Some(*group),
            };
            changes.dispatch.insert(*place, redirection);
        }
        changes
    }

    /// Whether a packet of a connection's original direction passes.
    pub fn allows(&self, packet: &Packet) -> bool {
        let ends = [
            (Direction::Egress, packet.source),
            (Direction::Ingress, packet.destination),
        ];
        let mut ends = ends.into_iter();
        packet.source == packet.destination
            || ends.all(|(direction, end)| self.end_allows(direction, end, packet))
    }

    fn end_allows(&self, direction: Direction, end: IpAddr, packet: &Packet) -> bool {
        let Some(group) = self.dispatch.get(&(direction, end)) else {
            return true;
        };
        let mut chains = self.groups.get(group).into_iter().flatten();
        chains.any(|chain| self.chain_allows(*chain, packet))
    }

    fn chain_allows(&self, id: ChainId, packet: &Packet) -> bool {
        let peer = match id.direction {
            Direction::Ingress => packet.source,
            Direction::Egress => packet.destination,
        };
        let chain = self.chains.get(&id);
        let mut rules = chain.into_iter().flat_map(|chain| &chain.rules);
        rules.any(|rule| self.rule_allows(rule, peer, packet))
    }

    fn rule_allows(&self, rule: &Rule, peer: IpAddr, packet: &Packet) -> bool {
        let is_family = |family: Family| {
            let ends = [packet.source, packet.destination];
            ends.into_iter().all(|end| Family::of(end) == family)
        };
        rule.family.is_none_or(is_family)
            && self.is_peer(&rule.peer, peer)
            && self.is_port(&rule.ports, packet)
    }

    fn is_peer(&self, peer: &Peer, address: IpAddr) -> bool {
        let port = None;
        match peer {
            Peer::Anyone => true,
            Peer::In(set) => self.is_in(*set, Element { address, port }),
            Peer::Ranges(ranges) => {
                let mut ranges = ranges.iter();
                ranges.any(|(first, last)| (*first..=*last).contains(&address))
            }
        }
    }

    fn is_port(&self, ports: &Ports, packet: &Packet) -> bool {
        let Some((protocol, number)) = packet.port else {
            return *ports == Ports::Any;
        };
        match ports {
            Ports::Any => true,
            Ports::All(of) => *of == protocol,
            Ports::Ranges(of, ranges) => {
                let mut ranges = ranges.iter();
                *of == protocol && ranges.any(|(first, last)| (*first..=*last).contains(&number))
            }
            Ports::In(set) => {
                let element = Element {
                    address: packet.destination,
                    port: packet.port,
                };
                self.is_in(*set, element)
            }
        }
    }

    fn is_in(&self, set: SetId, element: Element) -> bool {
        let set = self.sets.get(&set);
        set.is_some_and(|set| set.elements.contains(&element))
    }
}

impl Set {
    /// All that there is by an address.
    pub(crate) fn at(&self, address: IpAddr) -> impl Iterator<Item = Element> {
        let port = None;
        let from = self.elements.range(Element { address, port }..);
        from.copied()
            .take_while(move |element| element.address == address)
    }
}
