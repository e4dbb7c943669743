//! Evaluator queries and rhumb's answers, in the JSON that the Go oracle in `interop` also speaks.

pub(crate) mod random;

use std::collections::BTreeMap;
use std::sync::Arc;

use rhumb_meta::Quantity;
use rhumb_quota::{
    DeviceClassMapping, Evaluator, NamespaceUsage, ObjectUsage, ResourceQuantities, ResourceQuota,
    ScopeRequirement,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

/// Every scope, with every operator where the scope has values.
const SCOPES: &[(&str, &str, &[&str])] = &[
    ("Terminating", "Exists", &[]),
    ("NotTerminating", "Exists", &[]),
    ("BestEffort", "Exists", &[]),
    ("NotBestEffort", "Exists", &[]),
    ("CrossNamespacePodAffinity", "Exists", &[]),
    ("PriorityClass", "Exists", &[]),
    ("PriorityClass", "DoesNotExist", &[]),
    ("PriorityClass", "In", &["gold", "iron"]),
    ("PriorityClass", "NotIn", &["gold", "iron"]),
    ("VolumeAttributesClass", "Exists", &[]),
    ("VolumeAttributesClass", "DoesNotExist", &[]),
    ("VolumeAttributesClass", "In", &["gold", "iron"]),
    ("VolumeAttributesClass", "NotIn", &["gold", "iron"]),
];

/// An object, or an update of one, to evaluate.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EvaluatorQuery {
    pub(crate) resource: String,
    pub(crate) object: Value,
    /// The object before an update, and the subresource that is updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) old: Option<Value>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) subresource: String,
    #[serde(default = "scopes", skip_deserializing)]
    pub(crate) scopes: Value,
    /// Resource names that quotas limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) names: Vec<String>,
}

pub(crate) fn scopes() -> Value {
    let scope = |(name, operator, values): &(&str, &str, &[&str])| json!({"scopeName": name, "operator": operator, "values": values});
    SCOPES.iter().map(scope).collect()
}

/// The device classes of every query, with their extended resources. The Go oracle has the same.
const DEVICE_CLASSES: &[(&str, &str)] = &[
    ("gpu", "example.com/gpu"),
    ("net", ""),
    ("gpu.example.com", "example.com/other"),
];

type QuantityTexts = BTreeMap<String, String>;

/// What an evaluator computes for a query.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EvaluatorAnswer {
    /// Usage now, and after it has lapsed.
    pub(crate) usage: QuantityTexts,
    pub(crate) later: QuantityTexts,
    /// One letter per scope: y or n.
    pub(crate) scopes: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) covered: Vec<String>,
    pub(crate) missing: String,
    pub(crate) minds: bool,
}

fn null_is_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

pub(crate) fn evaluator(resource: &str) -> Evaluator {
    let group = match resource {
        "resourceclaims" => "resource.k8s.io",
        _ => "",
    };
    Evaluator::for_resource(group, resource).expect("resource has an evaluator")
}

pub(crate) fn evaluate(question: &EvaluatorQuery) -> EvaluatorAnswer {
    if question.resource == "namespaces" {
        let list = |name: &str| {
            question.object[name]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        return EvaluatorAnswer {
            usage: device_usage(&list("pods"), &list("claims")),
            ..EvaluatorAnswer::default()
        };
    }
    let evaluator = evaluator(&question.resource);
    let object = fields(&question.object);
    let object_usage = evaluator.usage(object);
    let names = question.names.iter();
    let required: ResourceQuantities = names
        .clone()
        .map(|name| (name.clone().into(), Quantity::ZERO))
        .collect();
    let mut covered: Vec<String> = names
        .filter(|name| evaluator.covers(name))
        .cloned()
        .collect();
    covered.sort();
    let missing = evaluator.missing_constraints(&required, object);
    let minds = |old| evaluator.handles_update(&question.subresource, fields(old), object);
    let mut usage = quantity_texts(&object_usage.quantities);
    let mut later = quantity_texts(after_lapse(&object_usage));
    if question.resource == "resourceclaims" {
        let devices = device_usage(&[], std::slice::from_ref(&question.object));
        later.extend(devices.clone());
        usage.extend(devices);
    }
    EvaluatorAnswer {
        usage,
        later,
        scopes: matched_scopes(&object_usage, &question.scopes),
        covered,
        missing: missing.unwrap_or_default(),
        minds: question.old.as_ref().is_some_and(minds),
    }
}

/// The usage of extended resources and devices by all pods and claims of a namespace, unless it is zero.
fn device_usage(pods: &[Value], claims: &[Value]) -> QuantityTexts {
    let mut mapping = DeviceClassMapping::default();
    let mut hard = Map::new();
    for (class, resource) in DEVICE_CLASSES {
        let object =
            json!({"metadata": {"name": class}, "spec": {"extendedResourceName": resource}});
        mapping.add(fields(&object));
        for name in [
            format!("{class}.deviceclass.resource.k8s.io/devices"),
            format!("requests.deviceclass.resource.kubernetes.io/{class}"),
            format!("requests.{resource}"),
        ] {
            hard.insert(name, json!("0"));
        }
    }
    hard.remove("requests.");
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    let tables = [("pods", pods), ("resourceclaims", claims)];
    let mut usage = NamespaceUsage::new(
        vec![ResourceQuota::parse(fields(&quota))],
        tables.map(|(resource, _)| evaluator(resource)).into(),
    );
    usage.set_device_classes(&Arc::new(mapping));
    for (index, (resource, objects)) in tables.into_iter().enumerate() {
        for (number, object) in objects.iter().enumerate() {
            let name = object["metadata"]["name"].as_str();
            let name = name.map_or_else(|| number.to_string(), str::to_owned);
            let object_usage = evaluator(resource).usage(fields(object));
            usage.set_object(index, &name, Some(object_usage));
        }
    }
    let used = usage.used(0);
    let used = used.iter().filter(|(_, amount)| amount.sign() != 0);
    used.map(|(name, amount)| (name.to_string(), amount.to_string()))
        .collect()
}

fn fields(object: &Value) -> &Map<String, Value> {
    object.as_object().expect("JSON object")
}

fn quantity_texts(amounts: &ResourceQuantities) -> QuantityTexts {
    let amounts = amounts.iter();
    amounts
        .map(|(name, amount)| (name.to_string(), amount.to_string()))
        .collect()
}

fn after_lapse(object_usage: &ObjectUsage) -> &ResourceQuantities {
    match object_usage.lapses_at {
        Some(_) => &object_usage.after_lapse,
        None => &object_usage.quantities,
    }
}

fn matched_scopes(object_usage: &ObjectUsage, scopes: &Value) -> String {
    let scopes = scopes.as_array().into_iter().flatten();
    scopes
        .map(
            |scope| match ScopeRequirement::parse(scope).matches(&object_usage.scope_attributes) {
                true => 'y',
                false => 'n',
            },
        )
        .collect()
}
