//! Defaults of HorizontalPodAutoscalers, v1 and v2.

use serde_json::{Value, json};

use crate::{JsonObject, object_edit};

pub(super) fn v1(object: &mut JsonObject) {
    object_edit::edit_child(object, &["spec"], |spec| {
        object_edit::set_default(spec, "minReplicas", 1);
    });
}

pub(super) fn v2(object: &mut JsonObject) {
    object_edit::edit_child(object, &["spec"], |spec| {
        object_edit::set_default(spec, "minReplicas", 1);
        let metrics = spec.get("metrics").and_then(Value::as_array);
        if metrics.is_none_or(Vec::is_empty) {
            spec.insert("metrics".to_owned(), json!([cpu_utilization(80)]));
        }
        if let Some(behavior) = object_edit::find_object(spec, &["behavior"]) {
            object_edit::edit_child(behavior, &["scaleUp"], |rules| {
                object_edit::set_default(rules, "stabilizationWindowSeconds", 0);
                object_edit::set_default(rules, "selectPolicy", "Max");
                let policies = json!([policy("Pods", 4), policy("Percent", 100)]);
                object_edit::set_default(rules, "policies", policies);
            });
            object_edit::edit_child(behavior, &["scaleDown"], |rules| {
                object_edit::set_default(rules, "selectPolicy", "Max");
                object_edit::set_default(rules, "policies", json!([policy("Percent", 100)]));
            });
        }
    });
}

fn policy(kind: &str, value: i32) -> Value {
    json!({"type": kind, "value": value, "periodSeconds": 15})
}

/// The default metric.
fn cpu_utilization(percent: i32) -> Value {
    json!({
        "type": "Resource",
        "resource": {
            "name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percent},
        },
    })
}
