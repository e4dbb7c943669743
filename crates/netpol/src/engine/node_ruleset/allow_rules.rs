//! Builds the allow rules of a policy chain from a compiled policy.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_selection::InternedString;

use super::ip_sets::{IpSetContent, IpSetRegistry, ProtocolPortName};
use crate::engine::ids::SelectionId;
use crate::engine::policy_table::{CompiledPeer, CompiledPolicy, CompiledPort, CompiledRule};
use crate::ip_ranges::IpRanges;
use crate::ruleset::{self, IpSetId, PortMatch};
use crate::{Direction, IpFamily, Protocol};

/// The rules of a policy in a direction, and the sets that they refer to, with repetitions.
pub(super) fn build_allow_rules(
    compiled: &CompiledPolicy,
    direction: Direction,
    sets: &mut IpSetRegistry,
) -> (Vec<ruleset::AllowRule>, Vec<IpSetId>) {
    let mut writer = AllowRuleBuilder {
        compiled,
        direction,
        sets,
        used_sets: Vec::new(),
        rules: Vec::new(),
    };
    for rule in compiled.rules(direction).unwrap_or_default() {
        writer.add_rule(rule);
    }
    (writer.rules, writer.used_sets)
}

struct AllowRuleBuilder<'a> {
    compiled: &'a CompiledPolicy,
    direction: Direction,
    sets: &'a mut IpSetRegistry,
    used_sets: Vec<IpSetId>,
    rules: Vec<ruleset::AllowRule>,
}

/// The ports of a policy rule, merged: each value becomes a separate rule for each peer, so there should be few.
enum RulePorts {
    /// Port numbers, which are the same for all destinations.
    ByNumber(PortMatch),
    /// Named ports, which each destination pod resolves itself.
    ByName(Box<[ProtocolPortName]>),
}

impl AllowRuleBuilder<'_> {
    fn add_rule(&mut self, rule: &CompiledRule) {
        let kinds = rule_ports(&rule.ports);
        if rule.peers.is_empty() {
            for kind in &kinds {
                self.add_any_peer(kind);
            }
            return;
        }
        for selection in selections(rule) {
            for kind in &kinds {
                self.add_pods(selection, kind);
            }
        }
        for family in IpFamily::BOTH {
            let ranges = IpRanges::union(blocks(rule), family);
            if ranges.is_empty() {
                continue;
            }
            for kind in &kinds {
                let peer = ruleset::PeerMatch::Ranges(ranges.clone());
                self.add_peer(family, peer, kind);
            }
        }
    }

    fn add_any_peer(&mut self, kind: &RulePorts) {
        match kind {
            RulePorts::ByNumber(ports) => self.rules.push(ruleset::AllowRule {
                family: None,
                peer: ruleset::PeerMatch::Any,
                ports: ports.clone(),
            }),
            RulePorts::ByName(_) => {
                for family in IpFamily::BOTH {
                    self.add_peer(family, ruleset::PeerMatch::Any, kind);
                }
            }
        }
    }

    /// Adds a rule for a peer match; named ports are resolved with a port set of the possible destinations.
    fn add_peer(&mut self, family: IpFamily, peer: ruleset::PeerMatch, kind: &RulePorts) {
        let ports = match kind {
            RulePorts::ByNumber(ports) => ports.clone(),
            RulePorts::ByName(names) => {
                let destinations = match self.direction {
                    Direction::Ingress => Some(self.compiled.target),
                    Direction::Egress => self.compiled.all_pods,
                };
                let Some(destinations) = destinations else {
                    return;
                };
                PortMatch::InSet(self.acquire_port_set(destinations, names, family))
            }
        };
        self.push(family, peer, ports);
    }

    fn add_pods(&mut self, selection: SelectionId, kind: &RulePorts) {
        for family in IpFamily::BOTH {
            match (kind, self.direction) {
                (RulePorts::ByName(names), Direction::Egress) => {
                    // The port set contains only these pods, so a separate address match is not needed.
                    let ports = self.acquire_port_set(selection, names, family);
                    self.push(family, ruleset::PeerMatch::Any, PortMatch::InSet(ports));
                }
                _ => {
                    let peer = self.acquire_set(&IpSetContent::addresses(selection), family);
                    self.add_peer(family, ruleset::PeerMatch::InSet(peer), kind);
                }
            }
        }
    }

    fn acquire_port_set(
        &mut self,
        selection: SelectionId,
        names: &[ProtocolPortName],
        family: IpFamily,
    ) -> IpSetId {
        let ports = names.into();
        self.acquire_set(&IpSetContent { selection, ports }, family)
    }

    fn acquire_set(&mut self, content: &IpSetContent, family: IpFamily) -> IpSetId {
        let id = self.sets.acquire(content, family);
        self.used_sets.push(id);
        id
    }

    fn push(&mut self, family: IpFamily, peer: ruleset::PeerMatch, ports: PortMatch) {
        let family = Some(family);
        self.rules.push(ruleset::AllowRule {
            family,
            peer,
            ports,
        });
    }
}

/// The pod selections among the peers, without duplicates, in spec order.
fn selections(rule: &CompiledRule) -> Vec<SelectionId> {
    let mut seen = BTreeSet::new();
    let pods = rule.peers.iter().filter_map(|peer| match peer {
        CompiledPeer::Pods(selection) => Some(*selection),
        CompiledPeer::NoMatch | CompiledPeer::Block(_) => None,
    });
    pods.filter(|selection| seen.insert(*selection)).collect()
}

fn blocks(rule: &CompiledRule) -> impl Iterator<Item = &IpRanges> {
    rule.peers.iter().filter_map(|peer| match peer {
        CompiledPeer::Block(ranges) => Some(ranges),
        CompiledPeer::NoMatch | CompiledPeer::Pods(_) => None,
    })
}

fn rule_ports(ports: &[CompiledPort]) -> Vec<RulePorts> {
    if ports.is_empty() {
        return vec![RulePorts::ByNumber(PortMatch::Any)];
    }
    let plain = Protocol::ALL
        .into_iter()
        .filter_map(|protocol| numbered_ports(ports, protocol));
    let mut kinds: Vec<RulePorts> = plain.map(RulePorts::ByNumber).collect();
    let names = named_ports(ports);
    if !names.is_empty() {
        kinds.push(RulePorts::ByName(names));
    }
    kinds
}

/// The named ports, without duplicates, sorted.
fn named_ports(ports: &[CompiledPort]) -> Box<[ProtocolPortName]> {
    let names = ports.iter().filter_map(|port| match port {
        CompiledPort::Named(protocol, name) => Some(((*protocol, name.as_ref()), name)),
        _ => None,
    });
    let names: BTreeMap<(Protocol, &str), &InternedString> = names.collect();
    let names = names.into_iter();
    names
        .map(|((protocol, _), name)| (protocol, name.clone()))
        .collect()
}

/// The merged port ranges of a protocol, or all its ports; `None` if there are none.
fn numbered_ports(ports: &[CompiledPort], protocol: Protocol) -> Option<PortMatch> {
    if ports.contains(&CompiledPort::All(protocol)) {
        return Some(PortMatch::AllPortsOf(protocol));
    }
    let mut ranges: Vec<(u16, u16)> = ports
        .iter()
        .filter_map(|port| match port {
            CompiledPort::Range(of, first, last) if *of == protocol => Some((*first, *last)),
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
    (!merged.is_empty()).then_some(PortMatch::Ranges(protocol, merged))
}
