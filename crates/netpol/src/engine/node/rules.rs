//! What a policy means, as rules of a node.

use std::collections::{BTreeMap, BTreeSet};

use super::sets::{Content, PortName, Sets};
use crate::engine::policies::{Meaning, Peer, Port, Rule};
use crate::engine::slots::SelectionId;
use crate::engine::text::Text;
use crate::program::{self, Ports, SetId};
use crate::ranges::Ranges;
use crate::{Direction, Family, Protocol};

/// The rules of a policy in a direction, and the sets that they name, as often as they do.
pub(super) fn write(
    meaning: &Meaning,
    direction: Direction,
    sets: &mut Sets,
) -> (Vec<program::Rule>, Vec<SetId>) {
    let mut writer = Writer {
        meaning,
        direction,
        sets,
        held: Vec::new(),
        rules: Vec::new(),
    };
    for rule in meaning.rules(direction).unwrap_or_default() {
        writer.write(rule);
    }
    (writer.rules, writer.held)
}

struct Writer<'a> {
    meaning: &'a Meaning,
    direction: Direction,
    sets: &'a mut Sets,
    held: Vec<SetId>,
    rules: Vec<program::Rule>,
}

/// The ports of a rule. There are few kinds however many ports are written, as each is a rule for each peer.
enum Kind {
    /// Whoever's they are.
    Plain(Ports),
    /// Of names that each destination has for other numbers.
    Named(Box<[PortName]>),
}

impl Writer<'_> {
    fn write(&mut self, rule: &Rule) {
        let kinds = kinds(&rule.ports);
        if rule.peers.is_empty() {
            for kind in &kinds {
                self.write_anyone(kind);
            }
            return;
        }
        for selection in selections(rule) {
            for kind in &kinds {
                self.write_pods(selection, kind);
            }
        }
        for family in Family::BOTH {
            let ranges = Ranges::union(blocks(rule), family);
            if ranges.is_empty() {
                continue;
            }
            for kind in &kinds {
                let peer = program::Peer::Ranges(ranges.clone());
                self.write_block(family, peer, kind);
            }
        }
    }

    fn write_anyone(&mut self, kind: &Kind) {
        match kind {
            Kind::Plain(ports) => self.rules.push(program::Rule {
                family: None,
                peer: program::Peer::Anyone,
                ports: ports.clone(),
            }),
            Kind::Named(_) => {
                for family in Family::BOTH {
                    self.write_block(family, program::Peer::Anyone, kind);
                }
            }
        }
    }

    /// For peers that are no selection of pods.
    fn write_block(&mut self, family: Family, peer: program::Peer, kind: &Kind) {
        let ports = match kind {
            Kind::Plain(ports) => ports.clone(),
            Kind::Named(names) => {
                let destinations = match self.direction {
                    Direction::Ingress => Some(self.meaning.target),
                    Direction::Egress => self.meaning.everyone,
                };
                let Some(destinations) = destinations else {
                    return;
                };
                Ports::In(self.hold_ports(destinations, names, family))
            }
        };
        self.push(family, peer, ports);
    }

    fn write_pods(&mut self, selection: SelectionId, kind: &Kind) {
        for family in Family::BOTH {
            match (kind, self.direction) {
                (Kind::Named(names), Direction::Egress) => {
                    // Only ports of these pods are in the set: that the pods are meant needs no other.
                    let ports = self.hold_ports(selection, names, family);
                    self.push(family, program::Peer::Anyone, Ports::In(ports));
                }
                _ => {
                    let peer = self.hold(&Content::addresses(selection), family);
                    self.write_block(family, program::Peer::In(peer), kind);
                }
            }
        }
    }

    fn hold_ports(&mut self, selection: SelectionId, names: &[PortName], family: Family) -> SetId {
        let ports = names.into();
        self.hold(&Content { selection, ports }, family)
    }

    fn hold(&mut self, content: &Content, family: Family) -> SetId {
        let id = self.sets.hold(content, family);
        self.held.push(id);
        id
    }

    fn push(&mut self, family: Family, peer: program::Peer, ports: Ports) {
        let family = Some(family);
        self.rules.push(program::Rule {
            family,
            peer,
            ports,
        });
    }
}

/// Each once, in order of writing.
fn selections(rule: &Rule) -> Vec<SelectionId> {
    let mut seen = BTreeSet::new();
    let pods = rule.peers.iter().filter_map(|peer| match peer {
        Peer::Pods(selection) => Some(*selection),
        Peer::Nobody | Peer::Block(_) => None,
    });
    pods.filter(|selection| seen.insert(*selection)).collect()
}

fn blocks(rule: &Rule) -> impl Iterator<Item = &Ranges> {
    rule.peers.iter().filter_map(|peer| match peer {
        Peer::Block(ranges) => Some(ranges),
        Peer::Nobody | Peer::Pods(_) => None,
    })
}

fn kinds(ports: &[Port]) -> Vec<Kind> {
    if ports.is_empty() {
        return vec![Kind::Plain(Ports::Any)];
    }
    let plain = Protocol::ALL
        .into_iter()
        .filter_map(|protocol| numbers(ports, protocol));
    let mut kinds: Vec<Kind> = plain.map(Kind::Plain).collect();
    let names = names(ports);
    if !names.is_empty() {
        kinds.push(Kind::Named(names));
    }
    kinds
}

/// All that are given by names, each once, in order.
fn names(ports: &[Port]) -> Box<[PortName]> {
    let names = ports.iter().filter_map(|port| match port {
        Port::Named(protocol, name) => Some(((*protocol, name.as_ref()), name)),
        _ => None,
    });
    let names: BTreeMap<(Protocol, &str), &Text> = names.collect();
    let names = names.into_iter();
    names
        .map(|((protocol, _), name)| (protocol, name.clone()))
        .collect()
}

/// All ports of a protocol that are given by numbers, or all there are.
fn numbers(ports: &[Port], protocol: Protocol) -> Option<Ports> {
    if ports.contains(&Port::All(protocol)) {
        return Some(Ports::All(protocol));
    }
    let mut ranges: Vec<(u16, u16)> = ports
        .iter()
        .filter_map(|port| match port {
            Port::Numbers(of, first, last) if *of == protocol => Some((*first, *last)),
            _ => None,
        })
        .collect();
    ranges.sort_unstable();
    let mut merged: Vec<(u16, u16)> = Vec::new();
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    (!merged.is_empty()).then_some(Ports::Ranges(protocol, merged))
}
