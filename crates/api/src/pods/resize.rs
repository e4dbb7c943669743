//! The `resize` subresource of pods (in-place resize).

use rhumb_meta::field::{Error, ErrorList};
use serde_json::{Value, json};

use super::semantic_equality::semantically_equal;
use super::{annotations, prepare, qos, update};
use crate::{FieldView, JsonObject};

/// Restores everything but resources and resize policies from the old pod.
///
/// Added, removed or renamed containers are kept, so that validation rejects them.
pub fn prepare_resize(pod: &mut JsonObject, old: &JsonObject) {
    let (Some(Value::Object(spec)), Some(Value::Object(old_spec))) =
        (pod.get("spec"), old.get("spec"))
    else {
        return;
    };
    let merged = merged_containers(spec, old_spec, "containers").zip(merged_containers(
        spec,
        old_spec,
        "initContainers",
    ));
    let Some((containers, init_containers)) = merged else {
        return;
    };
    let resources = spec.get("resources").cloned();
    let mut merged = old_spec.clone();
    set_or_remove(&mut merged, "resources", resources);
    set_or_remove(&mut merged, "containers", containers);
    set_or_remove(&mut merged, "initContainers", init_containers);
    pod.insert("spec".to_owned(), Value::Object(merged));
    set_or_remove(pod, "status", old.get("status").cloned());
    prepare::restore_metadata(pod, old);
}

fn set_or_remove(object: &mut JsonObject, name: &str, value: Option<Value>) {
    match value {
        Some(value) => object.insert(name.to_owned(), value),
        None => object.remove(name),
    };
}

/// Returns the old containers with the new resources, or the new ones if their names differ. `None` if their number
/// differs.
fn merged_containers(new: &JsonObject, old: &JsonObject, list: &str) -> Option<Option<Value>> {
    let items = |spec: &JsonObject| {
        let items = spec.get(list).and_then(Value::as_array);
        items.cloned().unwrap_or_default()
    };
    let (new, mut merged) = (items(new), items(old));
    if new.len() != merged.len() {
        return None;
    }
    for (container, changed) in merged.iter_mut().zip(&new) {
        let Value::Object(container) = container else {
            return None;
        };
        if container.get("name") != changed.get("name") {
            return Some(Some(Value::Array(new)));
        }
        for field in ["resources", "resizePolicy"] {
            set_or_remove(container, field, changed.get(field).cloned());
        }
    }
    Some((!merged.is_empty()).then_some(Value::Array(merged)))
}

/// Validates a resize.
pub fn validate_resize(pod: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let (old_metadata, old_spec) = (old.field("metadata"), old.field("spec"));
    let refused = if old_metadata
        .field("annotations")
        .has(annotations::MIRROR_POD_ANNOTATION)
    {
        Some("static pods cannot be resized")
    } else if old_spec.field("os").text("name") == "windows" {
        Some("windows pods cannot be resized")
    } else {
        None
    };
    if let Some(detail) = refused {
        errors.push(update::pod_error_without_field(detail));
        return;
    }
    let before = errors.len();
    update::validate_metadata_and_spec(pod, &update::options(old), errors);
    let spec = pod.field("spec");
    if let (Some(new), Some(old)) = (pod.object(), old.object())
        && qos::qos_class(old) != qos::compute_qos_class(new)
    {
        let status = pod.field("status");
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.push(Error::invalid(spec.path(), status.text("qosClass"), detail));
    }
    if !can_be_resized(&old.field("status")) {
        spec.forbidden(errors, "Pod running on node without support for resize");
    }
    validate_pod_level(&spec, &old_spec, errors);
    let status = old.field("status");
    if !status
        .field("nodeAllocatableResourceClaimStatuses")
        .is_empty()
    {
        spec.forbidden(
            errors,
            "pods with node allocatable resource claims cannot be resized",
        );
    }
    if has_same_containers(&spec, &old_spec, errors) {
        validate_containers(&spec, &old_spec, errors);
        if errors.len() == before && !equal_except_resources(&spec, &old_spec) {
            spec.forbidden(errors, "only cpu and memory resources are mutable");
        }
    }
}

/// Returns whether the node supports resizing: it then reports the resources of containers.
fn can_be_resized(status: &FieldView<'_>) -> bool {
    let statuses = status.field("containerStatuses");
    let running = statuses
        .items()
        .find(|container| container.field("state").has("running"));
    running.is_none_or(|container| container.has("resources"))
}

fn validate_pod_level(spec: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let (resources, old) = (spec.field("resources"), old.field("resources"));
    let is_set = |resources: &FieldView<'_>| {
        resources.field("requests").len() + resources.field("limits").len() > 0
    };
    if !is_set(&resources) && !is_set(&old) {
        return;
    }
    if old.exists() && !resources.exists() {
        resources.forbidden(errors, "pod-level resources cannot be removed");
        return;
    }
    for (list, detail) in [
        ("requests", "pod-level resource requests cannot be removed"),
        ("limits", "pod-level resource limits cannot be removed"),
    ] {
        if is_removed(&resources.field(list), &old.field(list)) {
            resources.field(list).forbidden(errors, detail);
        }
    }
    if !semantically_equal(
        Some(&without_compute(resources.value())),
        Some(&without_compute(old.value())),
    ) {
        spec.forbidden(
            errors,
            "only cpu and memory resources are mutable at pod-level",
        );
    }
}

fn is_removed(new: &FieldView<'_>, old: &FieldView<'_>) -> bool {
    old.entries().any(|(name, _)| !new.has(name))
}

/// Returns resources without CPU and memory, to compare the rest.
fn without_compute(resources: Option<&Value>) -> Value {
    let mut resources = resources.cloned().unwrap_or_else(|| json!({}));
    for list in ["requests", "limits"] {
        if let Some(Value::Object(amounts)) = resources.get_mut(list) {
            amounts.remove("cpu");
            amounts.remove("memory");
        }
    }
    resources
}

fn has_same_containers(spec: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) -> bool {
    let before = errors.len();
    for list in ["containers", "initContainers"] {
        let (new, old) = (spec.field(list), old.field(list));
        if new.len() != old.len() {
            new.forbidden(
                errors,
                format!("{list} may not be added or removed on resize"),
            );
            continue;
        }
        for (new, old) in new.items().zip(old.items()) {
            if new.text("name") != old.text("name") {
                let detail = format!("{list} may not be renamed or reordered on resize");
                new.field("name").forbidden(errors, detail);
            }
        }
    }
    errors.len() == before
}

fn validate_containers(spec: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    for list in ["initContainers", "containers"] {
        let (new, old) = (spec.field(list), old.field(list));
        for (new, old) in new.items().zip(old.items()) {
            let (resources, old) = (new.field("resources"), old.field("resources"));
            for (list, detail) in [
                ("requests", "resource requests cannot be removed"),
                ("limits", "resource limits cannot be removed"),
            ] {
                if is_removed(&resources.field(list), &old.field(list)) {
                    resources.field(list).forbidden(errors, detail);
                }
            }
        }
    }
    let (new, old_containers) = (spec.field("containers"), old.field("containers"));
    for (new, old) in new.items().zip(old_containers.items()) {
        if !equal_except_compute_resources(&new, &old) {
            spec.forbidden(errors, "only cpu and memory resources are mutable");
        }
    }
    let (new, old) = (spec.field("initContainers"), old.field("initContainers"));
    for (new, old) in new.items().zip(old.items()) {
        validate_init_container(&new, &old, errors);
    }
}

fn validate_init_container(new: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    if !equal_except_compute_resources(new, old) {
        let detail = "only cpu and memory resources for init or sidecar containers are mutable";
        new.forbidden(errors, detail);
    }
    if new.text("restartPolicy") == "Always" || semantically_equal(new.value(), old.value()) {
        return;
    }
    for policy in new.field("resizePolicy").items() {
        if policy.text("restartPolicy") == "RestartContainer" {
            let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            new.forbidden(errors, detail);
        }
    }
}

fn equal_except_compute_resources(new: &FieldView<'_>, old: &FieldView<'_>) -> bool {
    let masked = |container: &FieldView<'_>| {
        let mut object = container.object().cloned().unwrap_or_default();
        let resources = without_compute(object.get("resources"));
        object.insert("resources".to_owned(), resources);
        Value::Object(object)
    };
    semantically_equal(Some(&masked(new)), Some(&masked(old)))
}

/// Returns whether everything but resources is unchanged.
fn equal_except_resources(new: &FieldView<'_>, old: &FieldView<'_>) -> bool {
    let masked = |spec: &FieldView<'_>| {
        let mut object = spec.object().cloned().unwrap_or_default();
        for field in ["resources", "containers", "initContainers"] {
            object.remove(field);
        }
        Value::Object(object)
    };
    semantically_equal(Some(&masked(new)), Some(&masked(old)))
}
