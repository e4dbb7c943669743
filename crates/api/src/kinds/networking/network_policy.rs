//! NetworkPolicy.

use rhumb_meta::field::{Error, ErrorList};

use crate::addresses::{self, Block};
use crate::gates::Feature;
use crate::{Generation, Kind, Request, Rules, Scope, View, checks, selectors};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        "io.k8s.api.networking.v1.NetworkPolicy",
    )
    .short(&["netpol"])
    .generation(Generation::Of(&["spec"]))
    .rules(NetworkPolicyRules)
}

#[derive(Debug)]
struct NetworkPolicyRules;

/// What of an old policy need not be judged again.
struct Accepted {
    blocks: Vec<String>,
    selectors: selectors::Options,
    is_strict: bool,
}

impl Rules for NetworkPolicyRules {
    fn validate_create(&self, object: &View<'_>, request: &Request<'_>, errors: &mut ErrorList) {
        let accepted = Accepted {
            blocks: Vec::new(),
            selectors: selectors::Options::default(),
            is_strict: request.gates.enabled(Feature::StrictIPCIDRValidation),
        };
        validate_spec(&object.field("spec"), &accepted, errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let old = old.field("spec");
        let selector = old.field("podSelector");
        let mut blocks = Vec::new();
        for_each_block(&old, |block| blocks.push(block.str().to_owned()));
        let accepted = Accepted {
            blocks,
            selectors: checks::selector_options([&selector]),
            is_strict: request.gates.enabled(Feature::StrictIPCIDRValidation),
        };
        validate_spec(&object.field("spec"), &accepted, errors);
    }

    fn warnings(&self, object: &View<'_>, _: Option<&View<'_>>, warnings: &mut Vec<String>) {
        for_each_block(&object.field("spec"), |block| {
            addresses::warn_block(block, warnings);
        });
    }
}

/// The two lists of rules, and where their peers are.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

fn for_each_block(spec: &View<'_>, mut see: impl FnMut(&View<'_>)) {
    for (direction, peers) in DIRECTIONS {
        for rule in spec.field(direction).items() {
            for peer in rule.field(peers).items() {
                let block = peer.field("ipBlock");
                if block.exists() {
                    see(&block.field("cidr"));
                    block
                        .field("except")
                        .items()
                        .for_each(|except| see(&except));
                }
            }
        }
    }
}

fn validate_spec(spec: &View<'_>, accepted: &Accepted, errors: &mut ErrorList) {
    let selector = spec.field("podSelector");
    selectors::validate_label_selector(&selector, accepted.selectors, errors);
    for (direction, peers) in DIRECTIONS {
        for rule in spec.field(direction).items() {
            for port in rule.field("ports").items() {
                validate_port(&port, errors);
            }
            for peer in rule.field(peers).items() {
                validate_peer(&peer, accepted, errors);
            }
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > 2 {
        return types.invalid(errors, "may not specify more than two policyTypes");
    }
    for kind in types.items() {
        checks::one_of(&kind, &["Ingress", "Egress"], errors);
    }
}

fn validate_port(port: &View<'_>, errors: &mut ErrorList) {
    let protocol = port.field("protocol");
    if protocol.exists() {
        checks::one_of(&protocol, &["TCP", "UDP", "SCTP"], errors);
    }
    let (first, last) = (port.field("port"), port.field("endPort"));
    if let Some(name) = first.opt_str() {
        if last.exists() {
            last.invalid(errors, "may not be specified when `port` is non-numeric");
        }
        checks::problems(&first, checks::port_name_problems(name), errors);
    } else if let Some(number) = first.int() {
        checks::port_number(&first, errors);
        if last.int().is_some_and(|last| last < number) {
            // As upstream, the first port is shown.
            let detail = "must be greater than or equal to `port`";
            errors.push(Error::invalid(last.path(), number, detail));
        }
        if last.exists() {
            checks::port_number(&last, errors);
        }
    } else if last.exists() {
        last.invalid(errors, "may not be specified when `port` is not specified");
    }
}

fn validate_peer(peer: &View<'_>, accepted: &Accepted, errors: &mut ErrorList) {
    let mut selectors_set = 0;
    for name in ["podSelector", "namespaceSelector"] {
        let selector = peer.field(name);
        if selector.exists() {
            selectors_set += 1;
            selectors::validate_label_selector(&selector, accepted.selectors, errors);
        }
    }
    let block = peer.field("ipBlock");
    if block.exists() {
        validate_block(&block, accepted, errors);
    }
    match (selectors_set, block.exists()) {
        (0, false) => peer.required(errors, "must specify a peer"),
        (1.., true) => peer.forbidden(errors, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn validate_block(block: &View<'_>, accepted: &Accepted, errors: &mut ErrorList) {
    let cidr = block.field("cidr");
    if cidr.is_empty() {
        return cidr.required(errors, "");
    }
    validate_cidr(&cidr, accepted, errors);
    let Some(outer) = Block::parse_lax(cidr.str()) else {
        return;
    };
    for except in block.field("except").items() {
        validate_cidr(&except, accepted, errors);
        if let Some(inner) = Block::parse_lax(except.str())
            && (!outer.contains(inner) || outer.masked().prefix >= inner.masked().prefix)
        {
            checks::invalid_text(&except, errors, "must be a strict subset of `cidr`");
        }
    }
}

fn validate_cidr(cidr: &View<'_>, accepted: &Accepted, errors: &mut ErrorList) {
    if !accepted.blocks.iter().any(|known| known == cidr.str()) {
        addresses::validate_block(cidr, accepted.is_strict, errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{check_create, check_update, kind, warnings};

    fn policy(spec: Value) -> Value {
        json!({"spec": spec})
    }

    fn check(spec: Value, want: &[&str]) {
        check_create(
            &kind("networking.k8s.io", "NetworkPolicy"),
            policy(spec),
            want,
        );
    }

    fn from(peer: Value) -> Value {
        json!({"ingress": [{"from": [peer]}]})
    }

    #[test]
    fn peers_are_selectors_or_a_block() {
        check(
            from(json!({"podSelector": {}, "namespaceSelector": {}})),
            &[],
        );
        check(
            from(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}})),
            &[],
        );
        let at = "spec.ingress[0].from[0]";
        check(
            from(json!({})),
            &[&format!("{at}: Required value: must specify a peer")],
        );
        check(
            from(json!({"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}})),
            &[&format!(
                "{at}: Forbidden: may not specify both ipBlock and another peer"
            )],
        );
        check(
            json!({"egress": [{"to": [{"podSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}]}]}),
            &[concat!(
                "spec.egress[0].to[0].podSelector.matchExpressions[0].operator: Invalid value: \"Like\": not a valid ",
                "selector operator"
            )],
        );
    }

    #[test]
    fn blocks_are_blocks_and_exceptions_within() {
        let at = "spec.ingress[0].from[0].ipBlock";
        check(
            from(json!({"ipBlock": {}})),
            &[&format!("{at}.cidr: Required value")],
        );
        check(
            from(json!({"ipBlock": {"cidr": "10.0.0.5/24"}})),
            &[&format!(
                "{at}.cidr: Invalid value: \"10.0.0.5/24\": must not have bits set beyond the prefix length"
            )],
        );
        for except in ["11.0.0.0/16", "10.0.0.0/8", "10.0.0.0/7", "fd00::/8"] {
            let block = json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": [except]}});
            check(
                from(block),
                &[&format!(
                    "{at}.except[0]: Invalid value: \"{except}\": must be a strict subset of `cidr`"
                )],
            );
        }
    }

    #[test]
    fn ports_are_numbers_names_or_ranges() {
        let ports = |port: Value| json!({"ingress": [{"ports": [port]}]});
        check(
            ports(json!({"protocol": "SCTP", "port": 80, "endPort": 90})),
            &[],
        );
        check(ports(json!({"port": "web"})), &[]);
        let at = "spec.ingress[0].ports[0]";
        check(
            ports(json!({"protocol": "ICMP", "endPort": 1})),
            &[
                &format!(
                    "{at}.protocol: Unsupported value: \"ICMP\": supported values: \"TCP\", \"UDP\", \"SCTP\""
                ),
                &format!(
                    "{at}.endPort: Invalid value: 1: may not be specified when `port` is not specified"
                ),
            ],
        );
        check(
            ports(json!({"port": 80, "endPort": 79})),
            &[&format!(
                "{at}.endPort: Invalid value: 80: must be greater than or equal to `port`"
            )],
        );
        check(
            ports(json!({"port": "web", "endPort": 80})),
            &[&format!(
                "{at}.endPort: Invalid value: 80: may not be specified when `port` is non-numeric"
            )],
        );
    }

    #[test]
    fn policy_types_are_known() {
        check(
            json!({"policyTypes": ["Ingress", "Odd"]}),
            &[
                "spec.policyTypes[1]: Unsupported value: \"Odd\": supported values: \"Ingress\", \"Egress\"",
            ],
        );
        check(
            json!({"policyTypes": ["a", "b", "c"]}),
            &[
                "spec.policyTypes: Invalid value: [\"a\",\"b\",\"c\"]: may not specify more than two policyTypes",
            ],
        );
    }

    #[test]
    fn blocks_that_were_accepted_stay_and_are_warned_of() {
        let old = policy(from(json!({"ipBlock": {"cidr": "10.0.0.5/24"}})));
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        let network_policy = kind("networking.k8s.io", "NetworkPolicy");
        check_update(&network_policy, old.clone(), labels, &[]);
        let want = concat!(
            "spec.ingress[0].from[0].ipBlock.cidr: CIDR value \"10.0.0.5/24\" is ambiguous in this context (should be ",
            "\"10.0.0.0/24\" or \"10.0.0.5/32\"?)"
        );
        assert_eq!(warnings(&network_policy, old), [want]);
    }
}
