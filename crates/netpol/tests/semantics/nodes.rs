//! The ruleset of one node.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rhumb_netpol::Direction::{Egress, Ingress};
use rhumb_netpol::ruleset::{NodeRuleset, PacketTuple, RulesetDelta};
use serde_json::json;

use crate::cluster::{ClusterHarness, name, two_by_two};
use crate::objects::{app, egress, host_pod, ingress, pod, policy};

fn address(text: &str) -> IpAddr {
    text.parse().expect(text)
}

/// A packet of a protocol without ports.
fn ping(source: &str, destination: &str) -> PacketTuple {
    PacketTuple {
        source: address(source),
        destination: address(destination),
        port: None,
    }
}

fn addresses(of: &[&str]) -> BTreeSet<String> {
    of.iter().map(ToString::to_string).collect()
}

#[test]
fn a_node_ruleset_covers_only_its_own_pods() {
    let mut cluster = two_by_two()
        .with(ingress("a/in", json!([])))
        .with(egress("b/out", json!([])));
    assert_eq!(
        cluster.known_addresses("node-1"),
        addresses(&["10.0.1.1", "10.0.2.1", "fd00:0:0:1::1", "fd00:0:0:2::1"])
    );
    let ruleset = cluster.ruleset("node-1");
    let isolated: Vec<_> = ruleset.dispatch.keys().copied().collect();
    assert_eq!(
        isolated,
        [
            (Ingress, address("10.0.1.1")),
            (Ingress, address("fd00:0:0:1::1")),
            (Egress, address("10.0.2.1")),
            (Egress, address("fd00:0:0:2::1")),
        ]
    );
    cluster.denies(&["203.0.113.1 -> a/x:80/TCP", "b/x -> 203.0.113.1:80/TCP"]);
    let packet = ping("203.0.113.1", "10.0.1.2");
    assert!(
        cluster.ruleset("node-1").allows(&packet),
        "a/y is elsewhere"
    );
    assert!(!cluster.ruleset("node-2").allows(&packet));
}

#[test]
fn each_endpoint_is_enforced_by_its_own_node() {
    let mut cluster = two_by_two()
        .with(egress(
            "a/out",
            json!([{"to": [{"podSelector": app("y")}]}]),
        ))
        .with(ingress(
            "b/in",
            json!([{"from": [{"podSelector": app("x")}]}]),
        ));
    let packet = ping("10.0.1.1", "10.0.2.2");
    assert!(!cluster.ruleset("node-1").allows(&packet), "a/x may not");
    assert!(
        !cluster.ruleset("node-2").allows(&packet),
        "b/y does not let it"
    );
    let packet = ping("10.0.1.1", "10.0.1.2");
    assert!(cluster.ruleset("node-1").allows(&packet));
    assert!(cluster.ruleset("node-2").allows(&packet));
}

#[test]
fn a_policy_without_pods_on_the_node_has_no_rules_there() {
    let spec = json!({"podSelector": app("y"), "ingress": [{"from": [{"namespaceSelector": {}}]}]});
    let mut cluster = two_by_two().with(policy("a/p", spec));
    let ruleset = cluster.ruleset("node-1");
    let nothing = NodeRuleset {
        known_addresses: ruleset.known_addresses.clone(),
        ..NodeRuleset::default()
    };
    assert_eq!(*ruleset, nothing);
    assert!(!cluster.ruleset("node-2").chains.is_empty());
}

#[test]
fn protocols_without_ports_need_a_rule_for_all_ports() {
    let table = [
        (json!([{"from": [{"podSelector": {}}]}]), true),
        (json!([{"ports": []}]), true),
        (json!([{"ports": [{}]}]), false),
        (
            json!([{"ports": [{"protocol": "UDP"}, {"port": 80}, {"port": "web"}]}]),
            false,
        ),
        (json!([]), false),
    ];
    for (rules, want) in table {
        let mut cluster = two_by_two().with(ingress("a/p", rules.clone()));
        let packet = ping("10.0.1.2", "10.0.1.1");
        assert_eq!(cluster.ruleset("node-1").allows(&packet), want, "{rules}");
    }
}

#[test]
fn new_pods_are_isolated_before_they_start() {
    // Applied as soon as the address is known, regardless of the order of events.
    let spec = json!({"podSelector": app("z"), "policyTypes": ["Ingress"]});
    let new = pod("a/z", "10.0.1.3", json!({"status": {"phase": "Pending"}}));
    let waiting = pod("a/z", "", json!({"status": {"phase": "Pending"}}));
    let packet = ping("203.0.113.1", "10.0.1.3");
    let mut cluster = ClusterHarness::empty().with(policy("a/p", spec.clone()));
    cluster.set(waiting);
    assert!(cluster.ruleset("node-1").allows(&packet));
    let applied: Vec<_> = cluster.node_engines["node-1"].applied_policies().collect();
    assert_eq!(applied, [(&name("a/p"), "uid of a/p", 1)]);
    cluster.set(new.clone());
    assert!(!cluster.ruleset("node-1").allows(&packet));
    let mut cluster = ClusterHarness::empty().with(new).with(policy("a/p", spec));
    assert!(!cluster.ruleset("node-1").allows(&packet));
}

#[test]
fn an_unselected_new_pod_adds_only_its_known_address() {
    let mut cluster = two_by_two().with(ingress("a/p", json!([])));
    cluster.ruleset("node-1");
    cluster.set(pod("b/z", "10.0.2.3", json!({})));
    let engine = cluster.node_engines.get_mut("node-1").expect("node exists");
    let changes = engine.take_ruleset_delta();
    assert_eq!(
        changes.known_addresses_added,
        BTreeSet::from([address("10.0.2.3")])
    );
    let only_that = RulesetDelta {
        known_addresses_added: changes.known_addresses_added.clone(),
        ..RulesetDelta::default()
    };
    assert_eq!(changes, only_that);
    assert!(engine.ruleset().allows(&ping("203.0.113.1", "10.0.2.3")));
}

#[test]
fn a_changed_pod_updates_one_element_and_a_changed_policy_one_chain() {
    let from_friends =
        |port: u16| json!([{"from": [{"podSelector": app("friend")}], "ports": [{"port": port}]}]);
    let elsewhere = json!({"spec": {"nodeName": "node-2"}});
    let mut cluster = two_by_two()
        .with(ingress("a/p", from_friends(80)))
        .with(ingress("a/q", json!([{"ports": [{"port": 443}]}])));
    cluster.ruleset("node-1");
    cluster.set(pod("a/friend", "10.0.1.3", elsewhere));
    let changes = cluster
        .node_engines
        .get_mut("node-1")
        .expect("node exists")
        .take_ruleset_delta();
    assert_eq!(
        changes.added_elements.values().map(Vec::len).sum::<usize>(),
        1,
        "{changes:#?}"
    );
    assert!(
        changes.chains.is_empty() && changes.new_sets.is_empty(),
        "{changes:#?}"
    );
    assert!(
        changes.groups.is_empty() && changes.dispatch.is_empty(),
        "{changes:#?}"
    );
    cluster.set(ingress("a/p", from_friends(81)));
    let changes = cluster
        .node_engines
        .get_mut("node-1")
        .expect("node exists")
        .take_ruleset_delta();
    assert_eq!(changes.chains.len(), 1, "{changes:#?}");
    assert!(
        changes.new_sets.is_empty() && changes.added_elements.is_empty(),
        "{changes:#?}"
    );
    assert!(
        changes.groups.is_empty() && changes.dispatch.is_empty(),
        "{changes:#?}"
    );
}

#[test]
fn policies_share_the_sets_of_equal_selections() {
    let friends = || json!([{"from": [{"podSelector": app("friend")}]}]);
    let mut cluster = two_by_two()
        .with(pod("a/friend", "10.0.1.3", json!({})))
        .with(ingress("a/p", friends()));
    let before = cluster.ruleset("node-1").sets.len();
    cluster.set(ingress("a/q", friends()));
    assert_eq!(cluster.ruleset("node-1").sets.len(), before);
    assert!(before > 0);
}

#[test]
fn a_pod_reaches_itself_through_a_service() {
    // Packets of a pod to itself are not subject to the rules.
    let mut cluster = two_by_two()
        .with(ingress("a/in", json!([])))
        .with(egress("a/out", json!([])));
    cluster.allows(&["a/x -> a/x:80/TCP"]);
    assert!(cluster.known_addresses("node-1").contains("10.0.1.1"));
    assert!(
        !cluster
            .ruleset("node-1")
            .allows(&ping("10.0.1.1", "10.0.1.2"))
    );
}

#[test]
fn the_address_of_a_finished_pod_is_released_immediately() {
    let mut cluster = two_by_two().with(ingress("a/p", json!([])));
    let packet = ping("203.0.113.1", "10.0.1.1");
    assert!(!cluster.ruleset("node-1").allows(&packet));
    cluster.set(pod(
        "a/x",
        "10.0.1.1",
        json!({"status": {"phase": "Succeeded"}}),
    ));
    assert!(cluster.ruleset("node-1").allows(&packet));
    assert!(!cluster.known_addresses("node-1").contains("10.0.1.1"));
    cluster.set(pod("b/new", "10.0.1.1", json!({})));
    assert!(cluster.ruleset("node-1").allows(&packet));
    assert!(cluster.known_addresses("node-1").contains("10.0.1.1"));
}

#[test]
fn a_reused_address_does_not_keep_the_grants_of_its_former_pod() {
    let mut cluster = two_by_two().with(ingress(
        "a/p",
        json!([{"from": [{"podSelector": app("y")}]}]),
    ));
    let packet = ping("10.0.1.2", "10.0.1.1");
    assert!(cluster.ruleset("node-1").allows(&packet));
    let later = json!({"metadata": {"creationTimestamp": "2026-01-09T00:00:00Z"}, "spec": {"nodeName": "node-2"}});
    cluster.set(pod("b/thief", "10.0.1.2", later));
    assert!(!cluster.ruleset("node-1").allows(&packet));
    cluster.remove_pod("b/thief");
    assert!(cluster.ruleset("node-1").allows(&packet));
}

#[test]
fn a_conflicting_address_claim_on_another_node_allows_nothing_here() {
    // An older pod that still exists claims the same address.
    let mut cluster = two_by_two().with(ingress("a/p", json!([])));
    let packet = ping("203.0.113.1", "10.0.1.1");
    let elsewhere = json!({"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}, "spec": {"nodeName": "node-2"}});
    cluster.set(pod("b/old", "10.0.1.1", elsewhere));
    assert!(
        !cluster.ruleset("node-1").allows(&packet),
        "a/x is younger and keeps its address"
    );
    assert!(cluster.known_addresses("node-1").contains("10.0.1.1"));
    assert!(!cluster.known_addresses("node-2").contains("10.0.1.1"));
}

#[test]
fn host_network_pods_have_no_rules() {
    let mut cluster = ClusterHarness::empty()
        .with(host_pod("a/agent", "192.168.0.1", json!({})))
        .with(ingress("a/p", json!([])));
    assert_eq!(*cluster.ruleset("node-1"), NodeRuleset::default());
    assert_eq!(cluster.node_engines["node-1"].applied_policies().count(), 0);
}

#[test]
fn a_pod_is_enforced_once_it_is_bound_to_the_node() {
    let mut cluster = ClusterHarness::empty().with(ingress("a/p", json!([])));
    cluster.set(pod("a/x", "10.0.1.1", json!({"spec": {"nodeName": null}})));
    assert_eq!(*cluster.ruleset("node-1"), NodeRuleset::default());
    cluster.set(pod("a/x", "10.0.1.1", json!({})));
    assert!(
        !cluster
            .ruleset("node-1")
            .allows(&ping("203.0.113.1", "10.0.1.1"))
    );
    cluster.remove_pod("a/x");
    assert_eq!(*cluster.ruleset("node-1"), NodeRuleset::default());
}
