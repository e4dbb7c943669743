//! Explanations of verdicts: the rules and policies that allow or deny a connection.

use rhumb_netpol::verdict::{AllowingRule, DirectionVerdict};
use serde_json::{Value, json};

use crate::cluster::{ClusterHarness, name, two_by_two};
use crate::objects::{app, egress, host_pod, ingress, policy};

fn grant(policy: &str, rule: &str, peer: Option<&str>, port: Option<&str>) -> AllowingRule {
    AllowingRule {
        policy: name(policy),
        rule: rule.to_owned(),
        peer: peer.map(str::to_owned),
        port: port.map(str::to_owned),
    }
}

#[track_caller]
fn denials(verdict: &DirectionVerdict) -> Vec<(String, Vec<String>)> {
    let DirectionVerdict::Denied { policies } = verdict else {
        panic!("not denied: {verdict:?}");
    };
    let denials = policies.iter();
    denials
        .map(|denial| (denial.policy.to_string(), denial.rules.clone()))
        .collect()
}

/// Why the only rule of the only policy of `a` does not match an incoming connection.
#[track_caller]
fn why_not(rule: Value, connection: &str) -> String {
    let cluster = two_by_two().with(ingress("a/p", json!([rule])));
    let denials = denials(&cluster.direction_verdicts(connection).1);
    let [(_, rules)] = &denials[..] else {
        panic!("expected one policy: {denials:?}");
    };
    let [rule] = &rules[..] else {
        panic!("expected one rule: {rules:?}");
    };
    let (at, why) = rule.split_once(": ").expect("field path: reason");
    assert_eq!(at, "spec.ingress[0]");
    assert!(!why.is_empty());
    why.to_owned()
}

#[test]
fn each_endpoint_reports_why_it_allows() {
    let on_node_2 = json!({"spec": {"nodeName": "node-2"}});
    let cluster = two_by_two()
        .with(ingress("a/in", json!([{}])))
        .with(host_pod("b/agent", "192.168.0.2", on_node_2));
    let allowed = || DirectionVerdict::Allowed {
        grants: vec![grant("a/in", "spec.ingress[0]", None, None)],
    };
    let table = [
        (
            "a/x -> b/x:80/TCP",
            DirectionVerdict::NotIsolated,
            DirectionVerdict::NotIsolated,
        ),
        (
            "b/x -> a/x:80/TCP",
            DirectionVerdict::NotIsolated,
            allowed(),
        ),
        (
            "203.0.113.1 -> a/x:80/TCP",
            DirectionVerdict::NoPod,
            allowed(),
        ),
        (
            "a/x -> 203.0.113.1:80/TCP",
            DirectionVerdict::NotIsolated,
            DirectionVerdict::NoPod,
        ),
        (
            "a/x -> a/x:80/TCP",
            DirectionVerdict::Itself,
            DirectionVerdict::Itself,
        ),
        (
            "192.168.0.1 -> a/x:80/TCP",
            DirectionVerdict::NoPod,
            DirectionVerdict::OwnNode,
        ),
        (
            "a/x -> 192.168.0.1:80/TCP",
            DirectionVerdict::OwnNode,
            DirectionVerdict::NoPod,
        ),
        (
            "b/agent -> a/y:80/TCP",
            DirectionVerdict::NoPod,
            DirectionVerdict::OwnNode,
        ),
        ("b/agent -> a/x:80/TCP", DirectionVerdict::NoPod, allowed()),
        (
            "203.0.113.1 -> 203.0.113.1:80/TCP",
            DirectionVerdict::NoPod,
            DirectionVerdict::NoPod,
        ),
        (
            "192.168.0.1 -> 192.168.0.1:80/TCP",
            DirectionVerdict::NoPod,
            DirectionVerdict::NoPod,
        ),
    ];
    for (connection, from, to) in table {
        assert_eq!(
            cluster.direction_verdicts(connection),
            (from, to),
            "{connection}"
        );
    }
}

#[test]
fn a_denied_connection_names_the_policies_and_no_grants() {
    let cluster = two_by_two()
        .with(ingress(
            "a/q",
            json!([{"ports": [{"port": 1}]}, {"ports": [{"port": 2}]}]),
        ))
        .with(ingress("a/p", json!([])));
    let (from, to) = cluster.direction_verdicts("b/x -> a/x:80/TCP");
    assert_eq!(from, DirectionVerdict::NotIsolated);
    let denials = denials(&to);
    let names: Vec<_> = denials.iter().map(|(policy, _)| policy.as_str()).collect();
    assert_eq!(names, ["a/p", "a/q"]);
    assert_eq!(denials[0].1, [""; 0]);
    let field_paths: Vec<_> = denials[1]
        .1
        .iter()
        .map(|rule| rule.split(": ").next())
        .collect();
    assert_eq!(
        field_paths,
        [Some("spec.ingress[0]"), Some("spec.ingress[1]")]
    );
}

#[test]
fn all_policies_selecting_an_endpoint_are_listed_in_order() {
    let mut cluster = two_by_two();
    for name in ["a/r", "a/p", "b/o", "a/q"] {
        cluster.set(ingress(name, json!([{"ports": [{"port": 80}]}])));
        cluster.set(egress(&format!("{name}-out"), json!([])));
    }
    let spec = json!({"podSelector": app("y"), "policyTypes": ["Ingress", "Egress"]});
    cluster.set(policy("a/other", spec));
    let (from, to) = cluster.direction_verdicts("b/x -> a/x:80/TCP");
    let named: Vec<_> = denials(&from)
        .into_iter()
        .map(|(policy, _)| policy)
        .collect();
    assert_eq!(named, ["b/o-out"]);
    let grants =
        ["a/p", "a/q", "a/r"].map(|name| grant(name, "spec.ingress[0]", None, Some("ports[0]")));
    assert_eq!(
        to,
        DirectionVerdict::Allowed {
            grants: grants.into()
        }
    );
    let (_, to) = cluster.direction_verdicts("b/x -> a/x:81/TCP");
    let named: Vec<_> = denials(&to).into_iter().map(|(policy, _)| policy).collect();
    assert_eq!(named, ["a/p", "a/q", "a/r"]);
}

#[test]
fn each_grant_names_its_first_matching_peer_and_port() {
    let rules = json!([
        {"from": [{"podSelector": app("nobody")}], "ports": [{"port": 80}]},
        {
            "from": [{"podSelector": app("nobody")}, {"podSelector": app("y")}, {"podSelector": {}}],
            "ports": [{"port": 79}, {}, {"port": 80}],
        },
        {"ports": [{"port": 80, "protocol": "UDP"}, {"port": 80}]},
        {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.1.0/24"]}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}]},
        {},
    ]);
    let cluster = two_by_two().with(ingress("a/p", rules));
    let grants = vec![
        grant("a/p", "spec.ingress[1]", Some("from[1]"), Some("ports[1]")),
        grant("a/p", "spec.ingress[2]", None, Some("ports[1]")),
        grant("a/p", "spec.ingress[3]", Some("from[1]"), None),
        grant("a/p", "spec.ingress[4]", None, None),
    ];
    assert_eq!(
        cluster.direction_verdicts("a/y -> a/x:80/TCP").1,
        DirectionVerdict::Allowed { grants }
    );
    let cluster = two_by_two().with(egress("a/p", json!([{"to": [{"podSelector": app("y")}]}])));
    let grants = vec![grant("a/p", "spec.egress[0]", Some("to[0]"), None)];
    assert_eq!(
        cluster.direction_verdicts("a/x -> a/y:80/TCP").0,
        DirectionVerdict::Allowed { grants }
    );
}

#[test]
fn the_reason_why_a_peer_does_not_match_is_reported() {
    let from = |peer: Value| json!({"from": [peer]});
    let table = [
        (from(json!({"podSelector": app("y")})), "b/x -> a/x:80/TCP"),
        (
            from(json!({"namespaceSelector": app("y")})),
            "203.0.113.1 -> a/x:80/TCP",
        ),
        (
            from(json!({"ipBlock": {"cidr": "10.0.0.0/8"}})),
            "203.0.113.1 -> a/x:80/TCP",
        ),
        (from(json!({})), "b/x -> a/x:80/TCP"),
    ];
    for (rule, connection) in table {
        let why = why_not(rule.clone(), connection);
        assert!(
            why.contains("peer") || why.contains("from"),
            "{rule}: {why}"
        );
    }
}

#[test]
fn the_reason_why_a_port_does_not_match_is_reported() {
    let table = [
        json!({"port": 81}),
        json!({"protocol": "UDP"}),
        json!({"port": "none"}),
        json!({"port": 0}),
    ];
    for port in table {
        let why = why_not(json!({"ports": [port]}), "b/x -> a/x:80/TCP");
        assert!(why.contains("port"), "{port}: {why}");
    }
}

#[test]
fn verdicts_serialize_as_words() {
    let cluster: ClusterHarness =
        two_by_two().with(ingress("a/p", json!([{"ports": [{"port": 80}]}])));
    let text = |connection: &str| {
        let verdict = cluster.evaluate(connection).expect("verdict exists");
        serde_json::to_value(&verdict.pairs[0]).expect("serializable")
    };
    let allowed = text("203.0.113.1 -> a/x:80/TCP");
    let policy = json!({"namespace": "a", "name": "p"});
    let grants =
        json!([{"policy": policy, "rule": "spec.ingress[0]", "peer": null, "port": "ports[0]"}]);
    assert_eq!(
        allowed,
        json!({
            "from": "203.0.113.1", "to": "10.0.1.1",
            "egress": {"because": "noPod"}, "ingress": {"because": "allowed", "grants": grants},
        })
    );
    assert_eq!(text("b/x -> a/x:81/TCP")["ingress"]["because"], "denied");
    assert_eq!(
        text("b/x -> a/x:81/TCP")["egress"]["because"],
        "notIsolated"
    );
    assert_eq!(text("a/x -> a/x:81/TCP")["egress"]["because"], "itself");
    assert_eq!(
        text("a/x -> 192.168.0.1:81/TCP")["egress"]["because"],
        "ownNode"
    );
}
