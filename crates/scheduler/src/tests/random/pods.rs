//! Random pods that use all scheduling features.

use serde_json::{Value, json};

use super::json_choices::JsonChoices;
use super::nodes::{IMAGES, TAINT_KEYS, TAINT_VALUES};
use super::terms::{POD_KEYS, PREFERRED, REQUIRED, VALUES, pod_affinity, spread_constraint};
use super::{NAMESPACES, SeededRng};

/// Which features random pods use. With inter-pod affinity alone, rejections by other plugins cannot mask its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodFeatures {
    InterPodAffinityOnly,
    All,
}

/// A random pod in one of the first `namespaces` namespaces.
pub(crate) fn pod(
    rng: &mut SeededRng,
    number: usize,
    namespaces: usize,
    extent: PodFeatures,
) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": format!("pod-{number}"),
            "namespace": rng.choose(&NAMESPACES[..namespaces]),
            "uid": format!("uid-{number}"),
            "labels": rng.random_labels(&POD_KEYS, &VALUES, 70),
        },
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        "status": {"phase": "Pending"},
    });
    rng.maybe_set(&mut pod["metadata"], "deletionTimestamp", 8, |_| {
        "2026-01-01T00:00:00Z".into()
    });
    if rng.percent(60) {
        let spec = &mut pod["spec"];
        spec["affinity"] = json!({});
        rng.maybe_set(&mut spec["affinity"], "podAffinity", 50, pod_affinity);
        rng.maybe_set(&mut spec["affinity"], "podAntiAffinity", 50, pod_affinity);
    }
    if extent == PodFeatures::All {
        set_resources_and_ports(rng, &mut pod["spec"]);
    }
    pod
}

fn set_resources_and_ports(rng: &mut SeededRng, spec: &mut Value) {
    let count = 1 + rng.below(2);
    spec["containers"] = (0..count).map(|_| container(rng)).collect();
    rng.maybe_set(spec, "initContainers", 25, |rng| {
        rng.random_list(2, |rng| {
            let mut container = container(rng);
            rng.maybe_set(&mut container, "restartPolicy", 50, |_| "Always".into());
            container
        })
    });
    rng.maybe_set(
        spec,
        "overhead",
        10,
        |_| json!({"cpu": "50m", "memory": "16Mi"}),
    );
    rng.maybe_set(spec, "nodeSelector", 15, |rng| {
        rng.random_labels(&["topology.kubernetes.io/zone", "rack"], &VALUES, 40)
    });
    if rng.percent(30) {
        if spec["affinity"].is_null() {
            spec["affinity"] = json!({});
        }
        spec["affinity"]["nodeAffinity"] = node_affinity(rng);
    }
    rng.maybe_set(
        spec,
        "volumes",
        10,
        |rng| json!([{"name": "data", "image": {"reference": rng.choose(&IMAGES)}}]),
    );
    rng.maybe_set(spec, "tolerations", 50, |rng| {
        rng.random_list(3, toleration)
    });
    rng.maybe_set(spec, "topologySpreadConstraints", 40, |rng| {
        rng.random_list(3, spread_constraint)
    });
}

fn container(rng: &mut SeededRng) -> Value {
    let mut container = json!({"name": "main", "image": rng.choose(&IMAGES)});
    if rng.percent(10) {
        container["image"] = "tool".into();
    }
    rng.maybe_set(&mut container, "resources", 60, |rng| {
        let mut requests = json!({});
        rng.maybe_set(&mut requests, "cpu", 60, |rng| {
            rng.choose(&["0", "100m", "750m", "1"]).into()
        });
        rng.maybe_set(&mut requests, "memory", 60, |rng| {
            rng.choose(&["64Mi", "500M", "1Gi"]).into()
        });
        rng.maybe_set(&mut requests, "memory", 2, |_| IMMENSE.into());
        rng.maybe_set(&mut requests, "ephemeral-storage", 15, |_| "600Mi".into());
        rng.maybe_set(&mut requests, "example.com/device", 10, |rng| {
            rng.choose(&["0", "1", "2"]).into()
        });
        json!({"requests": requests})
    });
    rng.maybe_set(&mut container, "ports", 25, |rng| rng.random_list(2, port));
    container
}

/// The largest quantity, so that the sum of two overflows i64.
const IMMENSE: &str = "9223372036854775807";

fn port(rng: &mut SeededRng) -> Value {
    let mut port = json!({"containerPort": 80});
    rng.maybe_set(&mut port, "hostPort", 80, |rng| {
        rng.choose(&[80, 81]).into()
    });
    rng.maybe_set(&mut port, "hostIP", 50, |rng| {
        rng.choose(&["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]).into()
    });
    rng.maybe_set(&mut port, "protocol", 50, |rng| {
        rng.choose(&["TCP", "UDP"]).into()
    });
    port
}

fn toleration(rng: &mut SeededRng) -> Value {
    let effect = rng.choose(&["", "NoSchedule", "PreferNoSchedule", "NoExecute"]);
    let mut toleration = json!({"key": rng.choose(&TAINT_KEYS), "effect": effect});
    match rng.below(6) {
        0 => toleration["operator"] = "Exists".into(),
        1 => toleration = json!({"operator": "Exists", "effect": effect}),
        2 => {
            toleration["operator"] = rng.choose(&["Lt", "Gt"]).into();
            toleration["value"] = rng.choose(&["1", "5", "7"]).into();
        }
        3 => {
            toleration["operator"] = "Exists".into();
            toleration["key"] = "node.kubernetes.io/unschedulable".into();
        }
        _ => toleration["value"] = rng.choose(&TAINT_VALUES).into(),
    }
    toleration
}

fn node_affinity(rng: &mut SeededRng) -> Value {
    let mut affinity = json!({});
    rng.maybe_set(&mut affinity, REQUIRED, 60, |rng| {
        let count = 1 + rng.below(2);
        let terms: Value = (0..count).map(|_| node_term(rng)).collect();
        json!({"nodeSelectorTerms": terms})
    });
    rng.maybe_set(&mut affinity, PREFERRED, 60, |rng| {
        rng.random_list(
            3,
            |rng| json!({"weight": 1 + rng.below(100), "preference": node_term(rng)}),
        )
    });
    affinity
}

/// Some are empty and match no node.
fn node_term(rng: &mut SeededRng) -> Value {
    let mut term = json!({});
    rng.maybe_set(&mut term, "matchExpressions", 70, |rng| {
        rng.random_list(2, node_expression)
    });
    rng.maybe_set(&mut term, "matchFields", 20, |rng| {
        let name = format!("node-{}", rng.below(6));
        let operator = rng.choose(&["In", "NotIn"]);
        json!([{"key": "metadata.name", "operator": operator, "values": [name]}])
    });
    term
}

fn node_expression(rng: &mut SeededRng) -> Value {
    let key = rng.choose(&["disk", "rack", "topology.kubernetes.io/zone"]);
    let value = rng.choose(&["1", "2", "a", "b"]);
    match rng.below(6) {
        0 => json!({"key": key, "operator": "Exists"}),
        1 => json!({"key": key, "operator": "DoesNotExist"}),
        2 => json!({"key": "disk", "operator": "Gt", "values": ["1"]}),
        3 => json!({"key": "disk", "operator": "Lt", "values": ["3"]}),
        4 => json!({"key": key, "operator": "NotIn", "values": [value, "c"]}),
        _ => json!({"key": key, "operator": "In", "values": [value, "c"]}),
    }
}
