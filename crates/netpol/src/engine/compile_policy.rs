//! Compiles a NetworkPolicy spec into a [`CompiledPolicy`]. Never fails: invalid parts match nothing.

use rhumb_meta::LabelSelector;
use rhumb_meta::labels::Selector;
use serde_json::Value;

use super::membership::NamespaceScopeSpec;
use super::pod_table::valid_port_number;
use super::policy_table::{CompiledPeer, CompiledPolicy, CompiledPort, CompiledRule};
use super::{PolicyEngine, namespace_table};
use crate::ip_ranges::IpRanges;
use crate::objects::{self, NetworkPolicy, NetworkPolicySpec};
use crate::{Direction, Protocol, lint, policy_versions};

impl PolicyEngine {
    /// Acquires a reference to each selection of the policy; the caller releases them with `release_selections`.
    pub(super) fn compile_policy(
        &mut self,
        namespace: &str,
        policy: &NetworkPolicy,
    ) -> CompiledPolicy {
        let spec = &policy.spec;
        let min_version = policy_versions::required_version(spec);
        let target = match &spec.pod_selector {
            Some(selector) => to_selector(selector),
            None => Selector::everything(),
        };
        let is_local = self.node_ruleset.name.is_some();
        let target =
            self.acquire_selection(NamespaceScopeSpec::Namespace(namespace), target, is_local);
        let mut compiled = CompiledPolicy {
            uid: policy.metadata.uid.as_deref().unwrap_or_default().into(),
            generation: policy.metadata.generation.unwrap_or_default(),
            min_version: min_version.into(),
            is_supported: self.capabilities.versions.contains(min_version),
            target,
            all_pods: None,
            ingress: None,
            egress: None,
            lint_warnings: lint::lint_policy(spec).into(),
        };
        if isolates(spec, Direction::Ingress) {
            compiled.ingress = Some(self.compile_rules(namespace, spec, Direction::Ingress));
        }
        if isolates(spec, Direction::Egress) {
            let rules = self.compile_rules(namespace, spec, Direction::Egress);
            if is_local && rules.iter().any(has_named_ports_of_unselected_pods) {
                let all = Selector::everything();
                let scope = NamespaceScopeSpec::Selector(&all);
                compiled.all_pods = Some(self.acquire_selection(scope, all.clone(), false));
            }
            compiled.egress = Some(rules);
        }
        compiled
    }

    fn compile_rules(
        &mut self,
        namespace: &str,
        spec: &NetworkPolicySpec,
        direction: Direction,
    ) -> Box<[CompiledRule]> {
        let rules = spec.rules(direction).iter();
        rules
            .map(|rule| {
                let peers = rule.peers(direction).iter();
                let ports = rule.ports.iter().flatten();
                CompiledRule {
                    peers: peers
                        .map(|peer| self.compile_peer(namespace, peer))
                        .collect(),
                    ports: ports.map(|port| self.compile_port(port)).collect(),
                }
            })
            .collect()
    }

    fn compile_peer(&mut self, namespace: &str, peer: &objects::NetworkPolicyPeer) -> CompiledPeer {
        let pods = peer.pod_selector.as_ref().map(to_selector);
        let namespaces = peer.namespace_selector.as_ref().map(to_selector);
        let (scope, pods) = match (&namespaces, pods, &peer.ip_block) {
            (None, None, Some(block)) => {
                return IpRanges::from_ip_block(block)
                    .map_or(CompiledPeer::NoMatch, CompiledPeer::Block);
            }
            (None, Some(pods), None) => (NamespaceScopeSpec::Namespace(namespace), pods),
            (Some(namespaces), pods, None) => {
                let name = namespace_table::single_namespace_name(namespaces);
                let scope = name.map_or(
                    NamespaceScopeSpec::Selector(namespaces),
                    NamespaceScopeSpec::Namespace,
                );
                (scope, pods.unwrap_or_else(Selector::everything))
            }
            _ => return CompiledPeer::NoMatch,
        };
        let is_nowhere = namespaces.as_ref().is_some_and(Selector::is_nothing);
        if is_nowhere || pods.is_nothing() {
            return CompiledPeer::NoMatch;
        }
        CompiledPeer::Pods(self.acquire_selection(scope, pods, false))
    }

    fn compile_port(&mut self, port: &objects::NetworkPolicyPort) -> CompiledPort {
        let protocol = Protocol::parse_or_tcp(port.protocol.as_deref());
        let supported =
            protocol.filter(|protocol| *protocol != Protocol::Sctp || self.capabilities.sctp);
        let Some(protocol) = supported else {
            return CompiledPort::NoMatch;
        };
        match (&port.port, port.end_port) {
            (None | Some(Value::Null), None) => CompiledPort::All(protocol),
            (Some(Value::String(name)), None) => {
                CompiledPort::Named(protocol, self.interner.intern(name))
            }
            (Some(Value::Number(first)), last) => {
                let first = first.as_i64();
                let last = last.or(first).and_then(valid_port_number);
                match (first.and_then(valid_port_number), last) {
                    (Some(first), Some(last)) if first <= last => {
                        CompiledPort::Range(protocol, first, last)
                    }
                    _ => CompiledPort::NoMatch,
                }
            }
            _ => CompiledPort::NoMatch,
        }
    }
}

/// Whether the policy isolates its pods in a direction: `policyTypes`, or the API's default for it.
pub(crate) fn isolates(spec: &NetworkPolicySpec, direction: Direction) -> bool {
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

/// Whether an egress rule has named ports with peers that are not pod selections, so that any pod's ports count.
fn has_named_ports_of_unselected_pods(rule: &CompiledRule) -> bool {
    let is_anyone = rule.peers.is_empty();
    let has_blocks = rule
        .peers
        .iter()
        .any(|peer| matches!(peer, CompiledPeer::Block(_)));
    let names_ports = rule
        .ports
        .iter()
        .any(|port| matches!(port, CompiledPort::Named(..)));
    names_ports && (is_anyone || has_blocks)
}
