//! What may change in a pod, and what must not.

use std::collections::HashSet;

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use serde_json::Value;

use super::equality::{same, same_field};
use super::{Options, annotations, checks, containers, scheduling, spec};
use crate::{Object, View};

const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const NODE_AFFINITY: &str = "nodeAffinity";

/// Checks a new pod.
pub fn validate_create(pod: &View<'_>, errors: &mut ErrorList) {
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    let index = spec.index();
    let spec = spec.with(&index);
    let notes = metadata.field("annotations");
    let options = Options::default().for_pod();
    validate_parts(&metadata, &notes, &spec, &options, errors);
    if !spec.field("ephemeralContainers").is_empty() {
        let detail = "cannot be set on create";
        spec.field("ephemeralContainers").forbidden(errors, detail);
    }
    if !spec.text("nodeName").is_empty() && !spec.field("schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        spec.field("nodeName").forbidden(errors, detail);
    }
    annotations::validate_matching(&notes, &spec, errors);
}

pub(super) fn validate_metadata_and_spec(
    pod: &View<'_>,
    options: &Options,
    errors: &mut ErrorList,
) {
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    let index = spec.index();
    let spec = spec.with(&index);
    let notes = metadata.field("annotations");
    validate_parts(&metadata, &notes, &spec, options, errors);
}

fn validate_parts(
    metadata: &View<'_>,
    notes: &View<'_>,
    spec: &View<'_>,
    options: &Options,
    errors: &mut ErrorList,
) {
    annotations::validate(notes, spec, options, errors);
    spec::validate(spec, metadata, options, errors);
    if spec.text("serviceAccountName").is_empty() {
        without_tokens(spec, errors);
    }
    for list in ["containers", "initContainers"] {
        for container in spec.field(list).items() {
            containers::trimmed_image(&container, errors);
        }
    }
}

fn without_tokens(spec: &View<'_>, errors: &mut ErrorList) {
    for volume in spec.field("volumes").items() {
        let projected = volume.field("projected");
        for source in projected.field("sources").items() {
            let token = source.field("serviceAccountToken");
            if token.exists() {
                let detail = "must not be specified when serviceAccountName is not set";
                token.forbidden(errors, detail);
            }
        }
    }
}

pub(super) fn options(old: &View<'_>) -> Options {
    let metadata = old.field("metadata");
    Options::keeping(&old.field("spec"), &metadata.field("annotations")).for_pod()
}

/// Checks a pod that takes the place of `old`.
pub fn validate_update(pod: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
    let options = options(old);
    validate_metadata_and_spec(pod, &options, errors);
    validate_annotations(pod, old, &options, errors);
    let (spec, old_spec) = (pod.field("spec"), old.field("spec"));
    for list in ["containers", "initContainers"] {
        let containers = spec.field(list);
        if containers.len() != old_spec.field(list).len() {
            let detail = "pod updates may not add or remove containers";
            containers.forbidden(errors, detail);
            return;
        }
        for container in containers.items() {
            checks::required(&container.field("image"), errors);
            containers::trimmed_image(&container, errors);
        }
    }
    if !deadline(&spec, &old_spec, errors) {
        return;
    }
    only_added_tolerations(&spec, &old_spec, &options, errors);
    only_deleted_gates(&spec, &old_spec, errors);
    if let (Some(new), Some(old)) = (spec.object(), old_spec.object()) {
        unchanged_else(&spec, new, old, errors);
    }
}

/// Checks annotations that a pod may not change, and those it has.
pub(super) fn validate_annotations(
    pod: &View<'_>,
    old: &View<'_>,
    options: &Options,
    errors: &mut ErrorList,
) {
    let (metadata, old_metadata) = (pod.field("metadata"), old.field("metadata"));
    let notes = metadata.field("annotations");
    annotations::validate_update(&notes, &old_metadata.field("annotations"), errors);
    annotations::validate(&notes, &pod.field("spec"), options, errors);
}

/// A deadline can be set, and come closer. Gives whether the rest is worth looking at.
fn deadline(spec: &View<'_>, old: &View<'_>, errors: &mut ErrorList) -> bool {
    let deadline = spec.field("activeDeadlineSeconds");
    let old = old.field("activeDeadlineSeconds").int();
    match (deadline.int(), old) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            let detail = "must be between 0 and 2147483647, inclusive";
            checks::bad_number(&deadline, errors, detail);
            false
        }
        (Some(seconds), Some(old)) if old < seconds => {
            checks::bad_number(
                &deadline,
                errors,
                "must be less than or equal to previous value",
            );
            false
        }
        (None, Some(_)) => {
            deadline.invalid(
                errors,
                "must not update from a positive integer to nil value",
            );
            true
        }
        _ => true,
    }
}

fn only_added_tolerations(
    spec: &View<'_>,
    old: &View<'_>,
    options: &Options,
    errors: &mut ErrorList,
) {
    let tolerations = spec.field("tolerations");
    let identity = |toleration: &View<'_>| {
        ["key", "operator", "value", "effect"].map(|name| toleration.text(name).to_owned())
    };
    let new: HashSet<_> = tolerations.items().map(|item| identity(&item)).collect();
    let old = old.field("tolerations");
    if old.items().any(|item| !new.contains(&identity(&item))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        tolerations.forbidden(errors, detail);
        return;
    }
    scheduling::validate_tolerations(&tolerations, options, errors);
}

fn only_deleted_gates(spec: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
    let (gates, old) = (spec.field("schedulingGates"), old.field("schedulingGates"));
    let old: HashSet<&str> = old.items().map(|gate| gate.text("name")).collect();
    let mut reported = HashSet::new();
    // Of several gates with one name only the last is named.
    let places: Vec<View<'_>> = gates.items().collect();
    for gate in places.iter().rev() {
        let name = gate.text("name");
        if !old.contains(name) && reported.insert(name) {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            gate.field("name").forbidden(errors, detail);
        }
    }
}

/// Checks that what was not looked at yet is as it was.
fn unchanged_else(view: &View<'_>, new: &Object, old: &Object, errors: &mut ErrorList) {
    let is_gated = old
        .get("schedulingGates")
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty());
    let mut changed: Vec<&str> = Vec::new();
    let names: HashSet<&str> = new.keys().chain(old.keys()).map(String::as_str).collect();
    for name in names {
        let (new_value, old_value) = (new.get(name), old.get(name));
        let is_same = match name {
            "activeDeadlineSeconds" | "schedulingGates" | "tolerations" => true,
            "containers" | "initContainers" => same_but_images(new_value, old_value),
            "terminationGracePeriodSeconds" => same_grace(new_value, old_value),
            "nodeSelector" if is_gated => {
                only_added_labels(view, new_value, old_value, errors);
                true
            }
            "affinity" if is_gated => {
                let affinity = view.field("affinity");
                node_affinity(&affinity, new_value, old_value, errors);
                same_pod_affinity(new_value, old_value)
            }
            _ => same_field(name, new_value, old_value),
        };
        if !is_same {
            changed.push(name);
        }
    }
    if !changed.is_empty() {
        changed.sort_unstable();
        let changed: Vec<String> = changed.iter().map(|name| format!("spec.{name}")).collect();
        view.forbidden(
            errors,
            format!("{UPDATABLE}\nchanged: {}\n", changed.join(", ")),
        );
    }
}

fn same_grace(new: Option<&Value>, old: Option<&Value>) -> bool {
    let new = new.and_then(Value::as_i64);
    let old = old.and_then(Value::as_i64);
    new == old || (new == Some(1) && old.is_some_and(|old| old < 0))
}

fn same_but_images(new: Option<&Value>, old: Option<&Value>) -> bool {
    let list = |value: Option<&Value>| -> Vec<Object> {
        let items = value.and_then(Value::as_array).into_iter().flatten();
        let mut objects: Vec<Object> = items.filter_map(|item| item.as_object().cloned()).collect();
        for object in &mut objects {
            object.remove("image");
        }
        objects
    };
    let (new, old) = (list(new), list(old));
    let as_value = |object: &Object| Value::Object(object.clone());
    new.len() == old.len()
        && new
            .iter()
            .zip(&old)
            .all(|(new, old)| same(Some(&as_value(new)), Some(&as_value(old))))
}

fn only_added_labels(
    spec: &View<'_>,
    new: Option<&Value>,
    old: Option<&Value>,
    errors: &mut ErrorList,
) {
    let old = old.and_then(Value::as_object);
    let is_kept = |(key, value): (&String, &Value)| new.and_then(|new| new.get(key)) == Some(value);
    if !old.into_iter().flatten().all(is_kept) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        spec.field("nodeSelector").invalid(errors, detail);
    }
}

/// While a pod is held back, the nodes it may run on can become fewer.
fn node_affinity(
    affinity: &View<'_>,
    new: Option<&Value>,
    old: Option<&Value>,
    errors: &mut ErrorList,
) {
    let terms = |affinity: Option<&Value>| {
        let required = affinity?.get(NODE_AFFINITY)?.get(REQUIRED)?;
        required.get("nodeSelectorTerms")?.as_array().cloned()
    };
    let (new, old) = (terms(new), terms(old).unwrap_or_default());
    let has_terms = new.is_some();
    if old.is_empty() {
        return;
    }
    let nodes = affinity.path().child(NODE_AFFINITY);
    let required = nodes.child(REQUIRED);
    let path = required.child("nodeSelectorTerms");
    let new_terms = Value::Array(new.unwrap_or_default());
    let view = View::at(Some(&new_terms), path);
    if view.len() != old.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let shown = if !has_terms {
            BadValue::Rendered("null".to_owned())
        } else {
            checks::go_list(&view, shown_term)
        };
        errors.push(Error::invalid(view.path(), shown, detail));
        return;
    }
    for (term, old) in view.items().zip(&old) {
        if !has_only_additions(&term, old) {
            let detail = "only additions are allowed (no mutations or deletions)";
            let shown = BadValue::Rendered(shown_term(&term));
            errors.push(Error::invalid(term.path(), shown, detail));
        }
    }
}

fn shown_term(term: &View<'_>) -> String {
    let list = |name: &str| {
        let requirements = term.field(name);
        if !requirements.exists() {
            return "null".to_owned();
        }
        let fields = [
            ("Key", "key", "\"\""),
            ("Operator", "operator", "\"\""),
            ("Values", "values", "null"),
        ];
        let items = requirements.items();
        let items: Vec<String> = items
            .map(|item| checks::go_struct(&item, &fields))
            .collect();
        format!("[{}]", items.join(","))
    };
    format!(
        "{{\"MatchExpressions\":{},\"MatchFields\":{}}}",
        list("matchExpressions"),
        list("matchFields")
    )
}

fn has_only_additions(new: &View<'_>, old: &Value) -> bool {
    let old = View::at(Some(old), Path::NIL);
    let lists = ["matchExpressions", "matchFields"];
    let is_empty = |term: &View<'_>| lists.iter().all(|list| term.field(list).is_empty());
    if is_empty(&old) && !is_empty(new) {
        return false;
    }
    lists.iter().all(|list| {
        let (new, old) = (new.field(list), old.field(list));
        new.len() >= old.len()
            && new
                .items()
                .zip(old.items())
                .all(|(new, old)| same(new.value(), old.value()))
    })
}

/// Whether the affinity of a pod that is held back is the same but for the nodes, which were looked at.
fn same_pod_affinity(new: Option<&Value>, old: Option<&Value>) -> bool {
    let same_part = |part: &str| {
        let (new, old) = (
            new.and_then(|new| new.get(part)),
            old.and_then(|old| old.get(part)),
        );
        same_field(part, new, old)
    };
    // As upstream, an affinity with nothing in it may come and go only together with nodes.
    match same_part(NODE_AFFINITY) {
        true => same_field("affinity", new, old),
        false => same_part("podAffinity") && same_part("podAntiAffinity"),
    }
}

/// An error about the pod as a whole, which upstream places at a field without a name.
pub(super) fn nowhere(detail: &str) -> Error {
    Error::forbidden(&Path::new(""), detail)
}

/// Checks where a pod is to run.
pub fn validate_binding(binding: &View<'_>, errors: &mut ErrorList) {
    let target = binding.field("target");
    let kind = target.field("kind");
    if !matches!(kind.str(), "" | "Node") {
        let supported = ["Node", "<empty>"];
        errors.push(Error::not_supported(kind.path(), kind.str(), &supported));
    }
    checks::required(&target.field("name"), errors);
}
