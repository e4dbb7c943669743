//! Policy summaries, lint warnings and change tracking.

use rhumb_netpol::lint::{self, LintWarning};
use rhumb_netpol::policy_summary::PolicySummary;
use serde_json::{Value, json};

use crate::cluster::{ClusterHarness, name, two_by_two};
use crate::objects::{app, egress, expression, host_pod, ingress, namespace, pod, policy};

#[track_caller]
fn summary(cluster: &ClusterHarness) -> PolicySummary {
    cluster
        .cluster_engine
        .summary(&name("a/p"))
        .expect("policy exists")
}

/// Checks the lint warnings of a spec: reasons, and the fields that the messages contain.
#[track_caller]
fn check_lint_warnings(spec: &Value, want: &[(&str, &str)]) {
    let found = lint::lint_policy(&serde_json::from_value(spec.clone()).expect("valid spec"));
    let reasons: Vec<_> = found.iter().map(|warning| warning.reason).collect();
    let wanted: Vec<_> = want.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(reasons, wanted, "{spec}: {found:#?}");
    for (LintWarning { message, .. }, (_, part)) in found.iter().zip(want) {
        assert!(message.contains(part), "{message} does not name {part}");
    }
}

#[test]
fn targets_are_counted_by_node() {
    let on = |node: &str| json!({"spec": {"nodeName": node}});
    let mut cluster = two_by_two()
        .with(pod("a/z", "10.0.1.3", on("node-2")))
        .with(pod("a/waiting", "", json!({"spec": {"nodeName": null}})))
        .with(pod(
            "a/done",
            "10.0.1.4",
            json!({"status": {"phase": "Failed"}}),
        ))
        .with(host_pod("a/agent", "192.168.0.1", json!({})))
        .with(ingress("a/p", json!([])));
    let of = |cluster: &ClusterHarness| {
        let summary = summary(cluster);
        let nodes: Vec<_> = summary.pods_per_node.into_iter().collect();
        (nodes, summary.unscheduled_pods)
    };
    let counts = |first, second| {
        vec![
            (String::from("node-1"), first),
            (String::from("node-2"), second),
        ]
    };
    assert_eq!(of(&cluster), (counts(1, 2), 1));
    cluster.set(pod("a/waiting", "", on("node-1")));
    assert_eq!(of(&cluster), (counts(2, 2), 0));
    let spec = json!({"podSelector": app("nobody")});
    cluster.set(policy("a/p", spec));
    assert_eq!(of(&cluster), (Vec::new(), 0));
    let summary = summary(&cluster);
    assert!(summary.pods_per_node.is_empty() && summary.unscheduled_pods == 0);
}

#[test]
fn a_summary_follows_policy_updates() {
    let mut cluster = two_by_two().with(ingress("a/p", json!([])));
    assert_eq!(summary(&cluster).uid, "uid of a/p");
    assert_eq!(summary(&cluster).generation, 1);
    let mut changed = ingress("a/p", json!([]));
    changed["metadata"]["generation"] = json!(7);
    changed["metadata"]["uid"] = json!("another");
    cluster.set(changed);
    assert_eq!(summary(&cluster).uid, "another");
    assert_eq!(summary(&cluster).generation, 7);
    cluster.remove_policy("a/p");
    assert_eq!(cluster.cluster_engine.summary(&name("a/p")), None);
}

#[test]
fn a_summary_says_whether_peers_match_anything() {
    let block = |cidr: &str, except: &[&str]| json!([{"from": [{"ipBlock": {"cidr": cidr, "except": except}}]}]);
    let table = [
        (json!([]), None),
        (json!([{}]), Some(true)),
        (json!([{"ports": [{"port": 80}]}]), Some(true)),
        (json!([{"from": []}]), Some(true)),
        (json!([{"from": [{"podSelector": app("y")}]}]), Some(true)),
        (
            json!([{"from": [{"podSelector": app("nobody")}]}]),
            Some(false),
        ),
        (
            json!([{"from": [{"podSelector": app("done")}]}]),
            Some(false),
        ),
        (
            json!([{"from": [{"podSelector": app("agent")}]}]),
            Some(false),
        ),
        (
            json!([{"from": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]}]),
            Some(true),
        ),
        (
            json!([{"from": [{"namespaceSelector": {"matchLabels": {"team": "green"}}}]}]),
            Some(false),
        ),
        (
            json!([{"from": [{"podSelector": app("nobody")}, {"podSelector": app("x")}]}]),
            Some(true),
        ),
        (
            json!([{"from": [{"podSelector": app("nobody")}]}, {"from": [{"podSelector": app("x")}]}]),
            Some(true),
        ),
        (json!([{"from": [{}]}]), Some(false)),
        (block("203.0.113.0/24", &[]), Some(true)),
        (
            block("203.0.113.0/24", &["203.0.113.0/25", "203.0.113.192/26"]),
            Some(true),
        ),
        (
            block("203.0.113.0/24", &["203.0.113.0/25", "203.0.113.128/25"]),
            Some(false),
        ),
        (block("none", &[]), Some(false)),
    ];
    for (rules, want) in table {
        let cluster = two_by_two()
            .with(pod(
                "a/done",
                "10.0.1.4",
                json!({"status": {"phase": "Failed"}}),
            ))
            .with(host_pod("a/agent", "192.168.0.1", json!({})))
            .with(ingress("a/p", rules.clone()));
        assert_eq!(summary(&cluster).has_matching_peers, want, "{rules}");
    }
    let ignored = json!({"policyTypes": ["Egress"], "ingress": [{}]});
    let cluster = two_by_two().with(policy("a/p", ignored));
    assert_eq!(summary(&cluster).has_matching_peers, None);
    let cluster = two_by_two().with(egress("a/p", json!([{"to": [{"podSelector": app("y")}]}])));
    assert_eq!(summary(&cluster).has_matching_peers, Some(true));
}

#[test]
fn pod_and_namespace_changes_mark_affected_policies_changed() {
    let rules = json!([{"from": [{"namespaceSelector": {"matchLabels": {"team": "green"}}}]}]);
    let mut cluster = two_by_two().with(ingress("a/p", rules));
    cluster.cluster_engine.take_changed_policies();
    cluster.set(namespace("b", json!({"team": "green"})));
    assert!(
        cluster
            .cluster_engine
            .take_changed_policies()
            .contains(&name("a/p"))
    );
    assert_eq!(summary(&cluster).has_matching_peers, Some(true));
    cluster.remove_pod("b/x");
    assert_eq!(summary(&cluster).has_matching_peers, Some(true));
    cluster.remove_pod("b/y");
    assert!(
        cluster
            .cluster_engine
            .take_changed_policies()
            .contains(&name("a/p"))
    );
    assert_eq!(summary(&cluster).has_matching_peers, Some(false));
    cluster.remove_pod("a/x");
    assert!(
        cluster
            .cluster_engine
            .take_changed_policies()
            .contains(&name("a/p"))
    );
    cluster.remove_policy("a/p");
    assert!(
        cluster
            .cluster_engine
            .take_changed_policies()
            .contains(&name("a/p"))
    );
    assert!(cluster.cluster_engine.take_changed_policies().is_empty());
}

#[test]
fn unrelated_changes_do_not_mark_a_policy_changed() {
    let spec = json!({"podSelector": app("x"), "ingress": [{"from": [{"podSelector": app("y")}]}]});
    let mut cluster = two_by_two().with(policy("a/p", spec));
    cluster.cluster_engine.take_changed_policies();
    cluster.set(pod("b/z", "10.0.2.3", json!({})));
    cluster.set(pod("a/z", "10.0.1.3", json!({})));
    cluster.set(namespace("b", json!({"team": "green"})));
    cluster.set(ingress("b/q", json!([])));
    let changed: Vec<_> = cluster
        .cluster_engine
        .take_changed_policies()
        .into_iter()
        .collect();
    assert_eq!(changed, [name("b/q")]);
}

#[test]
fn changes_of_former_peers_do_not_mark_a_policy_changed() {
    let about_x = |rules: Value| policy("a/p", json!({"podSelector": app("x"), "ingress": rules}));
    let from_y = || json!([{"from": [{"podSelector": app("y")}]}]);
    let mut cluster = two_by_two()
        .with(about_x(from_y()))
        .with(ingress("a/q", from_y()));
    cluster.set(about_x(json!([])));
    cluster.cluster_engine.take_changed_policies();
    cluster.remove_pod("a/y");
    let changed: Vec<_> = cluster
        .cluster_engine
        .take_changed_policies()
        .into_iter()
        .collect();
    assert_eq!(changed, [name("a/q")]);
}

#[test]
fn pods_and_policies_can_be_listed() {
    let mut cluster = two_by_two().with(ingress("a/p", json!([])));
    cluster.remove_pod("b/y");
    let mut pods: Vec<_> = cluster
        .cluster_engine
        .pods()
        .map(ToString::to_string)
        .collect();
    pods.sort();
    assert_eq!(pods, ["a/x", "a/y", "b/x"]);
    let policies: Vec<_> = cluster
        .cluster_engine
        .policies()
        .map(ToString::to_string)
        .collect();
    assert_eq!(policies, ["a/p"]);
    let mut namespaces: Vec<_> = cluster.cluster_engine.namespaces().collect();
    namespaces.sort_unstable();
    assert_eq!(namespaces, ["a", "b"]);
    cluster.remove_namespace("a");
    assert_eq!(
        cluster.cluster_engine.namespaces().collect::<Vec<_>>(),
        ["b"]
    );
}

#[test]
fn an_ambiguous_cidr_is_a_lint_warning_with_its_interpretation() {
    let spec = json!({
        "ingress": [{"from": [
            {"podSelector": {}},
            {"ipBlock": {"cidr": "192.168.1.5/24", "except": ["192.168.1.9/28"]}},
        ]}],
        "egress": [{"to": [{"ipBlock": {"cidr": "2001:db8::5/64"}}]}],
    });
    check_lint_warnings(
        &spec,
        &[
            ("AmbiguousCIDR", "192.168.1.0/24"),
            ("AmbiguousCIDR", "192.168.1.0/28"),
            ("AmbiguousCIDR", "2001:db8::/64"),
        ],
    );
    let clear = json!({"ingress": [{"from": [{"ipBlock": {"cidr": "192.168.1.0/24", "except": ["192.168.1.8/29"]}}]}]});
    check_lint_warnings(&clear, &[]);
}

#[test]
fn an_unsatisfiable_selector_is_a_lint_warning() {
    let never = || {
        let mut selector = expression("app", "NotIn", &["x"]);
        selector["matchLabels"] = json!({"app": "x"});
        selector
    };
    check_lint_warnings(
        &json!({"podSelector": never()}),
        &[("SelectorNeverMatches", "spec.podSelector")],
    );
    let spec = json!({
        "podSelector": {},
        "ingress": [{"from": [{"podSelector": never()}, {"namespaceSelector": {}, "podSelector": app("x")}]}],
        "egress": [{"to": [{"podSelector": {}}, {"namespaceSelector": never()}]}],
    });
    check_lint_warnings(
        &spec,
        &[
            (
                "SelectorNeverMatches",
                "spec.ingress[0].from[0].podSelector",
            ),
            (
                "SelectorNeverMatches",
                "spec.egress[0].to[1].namespaceSelector",
            ),
        ],
    );
    check_lint_warnings(
        &json!({"podSelector": expression("app", "In", &["x", "y"])}),
        &[],
    );
}

#[test]
fn an_except_outside_its_block_is_a_lint_warning() {
    let block = json!({"cidr": "10.9.0.0/16", "except": ["10.9.1.0/24", "10.8.0.0/24"]});
    let spec = json!({"ingress": [{"from": [{"ipBlock": block}]}]});
    check_lint_warnings(&spec, &[("ExceptOutsideBlock", "10.8.0.0/24")]);
}

#[test]
fn a_summary_contains_lint_warnings() {
    let rules = json!([{"from": [{"ipBlock": {"cidr": "192.168.1.5/24"}}]}]);
    let cluster = two_by_two().with(ingress("a/p", rules));
    let reasons: Vec<_> = summary(&cluster)
        .lint_warnings
        .iter()
        .map(|warning| warning.reason)
        .collect();
    assert_eq!(reasons, ["AmbiguousCIDR"]);
}
