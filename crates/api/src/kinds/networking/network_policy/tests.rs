//! Tests of the validation of network policies, without `minVersion`.

use serde_json::{Value, json};

use crate::feature_gates::Feature;
use crate::testing::{self, check_create, check_status, check_update, kind, warnings};
use crate::{FeatureGates, JsonObject};

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
fn peers_have_selectors_or_an_ip_block() {
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
fn ip_blocks_and_exceptions_are_validated() {
    let at = "spec.ingress[0].from[0].ipBlock";
    check(
        from(json!({"ipBlock": {}})),
        &[&format!("{at}.cidr: Required value")],
    );
    check(
        from(json!({"ipBlock": {"cidr": "10.0.0.05/24"}})),
        &[&format!(
            "{at}.cidr: Invalid value: \"10.0.0.05/24\": must not have leading 0s in IP or prefix length"
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
fn ports_are_validated() {
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
fn unknown_policy_types_are_rejected() {
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
fn cidr_with_host_bits_is_rejected_only_while_the_gate_is_off() {
    let network_policy = kind("networking.k8s.io", "NetworkPolicy");
    let ambiguous = json!({"cidr": "10.0.0.5/24", "except": ["10.0.0.20/28"]});
    let ambiguous = policy(from(json!({ "ipBlock": ambiguous })));
    check_create(&network_policy, ambiguous.clone(), &[]);
    check_update(&network_policy, json!({}), ambiguous.clone(), &[]);
    let gates = FeatureGates::default().with(Feature::NetworkPolicyVersioning, false);
    let (_, errors) = testing::create(&network_policy, ambiguous, &gates);
    let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let at = "spec.ingress[0].from[0].ipBlock";
    let beyond = "must not have bits set beyond the prefix length";
    let want = [
        format!("{at}.cidr: Invalid value: \"10.0.0.5/24\": {beyond}"),
        format!("{at}.except[0]: Invalid value: \"10.0.0.20/28\": {beyond}"),
    ];
    assert_eq!(got, want);
}

#[test]
fn accepted_ambiguous_cidrs_stay_valid_with_a_warning() {
    let zeros = policy(from(json!({"ipBlock": {"cidr": "10.0.0.05/24"}})));
    let old = policy(from(json!({"ipBlock": {"cidr": "10.0.0.5/24"}})));
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let network_policy = kind("networking.k8s.io", "NetworkPolicy");
    check_update(&network_policy, zeros, labels.clone(), &[]);
    check_update(&network_policy, old.clone(), labels, &[]);
    let want = concat!(
        "spec.ingress[0].from[0].ipBlock.cidr: CIDR value \"10.0.0.5/24\" is ambiguous in this context (should be ",
        "\"10.0.0.0/24\" or \"10.0.0.5/32\"?)"
    );
    assert_eq!(warnings(&network_policy, old), [want]);
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status})
}

fn check_conditions(conditions: Value, want: &[&str]) {
    let network_policy = kind("networking.k8s.io", "NetworkPolicy");
    let patch = json!({"status": {"conditions": conditions}});
    check_status(&network_policy, json!({}), patch, want);
}

#[test]
fn status_condition_fields_are_validated() {
    let whole = json!({"type": "Programmed", "status": "True", "observedGeneration": 3, "reason": "Applied",
        "lastTransitionTime": "2024-05-01T10:00:00Z", "message": "applied on 3 of 3 nodes"});
    check_conditions(json!([condition("Supported", "Unknown"), whole]), &[]);
    let at = "status.conditions[0]";
    check_conditions(
        json!([{"observedGeneration": -1, "reason": "no reason", "message": "m".repeat(32 * 1024 + 1)}]),
        &[
            &format!("{at}.type: Invalid value: \"\": name part must be non-empty"),
            &format!("{at}.type: Invalid value: \"\": {QUALIFIED_NAME}"),
            &format!(
                "{at}.status: Unsupported value: \"\": supported values: \"False\", \"True\", \"Unknown\""
            ),
            &format!(
                "{at}.observedGeneration: Invalid value: -1: must be greater than or equal to zero"
            ),
            &format!("{at}.reason: Invalid value: \"no reason\": {REASON}"),
            &format!("{at}.message: Too long: may not be more than 32768 bytes"),
        ],
    );
}

const QUALIFIED_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
     with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
     alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or \
     'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
     '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

#[test]
fn duplicate_condition_types_are_rejected() {
    check_conditions(
        json!([condition("Problem", "True"), condition("Problem", "False")]),
        &["status.conditions[1].type: Duplicate value: \"Problem\""],
    );
}

#[test]
fn while_the_gate_is_off_a_new_version_is_reported_as_dropped() {
    let network_policy = kind("networking.k8s.io", "NetworkPolicy");
    let off = FeatureGates::default().with(Feature::NetworkPolicyVersioning, false);
    let policy =
        |version: &str| testing::object(&network_policy, json!({"spec": {"minVersion": version}}));
    let dropped = |old: Option<JsonObject>, gates: &FeatureGates| {
        let strategy = &network_policy.strategy;
        let fields = strategy.disabled_fields(&policy("1.21"), old.as_ref(), gates);
        fields
            .into_iter()
            .map(|field| field.path)
            .collect::<Vec<_>>()
    };
    assert_eq!(dropped(None, &off), ["spec.minVersion"]);
    assert_eq!(dropped(Some(policy("1.21")), &off), Vec::<String>::new());
    assert_eq!(
        dropped(None, &FeatureGates::default()),
        Vec::<String>::new()
    );
}

#[test]
fn while_the_gate_is_off_only_an_existing_status_can_be_updated() {
    let network_policy = kind("networking.k8s.io", "NetworkPolicy");
    let gates = FeatureGates::default().with(Feature::NetworkPolicyVersioning, false);
    let new = json!({"status": {"conditions": [condition("Problem", "True")]}});
    for (stored, want) in [
        (json!({}), None),
        (json!({"status": {}}), Some(&new["status"])),
    ] {
        let old = testing::object(&network_policy, stored);
        let mut made = testing::patched(&old, new.clone());
        let request = testing::request(&gates);
        network_policy
            .strategy
            .prepare_status_update(&mut made, &old, &request);
        assert_eq!(made.get("status"), want);
    }
}
