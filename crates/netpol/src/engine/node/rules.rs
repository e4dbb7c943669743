//! What a policy means, as rules of a node.

use std::collections::BTreeSet;

use super::sets::{Content, Sets};
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

/// The ports of a rule, each kind once.
enum Kind<'a> {
    /// Whoever's they are.
    Plain(Ports),
    /// Of a name that each destination has for another number.
    Named(Protocol, &'a Text),
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

    fn write_anyone(&mut self, kind: &Kind<'_>) {
        match kind {
            Kind::Plain(ports) => self.rules.push(program::Rule {
                family: None,
                peer: program::Peer::Anyone,
                ports: ports.clone(),
            }),
            Kind::Named(..) => {
                for family in Family::BOTH {
                    self.write_block(family, program::Peer::Anyone, kind);
                }
            }
        }
    }

    /// For peers that are no selection of pods.
    fn write_block(&mut self, family: Family, peer: program::Peer, kind: &Kind<'_>) {
        let ports = match kind {
            Kind::Plain(ports) => ports.clone(),
            Kind::Named(protocol, name) => {
                let destinations = match self.direction {
                    Direction::Ingress => Some(self.meaning.target),
                    Direction::Egress => self.meaning.everyone,
                };
                let Some(destinations) = destinations else {
                    return;
                };
                Ports::In(self.hold_ports(destinations, *protocol, name, family))
            }
        };
        self.push(family, peer, ports);
    }

    fn write_pods(&mut self, selection: SelectionId, kind: &Kind<'_>) {
        for family in Family::BOTH {
            match (kind, self.direction) {
                (Kind::Named(protocol, name), Direction::Egress) => {
                    // Only ports of these pods are in the set: that the pods are meant needs no other.
                    let ports = self.hold_ports(selection, *protocol, name, family);
                    self.push(family, program::Peer::Anyone, Ports::In(ports));
                }
                _ => {
                    let peer = program::Peer::In(self.hold(
                        &Content {
                            selection,
                            port: None,
                        },
                        family,
                    ));
                    self.write_block(family, peer, kind);
                }
            }
        }
    }

    fn hold_ports(
        &mut self,
        selection: SelectionId,
        protocol: Protocol,
        name: &Text,
        family: Family,
    ) -> SetId {
        let port = Some((name.clone(), protocol));
        self.hold(&Content { selection, port }, family)
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
    let mut selections = Vec::new();
    for peer in &rule.peers {
        if let Peer::Pods(selection) = peer
            && !selections.contains(selection)
        {
            selections.push(*selection);
        }
    }
    selections
}

fn blocks(rule: &Rule) -> impl Iterator<Item = &Ranges> {
    rule.peers.iter().filter_map(|peer| match peer {
        Peer::Block(ranges) => Some(ranges),
        Peer::Nobody | Peer::Pods(_) => None,
    })
}

fn kinds(ports: &[Port]) -> Vec<Kind<'_>> {
    if ports.is_empty() {
        return vec![Kind::Plain(Ports::Any)];
    }
    let plain = Protocol::ALL
        .into_iter()
        .filter_map(|protocol| numbers(ports, protocol));
    let mut kinds: Vec<Kind<'_>> = plain.map(Kind::Plain).collect();
    let mut seen = BTreeSet::new();
    for port in ports {
        if let Port::Named(protocol, name) = port
            && seen.insert((*protocol, name.as_ref()))
        {
            kinds.push(Kind::Named(*protocol, name));
        }
    }
    kinds
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
