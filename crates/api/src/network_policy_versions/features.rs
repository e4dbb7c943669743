//! The built-in network policy features with their releases. Add new features at the end of `FEATURES`.

use super::NetworkPolicyFeature;
use crate::FieldView;

/// Sorted by version.
pub(super) const FEATURES: &[NetworkPolicyFeature] =
    &[EGRESS, IP_BLOCKS, IPV6, BOTH_SELECTORS, SCTP, PORT_RANGES];

/// `policyTypes` is always set by defaulting, so only an `Egress` entry counts as use.
pub const EGRESS: NetworkPolicyFeature =
    NetworkPolicyFeature::new("Egress", "1.8", |spec, found| {
        let rules = spec.field("egress");
        if !rules.is_empty() {
            return found(&rules);
        }
        let types = spec.field("policyTypes");
        let egress = types.items().find(|kind| kind.str() == "Egress");
        egress.iter().for_each(found);
    });

pub const IP_BLOCKS: NetworkPolicyFeature =
    NetworkPolicyFeature::new("IPBlock", "1.8", |spec, found| {
        each_peer(spec, &mut |peer| {
            let block = peer.field("ipBlock");
            if block.exists() {
                found(&block);
            }
        });
    });

pub const IPV6: NetworkPolicyFeature = NetworkPolicyFeature::new("IPv6", "1.9", |spec, found| {
    each_peer(spec, &mut |peer| {
        let block = peer.field("ipBlock");
        let mut check = |cidr: &FieldView<'_>| {
            if cidr.str().contains(':') {
                found(cidr);
            }
        };
        check(&block.field("cidr"));
        block
            .field("except")
            .items()
            .for_each(|except| check(&except));
    });
});

/// Before 1.11 a peer had only one of the two; a plugin that reads only one would allow too much traffic.
pub const BOTH_SELECTORS: NetworkPolicyFeature =
    NetworkPolicyFeature::new("PodAndNamespaceSelector", "1.11", |spec, found| {
        each_peer(spec, &mut |peer| {
            if peer.has("podSelector") && peer.has("namespaceSelector") {
                found(peer);
            }
        });
    });

pub const SCTP: NetworkPolicyFeature = NetworkPolicyFeature::new("SCTP", "1.12", |spec, found| {
    each_port(spec, &mut |port| {
        let protocol = port.field("protocol");
        if protocol.str() == "SCTP" {
            found(&protocol);
        }
    });
});

pub const PORT_RANGES: NetworkPolicyFeature =
    NetworkPolicyFeature::new("EndPort", "1.21", |spec, found| {
        each_port(spec, &mut |port| {
            let last = port.field("endPort");
            if last.exists() {
                found(&last);
            }
        });
    });

/// The two lists of rules, each with the name of its peer list.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

fn each_peer(spec: &FieldView<'_>, visit: &mut dyn FnMut(&FieldView<'_>)) {
    for (direction, peers) in DIRECTIONS {
        for rule in spec.field(direction).items() {
            rule.field(peers).items().for_each(|peer| visit(&peer));
        }
    }
}

fn each_port(spec: &FieldView<'_>, visit: &mut dyn FnMut(&FieldView<'_>)) {
    for (direction, _) in DIRECTIONS {
        for rule in spec.field(direction).items() {
            rule.field("ports").items().for_each(|port| visit(&port));
        }
    }
}
