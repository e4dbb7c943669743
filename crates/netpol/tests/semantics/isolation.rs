//! Which pods are isolated, in which direction, and how policies add up.

use serde_json::{Value, json};

use crate::cluster::{Allowed, ClusterHarness, Denied, two_by_two};
use crate::objects::{app, egress, expression, host_pod, ingress, lay_over, pod, policy};

#[test]
fn without_policies_everything_is_allowed() {
    two_by_two().allows(&[
        "a/x -> b/y:80/TCP",
        "b/y -> a/x:65535/UDP",
        "a/x -> a/y:1/SCTP",
        "203.0.113.1 -> a/x:80/TCP",
        "a/x -> 203.0.113.1:80/TCP",
        "2001:db8::1 -> a/x:80/TCP",
    ]);
}

#[test]
fn deny_all_ingress_denies_all_sources_and_only_ingress() {
    let spec = json!({"podSelector": {}, "policyTypes": ["Ingress"]});
    let mut cluster = two_by_two().with(policy("a/p", spec));
    cluster.denies(&[
        "a/x -> a/y:80/TCP",
        "a/y -> a/x:80/UDP",
        "b/x -> a/x:80/SCTP",
        "203.0.113.1 -> a/x:80/TCP",
        "2001:db8::1 -> a/x:80/TCP",
    ]);
    cluster.allows(&["a/x -> b/x:80/TCP", "a/x -> 203.0.113.1:80/TCP"]);
}

#[test]
fn deny_all_egress_denies_only_egress() {
    let spec = json!({"podSelector": {}, "policyTypes": ["Egress"]});
    let mut cluster = two_by_two().with(policy("a/p", spec));
    cluster.denies(&[
        "a/x -> a/y:80/TCP",
        "a/x -> b/x:80/TCP",
        "a/x -> 203.0.113.1:53/UDP",
        "a/x -> 2001:db8::1:53/UDP",
    ]);
    cluster.allows(&["b/x -> a/x:80/TCP", "203.0.113.1 -> a/x:80/TCP"]);
}

#[test]
fn both_endpoints_must_allow_a_connection() {
    let out = || egress("a/out", json!([{"to": [{"namespaceSelector": {}}]}]));
    let into = || ingress("b/in", json!([{"from": [{"namespaceSelector": {}}]}]));
    let no_way_out = || egress("a/out", json!([]));
    let no_way_in = || ingress("b/in", json!([]));
    let table = [
        (vec![out(), into()], Allowed),
        (vec![out(), no_way_in()], Denied),
        (vec![no_way_out(), into()], Denied),
        (vec![no_way_out(), no_way_in()], Denied),
        (vec![out()], Allowed),
        (vec![into()], Allowed),
    ];
    for (policies, want) in table {
        let mut cluster = policies
            .into_iter()
            .fold(two_by_two(), ClusterHarness::with);
        cluster.check("a/x -> b/y:80/TCP", want);
    }
}

#[test]
fn replies_need_no_rule_in_the_other_direction() {
    // Policies apply to opening connections: a/x may not connect to b/y, but may reply to it.
    let mut cluster = two_by_two()
        .with(ingress(
            "a/in",
            json!([{"from": [{"namespaceSelector": {}}]}]),
        ))
        .with(egress("a/out", json!([])));
    cluster.allows(&["b/y -> a/x:80/TCP"]);
    cluster.denies(&["a/x -> b/y:80/TCP"]);
}

#[test]
fn an_empty_rule_list_denies_like_a_missing_one() {
    for rules in [json!([]), Value::Null] {
        let spec = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": rules, "egress": rules});
        let mut cluster = two_by_two().with(policy("a/p", spec));
        cluster.denies(&["b/x -> a/x:80/TCP", "a/x -> b/x:80/TCP"]);
    }
}

#[test]
fn an_empty_rule_allows_everything() {
    let spec = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{}], "egress": [{}]});
    let mut cluster = two_by_two().with(policy("a/p", spec));
    cluster.allows(&[
        "b/x -> a/x:80/TCP",
        "a/x -> b/x:1/SCTP",
        "203.0.113.1 -> a/x:65535/UDP",
        "a/x -> 2001:db8::1:53/UDP",
    ]);
}

#[test]
fn policies_are_additive() {
    let mut cluster = two_by_two()
        .with(ingress("a/nobody", json!([])))
        .with(ingress("a/web", json!([{"ports": [{"port": 80}]}])))
        .with(ingress(
            "a/b",
            json!([{"from": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]}]),
        ));
    cluster.allows(&["a/y -> a/x:80/TCP", "b/y -> a/x:81/UDP"]);
    cluster.denies(&["a/y -> a/x:81/TCP"]);
}

#[test]
fn rules_of_a_policy_are_additive() {
    let rules = json!([{"from": [{"podSelector": app("y")}], "ports": [{"port": 80}]}, {"ports": [{"port": 443}]}]);
    let mut cluster = two_by_two().with(ingress("a/p", rules));
    cluster.allows(&[
        "a/y -> a/x:80/TCP",
        "a/y -> a/x:443/TCP",
        "b/x -> a/x:443/TCP",
    ]);
    cluster.denies(&["b/x -> a/x:80/TCP", "a/y -> a/x:81/TCP"]);
}

#[test]
fn a_policy_selects_pods_of_its_own_namespace() {
    let spec = json!({"podSelector": app("x"), "policyTypes": ["Ingress"]});
    let mut cluster = two_by_two().with(policy("a/p", spec));
    cluster.denies(&["b/y -> a/x:80/TCP"]);
    cluster.allows(&[
        "b/y -> a/y:80/TCP",
        "b/y -> b/x:80/TCP",
        "a/y -> b/x:80/TCP",
    ]);
}

#[test]
fn an_empty_or_missing_pod_selector_selects_all_pods_of_the_namespace() {
    for selector in [
        json!({}),
        Value::Null,
        json!({"matchLabels": {}, "matchExpressions": []}),
    ] {
        let spec = json!({"podSelector": selector, "policyTypes": ["Ingress"]});
        let mut cluster = two_by_two().with(policy("a/p", spec));
        cluster.denies(&["b/y -> a/x:80/TCP", "b/y -> a/y:80/TCP"]);
        cluster.allows(&["a/x -> b/x:80/TCP"]);
    }
    let mut cluster = two_by_two().with(policy("a/p", json!({})));
    cluster.denies(&["b/y -> a/x:80/TCP", "b/y -> a/y:80/TCP"]);
    cluster.allows(&["a/x -> b/x:80/TCP"]);
}

#[test]
fn selectors_support_all_four_operators() {
    let table = [
        (expression("app", "In", &["x", "z"]), Denied),
        (expression("app", "In", &["y", "z"]), Allowed),
        (expression("other", "In", &["x"]), Allowed),
        (expression("app", "NotIn", &["x", "z"]), Allowed),
        (expression("app", "NotIn", &["y", "z"]), Denied),
        (expression("other", "NotIn", &["x"]), Denied),
        (expression("app", "Exists", &[]), Denied),
        (expression("other", "Exists", &[]), Allowed),
        (expression("app", "DoesNotExist", &[]), Allowed),
        (expression("other", "DoesNotExist", &[]), Denied),
        (json!({"matchLabels": {"app": "x"}}), Denied),
        (json!({"matchLabels": {"app": "y"}}), Allowed),
        (json!({"matchLabels": {"app": ""}}), Allowed),
        (json!({"matchLabels": {"other": ""}}), Allowed),
    ];
    for (selector, want) in table {
        let spec = json!({"podSelector": selector, "policyTypes": ["Ingress"]});
        let mut cluster = two_by_two().with(policy("a/p", spec));
        cluster.check("b/y -> a/x:80/TCP", want);
    }
}

#[test]
fn all_requirements_of_a_selector_must_match() {
    let selector = |tier: &str, zones: &[&str]| {
        json!({
            "matchLabels": {"app": "z", "tier": tier},
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": zones},
                {"key": "app", "operator": "Exists"},
            ],
        })
    };
    let table = [
        (selector("front", &["1", "2"]), Denied),
        (selector("back", &["1", "2"]), Allowed),
        (selector("front", &["1"]), Allowed),
    ];
    for (selector, want) in table {
        let labels = json!({"metadata": {"labels": {"tier": "front", "zone": "2"}}});
        let spec = json!({"podSelector": selector, "policyTypes": ["Ingress"]});
        let mut cluster = two_by_two()
            .with(pod("a/z", "10.0.1.3", labels))
            .with(policy("a/p", spec));
        cluster.check("b/y -> a/z:80/TCP", want);
    }
}

#[test]
fn an_invalid_selector_matches_nothing() {
    let broken = [
        expression("app", "in", &["x"]),
        expression("app", "In", &[]),
        expression("app", "NotIn", &[]),
        expression("app", "Exists", &["x"]),
        expression("app", "DoesNotExist", &["x"]),
        expression("", "Exists", &[]),
        json!({"matchLabels": {"app": "not a label"}}),
    ];
    for selector in broken {
        let spec = json!({"podSelector": selector, "policyTypes": ["Ingress"]});
        let mut cluster = two_by_two().with(policy("a/p", spec));
        cluster.allows(&["b/y -> a/x:80/TCP"]);
        let mut cluster = two_by_two().with(ingress(
            "a/p",
            json!([{"from": [{"podSelector": selector}, {"namespaceSelector": selector}]}]),
        ));
        cluster.denies(&["a/x -> a/y:80/TCP", "b/x -> a/y:80/TCP"]);
    }
}

#[test]
fn unset_policy_types_always_include_ingress() {
    for types in [Value::Null, json!([])] {
        for rules in [json!({}), json!({"ingress": []}), json!({"egress": [{}]})] {
            let mut spec = json!({"podSelector": {}, "policyTypes": types});
            lay_over(&mut spec, rules);
            let mut cluster = two_by_two().with(policy("a/p", spec));
            cluster.denies(&["b/y -> a/x:80/TCP"]);
            cluster.allows(&["a/x -> b/y:80/TCP"]);
        }
    }
}

#[test]
fn unset_policy_types_include_egress_if_there_are_egress_rules() {
    let rules = json!([{"ports": [{"port": 80}]}]);
    let table = [
        (Value::Null, Allowed),
        (json!([]), Allowed),
        (rules, Denied),
    ];
    for (rules, want) in table {
        let spec = json!({"podSelector": {}, "ingress": [{}], "egress": rules});
        let mut cluster = two_by_two().with(policy("a/p", spec));
        cluster.check("a/x -> b/y:81/TCP", want);
        cluster.allows(&["a/x -> b/y:80/TCP"]);
    }
}

#[test]
fn policy_type_egress_alone_ignores_ingress_rules() {
    let spec = json!({
        "podSelector": {}, "policyTypes": ["Egress"],
        "ingress": [{"ports": [{"port": 1}]}], "egress": [{"ports": [{"port": 80}]}],
    });
    let mut cluster = two_by_two().with(policy("a/p", spec));
    cluster.allows(&["b/y -> a/x:2/TCP", "a/x -> b/y:80/TCP"]);
    cluster.denies(&["a/x -> b/y:1/TCP"]);
}

#[test]
fn policy_type_ingress_alone_ignores_egress_rules() {
    let spec = json!({
        "podSelector": {}, "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": 80}]}], "egress": [{"ports": [{"port": 1}]}],
    });
    let mut cluster = two_by_two().with(policy("a/p", spec));
    cluster.allows(&["a/x -> b/y:2/TCP", "b/y -> a/x:80/TCP"]);
    cluster.denies(&["b/y -> a/x:1/TCP"]);
}

#[test]
fn a_pod_may_always_reach_itself() {
    let mut cluster = two_by_two()
        .with(ingress("a/in", json!([])))
        .with(egress("a/out", json!([])));
    cluster.allows(&[
        "a/x -> a/x:80/TCP",
        "10.0.1.1 -> 10.0.1.1:80/UDP",
        "a/x -> fd00:0:0:1::1:80/SCTP",
    ]);
    cluster.denies(&["a/x -> a/y:80/TCP"]);
}

#[test]
fn a_node_and_its_own_pods_can_always_connect() {
    let mut cluster = two_by_two()
        .with(ingress("a/in", json!([])))
        .with(egress("a/out", json!([])));
    cluster.allows(&[
        "192.168.0.1 -> a/x:80/TCP",
        "a/x -> 192.168.0.1:80/TCP",
        "192.168.0.2 -> a/y:80/TCP",
        "a/y -> 192.168.0.2:80/TCP",
    ]);
    cluster.denies(&[
        "192.168.0.2 -> a/x:80/TCP",
        "a/x -> 192.168.0.2:80/TCP",
        "192.168.0.1 -> a/y:80/TCP",
        "a/y -> 192.168.0.1:80/TCP",
    ]);
}

#[test]
fn node_addresses_are_learned_from_all_its_pods() {
    let ips = json!([{"ip": "192.168.0.7"}, {"ip": "fd00:1::7"}]);
    let host_ips = json!({"status": {"hostIP": "192.168.0.7", "hostIPs": ips}});
    let mut cluster = two_by_two()
        .with(pod("b/told", "10.0.2.9", host_ips))
        .with(host_pod("b/agent", "192.168.0.8 fd00:1::8", json!({})))
        .with(ingress("a/in", json!([])))
        .with(egress("a/out", json!([])));
    cluster.allows(&[
        "192.168.0.1 -> a/x:80/TCP",
        "192.168.0.7 -> a/x:80/TCP",
        "192.168.0.8 -> a/x:80/TCP",
        "a/x -> fd00:1::7:80/TCP",
        "fd00:1::8 -> a/x:80/TCP",
    ]);
    cluster.denies(&[
        "192.168.0.7 -> a/y:80/TCP",
        "192.168.0.8 -> a/y:80/TCP",
        "a/y -> fd00:1::8:80/TCP",
    ]);
    cluster.remove_pod("b/told");
    cluster.remove_pod("b/agent");
    cluster.denies(&["192.168.0.7 -> a/x:80/TCP", "fd00:1::8 -> a/x:80/TCP"]);
}

#[test]
fn unscheduled_pods_do_not_share_a_node() {
    let unscheduled =
        |address: &str| json!({"spec": {"nodeName": ""}, "status": {"hostIP": address}});
    let mut cluster = ClusterHarness::empty()
        .with(pod("a/x", "10.0.1.1", unscheduled("192.168.0.1")))
        .with(pod("a/y", "10.0.1.2", unscheduled("192.168.0.2")))
        .with(ingress("a/in", json!([])));
    cluster.allows(&["192.168.0.1 -> a/x:80/TCP"]);
    cluster.denies(&["192.168.0.2 -> a/x:80/TCP"]);
}

#[test]
fn a_node_address_shared_by_two_nodes_stays_with_the_remaining_one() {
    let at = |node: &str| json!({"spec": {"nodeName": node}, "status": {"hostIP": "192.168.0.9"}});
    let mut cluster = ClusterHarness::empty()
        .with(pod("a/x", "10.0.1.1", at("node-1")))
        .with(pod("a/y", "10.0.1.2", at("node-2")))
        .with(ingress("a/in", json!([])));
    cluster.allows(&["192.168.0.9 -> a/x:80/TCP", "192.168.0.9 -> a/y:80/TCP"]);
    cluster.remove_pod("a/x");
    cluster.allows(&["192.168.0.9 -> a/y:80/TCP"]);
    cluster.denies(&["192.168.0.1 -> a/y:80/TCP"]);
}

#[test]
fn a_policy_update_replaces_the_old_rules() {
    let mut cluster = two_by_two().with(ingress("a/p", json!([{"ports": [{"port": 80}]}])));
    cluster.allows(&["b/y -> a/x:80/TCP"]);
    cluster.set(ingress("a/p", json!([{"ports": [{"port": 81}]}])));
    cluster.allows(&["b/y -> a/x:81/TCP"]);
    cluster.denies(&["b/y -> a/x:80/TCP"]);
    let spec = json!({"podSelector": app("y"), "policyTypes": ["Ingress"]});
    cluster.set(policy("a/p", spec));
    cluster.allows(&["b/y -> a/x:80/TCP"]);
    cluster.denies(&["b/y -> a/y:80/TCP"]);
    cluster.set(egress("a/p", json!([])));
    cluster.allows(&["b/y -> a/y:80/TCP"]);
    cluster.denies(&["a/y -> b/y:80/TCP"]);
    cluster.remove_policy("a/p");
    cluster.allows(&["a/y -> b/y:80/TCP"]);
}
