//! Static checks of a NetworkPolicy: mistakes that are visible in its spec alone. Entry point: [`lint_policy`].

mod ip_blocks;
mod selectors;

use serde_json::Value;

use crate::Direction;
use crate::engine::isolates;
use crate::objects::{NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicyRule, NetworkPolicySpec};

/// A mistake found in a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LintWarning {
    /// Machine readable: `AmbiguousCIDR`, `SelectorNeverMatches`, `ExceptOutsideBlock`, ...
    pub reason: &'static str,
    /// Human readable, with the path of the field.
    pub message: String,
}

/// The reasons of all warnings.
pub const LINT_REASONS: [&str; 7] = [
    "AmbiguousCIDR",
    "ExceptCoversBlock",
    "ExceptOutsideBlock",
    "PortRangeEmpty",
    "RulesIgnored",
    "SelectorNeverMatches",
    "UnreadableCIDR",
];

/// All warnings about a policy, ordered by field.
pub fn lint_policy(spec: &NetworkPolicySpec) -> Vec<LintWarning> {
    let mut warnings = Vec::new();
    if let Some(selector) = &spec.pod_selector {
        selectors::lint_selector(selector, || "spec.podSelector".to_owned(), &mut warnings);
    }
    for direction in Direction::BOTH {
        let rules = spec.rules(direction);
        let field = direction.rules_field();
        if !rules.is_empty() && !isolates(spec, direction) {
            let kind = direction.policy_type();
            warnings.push(LintWarning {
                reason: "RulesIgnored",
                message: format!(
                    "spec.{field} is ignored: spec.policyTypes does not contain {kind}"
                ),
            });
        }
        for (at, rule) in rules.iter().enumerate() {
            lint_rule(
                rule,
                direction,
                &|| format!("spec.{field}[{at}]"),
                &mut warnings,
            );
        }
    }
    warnings
}

/// Formats a field path. Lazy, as most policies have no warnings.
type LazyFieldPath<'a> = &'a dyn Fn() -> String;

fn lint_rule(
    rule: &NetworkPolicyRule,
    direction: Direction,
    field_path: LazyFieldPath<'_>,
    warnings: &mut Vec<LintWarning>,
) {
    let field = direction.peers_field();
    for (at, peer) in rule.peers(direction).iter().enumerate() {
        lint_peer(
            peer,
            &|| format!("{}.{field}[{at}]", field_path()),
            warnings,
        );
    }
    for (at, port) in rule.ports.iter().flatten().enumerate() {
        lint_port(port, &|| format!("{}.ports[{at}]", field_path()), warnings);
    }
}

fn lint_peer(
    peer: &NetworkPolicyPeer,
    field_path: LazyFieldPath<'_>,
    warnings: &mut Vec<LintWarning>,
) {
    if let Some(selector) = &peer.pod_selector {
        selectors::lint_selector(
            selector,
            || format!("{}.podSelector", field_path()),
            warnings,
        );
    }
    if let Some(selector) = &peer.namespace_selector {
        selectors::lint_selector(
            selector,
            || format!("{}.namespaceSelector", field_path()),
            warnings,
        );
    }
    if let Some(block) = &peer.ip_block {
        ip_blocks::lint_ip_block(block, &|| format!("{}.ipBlock", field_path()), warnings);
    }
}

fn lint_port(
    port: &NetworkPolicyPort,
    field_path: LazyFieldPath<'_>,
    warnings: &mut Vec<LintWarning>,
) {
    let first = port.port.as_ref().and_then(Value::as_i64);
    let (Some(first), Some(last)) = (first, port.end_port) else {
        return;
    };
    if last < first {
        let field_path = field_path();
        warnings.push(LintWarning {
            reason: "PortRangeEmpty",
            message: format!(
                "{field_path}: endPort {last} is below port {first}, so the range is empty"
            ),
        });
    }
}

#[cfg(test)]
mod tests;
