//! The policy features that the engine implements, and the version that a policy requires.
//!
//! The server has its own list (`rhumb_api::network_policies`). They are separate on purpose: a feature that only the
//! server knows must not be reported as enforced.

use crate::objects::{NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec};

/// All supported versions, oldest first.
pub(crate) const ALL_VERSIONS: [&str; 6] = ["1.3", "1.8", "1.9", "1.11", "1.12", "1.21"];

/// `spec.minVersion`, or the version of the newest feature that the policy uses.
pub(crate) fn required_version(spec: &NetworkPolicySpec) -> &str {
    let stated = spec.min_version.as_deref();
    stated
        .filter(|version| !version.is_empty())
        .unwrap_or_else(|| derive_version(spec))
}

fn derive_version(spec: &NetworkPolicySpec) -> &'static str {
    let mut used = FEATURES
        .iter()
        .rev()
        .filter(|feature| (feature.is_used)(spec));
    used.next().map_or(ALL_VERSIONS[0], |newest| newest.version)
}

/// A feature added after the first version, with the name that agents report.
struct PolicyFeature {
    name: &'static str,
    version: &'static str,
    is_used: fn(&NetworkPolicySpec) -> bool,
}

/// Ordered by version.
const FEATURES: [PolicyFeature; 6] = [
    PolicyFeature {
        name: "Egress",
        version: "1.8",
        is_used: has_egress,
    },
    PolicyFeature {
        name: "IPBlock",
        version: "1.8",
        is_used: |spec| peers(spec).any(|peer| peer.ip_block.is_some()),
    },
    PolicyFeature {
        name: "IPv6",
        version: "1.9",
        is_used: |spec| peers(spec).any(is_ipv6),
    },
    PolicyFeature {
        name: "PodAndNamespaceSelector",
        version: "1.11",
        is_used: |spec| peers(spec).any(has_pod_and_namespace_selector),
    },
    PolicyFeature {
        name: "SCTP",
        version: "1.12",
        is_used: |spec| ports(spec).any(|port| port.protocol.as_deref() == Some("SCTP")),
    },
    PolicyFeature {
        name: "EndPort",
        version: "1.21",
        is_used: |spec| ports(spec).any(|port| port.end_port.is_some()),
    },
];

/// The features that a policy uses, as a bit set over `FEATURES`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PolicyFeatureSet(u8);

impl PolicyFeatureSet {
    pub fn of(spec: &NetworkPolicySpec) -> PolicyFeatureSet {
        let used = FEATURES.iter().map(|feature| (feature.is_used)(spec));
        let bits = used
            .enumerate()
            .map(|(at, is_used)| u8::from(is_used) << at);
        PolicyFeatureSet(bits.sum())
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = FEATURES.iter().enumerate();
        let used = all.filter(move |(at, _)| self.0 & (1 << at) != 0);
        used.map(|(_, feature)| feature.name)
    }
}

fn has_pod_and_namespace_selector(peer: &NetworkPolicyPeer) -> bool {
    peer.pod_selector.is_some() && peer.namespace_selector.is_some()
}

/// Defaulting always sets `policyTypes`, so only `Egress` in it indicates that the feature is used.
fn has_egress(spec: &NetworkPolicySpec) -> bool {
    let mut types = spec.policy_types.iter().flatten();
    types.any(|kind| kind == "Egress")
        || spec.egress.as_ref().is_some_and(|rules| !rules.is_empty())
}

fn is_ipv6(peer: &NetworkPolicyPeer) -> bool {
    let block = peer.ip_block.iter();
    let mut texts = block.flat_map(|block| block.cidr.iter().chain(block.except.iter().flatten()));
    texts.any(|text| text.contains(':'))
}

fn ports(spec: &NetworkPolicySpec) -> impl Iterator<Item = &NetworkPolicyPort> {
    let rules = spec.ingress.iter().chain(&spec.egress).flatten();
    rules.flat_map(|rule| rule.ports.iter().flatten())
}

fn peers(spec: &NetworkPolicySpec) -> impl Iterator<Item = &NetworkPolicyPeer> {
    let from = spec.ingress.iter().flatten().flat_map(|rule| &rule.from);
    let to = spec.egress.iter().flatten().flat_map(|rule| &rule.to);
    from.chain(to).flatten()
}

#[cfg(test)]
mod tests {
    use rhumb_api::network_policy_versions;
    use serde_json::{Value, json};

    use super::*;

    fn check(spec: Value, want: &str) {
        let read: NetworkPolicySpec = serde_json::from_value(spec.clone()).expect("a policy");
        assert_eq!(required_version(&read), want, "{spec}");
        if read.min_version.is_none() {
            assert_eq!(
                network_policy_versions::builtin_required_version(&spec),
                want,
                "{spec}"
            );
        }
        let catalog = network_policy_versions::FeatureCatalog::builtin();
        let used = catalog.features_used(&spec);
        let used: Vec<&str> = used.iter().map(|used| used.feature.name).collect();
        assert_eq!(
            PolicyFeatureSet::of(&read).names().collect::<Vec<_>>(),
            used,
            "{spec}"
        );
    }

    #[test]
    fn the_engine_supports_all_versions_of_the_server() {
        let catalog = network_policy_versions::FeatureCatalog::builtin();
        assert_eq!(catalog.versions(), ALL_VERSIONS);
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
    fn an_explicit_min_version_takes_precedence() {
        check(json!({"minVersion": "1.37-alpha.1"}), "1.37-alpha.1");
        check(json!({"minVersion": ""}), "1.3");
    }
}
