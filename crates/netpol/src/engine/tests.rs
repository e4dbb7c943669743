use serde_json::{Value, json};

use super::*;
use crate::program::{self, Peer, Ports};
use crate::{Direction, Family};

fn engine_of_node() -> Engine {
    Engine::new(Scope::Node("here".to_owned()), Knowledge::all())
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
    serde_json::from_value(pod).expect("a pod")
}

fn policy(name: &str, spec: Value) -> NetworkPolicy {
    let metadata = json!({"namespace": "shop", "name": name, "uid": name, "generation": 1});
    let policy = json!({"metadata": metadata, "spec": spec});
    serde_json::from_value(policy).expect("a policy")
}

fn namespace(name: &str, labels: Value) -> Namespace {
    let namespace = json!({"metadata": {"name": name, "labels": labels}});
    serde_json::from_value(namespace).expect("a namespace")
}

fn shop(name: &str) -> Name {
    Name::new("shop", name)
}

/// A policy of all kinds of peers and ports.
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

type Step = Box<dyn Fn(&mut Engine)>;

/// Brings everything, and takes it away again, in an order that `turn` decides.
fn come_and_go(engine: &mut Engine, turn: usize) {
    let pods = [
        pod("a", "here", &["10.0.0.1", "fd00::1"], json!({"app": "web"})),
        pod("b", "there", &["10.0.0.2"], json!({"app": "db"})),
        pod("c", "here", &["10.0.0.1"], json!({"app": "db"})),
        pod("d", "", &[], json!({})),
    ];
    let policies = ["p", "q"].map(|name| policy(name, rich_spec()));
    let mut steps: Vec<Step> = Vec::new();
    for pod in pods {
        steps.push(Box::new(move |engine| engine.set_pod(&pod)));
    }
    for policy in policies {
        steps.push(Box::new(move |engine| engine.set_policy(&policy)));
    }
    let shop_a = namespace("shop", json!({"team": "a"}));
    steps.push(Box::new(move |engine| engine.set_namespace(&shop_a)));
    steps.rotate_left(turn % 7);
    for step in &steps {
        step(engine);
        if turn.is_multiple_of(2) {
            engine.take_changes();
        }
    }
    let mut removals: Vec<Step> = Vec::new();
    for name in ["a", "b", "c", "d"] {
        removals.push(Box::new(move |engine| engine.remove_pod(&shop(name))));
    }
    for name in ["p", "q"] {
        removals.push(Box::new(move |engine| engine.remove_policy(&shop(name))));
    }
    removals.push(Box::new(|engine| engine.remove_namespace("shop")));
    removals.rotate_left(turn / 7 % 7);
    for removal in &removals {
        removal(engine);
    }
    engine.take_changes();
    engine.take_touched();
}

#[test]
fn nothing_is_kept_of_what_is_gone() {
    for scope in [Scope::Cluster, Scope::Node("here".to_owned())] {
        let mut engine = Engine::new(scope.clone(), Knowledge::all());
        for turn in 0..98 {
            come_and_go(&mut engine, turn);
            let world = &engine.world;
            assert!(world.namespaces.is_empty(), "{scope:?} {turn}");
            assert!(world.pods.is_empty(), "{scope:?} {turn}");
            assert!(world.owners.is_empty(), "{scope:?} {turn}");
            assert!(world.nodes.is_empty(), "{scope:?} {turn}");
            assert!(world.selections.is_empty(), "{scope:?} {turn}");
            assert!(engine.node.is_empty(), "{scope:?} {turn}");
            assert!(engine.take_touched().is_empty(), "{scope:?} {turn}");
        }
    }
}

#[test]
fn what_is_removed_and_comes_back_in_between_changes_nothing() {
    let mut engine = engine_of_node();
    let web = pod("a", "here", &["10.0.0.1"], json!({"app": "web"}));
    let db = pod("b", "there", &["10.0.0.2"], json!({"app": "db"}));
    let team = namespace("shop", json!({"team": "a"}));
    let policy = policy("p", rich_spec());
    engine.set_namespace(&team);
    engine.set_pod(&web);
    engine.set_pod(&db);
    engine.set_policy(&policy);
    assert!(!engine.take_changes().is_empty());
    engine.remove_policy(&shop("p"));
    engine.remove_pod(&shop("a"));
    engine.remove_pod(&shop("b"));
    engine.remove_namespace("shop");
    engine.set_policy(&policy);
    engine.set_namespace(&team);
    engine.set_pod(&db);
    engine.set_pod(&web);
    assert_eq!(engine.take_changes(), Changes::default());
}

#[test]
fn what_comes_and_goes_in_between_changes_nothing() {
    let mut engine = engine_of_node();
    come_and_go(&mut engine, 1);
    let web = pod("a", "here", &["10.0.0.1"], json!({"app": "web"}));
    engine.set_pod(&web);
    engine.set_policy(&policy("p", rich_spec()));
    engine.take_changes();
    let other = pod("b", "here", &["10.0.0.2"], json!({"app": "web"}));
    engine.set_pod(&other);
    engine.set_policy(&policy("q", rich_spec()));
    engine.remove_pod(&shop("b"));
    engine.remove_policy(&shop("q"));
    assert_eq!(engine.take_changes(), Changes::default());
}

#[test]
fn a_new_generation_that_means_the_same_is_applied_without_a_change() {
    let mut engine = engine_of_node();
    engine.set_pod(&pod("a", "here", &["10.0.0.1"], json!({"app": "web"})));
    let mut policy = policy("p", rich_spec());
    engine.set_policy(&policy);
    engine.take_changes();
    policy.metadata.generation = Some(2);
    engine.set_policy(&policy);
    let applied = |engine: &Engine| -> Vec<i64> {
        let applied = engine.applied();
        applied.map(|(_, _, generation)| generation).collect()
    };
    assert_eq!(applied(&engine), [1]);
    assert_eq!(engine.take_changes(), Changes::default());
    assert_eq!(applied(&engine), [2]);
}

#[test]
fn policies_that_mean_the_same_pods_share_sets_and_groups() {
    let mut engine = engine_of_node();
    for (name, address) in [("a", "10.0.0.1"), ("b", "10.0.0.2")] {
        engine.set_pod(&pod(name, "here", &[address], json!({"app": "web"})));
    }
    let spec = json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}]});
    engine.set_policy(&policy("p", spec.clone()));
    engine.take_changes();
    engine.set_policy(&policy("q", spec));
    let changes = engine.take_changes();
    assert!(changes.new_sets.is_empty());
    let program = engine.program();
    assert_eq!(program.sets.len(), 2, "one of each family");
    assert_eq!((program.chains.len(), program.groups.len()), (2, 1));
    assert_eq!(changes.removed_groups.len(), 1);
    engine.remove_policy(&shop("p"));
    let changes = engine.take_changes();
    assert!(changes.removed_sets.is_empty());
    assert_eq!(changes.removed_chains.len(), 1);
}

#[test]
fn a_changed_pod_is_one_element_and_a_changed_policy_one_chain() {
    let mut engine = engine_of_node();
    engine.set_pod(&pod("a", "here", &["10.0.0.1"], json!({"app": "web"})));
    engine.set_pod(&pod("b", "there", &["10.0.0.2"], json!({"app": "db"})));
    let spec = |port: u16| json!({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "db"}}}], "ports": [{"port": port}]}]});
    engine.set_policy(&policy("p", spec(80)));
    engine.take_changes();
    engine.set_pod(&pod("b", "there", &["10.0.0.3"], json!({"app": "db"})));
    let changes = engine.take_changes();
    let set = *engine.program().sets.keys().next().expect("a set");
    let element = |address: &str| program::Element {
        address: address.parse().expect(address),
        port: None,
    };
    let want = Changes {
        removed_elements: [(set, vec![element("10.0.0.2")])].into(),
        added_elements: [(set, vec![element("10.0.0.3")])].into(),
        ..Changes::default()
    };
    assert_eq!(changes, want);
    engine.set_policy(&policy("p", spec(81)));
    let changes = engine.take_changes();
    let (id, chain) = engine.program().chains.iter().next().expect("a chain");
    let want = Changes {
        chains: [(*id, chain.clone())].into(),
        ..Changes::default()
    };
    assert_eq!(changes, want);
}

#[test]
fn rules_are_as_few_as_they_can_be() {
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
    engine.take_changes();
    let chains: Vec<_> = engine.program().chains.values().collect();
    let address = |text: &str| text.parse().expect(text);
    let rule = |family, peer, ports| program::Rule {
        family,
        peer,
        ports,
    };
    let (tcp, udp) = (crate::Protocol::Tcp, crate::Protocol::Udp);
    let block = Peer::Ranges(vec![(address("10.0.0.0"), address("10.0.1.255"))]);
    let want = [
        rule(Some(Family::V4), block, Ports::Ranges(tcp, vec![(80, 90)])),
        rule(None, Peer::Anyone, Ports::All(tcp)),
        rule(None, Peer::Anyone, Ports::Ranges(udp, vec![(53, 53)])),
    ];
    assert_eq!(chains.len(), 1);
    assert_eq!(chains[0].rules, want);
}

#[test]
fn ports_by_name_are_one_set_however_many_there_are() {
    let mut engine = engine_of_node();
    engine.set_pod(&pod("a", "here", &["10.0.0.1"], json!({})));
    let spec = |names: &[&str]| {
        let ports: Value = names.iter().map(|name| json!({"port": name})).collect();
        json!({"podSelector": {}, "ingress": [{"ports": ports}]})
    };
    engine.set_policy(&policy("p", spec(&["http", "metrics", "http"])));
    engine.take_changes();
    let chain = engine.program().chains.values().next().expect("a chain");
    assert_eq!(chain.rules.len(), 2, "one of each family");
    assert_eq!(engine.program().sets.len(), 2);
    engine.set_policy(&policy("q", spec(&["metrics", "http"])));
    assert!(engine.take_changes().new_sets.is_empty(), "it is shared");
}

#[test]
fn a_pod_that_opens_another_port_changes_only_that() {
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
    engine.take_changes();
    let metrics = json!({"name": "metrics", "containerPort": 9090});
    engine.set_pod(&with_ports(json!([metrics, http])));
    let changes = engine.take_changes();
    let added: Vec<_> = changes.added_elements.values().flatten().collect();
    let element = program::Element {
        address: "10.0.0.1".parse().expect("an address"),
        port: Some((crate::Protocol::Tcp, 9090)),
    };
    assert_eq!(added, [&element]);
    assert!(changes.removed_elements.is_empty() && changes.chains.is_empty());
}

#[test]
fn policies_about_no_pod_of_the_node_are_not_followed() {
    let mut engine = engine_of_node();
    engine.set_pod(&pod("b", "there", &["10.0.0.2"], json!({"app": "web"})));
    engine.set_policy(&policy("p", rich_spec()));
    assert!(engine.take_changes().is_empty());
    assert!(
        engine.world.pods[engine.world.pods.find(&shop("b")).expect("b")]
            .selections
            .is_empty()
    );
    engine.set_pod(&pod("a", "here", &[], json!({"app": "web"})));
    assert!(engine.take_changes().is_empty(), "it has no address");
    assert_eq!(engine.applied().count(), 1);
    engine.set_pod(&pod("a", "here", &["10.0.0.1"], json!({"app": "web"})));
    let changes = engine.take_changes();
    let directions: Vec<Direction> = changes
        .dispatch
        .keys()
        .map(|(direction, _)| *direction)
        .collect();
    assert_eq!(directions, Direction::BOTH);
    engine.remove_pod(&shop("a"));
    engine.take_changes();
    assert_eq!(engine.program(), &Program::default());
    assert_eq!(engine.applied().count(), 0);
}

#[test]
fn a_program_can_be_told_at_once() {
    let mut engine = engine_of_node();
    engine.set_pod(&pod(
        "a",
        "here",
        &["10.0.0.1", "fd00::1"],
        json!({"app": "web"}),
    ));
    engine.set_policy(&policy("p", rich_spec()));
    engine.take_changes();
    let mut told = Program::default();
    told.apply(&engine.program().everything());
    assert_eq!(&told, engine.program());
}

#[test]
fn pods_of_other_nodes_are_known_where_they_have_addresses_of_this_one() {
    let range = |first: &str, last: &str| (first.parse().unwrap(), last.parse().unwrap());
    let mut engine = engine_of_node();
    engine.set_pod(&pod("a", "here", &["10.0.0.1"], json!({})));
    engine.set_pod(&pod("b", "there", &["10.0.1.2", "fd00::2"], json!({})));
    let mut check = |change: &dyn Fn(&mut Engine), known: &[&str]| {
        change(&mut engine);
        engine.take_changes();
        let shown = engine.program().known.iter().map(ToString::to_string);
        assert_eq!(shown.collect::<Vec<_>>(), known);
    };
    check(&|_| {}, &["10.0.0.1"]);
    let ranges = [range("10.0.1.0", "10.0.1.255"), range("fd00::", "fd00::f")];
    check(
        &|engine| engine.set_ranges(&ranges),
        &["10.0.0.1", "10.0.1.2", "fd00::2"],
    );
    let come = |engine: &mut Engine| {
        engine.set_pod(&pod("c", "there", &["10.0.1.3"], json!({})));
        engine.remove_pod(&shop("b"));
    };
    check(&come, &["10.0.0.1", "10.0.1.3"]);
    check(&|engine| engine.set_ranges(&[]), &["10.0.0.1"]);
    check(&|engine| engine.remove_pod(&shop("a")), &[]);
}

#[test]
fn pods_that_come_where_others_are_change_nothing_but_counts() {
    let mut engine = Engine::new(Scope::Cluster, Knowledge::all());
    let policies = ["p", "q"].map(shop);
    for name in ["p", "q"] {
        engine.set_policy(&policy(name, json!({"podSelector": {}})));
    }
    let at = |name: &str, node: &str| pod(name, node, &[], json!({}));
    let mut check = |change: &dyn Fn(&mut Engine), nodes: &[(&str, usize)], is_told: bool| {
        change(&mut engine);
        let summary = engine.summary(&policies[1]).expect("a policy");
        let shown = summary.nodes.iter();
        let shown: Vec<(&str, usize)> = shown.map(|(node, count)| (&**node, *count)).collect();
        assert_eq!(shown, nodes);
        let told = engine.take_touched_beyond_counts();
        let want: &[Name] = if is_told { &policies } else { &[] };
        assert_eq!(told.into_iter().collect::<Vec<_>>(), want, "{nodes:?}");
    };
    check(&|engine| engine.set_pod(&at("a", "x")), &[("x", 1)], true);
    check(&|engine| engine.set_pod(&at("b", "x")), &[("x", 2)], false);
    check(&|engine| engine.remove_pod(&shop("a")), &[("x", 1)], false);
    check(
        &|engine| engine.set_pod(&at("c", "y")),
        &[("x", 1), ("y", 1)],
        true,
    );
    check(&|engine| engine.set_pod(&at("b", "y")), &[("y", 2)], true);
    check(&|engine| engine.set_pod(&at("d", "")), &[("y", 2)], false);
    check(&|engine| engine.set_pod(&at("d", "y")), &[("y", 3)], false);
    let none = json!({"podSelector": {"matchLabels": {"app": "none"}}});
    let turn = |engine: &mut Engine| {
        for name in ["p", "q"] {
            engine.set_policy(&policy(name, none.clone()));
            engine.set_policy(&policy(name, json!({"podSelector": {}})));
        }
    };
    check(&turn, &[("y", 3)], true);
    let gone = |engine: &mut Engine| ["b", "c", "d"].map(|name| engine.remove_pod(&shop(name)));
    check(&|engine| _ = gone(engine), &[], true);
    check(&|engine| engine.set_pod(&at("e", "")), &[], true);
    check(&|engine| engine.set_pod(&at("e", "z")), &[("z", 1)], true);
}

#[test]
fn pods_are_counted_for_policies_about_what_others_have_as_peers() {
    let mut engine = Engine::new(Scope::Cluster, Knowledge::all());
    let peers = json!({"podSelector": {"matchLabels": {"app": "none"}}, "ingress": [{"from": [{"podSelector": {}}]}]});
    engine.set_policy(&policy("p", peers));
    engine.set_pod(&pod("a", "x", &[], json!({})));
    engine.set_policy(&policy("q", json!({"podSelector": {}})));
    engine.set_pod(&pod("b", "x", &[], json!({})));
    let counts = |engine: &Engine| engine.summary(&shop("q")).expect("a policy").nodes;
    assert_eq!(counts(&engine), [("x".to_owned(), 2)].into());
    engine.remove_policy(&shop("q"));
    engine.remove_pod(&shop("a"));
    engine.set_policy(&policy("q", json!({"podSelector": {}})));
    assert_eq!(counts(&engine), [("x".to_owned(), 1)].into());
}
