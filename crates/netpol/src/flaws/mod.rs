//! What is wrong with a policy that can be told from the policy alone.

mod blocks;
mod selectors;

use serde_json::Value;

use crate::Direction;
use crate::engine::isolates;
use crate::objects::{Peer, PolicySpec, Port, Rule};

/// A static defect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// For machines: `AmbiguousCIDR`, `SelectorNeverMatches`, `ExceptOutsideBlock`, ...
    pub reason: &'static str,
    /// For people, with the field that it is about.
    pub message: String,
}

/// All that is wrong, in order of fields.
pub fn find(spec: &PolicySpec) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    if let Some(selector) = &spec.pod_selector {
        selectors::find(selector, || "spec.podSelector".to_owned(), &mut flaws);
    }
    for direction in Direction::BOTH {
        let rules = spec.rules(direction);
        let field = direction.rules_field();
        if !rules.is_empty() && !isolates(spec, direction) {
            let kind = direction.policy_type();
            flaws.push(Flaw {
                reason: "RulesIgnored",
                message: format!(
                    "spec.{field} counts for nothing: spec.policyTypes leaves {kind} out"
                ),
            });
        }
        for (at, rule) in rules.iter().enumerate() {
            find_in_rule(
                rule,
                direction,
                &|| format!("spec.{field}[{at}]"),
                &mut flaws,
            );
        }
    }
    flaws
}

/// Where something is. Called only to say so, as most policies have no flaws.
type Place<'a> = &'a dyn Fn() -> String;

fn find_in_rule(rule: &Rule, direction: Direction, place: Place<'_>, flaws: &mut Vec<Flaw>) {
    let field = direction.peers_field();
    for (at, peer) in rule.peers(direction).iter().enumerate() {
        find_in_peer(peer, &|| format!("{}.{field}[{at}]", place()), flaws);
    }
    for (at, port) in rule.ports.iter().flatten().enumerate() {
        find_in_port(port, &|| format!("{}.ports[{at}]", place()), flaws);
    }
}

fn find_in_peer(peer: &Peer, place: Place<'_>, flaws: &mut Vec<Flaw>) {
    if let Some(selector) = &peer.pod_selector {
        selectors::find(selector, || format!("{}.podSelector", place()), flaws);
    }
    if let Some(selector) = &peer.namespace_selector {
        selectors::find(selector, || format!("{}.namespaceSelector", place()), flaws);
    }
    if let Some(block) = &peer.ip_block {
        blocks::find(block, &|| format!("{}.ipBlock", place()), flaws);
    }
}

fn find_in_port(port: &Port, place: Place<'_>, flaws: &mut Vec<Flaw>) {
    let first = port.port.as_ref().and_then(Value::as_i64);
    let (Some(first), Some(last)) = (first, port.end_port) else {
        return;
    };
    if last < first {
        let place = place();
        flaws.push(Flaw {
            reason: "PortRangeEmpty",
            message: format!("{place}: endPort {last} is below port {first}, so no port is meant"),
        });
    }
}

#[cfg(test)]
mod tests;
