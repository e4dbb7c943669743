//! Metrics in the form of the old version, as its annotations hold them.

use rhumb_meta::Quantity;
use serde_json::{Value, json};

use crate::{Object, edit, fields};

/// A source of metrics, and where the two forms have its parts: in the new one by path, in the old one by name.
struct Source {
    name: &'static str,
    spec: &'static [(&'static str, &'static str)],
    status: &'static [(&'static str, &'static str)],
    /// What the old form cannot leave out, in a spec and in a status.
    always: (&'static str, &'static str),
}

const SOURCES: &[Source] = &[
    Source {
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
        always: ("targetValue", "currentValue"),
    },
    Source {
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
        always: ("targetAverageValue", "currentAverageValue"),
    },
    Source {
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
        always: ("", "currentAverageValue"),
    },
    Source {
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
        always: ("", "currentAverageValue"),
    },
    Source {
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
        always: ("", "currentValue"),
    },
];

pub(super) fn specs_to_v1(metrics: &[Value]) -> Vec<Value> {
    let to_old = |source: &Source, metric: &Object| to_v1(metric, source.spec, source.always.0);
    convert(metrics, to_old)
}

pub(super) fn statuses_to_v1(metrics: &[Value]) -> Vec<Value> {
    let to_old = |source: &Source, metric: &Object| to_v1(metric, source.status, source.always.1);
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

/// Converts the sources that each metric has.
fn convert(metrics: &[Value], convert: impl Fn(&Source, &Object) -> Object) -> Vec<Value> {
    let convert_one = |metric: &Value| {
        let metric = metric.as_object()?;
        let mut converted = Object::new();
        fields::keep(&mut converted, metric, "type");
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

fn to_v1(metric: &Object, names: &[(&str, &str)], always: &str) -> Object {
    let mut old = Object::new();
    for (path, name) in names {
        if let Some(value) = fields::get(metric, path) {
            old.insert((*name).to_owned(), value.clone());
        }
    }
    if !always.is_empty() {
        edit::default(&mut old, always, "0");
    }
    old
}

fn to_v2(old: &Object, names: &[(&str, &str)]) -> Object {
    let mut metric = Object::new();
    for (path, name) in names {
        let Some(value) = old.get(*name).filter(|value| !value.is_null()) else {
            continue;
        };
        let parts: Vec<&str> = path.split('.').collect();
        if let Some((last, parents)) = parts.split_last() {
            edit::within(&mut metric, parents, |parent| {
                parent.insert((*last).to_owned(), value.clone());
            });
        }
    }
    metric
}

/// The old form does not say of which type a target is: it follows from what is there.
fn set_target_type(source: &str, metric: &mut Object) {
    edit::within(metric, &["target"], |target| {
        let has = |name: &str| !edit::is_absent(target, name);
        let kind = match source {
            "object" if !has("averageValue") => "Value",
            "external" if has("value") => "Value",
            "resource" | "containerResource" if has("averageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        // The old form cannot leave the value out, so a zero says nothing beside an average.
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
