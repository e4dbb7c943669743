//! Conversion of metrics to and from the v1 format that the annotations of an autoscaling/v1 object hold.

use rhumb_meta::Quantity;
use serde_json::{Value, json};

use crate::{JsonObject, fields, object_edit};

/// A metric source, and the pairs of its v2 paths and v1 field names.
struct MetricSourceMapping {
    name: &'static str,
    spec: &'static [(&'static str, &'static str)],
    status: &'static [(&'static str, &'static str)],
    /// Field that v1 always has, in a spec and in a status.
    required_fields: (&'static str, &'static str),
}

const SOURCES: &[MetricSourceMapping] = &[
    MetricSourceMapping {
        name: "object",
        spec: &[
            ("describedObject", "target"),
            ("metric.name", "metricName"),
            ("metric.selector", "selector"),
            ("target.value", "targetValue"),
            ("target.averageValue", "averageValue"),
        ],
        status: &[
            ("describedObject", "target"),
            ("metric.name", "metricName"),
            ("metric.selector", "selector"),
            ("current.value", "currentValue"),
            ("current.averageValue", "averageValue"),
        ],
        required_fields: ("targetValue", "currentValue"),
    },
    MetricSourceMapping {
        name: "pods",
        spec: &[
            ("metric.name", "metricName"),
            ("metric.selector", "selector"),
            ("target.averageValue", "targetAverageValue"),
        ],
        status: &[
            ("metric.name", "metricName"),
            ("metric.selector", "selector"),
            ("current.averageValue", "currentAverageValue"),
        ],
        required_fields: ("targetAverageValue", "currentAverageValue"),
    },
    MetricSourceMapping {
        name: "resource",
        spec: &[
            ("name", "name"),
            ("target.averageUtilization", "targetAverageUtilization"),
            ("target.averageValue", "targetAverageValue"),
        ],
        status: &[
            ("name", "name"),
            ("current.averageUtilization", "currentAverageUtilization"),
            ("current.averageValue", "currentAverageValue"),
        ],
        required_fields: ("", "currentAverageValue"),
    },
    MetricSourceMapping {
        name: "containerResource",
        spec: &[
            ("name", "name"),
            ("container", "container"),
            ("target.averageUtilization", "targetAverageUtilization"),
            ("target.averageValue", "targetAverageValue"),
        ],
        status: &[
            ("name", "name"),
            ("container", "container"),
            ("current.averageUtilization", "currentAverageUtilization"),
            ("current.averageValue", "currentAverageValue"),
        ],
        required_fields: ("", "currentAverageValue"),
    },
    MetricSourceMapping {
        name: "external",
        spec: &[
            ("metric.name", "metricName"),
            ("metric.selector", "metricSelector"),
            ("target.value", "targetValue"),
            ("target.averageValue", "targetAverageValue"),
        ],
        status: &[
            ("metric.name", "metricName"),
            ("metric.selector", "metricSelector"),
            ("current.value", "currentValue"),
            ("current.averageValue", "currentAverageValue"),
        ],
        required_fields: ("", "currentValue"),
    },
];

pub(super) fn specs_to_v1(metrics: &[Value]) -> Vec<Value> {
    let to_old = |source: &MetricSourceMapping, metric: &JsonObject| {
        to_v1(metric, source.spec, source.required_fields.0)
    };
    convert(metrics, to_old)
}

pub(super) fn statuses_to_v1(metrics: &[Value]) -> Vec<Value> {
    let to_old = |source: &MetricSourceMapping, metric: &JsonObject| {
        to_v1(metric, source.status, source.required_fields.1)
    };
    convert(metrics, to_old)
}

pub(super) fn specs_to_v2(metrics: Option<Value>) -> Vec<Value> {
    let Some(Value::Array(metrics)) = metrics else {
        return Vec::new();
    };
    convert(&metrics, |source, metric| {
        let mut metric = to_v2(metric, source.spec);
        set_target_type(source.name, &mut metric);
        metric
    })
}

pub(super) fn statuses_to_v2(metrics: Option<Value>) -> Vec<Value> {
    let Some(Value::Array(metrics)) = metrics else {
        return Vec::new();
    };
    convert(&metrics, |source, metric| to_v2(metric, source.status))
}

/// Converts every source of each metric.
fn convert(
    metrics: &[Value],
    convert: impl Fn(&MetricSourceMapping, &JsonObject) -> JsonObject,
) -> Vec<Value> {
    let convert_one = |metric: &Value| {
        let metric = metric.as_object()?;
        let mut converted = JsonObject::new();
        fields::restore_from(&mut converted, metric, "type");
        for source in SOURCES {
            if let Some(Value::Object(part)) = metric.get(source.name) {
                let part = convert(source, part);
                converted.insert(source.name.to_owned(), Value::Object(part));
            }
        }
        Some(Value::Object(converted))
    };
    metrics.iter().filter_map(convert_one).collect()
}

fn to_v1(metric: &JsonObject, names: &[(&str, &str)], always: &str) -> JsonObject {
    let mut old = JsonObject::new();
    for (path, name) in names {
        if let Some(value) = fields::get(metric, path) {
            old.insert((*name).to_owned(), value.clone());
        }
    }
    if !always.is_empty() {
        object_edit::set_default(&mut old, always, "0");
    }
    old
}

fn to_v2(old: &JsonObject, names: &[(&str, &str)]) -> JsonObject {
    let mut metric = JsonObject::new();
    for (path, name) in names {
        let Some(value) = old.get(*name).filter(|value| !value.is_null()) else {
            continue;
        };
        let parts: Vec<&str> = path.split('.').collect();
        if let Some((last, parents)) = parts.split_last() {
            object_edit::edit_child(&mut metric, parents, |parent| {
                parent.insert((*last).to_owned(), value.clone());
            });
        }
    }
    metric
}

/// Infers the type of the target, which v1 does not have, from the values that are set.
fn set_target_type(source: &str, metric: &mut JsonObject) {
    object_edit::edit_child(metric, &["target"], |target| {
        let has = |name: &str| !object_edit::is_absent(target, name);
        let kind = match source {
            "object" if !has("averageValue") => "Value",
            "external" if has("value") => "Value",
            "resource" | "containerResource" if has("averageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        // v1 always has the value, so a zero beside an average means unset.
        if source == "object" && kind == "AverageValue" && is_zero(target.get("value")) {
            target.remove("value");
        }
        target.insert("type".to_owned(), json!(kind));
    });
}

fn is_zero(value: Option<&Value>) -> bool {
    let quantity = value.and_then(|value| Quantity::from_json(value).ok());
    quantity.is_some_and(|quantity| quantity.is_zero())
}
