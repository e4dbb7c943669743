//! Why a connection is allowed or denied.

use rhumb_netpol::judge::{Grant, Opinion};
use serde_json::{Value, json};

use crate::cluster::{Cluster, name, two_by_two};
use crate::objects::{app, egress, host_pod, ingress, policy};

fn grant(policy: &str, rule: &str, peer: Option<&str>, port: Option<&str>) -> Grant {
    Grant {
        policy: name(policy),
        rule: rule.to_owned(),
        peer: peer.map(str::to_owned),
        port: port.map(str::to_owned),
    }
}

#[track_caller]
fn refusals(opinion: &Opinion) -> Vec<(String, Vec<String>)> {
    let Opinion::Denied { policies } = opinion else {
        panic!("it is not denied: {opinion:?}");
    };
    let refusals = policies.iter();
    refusals
        .map(|refusal| (refusal.policy.to_string(), refusal.rules.clone()))
        .collect()
}

/// What the only rule of the only policy of `a` says of a connection that comes in.
#[track_caller]
fn why_not(rule: Value, question: &str) -> String {
    let cluster = two_by_two().with(ingress("a/p", json!([rule])));
    let refusals = refusals(&cluster.opinions(question).1);
    let [(_, rules)] = &refusals[..] else {
        panic!("one policy: {refusals:?}");
    };
    let [rule] = &rules[..] else {
        panic!("one rule: {rules:?}");
    };
    let (at, why) = rule.split_once(": ").expect("where: why");
    assert_eq!(at, "spec.ingress[0]");
    assert!(!why.is_empty());
    why.to_owned()
}

#[test]
fn each_end_says_why_it_does_not_object() {
    let on_node_2 = json!({"spec": {"nodeName": "node-2"}});
    let cluster = two_by_two()
        .with(ingress("a/in", json!([{}])))
        .with(host_pod("b/agent", "192.168.0.2", on_node_2));
    let allowed = || Opinion::Allowed {
        grants: vec![grant("a/in", "spec.ingress[0]", None, None)],
    };
    let table = [
        (
            "a/x -> b/x:80/TCP",
            Opinion::NotIsolated,
            Opinion::NotIsolated,
        ),
        ("b/x -> a/x:80/TCP", Opinion::NotIsolated, allowed()),
        ("203.0.113.1 -> a/x:80/TCP", Opinion::NoPod, allowed()),
        (
            "a/x -> 203.0.113.1:80/TCP",
            Opinion::NotIsolated,
            Opinion::NoPod,
        ),
        ("a/x -> a/x:80/TCP", Opinion::Itself, Opinion::Itself),
        (
            "192.168.0.1 -> a/x:80/TCP",
            Opinion::NoPod,
            Opinion::OwnNode,
        ),
        (
            "a/x -> 192.168.0.1:80/TCP",
            Opinion::OwnNode,
            Opinion::NoPod,
        ),
        ("b/agent -> a/y:80/TCP", Opinion::NoPod, Opinion::OwnNode),
        ("b/agent -> a/x:80/TCP", Opinion::NoPod, allowed()),
        (
            "203.0.113.1 -> 203.0.113.1:80/TCP",
            Opinion::NoPod,
            Opinion::NoPod,
        ),
        (
            "192.168.0.1 -> 192.168.0.1:80/TCP",
            Opinion::NoPod,
            Opinion::NoPod,
        ),
    ];
    for (question, from, to) in table {
        assert_eq!(cluster.opinions(question), (from, to), "{question}");
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
    let (from, to) = cluster.opinions("b/x -> a/x:80/TCP");
    assert_eq!(from, Opinion::NotIsolated);
    let refusals = refusals(&to);
    let names: Vec<_> = refusals.iter().map(|(policy, _)| policy.as_str()).collect();
    assert_eq!(names, ["a/p", "a/q"]);
    assert_eq!(refusals[0].1, [""; 0]);
    let places: Vec<_> = refusals[1]
        .1
        .iter()
        .map(|rule| rule.split(": ").next())
        .collect();
    assert_eq!(places, [Some("spec.ingress[0]"), Some("spec.ingress[1]")]);
}

#[test]
fn all_policies_about_an_end_are_named_in_order() {
    let mut cluster = two_by_two();
    for name in ["a/r", "a/p", "b/o", "a/q"] {
        cluster.set(ingress(name, json!([{"ports": [{"port": 80}]}])));
        cluster.set(egress(&format!("{name}-out"), json!([])));
    }
    let spec = json!({"podSelector": app("y"), "policyTypes": ["Ingress", "Egress"]});
    cluster.set(policy("a/other", spec));
    let (from, to) = cluster.opinions("b/x -> a/x:80/TCP");
    let named: Vec<_> = refusals(&from)
        .into_iter()
        .map(|(policy, _)| policy)
        .collect();
    assert_eq!(named, ["b/o-out"]);
    let grants =
        ["a/p", "a/q", "a/r"].map(|name| grant(name, "spec.ingress[0]", None, Some("ports[0]")));
    assert_eq!(
        to,
        Opinion::Allowed {
            grants: grants.into()
        }
    );
    let (_, to) = cluster.opinions("b/x -> a/x:81/TCP");
    let named: Vec<_> = refusals(&to)
        .into_iter()
        .map(|(policy, _)| policy)
        .collect();
    assert_eq!(named, ["a/p", "a/q", "a/r"]);
}

#[test]
fn each_rule_that_allows_it_is_named_by_its_first_peer_and_port_that_do() {
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
        cluster.opinions("a/y -> a/x:80/TCP").1,
        Opinion::Allowed { grants }
    );
    let cluster = two_by_two().with(egress("a/p", json!([{"to": [{"podSelector": app("y")}]}])));
    let grants = vec![grant("a/p", "spec.egress[0]", Some("to[0]"), None)];
    assert_eq!(
        cluster.opinions("a/x -> a/y:80/TCP").0,
        Opinion::Allowed { grants }
    );
}

#[test]
fn why_a_peer_is_not_meant_is_said() {
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
    for (rule, question) in table {
        let why = why_not(rule.clone(), question);
        assert!(
            why.contains("peer") || why.contains("from"),
            "{rule}: {why}"
        );
    }
}

#[test]
fn why_a_port_is_not_meant_is_said() {
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
fn opinions_are_words_in_json() {
    let cluster: Cluster = two_by_two().with(ingress("a/p", json!([{"ports": [{"port": 80}]}])));
    let text = |question: &str| {
        let verdict = cluster.ask(question).expect("a verdict");
        serde_json::to_value(&verdict.pairs[0]).expect("JSON")
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
