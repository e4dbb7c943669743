//! Peer matching.

use std::net::IpAddr;

use rhumb_netpol::{Direction, NamespacedName};
use serde_json::{Value, json};

use super::{ReferenceCidr, ReferenceEvaluator, list, selector_matches, text};

/// The rules of a direction, even if `policyTypes` excludes it.
pub(super) fn rules(spec: &Value, direction: Direction) -> &[Value] {
    match direction {
        Direction::Ingress => list(&spec["ingress"]),
        Direction::Egress => list(&spec["egress"]),
    }
}

/// Whether a policy isolates its pods in a direction.
pub(super) fn isolates(spec: &Value, direction: Direction) -> bool {
    let types = list(&spec["policyTypes"]);
    match direction {
        Direction::Ingress => types.is_empty() || types.iter().any(|one| one == "Ingress"),
        Direction::Egress if types.is_empty() => !rules(spec, direction).is_empty(),
        Direction::Egress => types.iter().any(|one| one == "Egress"),
    }
}

impl ReferenceEvaluator<'_> {
    /// Whether a peer of a policy in `namespace` matches an address.
    pub(super) fn is_peer(&self, namespace: &str, peer: &Value, address: IpAddr) -> bool {
        match selects_pods(peer) {
            Some(true) => self
                .owner(address)
                .is_some_and(|pod| self.is_selected(namespace, peer, pod)),
            Some(false) => is_in_block(&peer["ipBlock"], address),
            None => false,
        }
    }

    /// Whether the selectors of a peer match a pod.
    pub(super) fn is_selected(&self, namespace: &str, peer: &Value, pod: &Value) -> bool {
        let (of_pods, of_namespaces) = (&peer["podSelector"], &peer["namespaceSelector"]);
        let its_namespace = text(&pod["metadata"]["namespace"]);
        let exists = match of_namespaces {
            Value::Null => its_namespace == namespace,
            selector => selector_matches(selector, &self.labels_of(its_namespace)),
        };
        exists && (of_pods.is_null() || selector_matches(of_pods, &pod["metadata"]["labels"]))
    }

    fn labels_of(&self, namespace: &str) -> Value {
        let known = self
            .objects
            .namespaces
            .get(&NamespacedName::new("", namespace));
        let mut labels = known.map_or(Value::Null, |known| known["metadata"]["labels"].clone());
        if labels.is_null() {
            labels = json!({});
        }
        labels["kubernetes.io/metadata.name"] = json!(namespace);
        labels
    }
}

/// `Some(true)` for a peer with selectors, `Some(false)` for an `ipBlock`, `None` if it has both or neither.
pub(super) fn selects_pods(peer: &Value) -> Option<bool> {
    let has_selector = !peer["podSelector"].is_null() || !peer["namespaceSelector"].is_null();
    let has_block = !peer["ipBlock"].is_null();
    (has_selector != has_block).then_some(has_selector)
}

fn is_in_block(block: &Value, address: IpAddr) -> bool {
    let Some(cidr) = ReferenceCidr::parse(text(&block["cidr"])) else {
        return false;
    };
    cidr.contains(address) && !excepts(block).iter().any(|except| except.contains(address))
}

/// The valid entries of `except`.
pub(super) fn excepts(block: &Value) -> Vec<ReferenceCidr> {
    let excepts = list(&block["except"]).iter();
    excepts
        .filter_map(|except| ReferenceCidr::parse(text(except)))
        .collect()
}
