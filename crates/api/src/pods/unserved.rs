//! Fields of features that are off: a write cannot bring them in, but what has them keeps them.

use serde_json::Value;

use super::affinity;
use crate::gates::Feature;
use crate::{Gates, Object, edit};

/// Drops fields of features that are off from the spec of a pod, unless `old` has them already.
pub fn drop_unserved_fields(spec: &mut Object, old: Option<&Object>, gates: &Gates) {
    let uses = |path: &str| old.is_some_and(|old| any_at(old, path));
    if !uses("schedulingGroup") {
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

fn drop_projections(spec: &mut Object, uses: impl Fn(&str) -> bool) {
    for projection in ["clusterTrustBundle", "podCertificate"] {
        if uses(&format!("volumes.projected.sources.{projection}")) {
            continue;
        }
        for volume in items(spec, "volumes") {
            let Some(Value::Object(projected)) = volume.get_mut("projected") else {
                continue;
            };
            for source in items(projected, "sources") {
                source.remove(projection);
            }
        }
    }
}

fn drop_stop_signals(spec: &mut Object, uses: impl Fn(&str) -> bool) {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    if lists
        .iter()
        .any(|list| uses(&format!("{list}.lifecycle.stopSignal")))
    {
        return;
    }
    for list in lists {
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
    const FIELDS: [&str; 2] = [
        "requiredDuringSchedulingIgnoredDuringExecution.namespaceSelector",
        "preferredDuringSchedulingIgnoredDuringExecution.podAffinityTerm.namespaceSelector",
    ];
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let mut fields = FIELDS.iter();
        fields.any(|field| any_at(spec, &format!("affinity.{kind}.{field}")))
    })
}

/// Whether there is anything at a path with dots, in any item of the lists on its way.
pub(super) fn any_at(object: &Object, path: &str) -> bool {
    let (name, rest) = match path.split_once('.') {
        Some((name, rest)) => (name, Some(rest)),
        None => (path, None),
    };
    let below = |value: &Value| match rest {
        None => !value.is_null(),
        Some(rest) => value.as_object().is_some_and(|object| any_at(object, rest)),
    };
    match object.get(name) {
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
