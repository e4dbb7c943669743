//! Policies that need more than is known, and what follows from the features that they use.

use std::collections::BTreeSet;

use rhumb_netpol::Knowledge;
use serde_json::{Value, json};

use crate::cluster::{Cluster, all_versions, name, two_by_two};
use crate::objects::{app, ingress, pod, policy};

/// What each feature needs.
fn features() -> Vec<(Value, &'static str)> {
    let block = |cidr: &str| json!({"ingress": [{"from": [{"ipBlock": {"cidr": cidr}}]}]});
    let except = json!({"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}]});
    let peer = |peer: Value| json!({"ingress": [{"from": [peer]}]});
    let port = |port: Value| json!({"ingress": [{"ports": [port]}]});
    vec![
        (json!({}), "1.3"),
        (json!({"ingress": [{}]}), "1.3"),
        (json!({"policyTypes": ["Ingress"]}), "1.3"),
        (json!({"policyTypes": ["Ingress"], "egress": []}), "1.3"),
        (peer(json!({"podSelector": {}})), "1.3"),
        (peer(json!({"namespaceSelector": {}})), "1.3"),
        (port(json!({"port": 53, "protocol": "UDP"})), "1.3"),
        (port(json!({"port": "web"})), "1.3"),
        (json!({"policyTypes": ["Egress"]}), "1.8"),
        (json!({"policyTypes": ["Ingress", "Egress"]}), "1.8"),
        (json!({"egress": [{}]}), "1.8"),
        (block("10.0.0.0/8"), "1.8"),
        (except, "1.8"),
        (block("fd00::/8"), "1.9"),
        (
            peer(json!({"podSelector": {}, "namespaceSelector": {}})),
            "1.11",
        ),
        (port(json!({"protocol": "SCTP"})), "1.12"),
        (port(json!({"port": 80, "endPort": 90})), "1.21"),
        (
            json!({"egress": [{"to": [{"ipBlock": {"cidr": "fd00::/8"}}], "ports": [{"protocol": "SCTP"}]}]}),
            "1.12",
        ),
    ]
}

fn without(version: &str) -> Knowledge {
    let mut knowledge = all_versions();
    assert!(knowledge.versions.remove(version), "{version}");
    knowledge
}

fn cluster_of(knowledge: Knowledge) -> Cluster {
    Cluster::knowing(knowledge)
        .with(pod("a/x", "10.0.1.1", json!({})))
        .with(pod("b/x", "10.0.2.1", json!({})))
}

#[test]
fn the_version_of_a_policy_follows_from_the_features_it_uses() {
    for (spec, version) in features() {
        let cluster = two_by_two().with(policy("a/p", spec.clone()));
        let summary = cluster.all.summary(&name("a/p")).expect("a policy");
        assert_eq!(summary.min_version, version, "{spec}");
    }
}

#[test]
fn the_version_of_a_policy_is_what_it_says() {
    let spec = json!({"minVersion": "1.37-alpha.1", "ingress": [{}]});
    let cluster = two_by_two().with(policy("a/p", spec));
    let summary = cluster.all.summary(&name("a/p")).expect("a policy");
    assert_eq!(summary.min_version, "1.37-alpha.1");
}

#[test]
fn a_policy_that_needs_more_than_is_known_is_ignored_as_a_whole() {
    let spec = |version: &str| json!({"minVersion": version, "policyTypes": ["Ingress", "Egress"]});
    let questions = ["b/x -> a/x:80/TCP", "a/x -> b/x:80/TCP"];
    for version in ["1.37", "1.37-alpha.1", "2.0"] {
        let mut cluster = cluster_of(all_versions()).with(policy("a/p", spec(version)));
        cluster.allows(&questions);
    }
    let mut cluster = cluster_of(without("1.12")).with(policy("a/p", spec("1.12")));
    cluster.allows(&questions);
    cluster.set(policy("a/p", spec("1.21")));
    cluster.denies(&questions);
    cluster.set(policy("a/p", spec("1.12")));
    cluster.allows(&questions);
    assert_eq!(cluster.nodes["node-1"].applied().count(), 0);
}

#[test]
fn other_policies_about_the_same_pods_still_count() {
    let unknown = json!({"minVersion": "1.37", "ingress": [{}]});
    let mut cluster = cluster_of(all_versions())
        .with(policy("a/unknown", unknown))
        .with(ingress("a/p", json!([{"ports": [{"port": 80}]}])));
    cluster.allows(&["b/x -> a/x:80/TCP"]);
    cluster.denies(&["b/x -> a/x:81/TCP"]);
}

#[test]
fn a_policy_that_says_no_version_needs_what_its_features_do() {
    for (mut spec, version) in features() {
        spec["policyTypes"] = match version {
            "1.8" => json!(["Ingress", "Egress"]),
            _ => spec["policyTypes"].clone(),
        };
        let mut cluster = cluster_of(without(version)).with(policy("a/p", spec.clone()));
        cluster.allows(&["b/x -> a/x:8080/UDP", "203.0.113.1 -> a/x:7/TCP"]);
        let program = cluster.program("node-1");
        assert!(program.chains.is_empty(), "{spec}");
    }
}

#[test]
fn sctp_that_cannot_be_told_apart_allows_nothing_and_isolates() {
    let knowledge = Knowledge {
        sctp: false,
        ..all_versions()
    };
    let ports = json!([{"protocol": "SCTP"}, {"protocol": "SCTP", "port": 80}, {"protocol": "UDP", "port": 53}]);
    let rules = json!([{"ports": ports}]);
    let mut cluster = cluster_of(knowledge.clone()).with(ingress("a/p", rules));
    cluster.allows(&["b/x -> a/x:53/UDP"]);
    cluster.denies(&[
        "b/x -> a/x:80/SCTP",
        "b/x -> a/x:53/SCTP",
        "b/x -> a/x:80/TCP",
    ]);
    // What is about all protocols is about that one too.
    let mut cluster = cluster_of(knowledge).with(ingress(
        "a/p",
        json!([{"from": [{"namespaceSelector": {}, "podSelector": app("x")}]}]),
    ));
    cluster.allows(&["b/x -> a/x:80/SCTP"]);
}

#[test]
fn who_knows_nothing_ignores_everything() {
    let knowledge = Knowledge {
        versions: BTreeSet::new(),
        sctp: true,
    };
    let mut cluster = cluster_of(knowledge).with(policy("a/p", json!({})));
    cluster.allows(&["b/x -> a/x:80/TCP"]);
}
