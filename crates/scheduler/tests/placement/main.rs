//! Tests of the placement checker: it reports every violation and nothing else.

mod checker;

use std::time::{Duration, Instant};

use checker::{ClusterObjects, rebound_pods, unmet_affinity, violations};
use serde_json::{Value, json};

fn node(name: &str, zone: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"zone": zone, "host": name}},
        "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3", "example.com/device": "1"}},
    })
}

/// A pod `namespace/app` on a node, with additional spec fields.
fn pod(uid: &str, name: &str, node: &str, spec: Value) -> Value {
    let (namespace, app) = name
        .split_once('/')
        .expect("the name has the form namespace/app");
    let mut pod = json!({
        "metadata": {"name": uid, "namespace": namespace, "uid": uid, "labels": {"app": app}},
        "spec": {"containers": [{"name": "main"}], "nodeName": node},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn required(kind: &str, app: &str, key: &str, namespace_selector: Value) -> Value {
    let mut term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key});
    if !namespace_selector.is_null() {
        term["namespaceSelector"] = namespace_selector;
    }
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn requests(requests: Value) -> Value {
    json!({"containers": [{"resources": {"requests": requests}}]})
}

fn port(address: &str) -> Value {
    json!({"containers": [{"ports": [{"hostPort": 80, "hostIP": address}]}]})
}

fn cluster(pods: Vec<Value>) -> (Vec<Value>, Vec<Value>, Vec<Value>) {
    let mut nodes = vec![node("a1", "a"), node("a2", "a"), node("b1", "b")];
    nodes[2]["spec"] =
        json!({"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]});
    let namespaces = vec![
        json!({"metadata": {"name": "one", "labels": {"kind": "customer"}}}),
        json!({"metadata": {"name": "two", "labels": {"kind": "customer"}}}),
        json!({"metadata": {"name": "ops"}}),
    ];
    (nodes, namespaces, pods)
}

fn objects(cluster: &(Vec<Value>, Vec<Value>, Vec<Value>)) -> ClusterObjects<'_> {
    ClusterObjects {
        nodes: &cluster.0,
        namespaces: &cluster.1,
        pods: &cluster.2,
    }
}

#[track_caller]
fn check(pods: Vec<Value>, expected: &[&str]) {
    assert_eq!(violations(&objects(&cluster(pods))), expected);
}

#[test]
fn anti_affinity_is_checked_in_both_directions() {
    let customers = || json!({"matchLabels": {"kind": "customer"}});
    let alone = |key: &str| required("podAntiAffinity", "app", key, customers());
    let plain = || json!({});
    check(
        vec![
            pod("p", "one/app", "a1", alone("host")),
            pod("q", "two/app", "a2", alone("host")),
        ],
        &[],
    );
    check(
        vec![
            pod("p", "one/app", "a1", alone("host")),
            pod("q", "two/app", "a1", plain()),
        ],
        &["one/p on a1: anti-affinity by host excludes two/q on a1"],
    );
    check(
        vec![
            pod("p", "two/app", "a2", plain()),
            pod("q", "one/web", "a1", alone("zone")),
        ],
        &["one/q on a1: anti-affinity by zone excludes two/p on a2"],
    );
    // The operators' namespace is not selected; without a selector only the pod's own namespace counts.
    check(
        vec![
            pod("p", "one/app", "a1", alone("host")),
            pod("q", "ops/app", "a1", plain()),
        ],
        &[],
    );
    let own = required("podAntiAffinity", "app", "host", Value::Null);
    check(
        vec![
            pod("p", "one/app", "a1", own),
            pod("q", "two/app", "a1", plain()),
        ],
        &[],
    );
    // A node without the topology label is in no domain.
    check(
        vec![
            pod("p", "one/app", "a1", alone("rack")),
            pod("q", "two/app", "a1", plain()),
        ],
        &[],
    );
}

#[test]
fn overcommitted_nodes_are_found() {
    let half = || requests(json!({"cpu": "1000m", "memory": "0.5Gi"}));
    check(
        vec![
            pod("p", "one/app", "a1", half()),
            pod("q", "one/app", "a1", half()),
        ],
        &[],
    );
    check(
        vec![
            pod("p", "one/app", "a1", half()),
            pod("q", "one/app", "a1", half()),
            pod("r", "one/app", "a1", requests(json!({"cpu": "1m"}))),
        ],
        &["a1: requests of cpu exceed allocatable"],
    );
    let device = || requests(json!({"example.com/device": "1"}));
    check(
        vec![
            pod("p", "one/app", "a1", device()),
            pod("q", "one/app", "a1", device()),
        ],
        &["a1: requests of example.com/device exceed allocatable"],
    );
    let uids = ["p", "q", "r", "s"];
    check(
        uids.map(|uid| pod(uid, "one/app", "a1", json!({}))).into(),
        &["a1: requests of pods exceed allocatable"],
    );
    let mut ended = pod("r", "one/app", "a1", half());
    ended["status"] = json!({"phase": "Succeeded"});
    check(
        vec![
            pod("p", "one/app", "a1", half()),
            pod("q", "one/app", "a1", half()),
            ended,
        ],
        &[],
    );
    let init_containers = json!({"initContainers": [{"resources": {"requests": {"cpu": "3"}}}]});
    check(
        vec![pod("p", "one/app", "a1", init_containers)],
        &["a1: requests of cpu exceed allocatable"],
    );
}

#[test]
fn host_port_conflicts_are_found() {
    let on = |uid: &str, address: &str| pod(uid, "one/app", "a1", port(address));
    check(vec![on("p", "10.0.0.1"), on("q", "10.0.0.2")], &[]);
    for address in ["10.0.0.1", "", "0.0.0.0"] {
        let expected = "a1: one/p and one/q use the same host port 80";
        check(vec![on("p", "10.0.0.1"), on("q", address)], &[expected]);
    }
}

#[test]
fn pods_on_forbidden_nodes_are_found() {
    check(
        vec![pod("p", "one/app", "gone", json!({}))],
        &["one/p is on gone, which does not exist"],
    );
    check(
        vec![pod("p", "one/app", "b1", json!({}))],
        &["one/p on b1: untolerated taint"],
    );
    let tolerant = json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]});
    check(vec![pod("p", "one/app", "b1", tolerant)], &[]);
    let elsewhere = "one/p on a1: node selector or node affinity does not match the node";
    check(
        vec![pod(
            "p",
            "one/app",
            "a1",
            json!({"nodeSelector": {"zone": "b"}}),
        )],
        &[elsewhere],
    );
    for (expression, expected) in [
        (
            json!({"key": "zone", "operator": "In", "values": ["a"]}),
            [].as_slice(),
        ),
        (
            json!({"key": "zone", "operator": "NotIn", "values": ["a"]}),
            &[elsewhere],
        ),
    ] {
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
        let affinity =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        check(
            vec![pod("p", "one/app", "a1", json!({"affinity": affinity}))],
            expected,
        );
    }
}

#[test]
fn unmet_affinity_is_found() {
    let group = || required("podAffinity", "app", "zone", Value::Null);
    let found = |pods: Vec<Value>| unmet_affinity(&objects(&cluster(pods)));
    // The first pod of a group meets its own affinity.
    assert!(found(vec![pod("p", "one/app", "a1", group())]).is_empty());
    let far = pod("q", "one/app", "b1", json!({}));
    let missed = "one/p on a1: no pod in the domain matches its affinity";
    assert_eq!(
        found(vec![pod("p", "one/web", "a1", group()), far]),
        [missed]
    );
    let near = pod("q", "one/app", "a2", json!({}));
    assert!(found(vec![pod("p", "one/web", "a1", group()), near]).is_empty());
}

#[test]
fn rebound_pods_are_found() {
    let event =
        |node: &str| json!({"type": "MODIFIED", "object": pod("p", "one/app", node, json!({}))});
    let mut unbound = event("a1");
    unbound["object"]["spec"]["nodeName"] = Value::Null;
    assert!(rebound_pods(&[unbound.clone(), event("a1"), event("a1")]).is_empty());
    assert_eq!(
        rebound_pods(&[event("a1"), event("a2")]),
        ["one/p was on a1 and then on a2"]
    );
    assert_eq!(
        rebound_pods(&[event("a1"), unbound]),
        ["one/p was on a1 and then unassigned"]
    );
}

#[test]
fn ten_thousand_pods_are_checked_quickly() {
    let nodes: Vec<Value> = (0..5000)
        .map(|n| node(&format!("n{n}"), &format!("z{}", n % 3)))
        .collect();
    let namespaces: Vec<Value> = (0..100)
        .map(|n| json!({"metadata": {"name": format!("ns{n}"), "labels": {"kind": "customer"}}}))
        .collect();
    let alone = required(
        "podAntiAffinity",
        "app",
        "host",
        json!({"matchLabels": {"kind": "customer"}}),
    );
    let pods: Vec<Value> = (0..10_000)
        .map(|n| {
            let (app, spec) = if n < 5000 {
                ("app", alone.clone())
            } else {
                ("web", json!({}))
            };
            pod(
                &format!("p{n}"),
                &format!("ns{}/{app}", n % 100),
                &format!("n{}", n % 5000),
                spec,
            )
        })
        .collect();
    let started = Instant::now();
    assert!(violations(&objects(&(nodes, namespaces, pods))).is_empty());
    assert!(started.elapsed() < Duration::from_secs(20));
}
