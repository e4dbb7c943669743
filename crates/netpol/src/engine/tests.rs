//! Deltas, sharing and cleanup of the engine's internal state.

mod pod_counts;
mod selecting_policies;

use serde_json::{Value, json};

use super::*;
use crate::ruleset::{self, PeerMatch, PortMatch};
use crate::{Direction, IpFamily};

fn engine_of_node() -> PolicyEngine {
    PolicyEngine::new(
        EngineScope::Node("here".to_owned()),
        PluginCapabilities::all(),
    )
}

fn pod(name: &str, node: &str, addresses: &[&str], labels: Value) -> Pod {
    let addresses: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    let pod = json!({
        "metadata": {"namespace": "shop", "name": name, "uid": name, "labels": labels},
        "spec": {
            "nodeName": node,
            "containers": [{"ports": [{"name": "http", "containerPort": 8080}]}],
        },
        "status": {"podIPs": addresses, "hostIP": "192.168.0.1"},
    });
    serde_json::from_value(pod).expect("valid pod")
}

fn policy(name: &str, spec: Value) -> NetworkPolicy {
    let metadata = json!({"namespace": "shop", "name": name, "uid": name, "generation": 1});
    let policy = json!({"metadata": metadata, "spec": spec});
    serde_json::from_value(policy).expect("valid policy")
}

fn namespace(name: &str, labels: Value) -> Namespace {
    let namespace = json!({"metadata": {"name": name, "labels": labels}});
    serde_json::from_value(namespace).expect("valid namespace")
}

fn shop(name: &str) -> NamespacedName {
    NamespacedName::new("shop", name)
}

/// A policy with all kinds of peers and ports.
fn rich_spec() -> Value {
    json!({
        "podSelector": {"matchLabels": {"app": "web"}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{
            "from": [
                {"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "db", "web"]}]}},
                {"namespaceSelector": {"matchLabels": {"team": "a"}}},
                {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}, "podSelector": {}},
            ],
            "ports": [{"port": "http"}, {"port": 80, "endPort": 90}, {"protocol": "UDP"}],
        }],
        "egress": [
            {"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}], "ports": [{"port": "http"}]},
            {"ports": [{"port": "http"}]},
            {"to": [{"namespaceSelector": {}}]},
        ],
    })
}

type EngineStep = Box<dyn Fn(&mut PolicyEngine)>;

/// Adds all objects and removes them again, in an order that depends on `transition`.
fn add_and_remove_everything(engine: &mut PolicyEngine, transition: usize) {
    let pods = [
        pod("a", "here", &["10.0.0.1", "fd00::1"], json!({"app": "web"})),
        pod("b", "there", &["10.0.0.2"], json!({"app": "db"})),
        pod("c", "here", &["10.0.0.1"], json!({"app": "db"})),
        pod("d", "", &[], json!({})),
    ];
    let policies = ["p", "q"].map(|name| policy(name, rich_spec()));
    let mut steps: Vec<EngineStep> = Vec::new();
    for pod in pods {
        steps.push(Box::new(move |engine| {
            engine.set_pod(&pod);
        }));
    }
    for policy in policies {
        steps.push(Box::new(move |engine| engine.set_policy(&policy)));
    }
    let shop_a = namespace("shop", json!({"team": "a"}));
    steps.push(Box::new(move |engine| engine.set_namespace(&shop_a)));
    steps.rotate_left(transition % 7);
    for step in &steps {
        step(engine);
        if transition.is_multiple_of(2) {
            engine.take_ruleset_delta();
        }
    }
    let mut removals: Vec<EngineStep> = Vec::new();
    for name in ["a", "b", "c", "d"] {
        removals.push(Box::new(move |engine| engine.remove_pod(&shop(name))));
    }
    for name in ["p", "q"] {
        removals.push(Box::new(move |engine| engine.remove_policy(&shop(name))));
    }
    removals.push(Box::new(|engine| engine.remove_namespace("shop")));
    removals.rotate_left(transition / 7 % 7);
    for removal in &removals {
        removal(engine);
    }
    engine.take_ruleset_delta();
    engine.take_changed_policies();
}

#[test]
fn the_engine_is_empty_after_removing_everything() {
    for scope in [EngineScope::Cluster, EngineScope::Node("here".to_owned())] {
        let mut engine = PolicyEngine::new(scope.clone(), PluginCapabilities::all());
        for transition in 0..98 {
            add_and_remove_everything(&mut engine, transition);
            let cluster = &engine.cluster;
            assert!(cluster.namespaces.is_empty(), "{scope:?} {transition}");
            assert!(cluster.pods.is_empty(), "{scope:?} {transition}");
            assert!(cluster.address_owners.is_empty(), "{scope:?} {transition}");
            assert!(cluster.node_addresses.is_empty(), "{scope:?} {transition}");
            assert!(cluster.selections.is_empty(), "{scope:?} {transition}");
            assert!(engine.node_ruleset.is_empty(), "{scope:?} {transition}");
            assert!(
                engine.take_changed_policies().is_empty(),
                "{scope:?} {transition}"
            );
        }
    }
}

#[test]
fn removing_and_adding_back_yields_an_empty_delta() {
    let mut engine = engine_of_node();
    let web = pod("a", "here", &["10.0.0.1"], json!({"app": "web"}));
    let db = pod("b", "there", &["10.0.0.2"], json!({"app": "db"}));
    let team = namespace("shop", json!({"team": "a"}));
    let policy = policy("p", rich_spec());
    engine.set_namespace(&team);
    engine.set_pod(&web);
    engine.set_pod(&db);
    engine.set_policy(&policy);
    assert!(!engine.take_ruleset_delta().is_empty());
    engine.remove_policy(&shop("p"));
    engine.remove_pod(&shop("a"));
    engine.remove_pod(&shop("b"));
    engine.remove_namespace("shop");
    engine.set_policy(&policy);
    engine.set_namespace(&team);
    engine.set_pod(&db);
    engine.set_pod(&web);
    assert_eq!(engine.take_ruleset_delta(), RulesetDelta::default());
}

#[test]
fn adding_and_removing_yields_an_empty_delta() {
    let mut engine = engine_of_node();
    add_and_remove_everything(&mut engine, 1);
    let web = pod("a", "here", &["10.0.0.1"], json!({"app": "web"}));
    engine.set_pod(&web);
    engine.set_policy(&policy("p", rich_spec()));
    engine.take_ruleset_delta();
    let other = pod("b", "here", &["10.0.0.2"], json!({"app": "web"}));
    engine.set_pod(&other);
    engine.set_policy(&policy("q", rich_spec()));
    engine.remove_pod(&shop("b"));
    engine.remove_policy(&shop("q"));
    assert_eq!(engine.take_ruleset_delta(), RulesetDelta::default());
}

#[test]
fn a_new_generation_with_equal_rules_is_applied_without_a_delta() {
    let mut engine = engine_of_node();
    engine.set_pod(&pod("a", "here", &["10.0.0.1"], json!({"app": "web"})));
    let mut policy = policy("p", rich_spec());
    engine.set_policy(&policy);
    engine.take_ruleset_delta();
    policy.metadata.generation = Some(2);
    engine.set_policy(&policy);
    let applied = |engine: &PolicyEngine| -> Vec<i64> {
        let applied = engine.applied_policies();
        applied.map(|(_, _, generation)| generation).collect()
    };
    assert_eq!(applied(&engine), [1]);
    assert_eq!(engine.take_ruleset_delta(), RulesetDelta::default());
    assert_eq!(applied(&engine), [2]);
}

#[test]
fn policies_that_select_the_same_pods_share_sets_and_groups() {
    let mut engine = engine_of_node();
    for (name, address) in [("a", "10.0.0.1"), ("b", "10.0.0.2")] {
        engine.set_pod(&pod(name, "here", &[address], json!({"app": "web"})));
    }
    let spec = json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}]});
    engine.set_policy(&policy("p", spec.clone()));
    engine.take_ruleset_delta();
    engine.set_policy(&policy("q", spec));
    let changes = engine.take_ruleset_delta();
    assert!(changes.new_sets.is_empty());
    let ruleset = engine.ruleset();
    assert_eq!(ruleset.sets.len(), 2, "one per family");
    assert_eq!((ruleset.chains.len(), ruleset.groups.len()), (2, 1));
    assert_eq!(changes.removed_groups.len(), 1);
    engine.remove_policy(&shop("p"));
    let changes = engine.take_ruleset_delta();
    assert!(changes.removed_sets.is_empty());
    assert_eq!(changes.removed_chains.len(), 1);
}

#[test]
fn a_changed_pod_updates_one_element_and_a_changed_policy_one_chain() {
    let mut engine = engine_of_node();
    engine.set_pod(&pod("a", "here", &["10.0.0.1"], json!({"app": "web"})));
    engine.set_pod(&pod("b", "there", &["10.0.0.2"], json!({"app": "db"})));
    let spec = |port: u16| json!({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "db"}}}], "ports": [{"port": port}]}]});
    engine.set_policy(&policy("p", spec(80)));
    engine.take_ruleset_delta();
    engine.set_pod(&pod("b", "there", &["10.0.0.3"], json!({"app": "db"})));
    let changes = engine.take_ruleset_delta();
    let set = *engine.ruleset().sets.keys().next().expect("one set");
    let element = |address: &str| ruleset::IpSetElement {
        address: address.parse().expect(address),
        port: None,
    };
    let want = RulesetDelta {
        removed_elements: [(set, vec![element("10.0.0.2")])].into(),
        added_elements: [(set, vec![element("10.0.0.3")])].into(),
        ..RulesetDelta::default()
    };
    assert_eq!(changes, want);
    engine.set_policy(&policy("p", spec(81)));
    let changes = engine.take_ruleset_delta();
    let (id, chain) = engine.ruleset().chains.iter().next().expect("one chain");
    let want = RulesetDelta {
        chains: [(*id, chain.clone())].into(),
        ..RulesetDelta::default()
    };
    assert_eq!(changes, want);
}

#[test]
fn rules_are_merged_and_empty_ones_dropped() {
    let mut engine = engine_of_node();
    engine.set_pod(&pod("a", "here", &["10.0.0.1"], json!({})));
    let spec = json!({"podSelector": {}, "ingress": [
        {
            "from": [
                {"ipBlock": {"cidr": "10.0.1.0/24"}}, {"ipBlock": {"cidr": "10.0.0.0/24"}},
                {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, {},
            ],
            "ports": [{"port": 80}, {"port": 81, "endPort": 90}, {"port": 85}, {"port": 0}, {"protocol": "ICMP"}],
        },
        {"from": [{}]},
        {"ports": [{"port": 1}, {}, {"protocol": "UDP", "port": 53}]},
    ]});
    engine.set_policy(&policy("p", spec));
    engine.take_ruleset_delta();
    let chains: Vec<_> = engine.ruleset().chains.values().collect();
    let address = |text: &str| text.parse().expect(text);
    let rule = |family, peer, ports| ruleset::AllowRule {
        family,
        peer,
        ports,
    };
    let (tcp, udp) = (crate::Protocol::Tcp, crate::Protocol::Udp);
    let block = PeerMatch::Ranges(vec![(address("10.0.0.0"), address("10.0.1.255"))]);
    let want = [
        rule(
            Some(IpFamily::V4),
            block,
            PortMatch::Ranges(tcp, vec![(80, 90)]),
        ),
        rule(None, PeerMatch::Any, PortMatch::AllPortsOf(tcp)),
        rule(None, PeerMatch::Any, PortMatch::Ranges(udp, vec![(53, 53)])),
    ];
    assert_eq!(chains.len(), 1);
    assert_eq!(chains[0].rules, want);
}

#[test]
fn all_named_ports_of_a_rule_share_one_set() {
    let mut engine = engine_of_node();
    engine.set_pod(&pod("a", "here", &["10.0.0.1"], json!({})));
    let spec = |names: &[&str]| {
        let ports: Value = names.iter().map(|name| json!({"port": name})).collect();
        json!({"podSelector": {}, "ingress": [{"ports": ports}]})
    };
    engine.set_policy(&policy("p", spec(&["http", "metrics", "http"])));
    engine.take_ruleset_delta();
    let chain = engine.ruleset().chains.values().next().expect("one chain");
    assert_eq!(chain.rules.len(), 2, "one per family");
    assert_eq!(engine.ruleset().sets.len(), 2);
    engine.set_policy(&policy("q", spec(&["metrics", "http"])));
    assert!(
        engine.take_ruleset_delta().new_sets.is_empty(),
        "the port set is shared"
    );
}

#[test]
fn an_added_container_port_adds_only_its_elements() {
    let mut engine = engine_of_node();
    let with_ports = |ports: Value| {
        let mut pod = pod("a", "here", &["10.0.0.1"], json!({}));
        let container = json!({"ports": ports});
        pod.spec.containers = serde_json::from_value(json!([container])).expect("containers");
        pod
    };
    let http = json!({"name": "http", "containerPort": 80});
    engine.set_pod(&with_ports(json!([http])));
    let ports = json!([{"port": "http"}, {"port": "metrics"}]);
    engine.set_policy(&policy("p", json!({"ingress": [{"ports": ports}]})));
    engine.take_ruleset_delta();
    let metrics = json!({"name": "metrics", "containerPort": 9090});
    engine.set_pod(&with_ports(json!([metrics, http])));
    let changes = engine.take_ruleset_delta();
    let added: Vec<_> = changes.added_elements.values().flatten().collect();
    let element = ruleset::IpSetElement {
        address: "10.0.0.1".parse().expect("valid address"),
        port: Some((crate::Protocol::Tcp, 9090)),
    };
    assert_eq!(added, [&element]);
    assert!(changes.removed_elements.is_empty() && changes.chains.is_empty());
}

#[test]
fn policies_without_pods_on_the_node_are_not_tracked() {
    let mut engine = engine_of_node();
    engine.set_pod(&pod("b", "there", &["10.0.0.2"], json!({"app": "web"})));
    engine.set_policy(&policy("p", rich_spec()));
    assert!(engine.take_ruleset_delta().is_empty());
    assert!(
        engine.cluster.pods[engine.cluster.pods.find(&shop("b")).expect("pod b")]
            .selections
            .is_empty()
    );
    engine.set_pod(&pod("a", "here", &[], json!({"app": "web"})));
    assert!(
        engine.take_ruleset_delta().is_empty(),
        "the pod has no address"
    );
    assert_eq!(engine.applied_policies().count(), 1);
    engine.set_pod(&pod("a", "here", &["10.0.0.1"], json!({"app": "web"})));
    let changes = engine.take_ruleset_delta();
    let directions: Vec<Direction> = changes
        .dispatch
        .keys()
        .map(|(direction, _)| *direction)
        .collect();
    assert_eq!(directions, Direction::BOTH);
    engine.remove_pod(&shop("a"));
    engine.take_ruleset_delta();
    assert_eq!(engine.ruleset(), &NodeRuleset::default());
    assert_eq!(engine.applied_policies().count(), 0);
}

#[test]
fn a_delta_from_empty_recreates_the_ruleset() {
    let mut engine = engine_of_node();
    engine.set_pod(&pod(
        "a",
        "here",
        &["10.0.0.1", "fd00::1"],
        json!({"app": "web"}),
    ));
    engine.set_policy(&policy("p", rich_spec()));
    engine.take_ruleset_delta();
    let mut copy = NodeRuleset::default();
    copy.apply(&engine.ruleset().delta_from_empty());
    assert_eq!(&copy, engine.ruleset());
}

#[test]
fn remote_pods_within_the_nodes_pod_ranges_are_known_addresses() {
    let range = |first: &str, last: &str| (first.parse().unwrap(), last.parse().unwrap());
    let mut engine = engine_of_node();
    engine.set_pod(&pod("a", "here", &["10.0.0.1"], json!({})));
    engine.set_pod(&pod("b", "there", &["10.0.1.2", "fd00::2"], json!({})));
    let mut check = |change: &dyn Fn(&mut PolicyEngine), known: &[&str]| {
        change(&mut engine);
        engine.take_ruleset_delta();
        let shown = engine
            .ruleset()
            .known_addresses
            .iter()
            .map(ToString::to_string);
        assert_eq!(shown.collect::<Vec<_>>(), known);
    };
    check(&|_| {}, &["10.0.0.1"]);
    let ranges = [range("10.0.1.0", "10.0.1.255"), range("fd00::", "fd00::f")];
    check(
        &|engine| engine.set_node_pod_ranges(&ranges),
        &["10.0.0.1", "10.0.1.2", "fd00::2"],
    );
    let come = |engine: &mut PolicyEngine| {
        engine.set_pod(&pod("c", "there", &["10.0.1.3"], json!({})));
        engine.remove_pod(&shop("b"));
    };
    check(&come, &["10.0.0.1", "10.0.1.3"]);
    check(&|engine| engine.set_node_pod_ranges(&[]), &["10.0.0.1"]);
    check(&|engine| engine.remove_pod(&shop("a")), &[]);
}
