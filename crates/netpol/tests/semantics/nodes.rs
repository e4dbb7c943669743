//! The rules of one node.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rhumb_netpol::Direction::{Egress, Ingress};
use rhumb_netpol::program::{Changes, Packet, Program};
use serde_json::json;

use crate::cluster::{Cluster, name, two_by_two};
use crate::objects::{app, egress, host_pod, ingress, pod, policy};

fn address(text: &str) -> IpAddr {
    text.parse().expect(text)
}

/// A packet of a protocol without ports.
fn ping(source: &str, destination: &str) -> Packet {
    Packet {
        source: address(source),
        destination: address(destination),
        port: None,
    }
}

fn addresses(of: &[&str]) -> BTreeSet<String> {
    of.iter().map(ToString::to_string).collect()
}

#[test]
fn a_node_judges_its_own_pods_and_no_others() {
    let mut cluster = two_by_two()
        .with(ingress("a/in", json!([])))
        .with(egress("b/out", json!([])));
    assert_eq!(
        cluster.local("node-1"),
        addresses(&["10.0.1.1", "10.0.2.1", "fd00:0:0:1::1", "fd00:0:0:2::1"])
    );
    let program = cluster.program("node-1");
    let isolated: Vec<_> = program.dispatch.keys().copied().collect();
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
        cluster.program("node-1").allows(&packet),
        "a/y is elsewhere"
    );
    assert!(!cluster.program("node-2").allows(&packet));
}

#[test]
fn each_end_is_judged_by_its_own_node() {
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
    assert!(!cluster.program("node-1").allows(&packet), "a/x may not");
    assert!(
        !cluster.program("node-2").allows(&packet),
        "b/y does not let it"
    );
    let packet = ping("10.0.1.1", "10.0.1.2");
    assert!(cluster.program("node-1").allows(&packet));
    assert!(cluster.program("node-2").allows(&packet));
}

#[test]
fn a_policy_without_pods_of_this_node_has_no_rules_here() {
    let spec = json!({"podSelector": app("y"), "ingress": [{"from": [{"namespaceSelector": {}}]}]});
    let mut cluster = two_by_two().with(policy("a/p", spec));
    let program = cluster.program("node-1");
    let nothing = Program {
        known: program.known.clone(),
        ..Program::default()
    };
    assert_eq!(*program, nothing);
    assert!(!cluster.program("node-2").chains.is_empty());
}

#[test]
fn protocols_without_ports_need_a_rule_about_all_ports() {
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
        assert_eq!(cluster.program("node-1").allows(&packet), want, "{rules}");
    }
}

#[test]
fn new_pods_are_isolated_before_they_start() {
    // As soon as the address is known, and in whichever order things are heard of.
    let spec = json!({"podSelector": app("z"), "policyTypes": ["Ingress"]});
    let new = pod("a/z", "10.0.1.3", json!({"status": {"phase": "Pending"}}));
    let waiting = pod("a/z", "", json!({"status": {"phase": "Pending"}}));
    let packet = ping("203.0.113.1", "10.0.1.3");
    let mut cluster = Cluster::empty().with(policy("a/p", spec.clone()));
    cluster.set(waiting);
    assert!(cluster.program("node-1").allows(&packet));
    let applied: Vec<_> = cluster.nodes["node-1"].applied().collect();
    assert_eq!(applied, [(&name("a/p"), "uid of a/p", 1)]);
    cluster.set(new.clone());
    assert!(!cluster.program("node-1").allows(&packet));
    let mut cluster = Cluster::empty().with(new).with(policy("a/p", spec));
    assert!(!cluster.program("node-1").allows(&packet));
}

#[test]
fn a_new_pod_that_no_policy_is_about_holds_nothing_up() {
    let mut cluster = two_by_two().with(ingress("a/p", json!([])));
    cluster.program("node-1");
    cluster.set(pod("b/z", "10.0.2.3", json!({})));
    let engine = cluster.nodes.get_mut("node-1").expect("a node");
    let changes = engine.take_changes();
    assert_eq!(changes.known_added, BTreeSet::from([address("10.0.2.3")]));
    let only_that = Changes {
        known_added: changes.known_added.clone(),
        ..Changes::default()
    };
    assert_eq!(changes, only_that);
    assert!(engine.program().allows(&ping("203.0.113.1", "10.0.2.3")));
}

#[test]
fn a_changed_pod_is_one_element_and_a_changed_policy_one_chain() {
    let from_friends =
        |port: u16| json!([{"from": [{"podSelector": app("friend")}], "ports": [{"port": port}]}]);
    let elsewhere = json!({"spec": {"nodeName": "node-2"}});
    let mut cluster = two_by_two()
        .with(ingress("a/p", from_friends(80)))
        .with(ingress("a/q", json!([{"ports": [{"port": 443}]}])));
    cluster.program("node-1");
    cluster.set(pod("a/friend", "10.0.1.3", elsewhere));
    let changes = cluster
        .nodes
        .get_mut("node-1")
        .expect("a node")
        .take_changes();
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
        .nodes
        .get_mut("node-1")
        .expect("a node")
        .take_changes();
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
fn policies_share_the_sets_of_what_they_select() {
    let friends = || json!([{"from": [{"podSelector": app("friend")}]}]);
    let mut cluster = two_by_two()
        .with(pod("a/friend", "10.0.1.3", json!({})))
        .with(ingress("a/p", friends()));
    let before = cluster.program("node-1").sets.len();
    cluster.set(ingress("a/q", friends()));
    assert_eq!(cluster.program("node-1").sets.len(), before);
    assert!(before > 0);
}

#[test]
fn a_pod_reaches_itself_through_a_service() {
    // Its own address comes back to it; rules say nothing about that.
    let mut cluster = two_by_two()
        .with(ingress("a/in", json!([])))
        .with(egress("a/out", json!([])));
    cluster.allows(&["a/x -> a/x:80/TCP"]);
    assert!(cluster.local("node-1").contains("10.0.1.1"));
    assert!(
        !cluster
            .program("node-1")
            .allows(&ping("10.0.1.1", "10.0.1.2"))
    );
}

#[test]
fn the_address_of_a_finished_pod_is_free_at_once() {
    let mut cluster = two_by_two().with(ingress("a/p", json!([])));
    let packet = ping("203.0.113.1", "10.0.1.1");
    assert!(!cluster.program("node-1").allows(&packet));
    cluster.set(pod(
        "a/x",
        "10.0.1.1",
        json!({"status": {"phase": "Succeeded"}}),
    ));
    assert!(cluster.program("node-1").allows(&packet));
    assert!(!cluster.local("node-1").contains("10.0.1.1"));
    cluster.set(pod("b/new", "10.0.1.1", json!({})));
    assert!(cluster.program("node-1").allows(&packet));
    assert!(cluster.local("node-1").contains("10.0.1.1"));
}

#[test]
fn an_address_that_another_pod_has_by_now_gives_no_rights_of_the_first() {
    let mut cluster = two_by_two().with(ingress(
        "a/p",
        json!([{"from": [{"podSelector": app("y")}]}]),
    ));
    let packet = ping("10.0.1.2", "10.0.1.1");
    assert!(cluster.program("node-1").allows(&packet));
    let later = json!({"metadata": {"creationTimestamp": "2026-01-09T00:00:00Z"}, "spec": {"nodeName": "node-2"}});
    cluster.set(pod("b/thief", "10.0.1.2", later));
    assert!(!cluster.program("node-1").allows(&packet));
    cluster.remove_pod("b/thief");
    assert!(cluster.program("node-1").allows(&packet));
}

#[test]
fn what_is_said_of_an_address_on_another_node_opens_nothing_here() {
    // An older pod that is not gone yet still claims the address.
    let mut cluster = two_by_two().with(ingress("a/p", json!([])));
    let packet = ping("203.0.113.1", "10.0.1.1");
    let elsewhere = json!({"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}, "spec": {"nodeName": "node-2"}});
    cluster.set(pod("b/old", "10.0.1.1", elsewhere));
    assert!(
        !cluster.program("node-1").allows(&packet),
        "a/x is younger and keeps its address"
    );
    assert!(cluster.local("node-1").contains("10.0.1.1"));
    assert!(!cluster.local("node-2").contains("10.0.1.1"));
}

#[test]
fn pods_of_the_host_network_have_no_rules() {
    let mut cluster = Cluster::empty()
        .with(host_pod("a/agent", "192.168.0.1", json!({})))
        .with(ingress("a/p", json!([])));
    assert_eq!(*cluster.program("node-1"), Program::default());
    assert_eq!(cluster.nodes["node-1"].applied().count(), 0);
}

#[test]
fn a_pod_that_comes_to_its_node_later_is_judged_there_from_then_on() {
    let mut cluster = Cluster::empty().with(ingress("a/p", json!([])));
    cluster.set(pod("a/x", "10.0.1.1", json!({"spec": {"nodeName": null}})));
    assert_eq!(*cluster.program("node-1"), Program::default());
    cluster.set(pod("a/x", "10.0.1.1", json!({})));
    assert!(
        !cluster
            .program("node-1")
            .allows(&ping("203.0.113.1", "10.0.1.1"))
    );
    cluster.remove_pod("a/x");
    assert_eq!(*cluster.program("node-1"), Program::default());
}
