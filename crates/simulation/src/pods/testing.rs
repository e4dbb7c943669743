//! Test support: pods, with times in seconds since the Unix epoch.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::lifecycle::PodTransition;
use super::observed_pod::{ObservedPod, StageObservation};
use super::status::{PodAddresses, patch, time};

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The time in the format of objects.
pub(crate) fn time_text(second: i64) -> String {
    time(at(second))
}

/// A pod with one container and these annotations (without prefix).
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

pub(crate) fn observed_pod(pod: &Value) -> ObservedPod {
    let (facts, problems) = ObservedPod::read(serde_json::from_value(pod.clone()).unwrap());
    assert_eq!(problems, Vec::<String>::new());
    facts
}

/// An observation by a process that has just started.
pub(crate) fn stage_observation(facts: &ObservedPod, now: i64) -> StageObservation {
    StageObservation::new(facts.stage(), at(now))
}

/// The stored pod after a transition.
pub(crate) fn after_transition(pod: &Value, change: PodTransition, now: i64) -> Value {
    let addresses = PodAddresses {
        host: [172, 16, 0, 1].into(),
        pod: [10, 16, 0, 2].into(),
    };
    let patch = patch(&observed_pod(pod), change, addresses, at(now));
    let mut pod = pod.clone();
    for (field, value) in patch["status"].as_object().unwrap() {
        pod["status"][field] = value.clone();
    }
    pod
}
