//! The policies of the tables, with samples of their effect.
//!
//! Pods are `x/a`, `x/b`, `x/c`, `y/a`, `y/b`, `z/a` and `z/b`, with their name as the label `pod`; `x` has team red,
//! the others team blue. They have ports `web` (80; 8080 for pods `c`), `dns` and `sig`. `outside` is 203.0.113.10 and
//! .20, 2001:db8::10 and ::20.

#[derive(Debug)]
pub(crate) struct PolicyTableRow {
    pub(crate) what: &'static str,
    /// Namespace and name, and the spec.
    pub(crate) policies: &'static [(&'static str, &'static str)],
    /// Samples: source, destination, port, and `v6` for IPv6.
    pub(crate) open: &'static [&'static str],
    pub(crate) closed: &'static [&'static str],
}

/// Isolation and peers.
pub(crate) const PEERS: &[PolicyTableRow] = &[
    PolicyTableRow {
        what: "no policies",
        policies: &[],
        open: &["x/a y/a 80/TCP", "outside x/a 80/SCTP v6"],
        closed: &[],
    },
    PolicyTableRow {
        what: "deny all that comes in",
        policies: &[("x/p", "{podSelector: {}, policyTypes: [Ingress]}")],
        open: &["x/a y/a 80/TCP", "x/a outside 53/UDP", "node-a x/a 80/TCP"],
        closed: &["x/b x/a 80/TCP", "y/b x/a 53/UDP v6", "node-b x/a 80/TCP"],
    },
    PolicyTableRow {
        what: "an empty list of rules is none",
        policies: &[("x/p", "{podSelector: {matchLabels: {pod: a}}, ingress: []}")],
        open: &["x/a x/b 80/TCP", "x/a x/c 80/TCP"],
        closed: &["x/b x/a 80/TCP", "x/c x/a 80/TCP v6"],
    },
    PolicyTableRow {
        what: "an empty rule allows everything",
        policies: &[
            ("x/deny", "{podSelector: {}, policyTypes: [Ingress]}"),
            ("x/allow", "{podSelector: {matchLabels: {pod: a}}, ingress: [{}]}"),
        ],
        open: &["outside x/a 80/SCTP", "y/a x/a 8080/TCP v6"],
        closed: &["x/a x/b 80/TCP", "outside x/c 80/TCP"],
    },
    PolicyTableRow {
        what: "pods of the own namespace by selector",
        policies: &[(
            "x/p",
            "{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}]}]}",
        )],
        open: &["x/b x/a 80/TCP", "x/b x/a 80/SCTP v6"],
        closed: &["x/c x/a 80/TCP", "y/b x/a 80/TCP", "z/b x/a 53/UDP v6"],
    },
    PolicyTableRow {
        what: "pods may be reached by those that are selected themselves",
        policies: &[("z/p", "{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}")],
        open: &["z/a z/b 80/TCP", "z/b z/a 53/UDP"],
        closed: &["x/a z/b 80/TCP", "outside z/a 80/TCP"],
    },
    PolicyTableRow {
        what: "all pods of namespaces by selector",
        policies: &[(
            "x/p",
            "{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}]}]}",
        )],
        open: &["y/a x/a 80/TCP", "z/b x/c 80/SCTP v6"],
        closed: &["x/b x/a 80/TCP", "outside x/a 80/TCP"],
    },
    PolicyTableRow {
        what: "a namespace by its name",
        policies: &[(
            "x/p",
            "{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: z}}}]}]}",
        )],
        open: &["z/a x/a 80/TCP", "z/b x/c 53/UDP"],
        closed: &["y/a x/a 80/TCP", "x/b x/a 80/TCP"],
    },
    PolicyTableRow {
        what: "both selectors in one peer must match",
        policies: &[(
            "x/p",
            "{podSelector: {}, ingress: [{from: [{
                namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {pod: a}}}]}]}",
        )],
        open: &["y/a x/a 80/TCP", "z/a x/b 80/TCP v6"],
        closed: &["y/b x/a 80/TCP", "x/a x/b 80/TCP"],
    },
    PolicyTableRow {
        what: "one of two peers is enough",
        policies: &[(
            "x/p",
            "{podSelector: {}, ingress: [{from: [
                {namespaceSelector: {matchLabels: {team: blue}}}, {podSelector: {matchLabels: {pod: a}}}]}]}",
        )],
        open: &["y/b x/a 80/TCP", "x/a x/b 80/TCP"],
        closed: &["x/b x/a 80/TCP", "outside x/a 80/TCP"],
    },
    PolicyTableRow {
        what: "all pods of all namespaces and nobody else",
        policies: &[("x/p", "{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}")],
        open: &["x/b x/a 80/TCP", "z/b x/a 80/SCTP v6"],
        closed: &["outside x/a 80/TCP", "node-b x/a 80/TCP"],
    },
    PolicyTableRow {
        what: "selectors with expressions",
        policies: &[(
            "x/p",
            "{podSelector: {matchExpressions: [{key: pod, operator: NotIn, values: [c]}]}, ingress: [{from: [{
                namespaceSelector: {matchExpressions: [{key: team, operator: Exists}]},
                podSelector: {matchExpressions: [{key: pod, operator: In, values: [b, c]}, {key: absent, operator: DoesNotExist}]}}]}]}",
        )],
        open: &["y/b x/a 80/TCP", "x/c x/b 80/TCP", "y/a x/c 80/TCP"],
        closed: &["y/a x/a 80/TCP", "z/a x/b 53/UDP"],
    },
    PolicyTableRow {
        what: "policies add up",
        policies: &[
            ("x/one", "{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}]}]}"),
            ("x/two", "{podSelector: {matchLabels: {pod: a}}, ingress: [{ports: [{port: 8080}]}]}"),
            (
                "x/three",
                "{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}], ports: [{protocol: SCTP}]}]}",
            ),
        ],
        open: &["x/b x/a 53/UDP", "outside x/a 8080/TCP", "z/b x/a 80/SCTP v6", "x/b x/c 80/TCP"],
        closed: &["outside x/c 8080/TCP", "z/b x/c 80/SCTP", "x/c x/a 53/UDP"],
    },
];

/// IP blocks.
pub(crate) const BLOCKS: &[PolicyTableRow] = &[
    PolicyTableRow {
        what: "a block with exceptions",
        policies: &[(
            "x/p",
            "{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 203.0.113.0/24, except: [203.0.113.16/28]}}]}]}",
        )],
        open: &["outside x/a 80/TCP", "outside x/b 80/SCTP"],
        closed: &["outside x/a 80/TCP v6", "y/a x/a 80/TCP"],
    },
    PolicyTableRow {
        what: "a block holds pods too, and those of IPv4 no IPv6",
        policies: &[(
            "x/p",
            "{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.244.1.0/24, except: [10.244.1.30/32]}}]}]}",
        )],
        open: &["y/b x/a 80/TCP", "x/c x/b 53/UDP"],
        closed: &["y/b x/a 80/TCP v6", "z/a x/a 80/TCP", "y/a x/a 80/TCP"],
    },
    PolicyTableRow {
        what: "a block of IPv6 with exceptions",
        policies: &[(
            "x/p",
            "{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: '::/0', except: ['fd44:2::/64', '2001:db8::20/128']}}]}]}",
        )],
        open: &["y/b x/a 80/TCP v6", "outside x/b 80/SCTP v6"],
        closed: &["y/a x/a 80/TCP v6", "y/b x/a 80/TCP"],
    },
    PolicyTableRow {
        what: "an exception takes nothing from another peer",
        policies: &[(
            "x/p",
            "{podSelector: {}, ingress: [{from: [
                {ipBlock: {cidr: 0.0.0.0/0, except: [10.244.0.0/16]}}, {ipBlock: {cidr: 10.244.2.0/24}}]}]}",
        )],
        open: &["outside x/a 80/TCP", "z/b x/a 80/TCP"],
        closed: &["z/a x/a 80/TCP", "z/b x/a 80/TCP v6"],
    },
];

/// Ports by number, range and name, of all protocols.
pub(crate) const PORTS: &[PolicyTableRow] = &[
    PolicyTableRow {
        what: "one port",
        policies: &[("x/p", "{podSelector: {}, ingress: [{ports: [{port: 80}]}]}")],
        open: &["y/a x/a 80/TCP", "outside x/b 80/TCP v6"],
        closed: &["y/a x/a 8080/TCP", "y/a x/a 80/UDP", "y/a x/a 80/SCTP"],
    },
    PolicyTableRow {
        what: "a range of ports",
        policies: &[("x/p", "{podSelector: {}, ingress: [{ports: [{port: 81, endPort: 8080}]}]}")],
        open: &["y/a x/a 8080/TCP", "outside x/b 8080/TCP v6"],
        closed: &["y/a x/a 80/TCP", "y/a x/a 80/UDP"],
    },
    PolicyTableRow {
        what: "a range of UDP's ports",
        policies: &[(
            "x/p",
            "{podSelector: {}, ingress: [{ports: [{protocol: UDP, port: 53, endPort: 79}]}]}",
        )],
        open: &["y/a x/a 53/UDP"],
        closed: &["y/a x/a 80/UDP", "y/a x/a 80/TCP", "y/a x/a 80/SCTP"],
    },
    PolicyTableRow {
        what: "a port by name, which is another one of another pod",
        policies: &[("x/p", "{podSelector: {}, ingress: [{ports: [{port: web}]}]}")],
        open: &["y/a x/a 80/TCP", "y/a x/c 8080/TCP v6"],
        closed: &["y/a x/a 8080/TCP", "y/a x/c 80/TCP", "y/a x/a 80/SCTP"],
    },
    PolicyTableRow {
        what: "a port by name with peers",
        policies: &[(
            "x/p",
            "{podSelector: {}, ingress: [{ports: [{port: dns, protocol: UDP}, {port: sig, protocol: SCTP}],
                from: [{namespaceSelector: {matchLabels: {team: blue}}}]}]}",
        )],
        open: &["y/a x/a 53/UDP", "z/a x/c 80/SCTP v6"],
        closed: &["x/b x/a 53/UDP", "y/a x/a 80/UDP", "outside x/a 80/SCTP"],
    },
    PolicyTableRow {
        what: "all ports of UDP",
        policies: &[("x/p", "{podSelector: {}, ingress: [{ports: [{protocol: UDP}]}]}")],
        open: &["y/a x/a 53/UDP", "outside x/a 80/UDP v6"],
        closed: &["y/a x/a 80/TCP", "y/a x/a 80/SCTP"],
    },
    PolicyTableRow {
        what: "an empty port is all of TCP",
        policies: &[("x/p", "{podSelector: {}, ingress: [{ports: [{}]}]}")],
        open: &["y/a x/a 80/TCP", "outside x/a 8080/TCP v6"],
        closed: &["y/a x/a 53/UDP", "y/a x/a 80/SCTP"],
    },
    PolicyTableRow {
        what: "SCTP alone, which is never taken for TCP",
        policies: &[(
            "x/p",
            "{podSelector: {}, ingress: [{ports: [{protocol: SCTP, port: 80}],
                from: [{podSelector: {}}, {ipBlock: {cidr: 203.0.113.20/32}}]}]}",
        )],
        open: &["x/b x/a 80/SCTP", "x/c x/a 80/SCTP v6"],
        closed: &["x/b x/a 80/TCP", "x/b x/a 80/UDP", "outside x/a 80/SCTP"],
    },
    PolicyTableRow {
        what: "rules and ports of one policy add up",
        policies: &[(
            "x/p",
            "{podSelector: {}, ingress: [
                {ports: [{port: 80}, {port: 8000, endPort: 9000}, {port: dns, protocol: UDP}], from: [{podSelector: {}}]},
                {ports: [{port: 80, protocol: SCTP}], from: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}",
        )],
        open: &["x/b x/a 8080/TCP", "x/c x/b 53/UDP", "outside x/a 80/SCTP"],
        closed: &["outside x/a 80/TCP", "x/b x/a 80/UDP", "outside x/a 80/SCTP v6"],
    },
];

/// Egress, alone and with ingress.
pub(crate) const EGRESS: &[PolicyTableRow] = &[
    PolicyTableRow {
        what: "deny all that goes out",
        policies: &[("x/p", "{podSelector: {}, policyTypes: [Egress]}")],
        open: &["y/a x/a 80/TCP", "outside x/a 53/UDP", "x/a node-a 80/TCP"],
        closed: &["x/a x/b 80/TCP", "x/a outside 80/SCTP", "x/a node-b 80/TCP v6"],
    },
    PolicyTableRow {
        what: "deny everything in all namespaces",
        policies: &[
            ("x/p", "{podSelector: {}, policyTypes: [Ingress, Egress]}"),
            ("y/p", "{podSelector: {}, policyTypes: [Ingress, Egress]}"),
            ("z/p", "{podSelector: {}, policyTypes: [Ingress, Egress]}"),
        ],
        open: &["x/a x/a 80/TCP", "node-a x/a 80/TCP", "x/a node-a 80/TCP v6"],
        closed: &["x/a y/a 80/TCP", "outside z/a 80/SCTP", "z/b outside 53/UDP v6"],
    },
    PolicyTableRow {
        what: "out to pods of a namespace on one port",
        policies: &[(
            "x/p",
            "{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 80}],
                to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: 'y'}}}]}]}",
        )],
        open: &["x/a y/a 80/TCP", "y/a x/a 8080/TCP", "outside x/a 53/UDP"],
        closed: &["x/a z/a 80/TCP", "x/a y/a 8080/TCP", "x/a outside 80/TCP v6"],
    },
    PolicyTableRow {
        what: "out to a namespace, and names looked up anywhere",
        policies: &[(
            "x/p",
            "{podSelector: {matchLabels: {pod: a}}, policyTypes: [Egress], egress: [
                {ports: [{port: 53, protocol: UDP}]}, {to: [{namespaceSelector: {matchLabels: {team: blue}}}]}]}",
        )],
        open: &["x/a outside 53/UDP v6", "x/a z/b 80/SCTP", "x/b x/c 80/TCP"],
        closed: &["x/a x/b 80/TCP", "x/a outside 80/UDP"],
    },
    PolicyTableRow {
        what: "out to blocks of both families",
        policies: &[(
            "x/p",
            "{podSelector: {}, policyTypes: [Egress], egress: [{to: [
                {ipBlock: {cidr: 203.0.113.0/28}}, {ipBlock: {cidr: '2001:db8::/32', except: ['2001:db8::10/128']}}]}]}",
        )],
        open: &["x/a outside 80/TCP", "x/b outside 80/SCTP"],
        closed: &["x/a outside 80/TCP v6", "x/a y/a 80/TCP"],
    },
    PolicyTableRow {
        what: "out to a port by name, which the other end has",
        policies: &[(
            "y/p",
            "{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: web}]}]}",
        )],
        open: &["y/a x/a 80/TCP", "y/a x/c 8080/TCP"],
        closed: &["y/a x/c 80/TCP", "y/a x/a 8080/TCP", "y/a outside 80/TCP"],
    },
    PolicyTableRow {
        what: "only Egress: rules for what comes in count for nothing",
        policies: &[(
            "x/p",
            "{podSelector: {}, policyTypes: [Egress],
                ingress: [{from: [{podSelector: {matchLabels: {pod: nobody}}}]}], egress: [{to: [{podSelector: {}}]}]}",
        )],
        open: &["y/a x/a 80/TCP", "x/a x/b 80/TCP"],
        closed: &["x/a y/a 80/TCP", "x/a outside 80/TCP"],
    },
    PolicyTableRow {
        what: "types unset: rules for what goes out isolate both ways",
        policies: &[("x/p", "{podSelector: {}, egress: [{to: [{namespaceSelector: {}}]}]}")],
        open: &["x/a y/a 80/TCP", "x/b z/a 53/UDP v6"],
        closed: &["x/a x/b 80/TCP", "y/a x/a 80/TCP", "x/a outside 80/TCP"],
    },
    PolicyTableRow {
        what: "both ends must allow",
        policies: &[
            (
                "x/p",
                "{podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}], ports: [{port: 80}, {port: 53, protocol: UDP}]}]}",
            ),
            (
                "y/p",
                "{podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {}}], ports: [{port: 80}, {port: 80, protocol: UDP}]}]}",
            ),
        ],
        open: &["x/a y/a 80/TCP", "x/a z/a 53/UDP", "z/a y/a 80/UDP"],
        closed: &["x/a y/a 53/UDP", "x/a y/a 80/UDP", "x/a z/a 80/UDP"],
    },
];
