//! Whom a rule is about.

use std::net::IpAddr;

use rhumb_netpol::{Direction, Name};
use serde_json::{Value, json};

use super::{Block, Oracle, list, picks, text};

/// The rules of a direction, whether they count or not.
pub(super) fn rules(spec: &Value, direction: Direction) -> &[Value] {
    match direction {
        Direction::Ingress => list(&spec["ingress"]),
        Direction::Egress => list(&spec["egress"]),
    }
}

/// Whether a policy isolates in a direction.
pub(super) fn is_about(spec: &Value, direction: Direction) -> bool {
    let types = list(&spec["policyTypes"]);
    match direction {
        Direction::Ingress => types.is_empty() || types.iter().any(|one| one == "Ingress"),
        Direction::Egress if types.is_empty() => !rules(spec, direction).is_empty(),
        Direction::Egress => types.iter().any(|one| one == "Egress"),
    }
}

impl Oracle<'_> {
    /// Whether an address is one that a peer of a policy of that namespace means.
    pub(super) fn is_peer(&self, namespace: &str, peer: &Value, address: IpAddr) -> bool {
        match is_of_pods(peer) {
            Some(true) => self
                .owner(address)
                .is_some_and(|pod| self.is_selected(namespace, peer, pod)),
            Some(false) => is_in_block(&peer["ipBlock"], address),
            None => false,
        }
    }

    /// Whether the selectors of a peer pick a pod.
    pub(super) fn is_selected(&self, namespace: &str, peer: &Value, pod: &Value) -> bool {
        let (of_pods, of_namespaces) = (&peer["podSelector"], &peer["namespaceSelector"]);
        let its_namespace = text(&pod["metadata"]["namespace"]);
        let is_there = match of_namespaces {
            Value::Null => its_namespace == namespace,
            selector => picks(selector, &self.labels_of(its_namespace)),
        };
        is_there && (of_pods.is_null() || picks(of_pods, &pod["metadata"]["labels"]))
    }

    fn labels_of(&self, namespace: &str) -> Value {
        let known = self.world.namespaces.get(&Name::new("", namespace));
        let mut labels = known.map_or(Value::Null, |known| known["metadata"]["labels"].clone());
        if labels.is_null() {
            labels = json!({});
        }
        labels["kubernetes.io/metadata.name"] = json!(namespace);
        labels
    }
}

/// Whether it is a peer of selectors, or of a block; neither if it is not one of the two.
pub(super) fn is_of_pods(peer: &Value) -> Option<bool> {
    let has_selector = !peer["podSelector"].is_null() || !peer["namespaceSelector"].is_null();
    let has_block = !peer["ipBlock"].is_null();
    (has_selector != has_block).then_some(has_selector)
}

fn is_in_block(block: &Value, address: IpAddr) -> bool {
    let Some(cidr) = Block::read(text(&block["cidr"])) else {
        return false;
    };
    cidr.holds(address) && !excepts(block).iter().any(|except| except.holds(address))
}

/// Those that can be read.
pub(super) fn excepts(block: &Value) -> Vec<Block> {
    let excepts = list(&block["except"]).iter();
    excepts
        .filter_map(|except| Block::read(text(except)))
        .collect()
}
