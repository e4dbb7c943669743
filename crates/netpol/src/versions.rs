//! What a policy uses, and which release it needs where its object does not say it.
//!
//! The server has its own list (`rhumb_api::network_policies`). This one is of what the engine understands: a feature
//! that only the server knows must not be taken for one that is enforced.

use crate::objects::{Peer, PolicySpec, Port};

/// Every version, in order.
pub(crate) const ALL: [&str; 6] = ["1.3", "1.8", "1.9", "1.11", "1.12", "1.21"];

/// The version in the object, or the one of the newest feature that the policy uses.
pub(crate) fn needed(spec: &PolicySpec) -> &str {
    let stated = spec.min_version.as_deref();
    stated
        .filter(|version| !version.is_empty())
        .unwrap_or_else(|| derive(spec))
}

fn derive(spec: &PolicySpec) -> &'static str {
    let mut used = FEATURES
        .iter()
        .rev()
        .filter(|feature| (feature.is_used)(spec));
    used.next().map_or(ALL[0], |newest| newest.version)
}

/// What policies can say beyond the first version, by the names that agents report.
struct Feature {
    name: &'static str,
    version: &'static str,
    is_used: fn(&PolicySpec) -> bool,
}

/// In the order of their versions.
const FEATURES: [Feature; 6] = [
    Feature {
        name: "Egress",
        version: "1.8",
        is_used: has_egress,
    },
    Feature {
        name: "IPBlock",
        version: "1.8",
        is_used: |spec| peers(spec).any(|peer| peer.ip_block.is_some()),
    },
    Feature {
        name: "IPv6",
        version: "1.9",
        is_used: |spec| peers(spec).any(is_ipv6),
    },
    Feature {
        name: "PodAndNamespaceSelector",
        version: "1.11",
        is_used: |spec| peers(spec).any(has_both),
    },
    Feature {
        name: "SCTP",
        version: "1.12",
        is_used: |spec| ports(spec).any(|port| port.protocol.as_deref() == Some("SCTP")),
    },
    Feature {
        name: "EndPort",
        version: "1.21",
        is_used: |spec| ports(spec).any(|port| port.end_port.is_some()),
    },
];

/// The features that a policy uses: a bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features(u8);

impl Features {
    pub fn of(spec: &PolicySpec) -> Features {
        let used = FEATURES.iter().map(|feature| (feature.is_used)(spec));
        let bits = used
            .enumerate()
            .map(|(at, is_used)| u8::from(is_used) << at);
        Features(bits.sum())
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = FEATURES.iter().enumerate();
        let used = all.filter(move |(at, _)| self.0 & (1 << at) != 0);
        used.map(|(_, feature)| feature.name)
    }
}

fn has_both(peer: &Peer) -> bool {
    peer.pod_selector.is_some() && peer.namespace_selector.is_some()
}

/// Types are always filled in, so only `Egress` among them says something.
fn has_egress(spec: &PolicySpec) -> bool {
    let mut types = spec.policy_types.iter().flatten();
    types.any(|kind| kind == "Egress")
        || spec.egress.as_ref().is_some_and(|rules| !rules.is_empty())
}

fn is_ipv6(peer: &Peer) -> bool {
    let block = peer.ip_block.iter();
    let mut texts = block.flat_map(|block| block.cidr.iter().chain(block.except.iter().flatten()));
    texts.any(|text| text.contains(':'))
}

fn ports(spec: &PolicySpec) -> impl Iterator<Item = &Port> {
    let rules = spec.ingress.iter().chain(&spec.egress).flatten();
    rules.flat_map(|rule| rule.ports.iter().flatten())
}

fn peers(spec: &PolicySpec) -> impl Iterator<Item = &Peer> {
    let from = spec.ingress.iter().flatten().flat_map(|rule| &rule.from);
    let to = spec.egress.iter().flatten().flat_map(|rule| &rule.to);
    from.chain(to).flatten()
}

#[cfg(test)]
mod tests {
    use rhumb_api::network_policies;
    use serde_json::{Value, json};

    use super::*;

    fn check(spec: Value, want: &str) {
        let read: PolicySpec = serde_json::from_value(spec.clone()).expect("a policy");
        assert_eq!(needed(&read), want, "{spec}");
        if read.min_version.is_none() {
            assert_eq!(network_policies::required(&spec), want, "{spec}");
        }
        let catalog = network_policies::Catalog::builtin();
        let used = catalog.used(&spec);
        let used: Vec<&str> = used.iter().map(|used| used.feature.name).collect();
        assert_eq!(
            Features::of(&read).names().collect::<Vec<_>>(),
            used,
            "{spec}"
        );
    }

    #[test]
    fn the_engine_knows_all_that_the_server_does() {
        let catalog = network_policies::Catalog::builtin();
        assert_eq!(catalog.versions(), ALL);
    }

    #[test]
    fn a_policy_needs_the_version_of_its_newest_feature() {
        check(json!({}), "1.3");
        check(json!({"policyTypes": ["Ingress"], "egress": []}), "1.3");
        check(json!({"policyTypes": ["Egress"]}), "1.8");
        check(json!({"egress": [{}]}), "1.8");
        let block = |cidr: &str| json!({"ingress": [{"from": [{"ipBlock": {"cidr": cidr}}]}]});
        check(block("10.0.0.0/8"), "1.8");
        check(block("fd00::/8"), "1.9");
        let both = json!({"podSelector": {}, "namespaceSelector": {}});
        check(json!({"ingress": [{"from": [both]}]}), "1.11");
        check(
            json!({"ingress": [{"ports": [{"protocol": "SCTP"}]}]}),
            "1.12",
        );
        check(
            json!({"egress": [{"ports": [{"port": 1, "endPort": 2}]}]}),
            "1.21",
        );
    }

    #[test]
    fn what_the_object_says_comes_first() {
        check(json!({"minVersion": "1.37-alpha.1"}), "1.37-alpha.1");
        check(json!({"minVersion": ""}), "1.3");
    }
}
