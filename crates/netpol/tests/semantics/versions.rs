//! Policies that require unsupported versions, and versions derived from the features in use.

use std::collections::BTreeSet;

use rhumb_netpol::PluginCapabilities;
use serde_json::{Value, json};

use crate::cluster::{ClusterHarness, all_versions, name, two_by_two};
use crate::objects::{app, ingress, pod, policy};

/// The version that each feature requires.
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

fn without(version: &str) -> PluginCapabilities {
    let mut capabilities = all_versions();
    assert!(capabilities.versions.remove(version), "{version}");
    capabilities
}

fn cluster_of(capabilities: PluginCapabilities) -> ClusterHarness {
    ClusterHarness::with_capabilities(capabilities)
        .with(pod("a/x", "10.0.1.1", json!({})))
        .with(pod("b/x", "10.0.2.1", json!({})))
}

#[test]
fn the_version_is_derived_from_the_features_used() {
    for (spec, version) in features() {
        let cluster = two_by_two().with(policy("a/p", spec.clone()));
        let summary = cluster
            .cluster_engine
            .summary(&name("a/p"))
            .expect("policy exists");
        assert_eq!(summary.min_version, version, "{spec}");
    }
}

#[test]
fn an_explicit_min_version_is_used() {
    let spec = json!({"minVersion": "1.37-alpha.1", "ingress": [{}]});
    let cluster = two_by_two().with(policy("a/p", spec));
    let summary = cluster
        .cluster_engine
        .summary(&name("a/p"))
        .expect("policy exists");
    assert_eq!(summary.min_version, "1.37-alpha.1");
}

#[test]
fn a_policy_of_an_unsupported_version_is_ignored_entirely() {
    let spec = |version: &str| json!({"minVersion": version, "policyTypes": ["Ingress", "Egress"]});
    let connections = ["b/x -> a/x:80/TCP", "a/x -> b/x:80/TCP"];
    for version in ["1.37", "1.37-alpha.1", "2.0"] {
        let mut cluster = cluster_of(all_versions()).with(policy("a/p", spec(version)));
        cluster.allows(&connections);
    }
    let mut cluster = cluster_of(without("1.12")).with(policy("a/p", spec("1.12")));
    cluster.allows(&connections);
    cluster.set(policy("a/p", spec("1.21")));
    cluster.denies(&connections);
    cluster.set(policy("a/p", spec("1.12")));
    cluster.allows(&connections);
    assert_eq!(cluster.node_engines["node-1"].applied_policies().count(), 0);
}

#[test]
fn other_policies_for_the_same_pods_still_apply() {
    let unknown = json!({"minVersion": "1.37", "ingress": [{}]});
    let mut cluster = cluster_of(all_versions())
        .with(policy("a/unknown", unknown))
        .with(ingress("a/p", json!([{"ports": [{"port": 80}]}])));
    cluster.allows(&["b/x -> a/x:80/TCP"]);
    cluster.denies(&["b/x -> a/x:81/TCP"]);
}

#[test]
fn a_policy_without_version_needs_the_version_of_its_features() {
    for (mut spec, version) in features() {
        spec["policyTypes"] = match version {
            "1.8" => json!(["Ingress", "Egress"]),
            _ => spec["policyTypes"].clone(),
        };
        let mut cluster = cluster_of(without(version)).with(policy("a/p", spec.clone()));
        cluster.allows(&["b/x -> a/x:8080/UDP", "203.0.113.1 -> a/x:7/TCP"]);
        let ruleset = cluster.ruleset("node-1");
        assert!(ruleset.chains.is_empty(), "{spec}");
    }
}

#[test]
fn unsupported_sctp_rules_allow_nothing_but_isolate() {
    let capabilities = PluginCapabilities {
        sctp: false,
        ..all_versions()
    };
    let ports = json!([{"protocol": "SCTP"}, {"protocol": "SCTP", "port": 80}, {"protocol": "UDP", "port": 53}]);
    let rules = json!([{"ports": ports}]);
    let mut cluster = cluster_of(capabilities.clone()).with(ingress("a/p", rules));
    cluster.allows(&["b/x -> a/x:53/UDP"]);
    cluster.denies(&[
        "b/x -> a/x:80/SCTP",
        "b/x -> a/x:53/SCTP",
        "b/x -> a/x:80/TCP",
    ]);
    // Rules for all protocols include SCTP.
    let mut cluster = cluster_of(capabilities).with(ingress(
        "a/p",
        json!([{"from": [{"namespaceSelector": {}, "podSelector": app("x")}]}]),
    ));
    cluster.allows(&["b/x -> a/x:80/SCTP"]);
}

#[test]
fn an_engine_without_supported_versions_ignores_all_policies() {
    let capabilities = PluginCapabilities {
        versions: BTreeSet::new(),
        sctp: true,
    };
    let mut cluster = cluster_of(capabilities).with(policy("a/p", json!({})));
    cluster.allows(&["b/x -> a/x:80/TCP"]);
}
