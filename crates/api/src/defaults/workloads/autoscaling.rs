//! Autoscalers, in both of their versions.

use serde_json::{Value, json};

use crate::{Object, edit};

pub(super) fn v1(object: &mut Object) {
    edit::within(object, &["spec"], |spec| {
        edit::default(spec, "minReplicas", 1);
    });
}

pub(super) fn v2(object: &mut Object) {
    edit::within(object, &["spec"], |spec| {
        edit::default(spec, "minReplicas", 1);
        let metrics = spec.get("metrics").and_then(Value::as_array);
        if metrics.is_none_or(Vec::is_empty) {
            spec.insert("metrics".to_owned(), json!([cpu_utilization(80)]));
        }
        if let Some(behavior) = edit::find(spec, &["behavior"]) {
            edit::within(behavior, &["scaleUp"], |rules| {
                edit::default(rules, "stabilizationWindowSeconds", 0);
                edit::default(rules, "selectPolicy", "Max");
                let policies = json!([policy("Pods", 4), policy("Percent", 100)]);
                edit::default(rules, "policies", policies);
            });
            edit::within(behavior, &["scaleDown"], |rules| {
                edit::default(rules, "selectPolicy", "Max");
                edit::default(rules, "policies", json!([policy("Percent", 100)]));
            });
        }
    });
}

fn policy(kind: &str, value: i32) -> Value {
    json!({"type": kind, "value": value, "periodSeconds": 15})
}

/// The metric of an autoscaler that names none.
fn cpu_utilization(percent: i32) -> Value {
    json!({
        "type": "Resource",
        "resource": {
            "name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percent},
        },
    })
}
