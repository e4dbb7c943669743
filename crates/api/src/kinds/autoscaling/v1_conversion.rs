//! Conversion of `HorizontalPodAutoscaler` between autoscaling/v1 and v2. A v1 object has only a CPU utilization
//! target; all other fields round-trip in annotations, as upstream.

use rhumb_meta::gotext;
use serde_json::{Value, json};

use super::v1_metrics;
use crate::validation_helpers::checks::go_struct_json;
use crate::{JsonObject, fields, object_edit};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// All annotations that the conversion uses.
const ANNOTATIONS: &[&str] = &[
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// Default target, in percent.
const DEFAULT_UTILIZATION: i64 = 80;

pub(super) fn to_v2(object: &mut JsonObject) {
    object.insert("apiVersion".to_owned(), json!("autoscaling/v2"));
    let annotations = take_annotations(object);
    let saved = |name: &str| -> Option<Value> {
        let text = annotations.iter().find(|(key, _)| key == name);
        text.and_then(|(_, text)| serde_json::from_str(text).ok())
    };
    object_edit::edit_child(object, &["spec"], |spec| {
        let mut all = v1_metrics::specs_to_v2(saved(METRICS));
        let utilization = spec.remove("targetCPUUtilizationPercentage");
        let utilization = utilization.filter(|value| !value.is_null());
        if let Some(utilization) = utilization {
            all.push(cpu_utilization(utilization));
        } else if all.is_empty() {
            all.push(cpu_utilization(json!(DEFAULT_UTILIZATION)));
        }
        spec.insert("metrics".to_owned(), Value::Array(all));
        if let Some(behavior) = saved(BEHAVIOR).and_then(behavior_to_v2) {
            spec.insert("behavior".to_owned(), behavior);
        }
    });
    if let Some(status) = object_edit::find_object(object, &["status"]) {
        status_to_v2(status, saved(CURRENT_METRICS), saved(CONDITIONS));
    }
}

fn status_to_v2(status: &mut JsonObject, metrics: Option<Value>, conditions: Option<Value>) {
    let utilization = status.remove("currentCPUUtilizationPercentage");
    let utilization = utilization.filter(|value| !value.is_null());
    let current = match (metrics, utilization) {
        (Some(saved @ Value::Array(_)), _) => v1_metrics::statuses_to_v2(Some(saved)),
        (_, Some(utilization)) => vec![json!({
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": utilization}},
        })],
        _ => Vec::new(),
    };
    if !current.is_empty() {
        status.insert("currentMetrics".to_owned(), Value::Array(current));
    }
    if let Some(conditions @ Value::Array(_)) = conditions {
        status.insert("conditions".to_owned(), conditions);
    }
}

pub(super) fn from_v2(object: &mut JsonObject) {
    object.insert("apiVersion".to_owned(), json!("autoscaling/v1"));
    take_annotations(object);
    let mut annotations = Vec::new();
    if let Some(spec) = object_edit::find_object(object, &["spec"]) {
        let (own, others) = split_metrics(spec.remove("metrics"));
        if let Some(utilization) = own.first() {
            let name = "targetCPUUtilizationPercentage";
            spec.insert(name.to_owned(), utilization.clone());
        }
        if !others.is_empty() {
            annotations.push((METRICS, gotext::json(&v1_metrics::specs_to_v1(&others))));
        }
        if let Some(Value::Object(behavior)) = spec.remove("behavior") {
            annotations.push((BEHAVIOR, internal_behavior(&behavior)));
        }
    }
    if let Some(status) = object_edit::find_object(object, &["status"]) {
        annotations.extend(status_from_v2(status));
    }
    if !annotations.is_empty() {
        object_edit::edit_child(object, &["metadata", "annotations"], |all| {
            for (name, text) in annotations {
                all.insert(name.to_owned(), text.into());
            }
        });
    }
}

fn status_from_v2(status: &mut JsonObject) -> Vec<(&'static str, String)> {
    let mut annotations = Vec::new();
    if let Some(Value::Array(current)) = status.remove("currentMetrics")
        && !current.is_empty()
    {
        let shares = current.iter().rev().filter(|metric| is_cpu(metric));
        let mut utilization = shares.filter_map(|metric| {
            let metric = metric.as_object()?;
            fields::get(metric, "resource.current.averageUtilization")
        });
        if let Some(utilization) = utilization.next() {
            let name = "currentCPUUtilizationPercentage";
            status.insert(name.to_owned(), utilization.clone());
        }
        let statuses = v1_metrics::statuses_to_v1(&current);
        annotations.push((CURRENT_METRICS, gotext::json(&statuses)));
    }
    if let Some(Value::Array(conditions)) = status.remove("conditions")
        && !conditions.is_empty()
    {
        annotations.push((CONDITIONS, gotext::json(&conditions)));
    }
    annotations
}

/// Removes and returns the annotations that only the conversion may write.
fn take_annotations(object: &mut JsonObject) -> Vec<(String, String)> {
    let Some(annotations) = object_edit::find_object(object, &["metadata", "annotations"]) else {
        return Vec::new();
    };
    let taken = ANNOTATIONS.iter().filter_map(|name| {
        let value = annotations.remove(*name)?;
        Some(((*name).to_owned(), value.as_str()?.to_owned()))
    });
    let taken: Vec<(String, String)> = taken.collect();
    if annotations.is_empty()
        && let Some(metadata) = object_edit::find_object(object, &["metadata"])
    {
        metadata.remove("annotations");
    }
    taken
}

/// Splits metrics into CPU utilization targets and all others.
fn split_metrics(metrics: Option<Value>) -> (Vec<Value>, Vec<Value>) {
    let Some(Value::Array(metrics)) = metrics else {
        return (Vec::new(), Vec::new());
    };
    let mut shares = Vec::new();
    let mut others = Vec::new();
    for metric in metrics {
        let utilization = metric
            .as_object()
            .and_then(|metric| fields::get(metric, "resource.target.averageUtilization"));
        match utilization {
            Some(utilization) if is_cpu(&metric) => shares.push(utilization.clone()),
            _ => others.push(metric),
        }
    }
    (shares, others)
}

fn is_cpu(metric: &Value) -> bool {
    let Some(metric) = metric.as_object() else {
        return false;
    };
    fields::str(metric, "type") == "Resource" && fields::str(metric, "resource.name") == "cpu"
}

fn cpu_utilization(percent: Value) -> Value {
    json!({
        "type": "Resource",
        "resource": {
            "name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percent},
        },
    })
}

/// Serializes the behavior as upstream's internal type, with Go field names.
fn internal_behavior(behavior: &JsonObject) -> String {
    go_struct_json(&[
        ("ScaleUp", internal_rules(behavior.get("scaleUp"))),
        ("ScaleDown", internal_rules(behavior.get("scaleDown"))),
    ])
}

fn internal_rules(rules: Option<&Value>) -> String {
    let Some(Value::Object(rules)) = rules else {
        return "null".to_owned();
    };
    let policies = match rules.get("policies") {
        Some(Value::Array(policies)) => {
            let policies: Vec<String> = policies.iter().map(internal_policy).collect();
            format!("[{}]", policies.join(","))
        }
        _ => "null".to_owned(),
    };
    go_struct_json(&[
        (
            "StabilizationWindowSeconds",
            string_or_empty(rules.get("stabilizationWindowSeconds")),
        ),
        ("SelectPolicy", string_or_empty(rules.get("selectPolicy"))),
        ("Policies", policies),
        ("Tolerance", string_or_empty(rules.get("tolerance"))),
    ])
}

fn internal_policy(policy: &Value) -> String {
    go_struct_json(&[
        ("Type", string_or_empty(policy.get("type"))),
        ("Value", string_or_empty(policy.get("value"))),
        (
            "PeriodSeconds",
            string_or_empty(policy.get("periodSeconds")),
        ),
    ])
}

fn string_or_empty(value: Option<&Value>) -> String {
    gotext::json(value.unwrap_or(&Value::Null))
}

/// Parses what [`internal_behavior`] writes; `None` if it is empty.
fn behavior_to_v2(behavior: Value) -> Option<Value> {
    let behavior = lowercase_field_names(behavior, 0)?;
    let is_some = behavior.as_object().is_some_and(|rules| !rules.is_empty());
    is_some.then_some(behavior)
}

/// Lowercases the initial of every field name and drops nulls. A behavior is four levels deep.
fn lowercase_field_names(value: Value, depth: usize) -> Option<Value> {
    if depth > 4 {
        return None;
    }
    Some(match value {
        Value::Null => return None,
        Value::Object(fields) => {
            let fields = fields.into_iter().filter_map(|(name, value)| {
                let mut characters = name.chars();
                let initial = characters.next()?.to_ascii_lowercase();
                let name = format!("{initial}{}", characters.as_str());
                Some((name, lowercase_field_names(value, depth + 1)?))
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => {
            let items = items.into_iter();
            let items = items.filter_map(|item| lowercase_field_names(item, depth + 1));
            Value::Array(items.collect())
        }
        other => other,
    })
}
