//! Builders for minimal JSON objects.

use serde_json::{Value, json};

/// Default creation timestamp.
const SOME_TIME: &str = "2026-01-01T00:00:00Z";

pub(crate) fn namespace(name: &str, labels: Value) -> Value {
    json!({"kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

/// A running pod `namespace/app` with these addresses, by default on `node-1`. `more` is merged over it.
pub(crate) fn pod(name: &str, addresses: &str, more: Value) -> Value {
    let (namespace, app) = name.split_once('/').expect("namespace/name");
    let mut pod = json!({
        "kind": "Pod",
        "metadata": {
            "namespace": namespace, "name": app, "uid": format!("uid of {name}"),
            "creationTimestamp": SOME_TIME, "labels": {"app": app},
        },
        "spec": {"nodeName": "node-1", "containers": [{"ports": [{"name": "web", "containerPort": 8080}]}]},
        "status": {"phase": "Running"},
    });
    let addresses: Vec<Value> = addresses
        .split_whitespace()
        .map(|address| json!({"ip": address}))
        .collect();
    if let Some(first) = addresses.first() {
        pod["status"]["podIP"] = first["ip"].clone();
        pod["status"]["podIPs"] = Value::from(addresses);
    }
    lay_over(&mut pod, more);
    pod
}

/// A pod in the host network.
pub(crate) fn host_pod(name: &str, addresses: &str, more: Value) -> Value {
    let mut pod = pod(name, addresses, json!({"spec": {"hostNetwork": true}}));
    lay_over(&mut pod, more);
    pod
}

pub(crate) fn policy(name: &str, spec: Value) -> Value {
    let (namespace, short) = name.split_once('/').expect("namespace/name");
    json!({
        "kind": "NetworkPolicy",
        "metadata": {"namespace": namespace, "name": short, "uid": format!("uid of {name}"), "generation": 1},
        "spec": spec,
    })
}

/// A policy for all pods of the namespace with only these ingress rules.
pub(crate) fn ingress(name: &str, rules: Value) -> Value {
    let spec = json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": rules});
    policy(name, spec)
}

/// A policy for all pods of the namespace with only these egress rules.
pub(crate) fn egress(name: &str, rules: Value) -> Value {
    let spec = json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": rules});
    policy(name, spec)
}

pub(crate) fn app(name: &str) -> Value {
    json!({"matchLabels": {"app": name}})
}

/// A selector with one expression.
pub(crate) fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

pub(crate) fn lay_over(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (field, value) in above {
                lay_over(below.entry(field).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above,
    }
}
