//! Fields of features that are off: a write cannot bring them in, but what has them keeps them.

use serde_json::Value;

use super::{CONTAINER_LISTS, affinity};
use crate::gates::Feature;
use crate::{Gates, Object, edit};

/// Drops fields of features that are off from the spec of a pod, unless `old` has them already.
pub fn drop_unserved_fields(spec: &mut Object, old: Option<&Object>, gates: &Gates) {
    let uses = |path: &[&str]| old.is_some_and(|old| any_at(old, path));
    if !uses(&["schedulingGroup"]) {
        spec.remove("schedulingGroup");
    }
    drop_projections(spec, uses);
    drop_stop_signals(spec, uses);
    let selects = old.is_some_and(has_namespace_selector);
    if !gates.enabled(Feature::PodAffinityNamespaceSelector) && !selects {
        affinity::change_pod_terms(spec, |term| {
            term.remove("namespaceSelector");
        });
    }
}

/// The same for a pod's spec at a path in what makes pods, such as `spec.template.spec`.
pub(crate) fn drop_from_template(
    owner: &mut Object,
    old: Option<&Object>,
    path: &[&str],
    gates: &Gates,
) {
    if let Some(spec) = edit::find(owner, path) {
        let old = old.and_then(|old| edit::get(old, path));
        drop_unserved_fields(spec, old.and_then(Value::as_object), gates);
    }
}

fn drop_projections(spec: &mut Object, uses: impl Fn(&[&str]) -> bool) {
    let is_used = |projection| uses(&["volumes", "projected", "sources", projection]);
    let unserved = ["clusterTrustBundle", "podCertificate"]
        .map(|projection| (projection, !is_used(projection)));
    for volume in items(spec, "volumes") {
        let Some(Value::Object(projected)) = volume.get_mut("projected") else {
            continue;
        };
        for source in items(projected, "sources") {
            for (projection, is_unserved) in unserved {
                if is_unserved {
                    source.remove(projection);
                }
            }
        }
    }
}

fn drop_stop_signals(spec: &mut Object, uses: impl Fn(&[&str]) -> bool) {
    if CONTAINER_LISTS
        .iter()
        .any(|list| uses(&[list, "lifecycle", "stopSignal"]))
    {
        return;
    }
    for list in CONTAINER_LISTS {
        for container in items(spec, list) {
            if let Some(Value::Object(lifecycle)) = container.get_mut("lifecycle") {
                lifecycle.remove("stopSignal");
                if lifecycle.is_empty() {
                    container.remove("lifecycle");
                }
            }
        }
    }
}

/// Whether any term about other pods picks namespaces by their labels.
fn has_namespace_selector(spec: &Object) -> bool {
    const FIELD: &str = "namespaceSelector";
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        any_at(spec, &["affinity", kind, affinity::REQUIRED, FIELD])
            || any_at(
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

/// Whether there is anything at a path, in any item of the lists on its way.
pub(super) fn any_at(object: &Object, path: &[&str]) -> bool {
    let Some((name, rest)) = path.split_first() else {
        return true;
    };
    let below = |value: &Value| match rest {
        [] => !value.is_null(),
        rest => value.as_object().is_some_and(|object| any_at(object, rest)),
    };
    match object.get(*name) {
        Some(Value::Array(items)) => items.iter().any(below),
        Some(value) => below(value),
        None => false,
    }
}

pub(super) fn items<'a>(
    object: &'a mut Object,
    list: &str,
) -> impl Iterator<Item = &'a mut Object> {
    let items = object.get_mut(list).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests;
