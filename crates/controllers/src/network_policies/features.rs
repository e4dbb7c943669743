//! What a policy uses that a node may know and yet not have.

use rhumb_netpol::objects::{Peer, PolicySpec, Port};

/// By the names that agents report. These are the two that whoever enforces policies is assumed to recognize, even if
/// it does not implement them; whoever lacks anything else of a version does not know the version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Features {
    ipv6: bool,
    sctp: bool,
}

impl Features {
    pub(super) fn of(spec: &PolicySpec) -> Features {
        let rules = || spec.ingress.iter().chain(&spec.egress).flatten();
        let mut peers = rules().flat_map(|rule| rule.from.iter().chain(&rule.to).flatten());
        let mut ports = rules().flat_map(|rule| rule.ports.iter().flatten());
        Features {
            ipv6: peers.any(has_ipv6),
            sctp: ports.any(is_sctp),
        }
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let ipv6 = self.ipv6.then_some("IPv6");
        ipv6.into_iter().chain(self.sctp.then_some("SCTP"))
    }
}

fn has_ipv6(peer: &Peer) -> bool {
    let block = peer.ip_block.as_ref();
    block
        .and_then(|block| block.cidr.as_deref())
        .is_some_and(|cidr| cidr.contains(':'))
}

fn is_sctp(port: &Port) -> bool {
    port.protocol.as_deref() == Some("SCTP")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_a_policy_uses_is_found_in_both_directions() {
        let check = |spec: Value, expected: &[&str]| {
            let features = Features::of(&serde_json::from_value(spec.clone()).unwrap());
            assert_eq!(features.names().collect::<Vec<_>>(), expected, "{spec}");
        };
        check(json!({"podSelector": {}}), &[]);
        check(
            json!({"ingress": [{"ports": [{"port": 1}, {"protocol": "UDP"}]}]}),
            &[],
        );
        check(
            json!({"ingress": [{}, {"ports": [{"port": 1}, {"protocol": "SCTP"}]}]}),
            &["SCTP"],
        );
        check(
            json!({"egress": [{"to": [{"podSelector": {}}, {"ipBlock": {"cidr": "fd00::/8"}}]}]}),
            &["IPv6"],
        );
        check(
            json!({"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}),
            &[],
        );
        check(
            json!({
                "ingress": [{"from": [{"ipBlock": {"cidr": "::/0"}}]}],
                "egress": [{"ports": [{"protocol": "SCTP"}]}],
            }),
            &["IPv6", "SCTP"],
        );
    }
}
