//! Defaults of resource requests and limits, and rounding of quantities to milli precision.

use rhumb_meta::Quantity;
use serde_json::{Value, json};

use crate::JsonObject;
use crate::pods::resources::{
    AggregatedContainerResources, is_huge_page, is_overcommit_allowed, is_pod_level,
};

const MILLI: i32 = -3;

pub(in crate::defaults) fn round(requirements: &mut JsonObject) {
    round_list(requirements, "limits");
    round_list(requirements, "requests");
}

/// Rounds quantities up to milli precision.
pub(in crate::defaults) fn round_list(object: &mut JsonObject, name: &str) {
    let Some(Value::Object(list)) = object.get_mut(name) else {
        return;
    };
    for value in list.values_mut() {
        let Ok(mut quantity) = Quantity::from_json(value) else {
            continue;
        };
        if !quantity.is_whole_milli() {
            quantity.round_up(MILLI);
            *value = quantity.to_string().into();
        }
    }
}

/// Defaults the requests of a container to its limits.
pub(super) fn requests_from_limits(container: &mut JsonObject) {
    let Some(Value::Object(resources)) = container.get_mut("resources") else {
        return;
    };
    let Some(Value::Object(limits)) = resources.get("limits") else {
        return;
    };
    let requests = resources.get("requests").and_then(Value::as_object);
    let is_missing = |name: &String| !requests.is_some_and(|requests| requests.contains_key(name));
    let limits = limits.iter().filter(|(name, _)| is_missing(name));
    let missing = limits.map(|(name, limit)| (name.clone(), limit.clone()));
    add_missing(resources, "requests", missing.collect());
}

fn add_missing(resources: &mut JsonObject, list: &str, amounts: JsonObject) {
    if amounts.is_empty() {
        return;
    }
    let entry = resources.entry(list).or_insert(Value::Null);
    if entry.is_null() {
        *entry = json!({});
    }
    if let Value::Object(list) = entry {
        for (name, amount) in amounts {
            list.entry(name).or_insert(amount);
        }
    }
}

/// Defaults the pod-level requests and limits, if the pod sets any pod-level resources.
pub(super) fn pod_level(spec: &mut JsonObject) {
    let Some(Value::Object(resources)) = spec.get("resources") else {
        return;
    };
    let has = |list: &str| match resources.get(list) {
        Some(Value::Object(list)) => !list.is_empty(),
        _ => false,
    };
    if !has("limits") && !has("requests") {
        return;
    }
    let huge_pages = huge_page_limits(spec, resources);
    let requests = AggregatedContainerResources::from_spec(spec, "requests").into_resource_list();
    let Some(Value::Object(resources)) = spec.get_mut("resources") else {
        return;
    };
    add_missing(resources, "limits", huge_pages);
    let limits = match resources.get("limits") {
        Some(Value::Object(limits)) if !limits.is_empty() => limits.clone(),
        _ => return,
    };
    let requested = requests
        .into_iter()
        .filter(|(name, _)| is_pod_level(name) && is_overcommit_allowed(name));
    add_missing(resources, "requests", requested.collect());
    let limited = limits.into_iter().filter(|(name, _)| is_pod_level(name));
    add_missing(resources, "requests", limited.collect());
}

/// The huge page limits of the containers for which the pod has no pod-level request.
fn huge_page_limits(spec: &JsonObject, resources: &JsonObject) -> JsonObject {
    let requested = resources.get("requests").and_then(Value::as_object);
    let limits = AggregatedContainerResources::from_spec(spec, "limits").into_resource_list();
    limits
        .into_iter()
        .filter(|(name, _)| {
            is_huge_page(name) && !requested.is_some_and(|requests| requests.contains_key(name))
        })
        .collect()
}
