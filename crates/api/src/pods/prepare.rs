//! Preparation of pods before validation: fields that only the server sets (`PrepareForCreate` and
//! `PrepareForUpdate` of upstream's pod strategy).

use std::collections::HashMap;

use rhumb_meta::field::{ErrorList, Path};
use serde_json::{Value, json};

use super::disabled_fields::{any_value_at_path, drop_disabled_fields, items_at_path};
use super::{affinity, annotations, qos, security};
use crate::{FieldView, JsonObject, StrategyContext};

/// Prepares a new pod: initial status, and spec fields derived from metadata.
pub fn prepare_create(pod: &mut JsonObject, request: &StrategyContext<'_>) {
    let class = qos::compute_qos_class(pod);
    let mut status = json!({"phase": "Pending", "qosClass": class});
    if is_gated(pod) {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null,
            "lastTransitionTime": request.now.rfc3339().to_string(),
        }]);
    }
    pod.insert("status".to_owned(), status);
    if let Some(Value::Object(spec)) = pod.get_mut("spec") {
        drop_disabled_fields(spec, None, request.gates);
    }
    apply_metadata_to_spec(pod);
}

/// Sets spec fields that are derived from labels and annotations.
fn apply_metadata_to_spec(pod: &mut JsonObject) {
    let (Some(metadata), Some(spec)) = (pod.get("metadata"), pod.get("spec")) else {
        return;
    };
    let may_ask_for_labels =
        spec.get("affinity").is_some() || spec.get("topologySpreadConstraints").is_some();
    let labels = may_ask_for_labels.then(|| metadata.get("labels").cloned());
    let notes = metadata.get("annotations");
    let notes = notes.filter(|notes| has_app_armor_profile(notes)).cloned();
    let labels = labels.flatten();
    if labels.is_none() && notes.is_none() {
        return;
    }
    if let Some(Value::Object(spec)) = pod.get_mut("spec") {
        merge_label_keys(spec, labels.as_ref());
        set_app_armor_fields_from_annotations(spec, notes.as_ref());
    }
}

fn has_app_armor_profile(notes: &Value) -> bool {
    let mut keys = notes.as_object().into_iter().flat_map(JsonObject::keys);
    keys.any(|key| key.starts_with(annotations::APP_ARMOR))
}

fn is_gated(pod: &JsonObject) -> bool {
    let gates = pod.get("spec").and_then(|spec| spec.get("schedulingGates"));
    gates
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty())
}

/// Merges `matchLabelKeys` and `mismatchLabelKeys` into the selectors, with the values of the pod's labels.
fn merge_label_keys(spec: &mut JsonObject, labels: Option<&Value>) {
    let Some(Value::Object(labels)) = labels else {
        return;
    };
    affinity::for_each_pod_term_mut(spec, |term| merge_into_selector(term, labels));
    for constraint in items_at_path(spec, "topologySpreadConstraints") {
        merge_into_selector(constraint, labels);
    }
}

fn merge_into_selector(term: &mut JsonObject, labels: &JsonObject) {
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term.get(field).and_then(Value::as_array);
        for key in keys.into_iter().flatten().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let Some(Value::Object(selector)) = term.get_mut("labelSelector") else {
        return;
    };
    if added.is_empty() {
        return;
    }
    let expressions = selector
        .entry("matchExpressions")
        .or_insert_with(|| json!([]));
    if expressions.is_null() {
        *expressions = json!([]);
    }
    if let Value::Array(expressions) = expressions {
        expressions.extend(added);
    }
}

/// Sets the AppArmor profile fields from annotations, of which there is at least one.
fn set_app_armor_fields_from_annotations(spec: &mut JsonObject, notes: Option<&Value>) {
    let Some(Value::Object(notes)) = notes else {
        return;
    };
    let is_windows = spec.get("os").and_then(|os| os.get("name")) == Some(&json!("windows"));
    if is_windows {
        return;
    }
    let of_pod = spec
        .get("securityContext")
        .and_then(|context| context.get("appArmorProfile"))
        .cloned();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items_at_path(spec, list) {
            let name = container.get("name").and_then(Value::as_str);
            let key = format!("{}{}", annotations::APP_ARMOR, name.unwrap_or_default());
            let profile = notes
                .get(&key)
                .and_then(Value::as_str)
                .and_then(app_armor_profile);
            if let Some(profile) = profile.filter(|profile| Some(profile) != of_pod.as_ref()) {
                set_app_armor_profile(container, profile);
            }
        }
    }
}

fn set_app_armor_profile(container: &mut JsonObject, profile: Value) {
    let context = container
        .entry("securityContext")
        .or_insert_with(|| json!({}));
    if context.is_null() {
        *context = json!({});
    }
    if let Value::Object(context) = context {
        let own = context.entry("appArmorProfile").or_insert(Value::Null);
        if own.is_null() {
            *own = profile;
        }
    }
}

/// Converts the value of an AppArmor annotation; `None` if it is empty or invalid.
pub(super) fn app_armor_profile(annotation: &str) -> Option<Value> {
    let profile = match annotation {
        "unconfined" => json!({"type": "Unconfined"}),
        "runtime/default" => json!({"type": "RuntimeDefault"}),
        _ => {
            let name = annotation.strip_prefix("localhost/")?;
            json!({"type": "Localhost", "localhostProfile": name})
        }
    };
    let mut errors = ErrorList::new();
    security::app_armor_profile(&FieldView::at(Some(&profile), Path::NIL), &mut errors);
    errors.is_empty().then_some(profile)
}

/// Metadata fields that a subresource update cannot change.
const RESTORED_METADATA_FIELDS: &[&str] = &[
    "deletionTimestamp",
    "generation",
    "selfLink",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
];

/// Restores metadata that only an update of the main resource may change.
pub(super) fn restore_metadata(pod: &mut JsonObject, old: &JsonObject) {
    let (Some(Value::Object(metadata)), Some(Value::Object(old))) =
        (pod.get_mut("metadata"), old.get("metadata"))
    else {
        return;
    };
    for field in RESTORED_METADATA_FIELDS {
        match old.get(*field) {
            Some(value) => metadata.insert((*field).to_owned(), value.clone()),
            None => metadata.remove(*field),
        };
    }
}

/// Sets a negative grace period to one second.
pub fn fix_negative_grace_period(pod: &mut JsonObject) {
    const FIELD: &str = "terminationGracePeriodSeconds";
    if let Some(Value::Object(spec)) = pod.get_mut("spec")
        && spec
            .get(FIELD)
            .and_then(Value::as_i64)
            .is_some_and(|seconds| seconds < 0)
    {
        spec.insert(FIELD.to_owned(), 1.into());
    }
}

/// Keeps `podIP` equal to the first item of `podIPs`; `podIP` wins if they differ.
pub fn mirror_pod_ip(pod: &mut JsonObject) {
    let Some(Value::Object(status)) = pod.get_mut("status") else {
        return;
    };
    let first = status
        .get("podIPs")
        .and_then(|addresses| addresses.get(0)?.get("ip")?.as_str())
        .map(str::to_owned);
    let single = status.get("podIP").and_then(Value::as_str);
    let single = single
        .filter(|address| !address.is_empty())
        .map(str::to_owned);
    match (single, first) {
        (Some(single), first) if first.as_ref() != Some(&single) => {
            status.insert("podIPs".to_owned(), json!([{ "ip": single }]));
        }
        (None, Some(first)) => {
            status.insert("podIP".to_owned(), first.into());
        }
        _ => {}
    }
}

/// Restores values that the new status omits: QoS class and observed generations.
pub fn prepare_status_update(pod: &mut JsonObject, old: &JsonObject) {
    let Some(Value::Object(old_status)) = old.get("status") else {
        return;
    };
    let Some(Value::Object(status)) = pod.get_mut("status") else {
        return;
    };
    let is_empty = |value: Option<&Value>| match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(value) => value.as_i64() == Some(0),
    };
    for field in ["qosClass", "observedGeneration"] {
        if let Some(value) = old_status.get(field)
            && is_empty(status.get(field))
        {
            status.insert(field.to_owned(), value.clone());
        }
    }
    if is_empty(old_status.get("nodeAllocatableResourceClaimStatuses")) {
        status.remove("nodeAllocatableResourceClaimStatuses");
    }
    drop_disabled_status_fields(status, old_status);
    keep_observed_generations(status, old_status);
}

/// Drops the digests of image volumes, unless the old status has some.
fn drop_disabled_status_fields(status: &mut JsonObject, old: &JsonObject) {
    let lists = [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ];
    let uses = |list: &&str| any_value_at_path(old, &[list, "volumeMounts", "volumeStatus"]);
    if lists.iter().any(uses) {
        return;
    }
    for list in lists {
        for container in items_at_path(status, list) {
            for mount in items_at_path(container, "volumeMounts") {
                mount.remove("volumeStatus");
            }
        }
    }
}

/// Restores the observed generation of conditions that omit it, matched by type and order.
fn keep_observed_generations(status: &mut JsonObject, old: &JsonObject) {
    let mut known: HashMap<String, Vec<i64>> = HashMap::new();
    let conditions = old.get("conditions").and_then(Value::as_array);
    for condition in conditions.into_iter().flatten().rev() {
        let kind = condition.get("type").and_then(Value::as_str);
        let generation = condition.get("observedGeneration").and_then(Value::as_i64);
        let generations = known
            .entry(kind.unwrap_or_default().to_owned())
            .or_default();
        generations.push(generation.unwrap_or_default());
    }
    for condition in items_at_path(status, "conditions") {
        let kind = condition.get("type").and_then(Value::as_str);
        let generations = known.get_mut(kind.unwrap_or_default());
        let Some(generation) = generations.and_then(Vec::pop) else {
            continue;
        };
        let own = condition.get("observedGeneration").and_then(Value::as_i64);
        if own.unwrap_or_default() == 0 && generation != 0 {
            condition.insert("observedGeneration".to_owned(), generation.into());
        }
    }
}
