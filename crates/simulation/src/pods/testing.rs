//! Pods for tests, with times in seconds since 1970.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::facts::{Facts, Sight};
use super::life::Change;
use super::status::{Addresses, patch, time};

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The time as objects have it.
pub(crate) fn said(second: i64) -> String {
    time(at(second))
}

/// A pod with one container, and these annotations (without their prefix).
pub(crate) fn pod(restart_policy: &str, annotations: &[(&str, &str)]) -> Value {
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(name, value)| (format!("simulation.rhumb/{name}"), json!(value)))
        .collect();
    json!({
        "metadata": {
            "name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "generation": 1, "annotations": annotations,
        },
        "spec": {
            "nodeName": "n",
            "restartPolicy": restart_policy,
            "containers": [{"name": "main", "image": "i"}],
        },
        "status": {"phase": "Pending"},
    })
}

pub(crate) fn facts(pod: &Value) -> Facts {
    let (facts, problems) = Facts::read(serde_json::from_value(pod.clone()).unwrap());
    assert_eq!(problems, Vec::<String>::new());
    facts
}

/// As a process that has just come sees it.
pub(crate) fn seen(facts: &Facts, now: i64) -> Sight {
    Sight::new(facts.stage(), at(now))
}

/// The pod after a change, as the server would have it.
pub(crate) fn changed(pod: &Value, change: Change, now: i64) -> Value {
    let addresses = Addresses {
        host: [172, 16, 0, 1].into(),
        pod: [10, 16, 0, 2].into(),
    };
    let patch = patch(&facts(pod), change, addresses, at(now));
    let mut pod = pod.clone();
    for (field, value) in patch["status"].as_object().unwrap() {
        pod["status"][field] = value.clone();
    }
    pod
}
