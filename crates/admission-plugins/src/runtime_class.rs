//! The RuntimeClass plugin: copies overhead, node selector and tolerations from a pod's RuntimeClass.

use std::sync::Arc;

use async_trait::async_trait;
use rhumb_api::{JsonObject, fields};
use rhumb_meta::{Quantity, Status};
use serde_json::{Map, Value};

use super::object_lookup;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};

const OVERHEAD_MISMATCH: &str =
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const UNEXPECTED_OVERHEAD: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

#[derive(Debug)]
pub(super) struct RuntimeClassPlugin;

#[async_trait]
impl AdmissionPlugin for RuntimeClassPlugin {
    fn handles(&self, _step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        is_new_pod(attributes)
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        let Some(pod) = object.filter(|_| is_new_pod(attributes)) else {
            return Ok(());
        };
        if let Some(class) = class_of(attributes, pod).await? {
            let applied = set_overhead(pod, &class).and_then(|()| set_scheduling(pod, &class));
            applied.map_err(|reason| attributes.forbidden(Some(pod), reason))?;
        }
        Ok(())
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let Some(pod) = object.filter(|_| is_new_pod(attributes)) else {
            return Ok(());
        };
        let class = class_of(attributes, pod).await?;
        check_overhead(pod, class.as_deref()).map_err(|reason| attributes.forbidden(object, reason))
    }
}

fn is_new_pod(attributes: &AdmissionAttributes<'_>) -> bool {
    attributes.operation == Operation::Create && attributes.is_resource("", "pods")
}

async fn class_of(
    attributes: &AdmissionAttributes<'_>,
    pod: &JsonObject,
) -> Result<Option<Arc<JsonObject>>, Status> {
    let Some(Value::String(name)) = fields::get(pod, "spec.runtimeClassName") else {
        return Ok(None);
    };
    let class = object_lookup::find_cluster_object(
        attributes.context,
        "node.k8s.io",
        "runtimeclasses",
        name,
    )
    .await?;
    if class.is_some() {
        return Ok(class);
    }
    let reason = format!("pod rejected: RuntimeClass {name:?} not found");
    Err(attributes.forbidden(Some(pod), reason))
}

/// The pod overhead of the class; `None` if it has none.
fn overhead_of(class: &JsonObject) -> Option<Map<String, Value>> {
    fields::get(class, "overhead")?;
    let fixed = fields::get(class, "overhead.podFixed").and_then(Value::as_object);
    Some(fixed.cloned().unwrap_or_default())
}

fn pod_overhead(pod: &JsonObject) -> Map<String, Value> {
    let overhead = fields::get(pod, "spec.overhead").and_then(Value::as_object);
    overhead.cloned().unwrap_or_default()
}

fn is_same_overhead(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let same_quantity =
        |one: &Value, other: &Value| match (Quantity::from_json(one), Quantity::from_json(other)) {
            (Ok(one), Ok(other)) => one == other,
            _ => one == other,
        };
    one.len() == other.len()
        && one.iter().all(|(name, value)| {
            other
                .get(name)
                .is_some_and(|other| same_quantity(value, other))
        })
}

fn set_overhead(pod: &mut JsonObject, class: &JsonObject) -> Result<(), String> {
    let Some(overhead) = overhead_of(class) else {
        return Ok(());
    };
    let requested = pod_overhead(pod);
    if !requested.is_empty() && !is_same_overhead(&requested, &overhead) {
        return Err(OVERHEAD_MISMATCH.to_owned());
    }
    fields::set(pod, "spec.overhead", overhead);
    Ok(())
}

fn check_overhead(pod: &JsonObject, class: Option<&JsonObject>) -> Result<(), &'static str> {
    match class.and_then(overhead_of) {
        Some(overhead) if !is_same_overhead(&pod_overhead(pod), &overhead) => {
            Err(OVERHEAD_MISMATCH)
        }
        None if fields::get(pod, "spec.overhead").is_some() => Err(UNEXPECTED_OVERHEAD),
        _ => Ok(()),
    }
}

fn set_scheduling(pod: &mut JsonObject, class: &JsonObject) -> Result<(), String> {
    if fields::get(class, "scheduling").is_none() {
        return Ok(());
    }
    let class_selector = fields::get(class, "scheduling.nodeSelector").and_then(Value::as_object);
    let mut selector = fields::get(pod, "spec.nodeSelector")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    for (key, value) in class_selector.into_iter().flatten() {
        if let Some(other) = selector.get(key).filter(|&other| other != value) {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                value.as_str().unwrap_or_default(),
                other.as_str().unwrap_or_default(),
            ));
        }
        selector.insert(key.clone(), value.clone());
    }
    if !selector.is_empty() {
        fields::set(pod, "spec.nodeSelector", selector);
    }
    let mut all = fields::items(pod, "spec.tolerations").to_vec();
    all.extend_from_slice(fields::items(class, "scheduling.tolerations"));
    let merged = merge_tolerations(&all);
    if !merged.is_empty() {
        fields::set(pod, "spec.tolerations", merged);
    }
    Ok(())
}

/// Drops tolerations that others cover.
fn merge_tolerations(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let covered_before = merged.iter().any(|other| covers(other, toleration));
        let covered_after = all[index + 1..]
            .iter()
            .any(|other| other != toleration && covers(other, toleration));
        if !covered_before && !covered_after {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Whether this toleration tolerates all taints that the other one tolerates.
fn covers(this: &Value, other: &Value) -> bool {
    fn text<'a>(toleration: &'a Value, field: &str) -> &'a str {
        toleration[field].as_str().unwrap_or_default()
    }
    if this == other {
        return true;
    }
    let (key, operator) = (text(this, "key"), text(this, "operator"));
    if key != text(other, "key") && !(key.is_empty() && operator == "Exists") {
        return false;
    }
    let effect = text(this, "effect");
    if effect != text(other, "effect") && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute"
        && let Some(seconds) = this["tolerationSeconds"].as_i64()
        && other["tolerationSeconds"]
            .as_i64()
            .is_none_or(|other| other > seconds)
    {
        return false;
    }
    match operator {
        "Exists" => true,
        "" | "Equal" => {
            text(other, "operator") == "Equal" && text(this, "value") == text(other, "value")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use rhumb_registry::testing::object;

    #[test]
    fn overhead_comes_only_from_the_runtime_class() {
        let class = object(json!({"overhead": {"podFixed": {"cpu": "250m"}}}));
        let bare = object(json!({}));
        let table = [
            (json!({}), Some(&class), Ok(())),
            (json!({"overhead": {"cpu": "0.25"}}), Some(&class), Ok(())),
            (
                json!({"overhead": {"cpu": "1"}}),
                Some(&class),
                Err(OVERHEAD_MISMATCH),
            ),
            (
                json!({"overhead": {"cpu": "1"}}),
                Some(&bare),
                Err(UNEXPECTED_OVERHEAD),
            ),
            (
                json!({"overhead": {"cpu": "1"}}),
                None,
                Err(UNEXPECTED_OVERHEAD),
            ),
            (json!({}), None, Ok(())),
        ];
        for (spec, class, want) in table {
            let mut pod = object(json!({"spec": spec}));
            let set = class.map_or(Ok(()), |class| set_overhead(&mut pod, class));
            let got = set.and_then(|()| check_overhead(&pod, class).map_err(str::to_owned));
            assert_eq!(got, want.map_err(str::to_owned), "{spec}");
        }
    }

    #[test]
    fn pods_get_scheduling_from_their_runtime_class() {
        let class = object(json!({"scheduling": {
            "nodeSelector": {"runtime": "gvisor"},
            "tolerations": [{"key": "gvisor", "operator": "Exists"}],
        }}));
        let mut pod = object(json!({"spec": {"nodeSelector": {"zone": "a"}}}));
        assert_eq!(set_scheduling(&mut pod, &class), Ok(()));
        assert_eq!(
            pod["spec"]["nodeSelector"],
            json!({"zone": "a", "runtime": "gvisor"})
        );
        assert_eq!(
            pod["spec"]["tolerations"],
            json!([{"key": "gvisor", "operator": "Exists"}])
        );
        let mut other = object(json!({"spec": {"nodeSelector": {"runtime": "runc"}}}));
        assert_eq!(
            set_scheduling(&mut other, &class),
            Err("conflict: runtimeClass.scheduling.nodeSelector[runtime] = gvisor; pod.spec.nodeSelector[runtime] = runc".to_owned())
        );
    }

    #[test]
    fn covered_tolerations_are_dropped() {
        let everything = json!({"operator": "Exists"});
        let one = json!({"key": "a", "operator": "Equal", "value": "1", "effect": "NoSchedule"});
        let any_value = json!({"key": "a", "operator": "Exists"});
        let other = json!({"key": "b", "operator": "Exists"});
        let table = [
            (vec![one.clone(), one.clone()], vec![one.clone()]),
            (
                vec![one.clone(), any_value.clone()],
                vec![any_value.clone()],
            ),
            (
                vec![any_value.clone(), one.clone()],
                vec![any_value.clone()],
            ),
            (
                vec![any_value.clone(), other.clone()],
                vec![any_value.clone(), other.clone()],
            ),
            (vec![any_value, everything.clone(), other], vec![everything]),
        ];
        for (all, want) in table {
            assert_eq!(merge_tolerations(&all), want);
        }
    }
}
