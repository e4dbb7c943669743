//! Each warning of the linter, and an exhaustive check of selector contradictions.

use serde_json::{Value, json};

use super::*;

fn check(spec: Value, want: &[(&str, &str)]) {
    let read: NetworkPolicySpec = serde_json::from_value(spec.clone()).expect("valid policy spec");
    let warnings = lint_policy(&read);
    for warning in &warnings {
        assert!(LINT_REASONS.contains(&warning.reason), "{}", warning.reason);
    }
    let got: Vec<(&str, &str)> = warnings
        .iter()
        .map(|warning| (warning.reason, warning.message.as_str()))
        .collect();
    assert_eq!(got, want, "{spec}");
}

fn check_block(block: Value, want: &[(&str, &str)]) {
    check(json!({"ingress": [{"from": [{"ipBlock": block}]}]}), want);
}

#[test]
fn ambiguous_cidrs_are_reported_with_their_interpretation() {
    let reason = "AmbiguousCIDR";
    check_block(json!({"cidr": "192.168.1.0/24"}), &[]);
    check_block(
        json!({"cidr": "192.168.1.5/24", "except": ["192.168.1.9/28", "192.168.1.64/32"]}),
        &[
            (
                reason,
                "Interpreting 192.168.1.5/24 as 192.168.1.0/24 rather than 192.168.1.5/32",
            ),
            (
                reason,
                "Interpreting 192.168.1.9/28 as 192.168.1.0/28 rather than 192.168.1.9/32",
            ),
        ],
    );
    check_block(
        json!({"cidr": "fd00::1/8"}),
        &[(
            reason,
            "Interpreting fd00::1/8 as fd00::/8 rather than fd00::1/128",
        )],
    );
}

#[test]
fn excepts_outside_of_their_block_or_covering_it_are_reported() {
    let at = "spec.ingress[0].from[0].ipBlock";
    let outside =
        format!("{at}.except[1]: 11.0.0.0/8 is outside of 10.0.0.0/8 and excludes nothing");
    check_block(
        json!({"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "11.0.0.0/8"]}),
        &[("ExceptOutsideBlock", &outside)],
    );
    let covered = format!("{at} matches nothing: except excludes all of 10.0.0.0/8");
    for except in [
        json!(["10.0.0.0/8"]),
        json!(["0.0.0.0/0"]),
        json!(["10.0.0.0/9", "10.128.0.0/9"]),
    ] {
        check_block(
            json!({"cidr": "10.0.0.0/8", "except": except}),
            &[("ExceptCoversBlock", &covered)],
        );
    }
}

#[test]
fn unparsable_cidrs_are_reported() {
    let at = "spec.ingress[0].from[0].ipBlock";
    let cidr = format!("{at}.cidr: \"10\" is not a CIDR such as 10.0.0.0/8, and matches nothing");
    let except =
        format!("{at}.except[0]: \"x\" is not a CIDR such as 10.0.0.0/8, and excludes nothing");
    check_block(
        json!({"cidr": "10", "except": ["x"]}),
        &[("UnreadableCIDR", &cidr), ("UnreadableCIDR", &except)],
    );
}

#[test]
fn ignored_rules_are_reported() {
    check(
        json!({"policyTypes": ["Egress"], "ingress": [{}]}),
        &[(
            "RulesIgnored",
            "spec.ingress is ignored: spec.policyTypes does not contain Ingress",
        )],
    );
    check(json!({"policyTypes": ["Egress"], "ingress": []}), &[]);
    check(json!({"egress": [{}]}), &[]);
}

#[test]
fn an_empty_port_range_is_reported() {
    let ports =
        json!([{"port": 9, "endPort": 9}, {"port": 9, "endPort": 8}, {"port": "a", "endPort": 8}]);
    check(
        json!({"egress": [{"ports": ports}]}),
        &[(
            "PortRangeEmpty",
            "spec.egress[0].ports[1]: endPort 8 is below port 9, so the range is empty",
        )],
    );
}

/// All label sets that selectors on the keys `a` and `b` can distinguish.
fn all_labels() -> Vec<Vec<(&'static str, &'static str)>> {
    let values = ["", "x", "y", "other"];
    let mut all = Vec::new();
    for a in 0..=values.len() {
        for b in 0..=values.len() {
            let a = values.get(a).map(|value| ("a", *value));
            let b = values.get(b).map(|value| ("b", *value));
            all.push(a.into_iter().chain(b).collect());
        }
    }
    all
}

#[test]
fn unsatisfiable_selectors_are_found() {
    let expressions: Vec<Value> = ["a", "b"]
        .into_iter()
        .flat_map(|key| {
            let expression = move |operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
            [
                expression("In", json!(["x"])),
                expression("In", json!(["x", "y"])),
                expression("In", json!([])),
                expression("NotIn", json!(["x"])),
                expression("NotIn", json!(["y", ""])),
                expression("Exists", json!([])),
                expression("DoesNotExist", json!([])),
                expression("Near", json!(["x"])),
            ]
        })
        .collect();
    let labels = all_labels();
    let match_labels = [json!({}), json!({"a": "x"}), json!({"b": ""})];
    for match_labels in &match_labels {
        for first in &expressions {
            for second in &expressions {
                for third in &expressions {
                    let selector = json!({"matchLabels": match_labels, "matchExpressions": [first, second, third]});
                    check_selector(&selector, &labels);
                }
            }
        }
    }
}

fn check_selector(selector: &Value, labels: &[Vec<(&str, &str)>]) {
    use rhumb_meta::LabelSelector;
    let spec: NetworkPolicySpec =
        serde_json::from_value(json!({"podSelector": selector})).expect("valid policy spec");
    let read = LabelSelector::to_selector(spec.pod_selector.as_ref());
    let can_match = read.is_ok_and(|read| labels.iter().any(|labels| read.matches(labels)));
    let warnings = lint_policy(&spec);
    assert_eq!(warnings.is_empty(), can_match, "{selector} {warnings:?}");
    for warning in warnings {
        assert_eq!(warning.reason, "SelectorNeverMatches");
        assert!(
            warning
                .message
                .starts_with("spec.podSelector can never match: ")
        );
    }
}

#[test]
fn selectors_are_reported_with_their_field_path() {
    let never = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]});
    let why = "can never match: no value of the label app satisfies all requirements";
    let messages = [
        format!("spec.podSelector {why}"),
        format!("spec.egress[1].to[1].podSelector {why}"),
        format!("spec.egress[1].to[1].namespaceSelector {why}"),
    ];
    let want = messages
        .each_ref()
        .map(|message| ("SelectorNeverMatches", message.as_str()));
    check(
        json!({"podSelector": never, "egress": [{}, {"to": [
            {"podSelector": {}},
            {"podSelector": never, "namespaceSelector": never},
        ]}]}),
        &want,
    );
}
