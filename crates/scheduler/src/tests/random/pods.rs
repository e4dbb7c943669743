//! Pods that ask for all that can be asked for.

use serde_json::{Value, json};

use super::nodes::{IMAGES, TAINT_KEYS, TAINT_VALUES};
use super::terms::{POD_KEYS, PREFERRED, REQUIRED, VALUES, pod_affinity, spread};
use super::{Dice, NAMESPACES};

/// What pods ask for: what only inter-pod affinity looks at, so that other plugins hide none of it, or everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Affinity,
    Everything,
}

/// A pod of the given number, in one of the first namespaces.
pub(crate) fn pod(dice: &mut Dice, number: usize, namespaces: usize, extent: Extent) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": format!("pod-{number}"),
            "namespace": dice.one_of(&NAMESPACES[..namespaces]),
            "uid": format!("uid-{number}"),
            "labels": dice.labels(&POD_KEYS, &VALUES, 70),
        },
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        "status": {"phase": "Pending"},
    });
    dice.maybe(&mut pod["metadata"], "deletionTimestamp", 8, |_| {
        "2026-01-01T00:00:00Z".into()
    });
    if dice.chance(60) {
        let spec = &mut pod["spec"];
        spec["affinity"] = json!({});
        dice.maybe(&mut spec["affinity"], "podAffinity", 50, pod_affinity);
        dice.maybe(&mut spec["affinity"], "podAntiAffinity", 50, pod_affinity);
    }
    if extent == Extent::Everything {
        ask_for_the_rest(dice, &mut pod["spec"]);
    }
    pod
}

fn ask_for_the_rest(dice: &mut Dice, spec: &mut Value) {
    let count = 1 + dice.below(2);
    spec["containers"] = (0..count).map(|_| container(dice)).collect();
    dice.maybe(spec, "initContainers", 25, |dice| {
        dice.list(2, |dice| {
            let mut container = container(dice);
            dice.maybe(&mut container, "restartPolicy", 50, |_| "Always".into());
            container
        })
    });
    dice.maybe(
        spec,
        "overhead",
        10,
        |_| json!({"cpu": "50m", "memory": "16Mi"}),
    );
    dice.maybe(spec, "nodeSelector", 15, |dice| {
        dice.labels(&["topology.kubernetes.io/zone", "rack"], &VALUES, 40)
    });
    if dice.chance(30) {
        if spec["affinity"].is_null() {
            spec["affinity"] = json!({});
        }
        spec["affinity"]["nodeAffinity"] = node_affinity(dice);
    }
    dice.maybe(
        spec,
        "volumes",
        10,
        |dice| json!([{"name": "data", "image": {"reference": dice.one_of(&IMAGES)}}]),
    );
    dice.maybe(spec, "tolerations", 50, |dice| dice.list(3, toleration));
    dice.maybe(spec, "topologySpreadConstraints", 40, |dice| {
        dice.list(3, spread)
    });
}

fn container(dice: &mut Dice) -> Value {
    let mut container = json!({"name": "main", "image": dice.one_of(&IMAGES)});
    if dice.chance(10) {
        container["image"] = "tool".into();
    }
    dice.maybe(&mut container, "resources", 60, |dice| {
        let mut requests = json!({});
        dice.maybe(&mut requests, "cpu", 60, |dice| {
            dice.one_of(&["0", "100m", "750m", "1"]).into()
        });
        dice.maybe(&mut requests, "memory", 60, |dice| {
            dice.one_of(&["64Mi", "500M", "1Gi"]).into()
        });
        dice.maybe(&mut requests, "memory", 2, |_| IMMENSE.into());
        dice.maybe(&mut requests, "ephemeral-storage", 15, |_| "600Mi".into());
        dice.maybe(&mut requests, "example.com/device", 10, |dice| {
            dice.one_of(&["0", "1", "2"]).into()
        });
        json!({"requests": requests})
    });
    dice.maybe(&mut container, "ports", 25, |dice| dice.list(2, port));
    container
}

/// All that can be asked for, so that two of them are more than can be counted.
const IMMENSE: &str = "9223372036854775807";

fn port(dice: &mut Dice) -> Value {
    let mut port = json!({"containerPort": 80});
    dice.maybe(&mut port, "hostPort", 80, |dice| {
        dice.one_of(&[80, 81]).into()
    });
    dice.maybe(&mut port, "hostIP", 50, |dice| {
        dice.one_of(&["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]).into()
    });
    dice.maybe(&mut port, "protocol", 50, |dice| {
        dice.one_of(&["TCP", "UDP"]).into()
    });
    port
}

fn toleration(dice: &mut Dice) -> Value {
    let effect = dice.one_of(&["", "NoSchedule", "PreferNoSchedule", "NoExecute"]);
    let mut toleration = json!({"key": dice.one_of(&TAINT_KEYS), "effect": effect});
    match dice.below(6) {
        0 => toleration["operator"] = "Exists".into(),
        1 => toleration = json!({"operator": "Exists", "effect": effect}),
        2 => {
            toleration["operator"] = dice.one_of(&["Lt", "Gt"]).into();
            toleration["value"] = dice.one_of(&["1", "5", "7"]).into();
        }
        3 => {
            toleration["operator"] = "Exists".into();
            toleration["key"] = "node.kubernetes.io/unschedulable".into();
        }
        _ => toleration["value"] = dice.one_of(&TAINT_VALUES).into(),
    }
    toleration
}

fn node_affinity(dice: &mut Dice) -> Value {
    let mut affinity = json!({});
    dice.maybe(&mut affinity, REQUIRED, 60, |dice| {
        let count = 1 + dice.below(2);
        let terms: Value = (0..count).map(|_| node_term(dice)).collect();
        json!({"nodeSelectorTerms": terms})
    });
    dice.maybe(&mut affinity, PREFERRED, 60, |dice| {
        dice.list(
            3,
            |dice| json!({"weight": 1 + dice.below(100), "preference": node_term(dice)}),
        )
    });
    affinity
}

/// Some are empty, and match nothing.
fn node_term(dice: &mut Dice) -> Value {
    let mut term = json!({});
    dice.maybe(&mut term, "matchExpressions", 70, |dice| {
        dice.list(2, node_expression)
    });
    dice.maybe(&mut term, "matchFields", 20, |dice| {
        let name = format!("node-{}", dice.below(6));
        let operator = dice.one_of(&["In", "NotIn"]);
        json!([{"key": "metadata.name", "operator": operator, "values": [name]}])
    });
    term
}

fn node_expression(dice: &mut Dice) -> Value {
    let key = dice.one_of(&["disk", "rack", "topology.kubernetes.io/zone"]);
    let value = dice.one_of(&["1", "2", "a", "b"]);
    match dice.below(6) {
        0 => json!({"key": key, "operator": "Exists"}),
        1 => json!({"key": key, "operator": "DoesNotExist"}),
        2 => json!({"key": "disk", "operator": "Gt", "values": ["1"]}),
        3 => json!({"key": "disk", "operator": "Lt", "values": ["3"]}),
        4 => json!({"key": key, "operator": "NotIn", "values": [value, "c"]}),
        _ => json!({"key": key, "operator": "In", "values": [value, "c"]}),
    }
}
