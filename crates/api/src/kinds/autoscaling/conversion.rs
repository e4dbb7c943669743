//! The old form of autoscalers, in which only a share of CPU can be asked for. What else there is travels in
//! annotations, so that nothing is lost on the way to a client of that version and back.

use rhumb_meta::gotext;
use serde_json::{Value, json};

use super::metrics;
use crate::workloads::checks::go_struct;
use crate::{Object, edit, fields};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// All annotations that belong to the conversion.
const ANNOTATIONS: &[&str] = &[
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// What is asked for where nothing is.
const DEFAULT_UTILIZATION: i64 = 80;

pub(super) fn to_v2(object: &mut Object) {
    object.insert("apiVersion".to_owned(), json!("autoscaling/v2"));
    let annotations = take_annotations(object);
    let saved = |name: &str| -> Option<Value> {
        let text = annotations.iter().find(|(key, _)| key == name);
        text.and_then(|(_, text)| serde_json::from_str(text).ok())
    };
    edit::within(object, &["spec"], |spec| {
        let mut all = metrics::specs_to_v2(saved(METRICS));
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
    if let Some(status) = edit::find(object, &["status"]) {
        status_to_v2(status, saved(CURRENT_METRICS), saved(CONDITIONS));
    }
}

fn status_to_v2(status: &mut Object, metrics: Option<Value>, conditions: Option<Value>) {
    let utilization = status.remove("currentCPUUtilizationPercentage");
    let utilization = utilization.filter(|value| !value.is_null());
    let current = match (metrics, utilization) {
        (Some(saved @ Value::Array(_)), _) => metrics::statuses_to_v2(Some(saved)),
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

pub(super) fn from_v2(object: &mut Object) {
    object.insert("apiVersion".to_owned(), json!("autoscaling/v1"));
    take_annotations(object);
    let mut annotations = Vec::new();
    if let Some(spec) = edit::find(object, &["spec"]) {
        let (own, others) = split_metrics(spec.remove("metrics"));
        if let Some(utilization) = own.first() {
            let name = "targetCPUUtilizationPercentage";
            spec.insert(name.to_owned(), utilization.clone());
        }
        if !others.is_empty() {
            annotations.push((METRICS, gotext::json(&metrics::specs_to_v1(&others))));
        }
        if let Some(Value::Object(behavior)) = spec.remove("behavior") {
            annotations.push((BEHAVIOR, internal_behavior(&behavior)));
        }
    }
    if let Some(status) = edit::find(object, &["status"]) {
        annotations.extend(status_from_v2(status));
    }
    if !annotations.is_empty() {
        edit::within(object, &["metadata", "annotations"], |all| {
            for (name, text) in annotations {
                all.insert(name.to_owned(), text.into());
            }
        });
    }
}

fn status_from_v2(status: &mut Object) -> Vec<(&'static str, String)> {
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
        let statuses = metrics::statuses_to_v1(&current);
        annotations.push((CURRENT_METRICS, gotext::json(&statuses)));
    }
    if let Some(Value::Array(conditions)) = status.remove("conditions")
        && !conditions.is_empty()
    {
        annotations.push((CONDITIONS, gotext::json(&conditions)));
    }
    annotations
}

/// Takes out what only the conversion may write.
fn take_annotations(object: &mut Object) -> Vec<(String, String)> {
    let Some(annotations) = edit::find(object, &["metadata", "annotations"]) else {
        return Vec::new();
    };
    let taken = ANNOTATIONS.iter().filter_map(|name| {
        let value = annotations.remove(*name)?;
        Some(((*name).to_owned(), value.as_str()?.to_owned()))
    });
    let taken: Vec<(String, String)> = taken.collect();
    if annotations.is_empty()
        && let Some(metadata) = edit::find(object, &["metadata"])
    {
        metadata.remove("annotations");
    }
    taken
}

/// The shares of CPU that are asked for, and all other metrics.
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

/// As upstream writes it: its internal type, with the names of Go's fields.
fn internal_behavior(behavior: &Object) -> String {
    go_struct(&[
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
    go_struct(&[
        (
            "StabilizationWindowSeconds",
            text(rules.get("stabilizationWindowSeconds")),
        ),
        ("SelectPolicy", text(rules.get("selectPolicy"))),
        ("Policies", policies),
        ("Tolerance", text(rules.get("tolerance"))),
    ])
}

fn internal_policy(policy: &Value) -> String {
    go_struct(&[
        ("Type", text(policy.get("type"))),
        ("Value", text(policy.get("value"))),
        ("PeriodSeconds", text(policy.get("periodSeconds"))),
    ])
}

fn text(value: Option<&Value>) -> String {
    gotext::json(value.unwrap_or(&Value::Null))
}

/// Reads what [`internal_behavior`] writes; nothing if there is nothing in it.
fn behavior_to_v2(behavior: Value) -> Option<Value> {
    let behavior = with_small_initials(behavior, 0)?;
    let is_some = behavior.as_object().is_some_and(|rules| !rules.is_empty());
    is_some.then_some(behavior)
}

/// Renames every field, and leaves out what is null. A behavior is four levels deep.
fn with_small_initials(value: Value, depth: usize) -> Option<Value> {
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
                Some((name, with_small_initials(value, depth + 1)?))
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => {
            let items = items.into_iter();
            let items = items.filter_map(|item| with_small_initials(item, depth + 1));
            Value::Array(items.collect())
        }
        other => other,
    })
}
