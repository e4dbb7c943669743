//! Table tests of the behavior that the documentation of pod affinity and the namespace selector KEP describe.

use serde_json::{Value, json};

use super::oracle_agreement::{assert_agreement, default_profile};
use super::random::{ClusterObjects, read_labels};
use crate::cluster::ClusterState;
use crate::cycle::Profile;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

/// Two nodes in zone a, one in zone b, one without labels; namespaces of two customers, of the operators, and one
/// without labels.
fn cluster_objects() -> ClusterObjects {
    let mut objects = ClusterObjects::default();
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("bare", "")] {
        let labels = match zone {
            "" => json!({}),
            zone => json!({ZONE: zone, HOST: name}),
        };
        let allocatable = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
        let node = json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}});
        objects.nodes.insert(name.to_owned(), node);
    }
    for (name, labels) in [
        ("acme", json!({"kind": "customer", "tier": "gold"})),
        ("bolt", json!({"kind": "customer"})),
        ("ops", json!({"kind": "operators"})),
        ("plain", json!({})),
    ] {
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        objects.namespaces.insert(name.to_owned(), namespace);
    }
    objects
}

/// A pod `namespace/app` with the given affinity.
fn pod(name: &str, affinity: Value) -> Value {
    let (namespace, app) = name
        .split_once('/')
        .expect("the name has the form namespace/app");
    json!({
        "metadata": {"name": app, "namespace": namespace, "uid": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "main"}], "affinity": affinity},
        "status": {"phase": "Pending"},
    })
}

fn required(kind: &str, terms: Value) -> Value {
    json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
}

fn pod_affinity(terms: Value) -> Value {
    required("podAffinity", terms)
}

fn pod_anti_affinity(terms: Value) -> Value {
    required("podAntiAffinity", terms)
}

/// An affinity term that selects pods by label `app`, with additional fields for namespaces.
fn term(app: &str, key: &str, namespaces: Value) -> Value {
    let mut term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key});
    for (field, value) in namespaces.as_object().into_iter().flatten() {
        term[field] = value.clone();
    }
    term
}

fn own_namespace() -> Value {
    json!({})
}

fn namespace_selector(selector: Value) -> Value {
    json!({"namespaceSelector": selector})
}

/// An existing pod: `namespace/app`, node, affinity.
type PlacedPod<'a> = (&'a str, &'a str, Value);

/// The names of the feasible nodes of a pod, sorted.
fn feasible_nodes(profile: &Profile, cluster: &ClusterState, uid: &str) -> Vec<String> {
    let pod = cluster.pods().find(uid).expect("the pod exists");
    let slot = cluster.pods().get(pod).expect("the pod exists");
    let checks = profile
        .build_filters(slot, cluster)
        .expect("no plugin rejects all nodes");
    let nodes = cluster.nodes().order().iter();
    let fitting = nodes.filter(|node| checks.check(**node).is_ok());
    let mut names: Vec<String> = fitting
        .map(|node| cluster.nodes().get(*node).name.to_string())
        .collect();
    names.sort();
    names
}

/// Asserts that the scheduler finds these nodes feasible and that the oracle agrees.
#[track_caller]
fn check(placed: &[PlacedPod<'_>], incoming: (&str, Value), expected: &[&str]) {
    let mut objects = cluster_objects();
    for (name, node, affinity) in placed {
        let mut there = pod(name, affinity.clone());
        there["metadata"]["uid"] = format!("{name} on {node}").into();
        there["spec"]["nodeName"] = (*node).into();
        objects.insert_pod(there);
    }
    objects.insert_pod(pod(incoming.0, incoming.1));
    let (profile, cluster) = (default_profile(), objects.build_cluster());
    assert_eq!(feasible_nodes(&profile, &cluster, incoming.0), expected);
    assert_agreement(&profile, &objects, &cluster, incoming.0);
}

const ALL: &[&str] = &["a1", "a2", "b1", "bare"];

#[test]
fn anti_affinity_gives_each_customer_exclusive_nodes() {
    let alone = || {
        let customers = namespace_selector(json!({"matchLabels": {"kind": "customer"}}));
        pod_anti_affinity(json!([term("app", HOST, customers)]))
    };
    let placed = [("acme/app", "a1", alone()), ("bolt/app", "b1", alone())];
    check(&placed, ("acme/app", alone()), &["a2", "bare"]);
    check(&placed, ("bolt/app", alone()), &["a2", "bare"]);
    // The operators' namespace is not selected: no effect in either direction.
    check(&placed, ("ops/app", json!({})), ALL);
    check(&[("ops/app", "a1", json!({}))], ("acme/app", alone()), ALL);
}

#[test]
fn a_term_applies_to_the_union_of_named_and_selected_namespaces() {
    let placed = [
        ("acme/app", "a1", json!({})),
        ("ops/app", "a2", json!({})),
        ("plain/app", "b1", json!({})),
    ];
    let gold = json!({"matchLabels": {"tier": "gold"}});
    for (namespaces, expected) in [
        (own_namespace(), ["a1", "a2", "bare"].as_slice()),
        (json!({"namespaces": []}), &["a1", "a2", "bare"]),
        (json!({"namespaces": ["acme"]}), &["a2", "b1", "bare"]),
        (namespace_selector(json!({})), &["bare"]),
        (namespace_selector(gold.clone()), &["a2", "b1", "bare"]),
        (
            json!({"namespaces": ["ops"], "namespaceSelector": gold}),
            &["b1", "bare"],
        ),
        (
            json!({"namespaces": ["ops"], "namespaceSelector": {}}),
            &["bare"],
        ),
        (
            namespace_selector(json!({"matchLabels": {"kind": "nobody"}})),
            ALL,
        ),
        (
            namespace_selector(expression("kind", "NotIn", json!(["customer"]))),
            &["a1", "bare"],
        ),
        (
            namespace_selector(expression("kind", "In", json!(["customer", "operators"]))),
            &["b1", "bare"],
        ),
        (
            namespace_selector(expression("kind", "DoesNotExist", json!([]))),
            &["a1", "a2", "bare"],
        ),
        (
            namespace_selector(expression("tier", "DoesNotExist", json!([]))),
            &["a1", "bare"],
        ),
        (
            namespace_selector(expression("kind", "Exists", json!([]))),
            &["b1", "bare"],
        ),
    ] {
        let incoming = pod_anti_affinity(json!([term("app", HOST, namespaces)]));
        check(&placed, ("plain/new", incoming), expected);
    }
}

fn expression(key: &str, operator: &str, values: Value) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

#[test]
fn existing_pods_anti_affinity_uses_the_incoming_pods_namespace() {
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
        let alone = pod_anti_affinity(json!([term("app", ZONE, namespace_selector(selector))]));
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
fn affinity_requires_one_pod_that_matches_all_terms() {
    let to = |terms: &[Value]| pod_affinity(terms.iter().cloned().collect());
    let db = |key: &str| term("db", key, own_namespace());
    let everywhere = || namespace_selector(json!({}));
    let placed = [("acme/db", "a1", json!({})), ("ops/web", "b1", json!({}))];
    for (terms, expected) in [
        (vec![db(HOST)], ["a1"].as_slice()),
        (vec![db(ZONE)], &["a1", "a2"]),
        // Both terms match the same pod, each in its own topology.
        (vec![db(ZONE), db(HOST)], &["a1"]),
        // Each term has a match, but no single pod matches both.
        (vec![db(ZONE), term("web", ZONE, everywhere())], &[]),
        (vec![term("web", ZONE, own_namespace())], &[]),
        (vec![term("web", ZONE, everywhere())], &["b1"]),
        (vec![db("nobody-has-this")], &[]),
        // A term without a selector matches no pod.
        (vec![json!({"topologyKey": ZONE})], &[]),
    ] {
        check(&placed, ("acme/new", to(&terms)), expected);
    }
}

#[test]
fn the_first_pod_of_a_group_may_use_any_node_with_the_topology_keys() {
    let group = |namespaces: Value| pod_affinity(json!([term("app", ZONE, namespaces)]));
    let customers = || namespace_selector(json!({"matchLabels": {"kind": "customer"}}));
    // No pod matches yet, and the pod matches its own affinity.
    check(
        &[],
        ("acme/app", group(own_namespace())),
        &["a1", "a2", "b1"],
    );
    check(&[], ("acme/app", group(customers())), &["a1", "a2", "b1"]);
    // The pod does not match its own affinity: other label, or other namespace.
    check(&[], ("acme/web", group(own_namespace())), &[]);
    check(&[], ("ops/app", group(customers())), &[]);
    // A matching pod exists, in the same or in another customer's namespace.
    let there = ("acme/app", "b1", json!({}));
    check(
        std::slice::from_ref(&there),
        ("acme/app", group(own_namespace())),
        &["b1"],
    );
    check(
        std::slice::from_ref(&there),
        ("bolt/app", group(customers())),
        &["b1"],
    );
    check(
        &[there],
        ("bolt/app", group(own_namespace())),
        &["a1", "a2", "b1"],
    );
    // A matching pod on a node without the topology label is in no domain.
    let nowhere = ("acme/app", "bare", json!({}));
    check(
        &[nowhere],
        ("acme/app", group(own_namespace())),
        &["a1", "a2", "b1"],
    );
}

#[test]
fn web_servers_are_placed_with_a_cache_but_not_with_each_other() {
    let cache = || pod_anti_affinity(json!([term("store", HOST, own_namespace())]));
    let mut web = pod_affinity(json!([term("store", HOST, own_namespace())]));
    web["podAntiAffinity"] =
        pod_anti_affinity(json!([term("web", HOST, own_namespace())]))["podAntiAffinity"].clone();
    let caches = [("acme/store", "a1", cache()), ("acme/store", "b1", cache())];
    check(&caches, ("acme/store", cache()), &["a2", "bare"]);
    check(&caches, ("acme/web", web.clone()), &["a1", "b1"]);
    let with_web = [&caches[..], &[("acme/web", "a1", web.clone())]].concat();
    check(&with_web, ("acme/web", web), &["b1"]);
}

#[test]
fn namespace_labels_take_effect_in_the_next_cycle() {
    let mut objects = cluster_objects();
    let alone = pod_anti_affinity(json!([term(
        "app",
        HOST,
        namespace_selector(json!({"matchLabels": {"kind": "customer"}}))
    )]));
    let mut there = pod("plain/app", json!({}));
    there["spec"]["nodeName"] = "a1".into();
    objects.insert_pod(there);
    objects.insert_pod(pod("acme/new", alone));
    let (profile, mut cluster) = (default_profile(), objects.build_cluster());
    assert_eq!(feasible_nodes(&profile, &cluster, "acme/new"), ALL);

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
        assert_eq!(differing.len(), 1, "one term selects namespaces");
        objects.namespaces.insert("plain".to_owned(), namespace);
        assert_eq!(feasible_nodes(&profile, &cluster, "acme/new"), expected);
        assert_agreement(&profile, &objects, &cluster, "relabelled");
    }
    // Labels that no term selects have no effect.
    let labels = [("kind", "customer"), ("colour", "green")];
    let differing = cluster.set_namespace("plain", labels.into_iter().collect());
    assert_eq!(differing, []);
    cluster.remove_namespace("plain");
    assert_eq!(feasible_nodes(&profile, &cluster, "acme/new"), ALL);
}
