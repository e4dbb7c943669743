//! Peers of rules.

use serde_json::{Value, json};

use crate::cluster::{ClusterHarness, two_by_two};
use crate::objects::{app, egress, ingress, pod};

fn from(peers: Value) -> ClusterHarness {
    two_by_two().with(ingress("a/p", json!([{"from": peers}])))
}

fn to(peers: Value) -> ClusterHarness {
    two_by_two().with(egress("a/p", json!([{"to": peers}])))
}

fn team(name: &str) -> Value {
    json!({"matchLabels": {"team": name}})
}

#[test]
fn an_empty_peer_list_matches_everything() {
    for peers in [json!([]), Value::Null] {
        let rule = json!([{"from": peers, "ports": [{"port": 80}]}]);
        let mut cluster = two_by_two().with(ingress("a/p", rule));
        cluster.allows(&[
            "b/x -> a/x:80/TCP",
            "a/y -> a/x:80/TCP",
            "203.0.113.1 -> a/x:80/TCP",
            "2001:db8::1 -> a/x:80/TCP",
            "192.168.0.2 -> a/x:80/TCP",
        ]);
        cluster.denies(&["b/x -> a/x:81/TCP"]);
    }
}

#[test]
fn a_pod_selector_alone_matches_in_the_policys_own_namespace() {
    let mut cluster = from(json!([{"podSelector": app("y")}]));
    cluster.allows(&["a/y -> a/x:80/TCP"]);
    cluster.denies(&[
        "b/y -> a/x:80/TCP",
        "a/x -> a/y:80/TCP",
        "203.0.113.1 -> a/x:80/TCP",
    ]);
}

#[test]
fn an_empty_pod_selector_matches_all_pods_of_the_policys_own_namespace() {
    let mut cluster = from(json!([{"podSelector": {}}]));
    cluster.allows(&["a/y -> a/x:80/TCP", "a/x -> a/y:80/TCP"]);
    cluster.denies(&[
        "b/y -> a/x:80/TCP",
        "203.0.113.1 -> a/x:80/TCP",
        "192.168.0.2 -> a/x:80/TCP",
    ]);
}

#[test]
fn a_namespace_selector_alone_matches_all_pods_of_those_namespaces() {
    let mut cluster = from(json!([{"namespaceSelector": team("blue")}]));
    cluster.allows(&["b/x -> a/x:80/TCP", "b/y -> a/x:80/TCP"]);
    cluster.denies(&["a/y -> a/x:80/TCP", "203.0.113.1 -> a/x:80/TCP"]);
}

#[test]
fn an_empty_namespace_selector_matches_all_pods_and_nothing_else() {
    let mut cluster =
        from(json!([{"namespaceSelector": {}}])).with(pod("unknown/z", "10.0.3.1", json!({})));
    cluster.allows(&[
        "a/y -> a/x:80/TCP",
        "b/y -> a/x:80/TCP",
        "unknown/z -> a/x:80/TCP",
    ]);
    cluster.denies(&[
        "203.0.113.1 -> a/x:80/TCP",
        "192.168.0.2 -> a/x:80/TCP",
        "2001:db8::1 -> a/x:80/TCP",
    ]);
}

#[test]
fn both_selectors_in_one_peer_must_match() {
    let mut cluster = from(json!([{"podSelector": app("y"), "namespaceSelector": team("blue")}]));
    cluster.allows(&["b/y -> a/x:80/TCP"]);
    cluster.denies(&["b/x -> a/x:80/TCP", "a/y -> a/x:80/TCP"]);
    let mut cluster = from(json!([{"podSelector": {}, "namespaceSelector": team("blue")}]));
    cluster.allows(&["b/y -> a/x:80/TCP", "b/x -> a/x:80/TCP"]);
    cluster.denies(&["a/y -> a/x:80/TCP"]);
}

#[test]
fn selectors_in_separate_peers_match_either() {
    let mut cluster = from(json!([{"podSelector": app("y")}, {"namespaceSelector": team("blue")}]));
    cluster.allows(&[
        "b/y -> a/x:80/TCP",
        "b/x -> a/x:80/TCP",
        "a/y -> a/x:80/TCP",
    ]);
    cluster.denies(&["a/x -> a/y:80/TCP"]);
}

#[test]
fn any_of_several_peers_allows() {
    let mut cluster = from(json!([
        {"podSelector": app("nobody")},
        {"ipBlock": {"cidr": "203.0.113.0/24"}},
        {"namespaceSelector": team("blue"), "podSelector": app("x")},
    ]));
    cluster.allows(&["203.0.113.1 -> a/x:80/TCP", "b/x -> a/x:80/TCP"]);
    cluster.denies(&["203.0.114.1 -> a/x:80/TCP", "b/y -> a/x:80/TCP"]);
}

#[test]
fn peers_and_ports_of_a_rule_must_both_match() {
    let rules = json!([{"from": [{"podSelector": app("y")}], "ports": [{"port": 80}]}]);
    let mut cluster = two_by_two().with(ingress("a/p", rules));
    cluster.allows(&["a/y -> a/x:80/TCP"]);
    cluster.denies(&[
        "a/y -> a/x:81/TCP",
        "b/y -> a/x:80/TCP",
        "b/y -> a/x:81/TCP",
    ]);
}

#[test]
fn target_pods_can_also_be_peers() {
    let mut cluster = from(json!([{"podSelector": app("x")}]));
    cluster.allows(&["a/x -> a/y:80/TCP", "a/x -> a/x:80/TCP"]);
    cluster.denies(&["a/y -> a/x:80/TCP"]);
}

#[test]
fn egress_peers_are_destinations() {
    let mut cluster = to(json!([{"namespaceSelector": team("blue"), "podSelector": app("y")}]));
    cluster.allows(&["a/x -> b/y:80/TCP", "b/x -> a/x:80/TCP"]);
    cluster.denies(&[
        "a/x -> b/x:80/TCP",
        "a/x -> a/y:80/TCP",
        "a/x -> 203.0.113.1:80/TCP",
    ]);
}

#[test]
fn peers_of_the_other_direction_are_ignored() {
    let (x, y) = (
        json!([{"podSelector": app("x")}]),
        json!([{"podSelector": app("y")}]),
    );
    let with_z = |cluster: ClusterHarness| cluster.with(pod("a/z", "10.0.1.3", json!({})));
    let rules = json!([{"from": x, "to": y}]);
    let mut cluster = with_z(two_by_two().with(ingress("a/p", rules.clone())));
    cluster.allows(&["a/x -> a/z:80/TCP"]);
    cluster.denies(&["a/y -> a/z:80/TCP"]);
    let mut cluster = with_z(two_by_two().with(egress("a/p", rules)));
    cluster.allows(&["a/z -> a/y:80/TCP"]);
    cluster.denies(&["a/z -> a/x:80/TCP"]);
}

#[test]
fn empty_peers_and_peers_of_two_kinds_allow_nothing() {
    let block = json!({"cidr": "0.0.0.0/0"});
    let invalid = [
        json!([{}]),
        json!([{"podSelector": {}, "ipBlock": block}]),
        json!([{"namespaceSelector": {}, "ipBlock": block}]),
        json!([{"podSelector": {}, "namespaceSelector": {}, "ipBlock": block}]),
        json!([{"podSelector": null, "namespaceSelector": null, "ipBlock": null}]),
    ];
    for peers in invalid {
        let mut cluster = from(peers.clone());
        cluster.denies(&["10.0.1.2 -> 10.0.1.1:80/TCP", "b/y -> a/x:80/TCP"]);
        let mut cluster = to(peers);
        cluster.denies(&["a/x -> a/y:80/TCP", "a/x -> 203.0.113.1:80/TCP"]);
    }
}

#[test]
fn a_selection_can_be_target_of_one_policy_and_peer_of_another() {
    // Policies share pod selections: deleting one policy must not affect the other.
    let mut cluster = from(json!([{"podSelector": app("y")}]))
        .with(ingress(
            "a/q",
            json!([{"from": [{"podSelector": app("y")}], "ports": [{"port": 80}]}]),
        ))
        .with(ingress(
            "b/q",
            json!([{"from": [{"podSelector": app("y")}]}]),
        ));
    cluster.allows(&["a/y -> a/x:81/TCP", "b/y -> b/x:81/TCP"]);
    cluster.denies(&["a/y -> b/x:80/TCP", "b/y -> a/x:80/TCP"]);
    cluster.remove_policy("a/p");
    cluster.allows(&["a/y -> a/x:80/TCP", "b/y -> b/x:81/TCP"]);
    cluster.denies(&["a/y -> a/x:81/TCP"]);
}
