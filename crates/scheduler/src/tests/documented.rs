//! What the documentation of affinity and the proposal for namespace selectors promise, as tables.

use serde_json::{Value, json};

use super::agreement::{agree, usual};
use super::random::{World, read_labels};
use crate::cluster::Cluster;
use crate::cycle::Profile;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

/// Two nodes in zone a, one in zone b, and one without labels; two customers, the operators, and a namespace without
/// labels.
fn world() -> World {
    let mut world = World::default();
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("bare", "")] {
        let labels = match zone {
            "" => json!({}),
            zone => json!({ZONE: zone, HOST: name}),
        };
        let allocatable = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
        let node = json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}});
        world.nodes.insert(name.to_owned(), node);
    }
    for (name, labels) in [
        ("acme", json!({"kind": "customer", "tier": "gold"})),
        ("bolt", json!({"kind": "customer"})),
        ("ops", json!({"kind": "operators"})),
        ("plain", json!({})),
    ] {
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        world.namespaces.insert(name.to_owned(), namespace);
    }
    world
}

/// A pod `namespace/app`, with the parts of its affinity.
fn pod(name: &str, affinity: Value) -> Value {
    let (namespace, app) = name.split_once('/').expect("namespace/app");
    json!({
        "metadata": {"name": app, "namespace": namespace, "uid": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "main"}], "affinity": affinity},
        "status": {"phase": "Pending"},
    })
}

fn required(kind: &str, terms: Value) -> Value {
    json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
}

fn near(terms: Value) -> Value {
    required("podAffinity", terms)
}

fn apart(terms: Value) -> Value {
    required("podAntiAffinity", terms)
}

/// A term about pods with the label `app`, and what it says of namespaces.
fn term(app: &str, key: &str, namespaces: Value) -> Value {
    let mut term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key});
    for (field, value) in namespaces.as_object().into_iter().flatten() {
        term[field] = value.clone();
    }
    term
}

fn own() -> Value {
    json!({})
}

fn selected(selector: Value) -> Value {
    json!({"namespaceSelector": selector})
}

/// A pod that is on a node.
type Placed<'a> = (&'a str, &'a str, Value);

/// The nodes that a pod can go to, by name.
fn possible(profile: &Profile, cluster: &Cluster, uid: &str) -> Vec<String> {
    let pod = cluster.pods().find(uid).expect("the pod");
    let slot = cluster.pods().get(pod).expect("the pod");
    let checks = profile.checks(slot, cluster).expect("filters");
    let nodes = cluster.nodes().order().iter();
    let fitting = nodes.filter(|node| checks.check(**node).is_ok());
    let mut names: Vec<String> = fitting
        .map(|node| cluster.nodes().get(*node).name.to_string())
        .collect();
    names.sort();
    names
}

/// The scheduler and the oracle both say so.
#[track_caller]
fn check(placed: &[Placed<'_>], incoming: (&str, Value), expected: &[&str]) {
    let mut world = world();
    for (name, node, affinity) in placed {
        let mut there = pod(name, affinity.clone());
        there["metadata"]["uid"] = format!("{name} on {node}").into();
        there["spec"]["nodeName"] = (*node).into();
        world.insert_pod(there);
    }
    world.insert_pod(pod(incoming.0, incoming.1));
    let (profile, cluster) = (usual(), world.build());
    assert_eq!(possible(&profile, &cluster, incoming.0), expected);
    agree(&profile, &world, &cluster, incoming.0);
}

const ALL: &[&str] = &["a1", "a2", "b1", "bare"];

#[test]
fn each_customer_has_nodes_of_its_own() {
    let alone = || {
        let customers = selected(json!({"matchLabels": {"kind": "customer"}}));
        apart(json!([term("app", HOST, customers)]))
    };
    let placed = [("acme/app", "a1", alone()), ("bolt/app", "b1", alone())];
    check(&placed, ("acme/app", alone()), &["a2", "bare"]);
    check(&placed, ("bolt/app", alone()), &["a2", "bare"]);
    // Those of the operators are no customers, and are neither kept away nor keep away.
    check(&placed, ("ops/app", json!({})), ALL);
    check(&[("ops/app", "a1", json!({}))], ("acme/app", alone()), ALL);
}

#[test]
fn a_term_is_about_the_union_of_named_and_selected_namespaces() {
    let placed = [
        ("acme/app", "a1", json!({})),
        ("ops/app", "a2", json!({})),
        ("plain/app", "b1", json!({})),
    ];
    let gold = json!({"matchLabels": {"tier": "gold"}});
    for (namespaces, expected) in [
        (own(), ["a1", "a2", "bare"].as_slice()),
        (json!({"namespaces": []}), &["a1", "a2", "bare"]),
        (json!({"namespaces": ["acme"]}), &["a2", "b1", "bare"]),
        (selected(json!({})), &["bare"]),
        (selected(gold.clone()), &["a2", "b1", "bare"]),
        (
            json!({"namespaces": ["ops"], "namespaceSelector": gold}),
            &["b1", "bare"],
        ),
        (
            json!({"namespaces": ["ops"], "namespaceSelector": {}}),
            &["bare"],
        ),
        (selected(json!({"matchLabels": {"kind": "nobody"}})), ALL),
        (
            selected(expression("kind", "NotIn", json!(["customer"]))),
            &["a1", "bare"],
        ),
        (
            selected(expression("kind", "In", json!(["customer", "operators"]))),
            &["b1", "bare"],
        ),
        (
            selected(expression("kind", "DoesNotExist", json!([]))),
            &["a1", "a2", "bare"],
        ),
        (
            selected(expression("tier", "DoesNotExist", json!([]))),
            &["a1", "bare"],
        ),
        (
            selected(expression("kind", "Exists", json!([]))),
            &["b1", "bare"],
        ),
    ] {
        let incoming = apart(json!([term("app", HOST, namespaces)]));
        check(&placed, ("plain/new", incoming), expected);
    }
}

fn expression(key: &str, operator: &str, values: Value) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

#[test]
fn those_that_are_there_judge_by_the_namespace_of_the_one_that_comes() {
    for (selector, kept_away) in [
        (json!({}), ["acme", "bolt", "ops", "plain"].as_slice()),
        (
            json!({"matchLabels": {"kind": "customer"}}),
            &["acme", "bolt"],
        ),
        (
            expression("kind", "NotIn", json!(["customer"])),
            &["ops", "plain"],
        ),
        (expression("kind", "DoesNotExist", json!([])), &["plain"]),
    ] {
        let alone = apart(json!([term("app", ZONE, selected(selector))]));
        for namespace in ["acme", "bolt", "ops", "plain"] {
            let expected = match kept_away.contains(&namespace) {
                true => &["b1", "bare"][..],
                false => ALL,
            };
            let placed = [("ops/lonely", "a1", alone.clone())];
            check(&placed, (&format!("{namespace}/app"), json!({})), expected);
        }
    }
}

#[test]
fn affinity_needs_one_pod_that_all_terms_pick() {
    let to = |terms: &[Value]| near(terms.iter().cloned().collect());
    let db = |key: &str| term("db", key, own());
    let everywhere = || selected(json!({}));
    let placed = [("acme/db", "a1", json!({})), ("ops/web", "b1", json!({}))];
    for (terms, expected) in [
        (vec![db(HOST)], ["a1"].as_slice()),
        (vec![db(ZONE)], &["a1", "a2"]),
        // Both terms pick the same pod, each in its own topology.
        (vec![db(ZONE), db(HOST)], &["a1"]),
        // No pod is both, though each is somewhere.
        (vec![db(ZONE), term("web", ZONE, everywhere())], &[]),
        (vec![term("web", ZONE, own())], &[]),
        (vec![term("web", ZONE, everywhere())], &["b1"]),
        (vec![db("nobody-has-this")], &[]),
        // Without a selector nothing is picked, and nothing is near.
        (vec![json!({"topologyKey": ZONE})], &[]),
    ] {
        check(&placed, ("acme/new", to(&terms)), expected);
    }
}

#[test]
fn the_first_of_a_kind_may_go_anywhere_with_the_keys() {
    let group = |namespaces: Value| near(json!([term("app", ZONE, namespaces)]));
    let customers = || selected(json!({"matchLabels": {"kind": "customer"}}));
    // Nobody is there yet, and it picks itself.
    check(&[], ("acme/app", group(own())), &["a1", "a2", "b1"]);
    check(&[], ("acme/app", group(customers())), &["a1", "a2", "b1"]);
    // It does not pick itself: its label or its namespace is another.
    check(&[], ("acme/web", group(own())), &[]);
    check(&[], ("ops/app", group(customers())), &[]);
    // One of its kind is there, in its own or in another customer's namespace.
    let there = ("acme/app", "b1", json!({}));
    check(
        std::slice::from_ref(&there),
        ("acme/app", group(own())),
        &["b1"],
    );
    check(
        std::slice::from_ref(&there),
        ("bolt/app", group(customers())),
        &["b1"],
    );
    check(&[there], ("bolt/app", group(own())), &["a1", "a2", "b1"]);
    // One that is on a node without the key is nowhere.
    let nowhere = ("acme/app", "bare", json!({}));
    check(&[nowhere], ("acme/app", group(own())), &["a1", "a2", "b1"]);
}

#[test]
fn the_web_server_goes_next_to_its_cache_and_not_next_to_another() {
    let cache = || apart(json!([term("store", HOST, own())]));
    let mut web = near(json!([term("store", HOST, own())]));
    web["podAntiAffinity"] = apart(json!([term("web", HOST, own())]))["podAntiAffinity"].clone();
    let caches = [("acme/store", "a1", cache()), ("acme/store", "b1", cache())];
    check(&caches, ("acme/store", cache()), &["a2", "bare"]);
    check(&caches, ("acme/web", web.clone()), &["a1", "b1"]);
    let with_web = [&caches[..], &[("acme/web", "a1", web.clone())]].concat();
    check(&with_web, ("acme/web", web), &["b1"]);
}

#[test]
fn labels_of_namespaces_take_effect_from_the_next_decision_on() {
    let mut world = world();
    let alone = apart(json!([term(
        "app",
        HOST,
        selected(json!({"matchLabels": {"kind": "customer"}}))
    )]));
    let mut there = pod("plain/app", json!({}));
    there["spec"]["nodeName"] = "a1".into();
    world.insert_pod(there);
    world.insert_pod(pod("acme/new", alone));
    let (profile, mut cluster) = (usual(), world.build());
    assert_eq!(possible(&profile, &cluster, "acme/new"), ALL);

    for (labels, expected) in [
        (json!({"kind": "customer"}), ["a2", "b1", "bare"].as_slice()),
        (json!({"kind": "operators"}), ALL),
        (
            json!({"kind": "customer", "tier": "gold"}),
            &["a2", "b1", "bare"],
        ),
    ] {
        let namespace = json!({"metadata": {"name": "plain", "labels": labels}});
        let differing = cluster.set_namespace("plain", read_labels(&namespace));
        assert_eq!(differing.len(), 1, "the one term that selects namespaces");
        world.namespaces.insert("plain".to_owned(), namespace);
        assert_eq!(possible(&profile, &cluster, "acme/new"), expected);
        agree(&profile, &world, &cluster, "relabelled");
    }
    // Other labels change nothing for anybody.
    let labels = [("kind", "customer"), ("colour", "green")];
    let differing = cluster.set_namespace("plain", labels.into_iter().collect());
    assert_eq!(differing, []);
    cluster.remove_namespace("plain");
    assert_eq!(possible(&profile, &cluster, "acme/new"), ALL);
}
