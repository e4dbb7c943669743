//! What policies can say, and since which release. A new feature is one entry at the end of the list.

use super::Feature;
use crate::View;

/// In the order of their versions.
pub(super) const FEATURES: &[Feature] =
    &[EGRESS, IP_BLOCKS, IPV6, BOTH_SELECTORS, SCTP, PORT_RANGES];

/// Every policy has a list of types, as it is filled in; so only `Egress` in it counts.
pub const EGRESS: Feature = Feature::new("Egress", "1.8", |spec, found| {
    let rules = spec.field("egress");
    if !rules.is_empty() {
        return found(&rules);
    }
    let types = spec.field("policyTypes");
    let egress = types.items().find(|kind| kind.str() == "Egress");
    egress.iter().for_each(found);
});

pub const IP_BLOCKS: Feature = Feature::new("IPBlock", "1.8", |spec, found| {
    each_peer(spec, &mut |peer| {
        let block = peer.field("ipBlock");
        if block.exists() {
            found(&block);
        }
    });
});

pub const IPV6: Feature = Feature::new("IPv6", "1.9", |spec, found| {
    each_peer(spec, &mut |peer| {
        let block = peer.field("ipBlock");
        let mut see = |cidr: &View<'_>| {
            if cidr.str().contains(':') {
                found(cidr);
            }
        };
        see(&block.field("cidr"));
        block
            .field("except")
            .items()
            .for_each(|except| see(&except));
    });
});

/// Before it, a peer was selected by one of the two, and a plugin that reads only one lets in more than it should.
pub const BOTH_SELECTORS: Feature =
    Feature::new("PodAndNamespaceSelector", "1.11", |spec, found| {
        each_peer(spec, &mut |peer| {
            if peer.has("podSelector") && peer.has("namespaceSelector") {
                found(peer);
            }
        });
    });

pub const SCTP: Feature = Feature::new("SCTP", "1.12", |spec, found| {
    each_port(spec, &mut |port| {
        let protocol = port.field("protocol");
        if protocol.str() == "SCTP" {
            found(&protocol);
        }
    });
});

pub const PORT_RANGES: Feature = Feature::new("EndPort", "1.21", |spec, found| {
    each_port(spec, &mut |port| {
        let last = port.field("endPort");
        if last.exists() {
            found(&last);
        }
    });
});

/// The two lists of rules, and where their peers are.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

fn each_peer(spec: &View<'_>, see: &mut dyn FnMut(&View<'_>)) {
    for (direction, peers) in DIRECTIONS {
        for rule in spec.field(direction).items() {
            rule.field(peers).items().for_each(|peer| see(&peer));
        }
    }
}

fn each_port(spec: &View<'_>, see: &mut dyn FnMut(&View<'_>)) {
    for (direction, _) in DIRECTIONS {
        for rule in spec.field(direction).items() {
            rule.field("ports").items().for_each(|port| see(&port));
        }
    }
}
