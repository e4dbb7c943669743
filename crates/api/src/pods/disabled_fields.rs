//! Drops fields of disabled features from pods and templates, unless the old object uses them (upstream's
//! `DropDisabledPodFields`).

use serde_json::Value;

use super::{CONTAINER_LISTS, affinity};
use crate::feature_gates::Feature;
use crate::{FeatureGates, JsonObject, object_edit};

/// Drops fields of disabled features from a pod spec, unless `old` uses them.
pub fn drop_disabled_fields(spec: &mut JsonObject, old: Option<&JsonObject>, gates: &FeatureGates) {
    let uses = |path: &[&str]| old.is_some_and(|old| any_value_at_path(old, path));
    if !uses(&["schedulingGroup"]) {
        spec.remove("schedulingGroup");
    }
    drop_projections(spec, uses);
    drop_stop_signals(spec, uses);
    let selects = old.is_some_and(has_namespace_selector);
    if !gates.enabled(Feature::PodAffinityNamespaceSelector) && !selects {
        affinity::for_each_pod_term_mut(spec, |term| {
            term.remove("namespaceSelector");
        });
    }
}

/// Like `drop_disabled_fields`, for the pod spec at a path of a workload, such as `spec.template.spec`.
pub(crate) fn drop_disabled_template_fields(
    owner: &mut JsonObject,
    old: Option<&JsonObject>,
    path: &[&str],
    gates: &FeatureGates,
) {
    if let Some(spec) = object_edit::find_object(owner, path) {
        let old = old.and_then(|old| object_edit::get(old, path));
        drop_disabled_fields(spec, old.and_then(Value::as_object), gates);
    }
}

fn drop_projections(spec: &mut JsonObject, uses: impl Fn(&[&str]) -> bool) {
    let is_used = |projection| uses(&["volumes", "projected", "sources", projection]);
    let unserved = ["clusterTrustBundle", "podCertificate"]
        .map(|projection| (projection, !is_used(projection)));
    for volume in items_at_path(spec, "volumes") {
        let Some(Value::Object(projected)) = volume.get_mut("projected") else {
            continue;
        };
        for source in items_at_path(projected, "sources") {
            for (projection, is_unserved) in unserved {
                if is_unserved {
                    source.remove(projection);
                }
            }
        }
    }
}

fn drop_stop_signals(spec: &mut JsonObject, uses: impl Fn(&[&str]) -> bool) {
    if CONTAINER_LISTS
        .iter()
        .any(|list| uses(&[list, "lifecycle", "stopSignal"]))
    {
        return;
    }
    for list in CONTAINER_LISTS {
        for container in items_at_path(spec, list) {
            if let Some(Value::Object(lifecycle)) = container.get_mut("lifecycle") {
                lifecycle.remove("stopSignal");
                if lifecycle.is_empty() {
                    container.remove("lifecycle");
                }
            }
        }
    }
}

/// Returns whether any pod affinity or anti-affinity term has a `namespaceSelector`.
fn has_namespace_selector(spec: &JsonObject) -> bool {
    const FIELD: &str = "namespaceSelector";
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        any_value_at_path(spec, &["affinity", kind, affinity::REQUIRED, FIELD])
            || any_value_at_path(
                spec,
                &[
                    "affinity",
                    kind,
                    affinity::PREFERRED,
                    "podAffinityTerm",
                    FIELD,
                ],
            )
    })
}

/// Returns whether any value exists at a path, descending into all items of lists.
pub(super) fn any_value_at_path(object: &JsonObject, path: &[&str]) -> bool {
    let Some((name, rest)) = path.split_first() else {
        return true;
    };
    let below = |value: &Value| match rest {
        [] => !value.is_null(),
        rest => value
            .as_object()
            .is_some_and(|object| any_value_at_path(object, rest)),
    };
    match object.get(*name) {
        Some(Value::Array(items)) => items.iter().any(below),
        Some(value) => below(value),
        None => false,
    }
}

pub(super) fn items_at_path<'a>(
    object: &'a mut JsonObject,
    list: &str,
) -> impl Iterator<Item = &'a mut JsonObject> {
    let items = object.get_mut(list).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests;
