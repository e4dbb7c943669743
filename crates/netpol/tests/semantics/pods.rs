//! Which pods policies consider, and which pod owns an address.

use serde_json::{Value, json};

use crate::cluster::{ClusterHarness, name, two_by_two};
use crate::objects::{app, egress, host_pod, ingress, lay_over, pod, policy};

/// A policy that allows ingress to the pods of `a` only from pods of `a` named `friend`.
fn friends_of_a() -> ClusterHarness {
    two_by_two().with(ingress(
        "a/p",
        json!([{"from": [{"podSelector": app("friend")}]}]),
    ))
}

fn in_phase(phase: &str) -> Value {
    json!({"status": {"phase": phase}})
}

fn made(when: &str) -> Value {
    json!({"metadata": {"creationTimestamp": when}})
}

fn terminating() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}})
}

#[test]
fn a_new_pod_is_isolated_as_soon_as_it_is_known() {
    let mut cluster = friends_of_a();
    cluster.allows(&["b/x -> 10.0.1.3:80/TCP"]);
    cluster.set(pod("a/z", "10.0.1.3", in_phase("Pending")));
    cluster.denies(&["b/x -> 10.0.1.3:80/TCP"]);
}

#[test]
fn pending_and_unknown_pods_are_selected_once_they_have_an_address() {
    for phase in ["Pending", "Unknown", "", "Running"] {
        let mut cluster = friends_of_a()
            .with(pod("a/z", "10.0.1.3", in_phase(phase)))
            .with(pod("a/friend", "10.0.1.4", in_phase(phase)));
        cluster.denies(&["b/x -> a/z:80/TCP"]);
        cluster.allows(&["a/friend -> a/x:80/TCP"]);
    }
    let mut cluster =
        friends_of_a().with(pod("a/z", "10.0.1.3", json!({"status": {"phase": null}})));
    cluster.denies(&["b/x -> a/z:80/TCP"]);
}

#[test]
fn a_pod_without_an_address_is_counted_as_a_target_but_gets_no_verdict() {
    let mut cluster = friends_of_a();
    cluster.set(pod("a/z", "", json!({})));
    assert_eq!(cluster.evaluate("b/x -> a/z:80/TCP"), None);
    assert_eq!(cluster.evaluate("a/z -> b/x:80/TCP"), None);
    let summary = cluster.cluster_engine.summary(&name("a/p"));
    let summary = summary.expect("policy exists");
    assert_eq!(summary.pods_per_node.get("node-1"), Some(&2), "a/x and a/z");
    cluster.set(pod("a/z", "10.0.1.3", json!({})));
    cluster.denies(&["b/x -> a/z:80/TCP"]);
}

#[test]
fn a_missing_pod_gets_no_verdict() {
    let cluster = two_by_two();
    assert_eq!(cluster.evaluate("a/none -> a/x:80/TCP"), None);
    assert_eq!(cluster.evaluate("a/x -> a/none:80/TCP"), None);
}

#[test]
fn endpoints_without_a_common_ip_family_get_no_verdict() {
    let cluster = two_by_two().with(pod("a/old", "10.0.1.3", json!({})));
    assert_eq!(cluster.evaluate("a/old -> 2001:db8::1:80/TCP"), None);
    assert_eq!(cluster.evaluate("2001:db8::1 -> a/old:80/TCP"), None);
    assert_eq!(cluster.evaluate("2001:db8::1 -> 203.0.113.1:80/TCP"), None);
}

#[test]
fn both_ip_families_are_evaluated() {
    let cluster = two_by_two();
    let verdict = cluster
        .evaluate("a/x -> b/y:80/TCP")
        .expect("verdict exists");
    let pairs: Vec<String> = verdict
        .pairs
        .iter()
        .map(|pair| format!("{} {}", pair.from, pair.to))
        .collect();
    assert_eq!(pairs, ["10.0.1.1 10.0.2.2", "fd00:0:0:1::1 fd00:0:0:2::2"]);
}

#[test]
fn pod_ips_are_used_with_pod_ip_as_fallback() {
    let old = json!({"status": {"podIP": "10.0.1.3", "podIPs": null}});
    let both = "10.0.1.4 fd00:0:0:1::4";
    let mut cluster =
        friends_of_a()
            .with(pod("a/old", "", old))
            .with(pod("a/both", both, json!({})));
    cluster.denies(&[
        "b/x -> 10.0.1.3:80/TCP",
        "b/x -> 10.0.1.4:80/TCP",
        "b/x -> fd00:0:0:1::4:80/TCP",
    ]);
}

#[test]
fn a_finished_pod_is_neither_target_nor_peer() {
    for phase in ["Succeeded", "Failed"] {
        let mut cluster = friends_of_a()
            .with(pod("a/friend", "10.0.1.3", json!({})))
            .with(pod("a/z", "10.0.1.4", json!({})));
        cluster.allows(&["a/friend -> a/x:80/TCP"]);
        cluster.denies(&["b/x -> a/z:80/TCP"]);
        cluster.set(pod("a/friend", "10.0.1.3", in_phase(phase)));
        cluster.set(pod("a/z", "10.0.1.4", in_phase(phase)));
        cluster.denies(&["10.0.1.3 -> a/x:80/TCP"]);
        cluster.allows(&["b/x -> 10.0.1.4:80/TCP"]);
        assert_eq!(cluster.evaluate("a/friend -> a/x:80/TCP"), None);
    }
}

#[test]
fn a_terminating_pod_is_still_target_and_peer() {
    let mut cluster = friends_of_a()
        .with(pod("a/friend", "10.0.1.3", terminating()))
        .with(pod("a/z", "10.0.1.4", terminating()));
    cluster.allows(&["a/friend -> a/x:80/TCP"]);
    cluster.denies(&["b/x -> a/z:80/TCP"]);
}

#[test]
fn a_host_network_pod_is_not_selected_as_a_target() {
    let mut cluster = friends_of_a()
        .with(egress("a/out", json!([])))
        .with(host_pod(
            "a/agent",
            "192.168.0.2",
            json!({"spec": {"nodeName": "node-2"}}),
        ));
    cluster.allows(&["b/x -> a/agent:80/TCP", "b/x -> 192.168.0.2:80/TCP"]);
    cluster.allows(&["a/agent -> b/x:80/TCP"]);
}

#[test]
fn a_host_network_pod_is_matched_by_address_and_not_by_selectors() {
    let on_node_2 = json!({"spec": {"nodeName": "node-2"}});
    let mut cluster = friends_of_a().with(host_pod("a/friend", "192.168.0.2", on_node_2.clone()));
    cluster.denies(&["a/friend -> a/x:80/TCP"]);
    cluster.allows(&["a/friend -> a/y:80/TCP"]);
    let block = json!([{"from": [{"ipBlock": {"cidr": "192.168.0.2/32"}}]}]);
    cluster.set(ingress("a/p", block));
    cluster.allows(&["a/friend -> a/x:80/TCP"]);
}

#[test]
fn named_ports_of_host_network_pods_are_not_resolved() {
    let rules = json!([{"ports": [{"port": "web"}]}]);
    let on_node_2 = json!({"spec": {"nodeName": "node-2"}});
    let mut cluster =
        two_by_two()
            .with(egress("a/p", rules))
            .with(host_pod("b/agent", "192.168.0.2", on_node_2));
    cluster.denies(&["a/x -> b/agent:8080/TCP"]);
    cluster.allows(&["a/x -> b/x:8080/TCP"]);
}

#[test]
fn a_relabelled_pod_is_selected_by_its_new_labels_only() {
    let spec = json!({"podSelector": app("closed"), "ingress": [{"from": [{"podSelector": app("friend")}]}]});
    let labelled = |name: &str, address: &str, label: &str| {
        pod(
            name,
            address,
            json!({"metadata": {"labels": {"app": label}}}),
        )
    };
    let mut cluster = ClusterHarness::empty()
        .with(policy("a/p", spec))
        .with(labelled("a/one", "10.0.1.1", "closed"))
        .with(labelled("a/two", "10.0.1.2", "friend"))
        .with(labelled("a/three", "10.0.1.3", "other"));
    cluster.allows(&["a/two -> a/one:80/TCP", "a/three -> a/two:80/TCP"]);
    cluster.denies(&["a/three -> a/one:80/TCP"]);
    cluster.set(labelled("a/two", "10.0.1.2", "closed"));
    cluster.set(labelled("a/three", "10.0.1.3", "friend"));
    cluster.allows(&["a/three -> a/one:80/TCP", "a/three -> a/two:80/TCP"]);
    cluster.denies(&["a/two -> a/one:80/TCP"]);
    cluster.set(labelled("a/one", "10.0.1.1", "open"));
    cluster.allows(&["a/two -> a/one:80/TCP"]);
}

#[test]
fn a_recreated_pod_replaces_the_old_one() {
    let mut cluster = friends_of_a().with(pod("a/friend", "10.0.1.3", json!({})));
    cluster.allows(&["10.0.1.3 -> a/x:80/TCP"]);
    let again =
        json!({"metadata": {"uid": "another", "creationTimestamp": "2026-01-03T00:00:00Z"}});
    cluster.set(pod("a/friend", "10.0.1.4", again));
    cluster.allows(&["10.0.1.4 -> a/x:80/TCP"]);
    cluster.denies(&["10.0.1.3 -> a/x:80/TCP"]);
    cluster.remove_pod("a/friend");
    cluster.denies(&["10.0.1.4 -> a/x:80/TCP"]);
}

#[test]
fn an_address_belongs_to_the_most_recently_created_pod() {
    let early = made("2026-01-01T00:00:00Z");
    let late = made("2026-01-02T00:00:00Z");
    let with = |friend: &Value, stranger: &Value| {
        friends_of_a()
            .with(pod("a/friend", "10.0.1.3", friend.clone()))
            .with(pod("a/stranger", "10.0.1.3", stranger.clone()))
    };
    with(&early, &late).denies(&["10.0.1.3 -> a/x:80/TCP"]);
    with(&late, &early).allows(&["10.0.1.3 -> a/x:80/TCP"]);
    let mut leaving = late.clone();
    lay_over(&mut leaving, terminating());
    with(&early, &leaving).allows(&["10.0.1.3 -> a/x:80/TCP"]);
    with(&leaving, &early).denies(&["10.0.1.3 -> a/x:80/TCP"]);
    let uid = |uid: &str| json!({"metadata": {"uid": uid}});
    with(&uid("1"), &uid("2")).denies(&["10.0.1.3 -> a/x:80/TCP"]);
    with(&uid("2"), &uid("1")).allows(&["10.0.1.3 -> a/x:80/TCP"]);
    let mut finished = late;
    lay_over(&mut finished, in_phase("Succeeded"));
    with(&early, &finished).allows(&["10.0.1.3 -> a/x:80/TCP"]);
}

#[test]
fn the_owner_of_an_address_does_not_depend_on_event_order() {
    // Objects from files have neither a uid nor a creation timestamp.
    let bare = json!({"metadata": {"uid": null, "creationTimestamp": null}});
    let friend = || pod("a/friend", "10.0.1.3", bare.clone());
    let stranger = || pod("a/stranger", "10.0.1.3", bare.clone());
    let connection = "10.0.1.3 -> a/x:80/TCP";
    let first = friends_of_a().with(friend()).with(stranger());
    let second = friends_of_a().with(stranger()).with(friend());
    assert_eq!(first.evaluate(connection), second.evaluate(connection));
}

#[test]
fn an_address_reverts_to_its_earlier_owner_when_the_later_one_is_deleted() {
    let mut cluster = friends_of_a()
        .with(pod("a/friend", "10.0.1.3", made("2026-01-01T00:00:00Z")))
        .with(pod("b/stranger", "10.0.1.3", made("2026-01-02T00:00:00Z")));
    cluster.denies(&["10.0.1.3 -> a/x:80/TCP"]);
    cluster.allows(&["b/x -> 10.0.1.3:80/TCP"]);
    assert_eq!(
        cluster.evaluate("a/friend -> a/x:80/TCP"),
        None,
        "it has no address of its own"
    );
    cluster.remove_pod("b/stranger");
    cluster.allows(&["a/friend -> a/x:80/TCP"]);
    cluster.denies(&["b/x -> 10.0.1.3:80/TCP"]);
}

#[test]
fn address_ownership_is_separate_per_ip_family() {
    let mut cluster = friends_of_a()
        .with(pod(
            "a/friend",
            "10.0.1.3 fd00:0:0:1::3",
            made("2026-01-01T00:00:00Z"),
        ))
        .with(pod("b/stranger", "10.0.1.3", made("2026-01-02T00:00:00Z")));
    cluster.denies(&["10.0.1.3 -> 10.0.1.1:80/TCP"]);
    cluster.allows(&["a/friend -> a/x:80/TCP"]);
    let verdict = cluster
        .evaluate("a/friend -> a/x:80/TCP")
        .expect("verdict exists");
    assert_eq!(verdict.pairs.len(), 1, "only IPv6 is left: {verdict:?}");
}

#[test]
fn a_pod_address_is_not_treated_as_a_node_address() {
    let at = json!({"spec": {"nodeName": "node-1"}, "status": {"hostIP": "10.0.1.9"}});
    let mut cluster = ClusterHarness::empty()
        .with(pod("a/x", "10.0.1.1", at))
        .with(ingress("a/p", json!([])));
    cluster.allows(&["10.0.1.9 -> a/x:80/TCP"]);
    cluster.set(pod("b/thief", "10.0.1.9", json!({})));
    cluster.denies(&["10.0.1.9 -> a/x:80/TCP"]);
    cluster.remove_pod("b/thief");
    cluster.allows(&["10.0.1.9 -> a/x:80/TCP"]);
}
