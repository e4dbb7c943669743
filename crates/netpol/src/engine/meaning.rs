//! Reads what a policy means. Nothing is refused: what cannot be meant matches nothing.

use rhumb_meta::LabelSelector;
use rhumb_meta::labels::Selector;
use serde_json::Value;

use super::follow::Where;
use super::pods::read_port_number;
use super::policies::{Meaning, Peer, Port, Rule};
use super::{Engine, namespaces};
use crate::objects::{self, NetworkPolicy, PolicySpec};
use crate::ranges::Ranges;
use crate::{Direction, Protocol, flaws, versions};

impl Engine {
    /// The meaning holds the selections that it names.
    pub(super) fn read_policy(&mut self, namespace: &str, policy: &NetworkPolicy) -> Meaning {
        let spec = &policy.spec;
        let min_version = versions::needed(spec);
        let target = match &spec.pod_selector {
            Some(selector) => to_selector(selector),
            None => Selector::everything(),
        };
        let is_local = self.node.name.is_some();
        let target = self.hold_selection(Where::Namespace(namespace), target, is_local);
        let mut meaning = Meaning {
            uid: policy.metadata.uid.as_deref().unwrap_or_default().into(),
            generation: policy.metadata.generation.unwrap_or_default(),
            min_version: min_version.into(),
            is_understood: self.knowledge.versions.contains(min_version),
            target,
            everyone: None,
            ingress: None,
            egress: None,
            flaws: flaws::find(spec).into(),
        };
        if isolates(spec, Direction::Ingress) {
            meaning.ingress = Some(self.read_rules(namespace, spec, Direction::Ingress));
        }
        if isolates(spec, Direction::Egress) {
            let rules = self.read_rules(namespace, spec, Direction::Egress);
            if is_local && rules.iter().any(names_ports_of_anyone) {
                let all = Selector::everything();
                let place = Where::Selector(&all);
                meaning.everyone = Some(self.hold_selection(place, all.clone(), false));
            }
            meaning.egress = Some(rules);
        }
        meaning
    }

    fn read_rules(
        &mut self,
        namespace: &str,
        spec: &PolicySpec,
        direction: Direction,
    ) -> Box<[Rule]> {
        let rules = spec.rules(direction).iter();
        rules
            .map(|rule| {
                let peers = rule.peers(direction).iter();
                let ports = rule.ports.iter().flatten();
                Rule {
                    peers: peers.map(|peer| self.read_peer(namespace, peer)).collect(),
                    ports: ports.map(|port| self.read_port(port)).collect(),
                }
            })
            .collect()
    }

    fn read_peer(&mut self, namespace: &str, peer: &objects::Peer) -> Peer {
        let pods = peer.pod_selector.as_ref().map(to_selector);
        let namespaces = peer.namespace_selector.as_ref().map(to_selector);
        let (place, pods) = match (&namespaces, pods, &peer.ip_block) {
            (None, None, Some(block)) => {
                return Ranges::read(block).map_or(Peer::Nobody, Peer::Block);
            }
            (None, Some(pods), None) => (Where::Namespace(namespace), pods),
            (Some(namespaces), pods, None) => {
                let name = namespaces::only_name(namespaces);
                let place = name.map_or(Where::Selector(namespaces), Where::Namespace);
                (place, pods.unwrap_or_else(Selector::everything))
            }
            _ => return Peer::Nobody,
        };
        let is_nowhere = namespaces.as_ref().is_some_and(Selector::is_nothing);
        if is_nowhere || pods.is_nothing() {
            return Peer::Nobody;
        }
        Peer::Pods(self.hold_selection(place, pods, false))
    }

    fn read_port(&mut self, port: &objects::Port) -> Port {
        let protocol = Protocol::read(port.protocol.as_deref());
        let known = protocol.filter(|protocol| *protocol != Protocol::Sctp || self.knowledge.sctp);
        let Some(protocol) = known else {
            return Port::Nothing;
        };
        match (&port.port, port.end_port) {
            (None | Some(Value::Null), None) => Port::All(protocol),
            (Some(Value::String(name)), None) => Port::Named(protocol, self.texts.intern(name)),
            (Some(Value::Number(first)), last) => {
                let first = first.as_i64();
                let last = last.or(first).and_then(read_port_number);
                match (first.and_then(read_port_number), last) {
                    (Some(first), Some(last)) if first <= last => {
                        Port::Numbers(protocol, first, last)
                    }
                    _ => Port::Nothing,
                }
            }
            _ => Port::Nothing,
        }
    }
}

/// Whether the policy is about what comes in, or what goes out.
pub(crate) fn isolates(spec: &PolicySpec, direction: Direction) -> bool {
    let types = spec.policy_types.as_deref().unwrap_or_default();
    match direction {
        _ if !types.is_empty() => types.iter().any(|kind| kind == direction.policy_type()),
        Direction::Ingress => true,
        Direction::Egress => !spec.rules(direction).is_empty(),
    }
}

fn to_selector(selector: &LabelSelector) -> Selector {
    LabelSelector::to_selector(Some(selector)).unwrap_or_else(|_| Selector::nothing())
}

/// Whether a rule for what goes out speaks of ports by name, and not only of those of certain pods.
fn names_ports_of_anyone(rule: &Rule) -> bool {
    let is_anyone = rule.peers.is_empty();
    let has_blocks = rule.peers.iter().any(|peer| matches!(peer, Peer::Block(_)));
    let names_ports = rule
        .ports
        .iter()
        .any(|port| matches!(port, Port::Named(..)));
    names_ports && (is_anyone || has_blocks)
}
