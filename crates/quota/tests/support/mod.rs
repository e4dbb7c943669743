//! Questions about what objects count for, and our answers to them.

pub(crate) mod random;

use std::collections::BTreeMap;

use rhumb_meta::Quantity;
use rhumb_quota::{Amounts, Charge, Meter, Requirement};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

/// Every scope, and for those that have values every operator.
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

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) resource: String,
    pub(crate) object: Value,
    /// The object before an update, and the part that is updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) old: Option<Value>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) subresource: String,
    #[serde(default = "scopes", skip_deserializing)]
    pub(crate) scopes: Value,
    /// What quotas limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) names: Vec<String>,
}

pub(crate) fn scopes() -> Value {
    let scope = |(name, operator, values): &(&str, &str, &[&str])| json!({"scopeName": name, "operator": operator, "values": values});
    SCOPES.iter().map(scope).collect()
}

type Listed = BTreeMap<String, String>;

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    /// What it counts for, and what it will count for when all its times are over.
    pub(crate) usage: Listed,
    pub(crate) later: Listed,
    /// One letter a scope: y or n.
    pub(crate) scopes: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) covered: Vec<String>,
    pub(crate) missing: String,
    pub(crate) minds: bool,
}

fn null_is_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

pub(crate) fn meter(resource: &str) -> Meter {
    let group = match resource {
        "resourceclaims" => "resource.k8s.io",
        _ => "",
    };
    Meter::of(group, resource).expect("a meter")
}

pub(crate) fn answer(question: &Question) -> Answer {
    let meter = meter(&question.resource);
    let object = fields(&question.object);
    let charge = meter.measure(object);
    let names = question.names.iter();
    let required: Amounts = names
        .clone()
        .map(|name| (name.clone().into(), Quantity::ZERO))
        .collect();
    let mut covered: Vec<String> = names.filter(|name| meter.covers(name)).cloned().collect();
    covered.sort();
    let missing = meter.missing(&required, object);
    let minds = |old| meter.minds_update(&question.subresource, fields(old), object);
    Answer {
        usage: listed(&charge.amounts),
        later: listed(later(&charge)),
        scopes: matched(&charge, &question.scopes),
        covered,
        missing: missing.unwrap_or_default(),
        minds: question.old.as_ref().is_some_and(minds),
    }
}

fn fields(object: &Value) -> &Map<String, Value> {
    object.as_object().expect("an object")
}

fn listed(amounts: &Amounts) -> Listed {
    let amounts = amounts.iter();
    amounts
        .map(|(name, amount)| (name.to_string(), amount.to_string()))
        .collect()
}

fn later(charge: &Charge) -> &Amounts {
    match charge.lapses {
        Some(_) => &charge.later,
        None => &charge.amounts,
    }
}

fn matched(charge: &Charge, scopes: &Value) -> String {
    let scopes = scopes.as_array().into_iter().flatten();
    scopes
        .map(
            |scope| match Requirement::parse(scope).matches(&charge.traits) {
                true => 'y',
                false => 'n',
            },
        )
        .collect()
}
