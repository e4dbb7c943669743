//! Validation of pods on create and update, and of bindings.

use std::collections::HashSet;

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use serde_json::Value;

use super::semantic_equality::{field_semantically_equal, semantically_equal};
use super::{PodValidationOptions, annotations, checks, containers, scheduling, spec};
use crate::{FieldView, JsonObject};

const IMMUTABLE_POD_FIELDS: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const NODE_AFFINITY: &str = "nodeAffinity";

/// Validates a new pod.
pub fn validate_create(pod: &FieldView<'_>, errors: &mut ErrorList) {
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    let index = spec.index();
    let spec = spec.with_index(&index);
    let notes = metadata.field("annotations");
    let options = PodValidationOptions::default().for_pod();
    validate_parts(&metadata, &notes, &spec, &options, errors);
    if !spec.field("ephemeralContainers").is_empty() {
        let detail = "cannot be set on create";
        spec.field("ephemeralContainers").forbidden(errors, detail);
    }
    if !spec.text("nodeName").is_empty() && !spec.field("schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        spec.field("nodeName").forbidden(errors, detail);
    }
    annotations::validate_profiles_match_fields(&notes, &spec, errors);
}

pub(super) fn validate_metadata_and_spec(
    pod: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    let index = spec.index();
    let spec = spec.with_index(&index);
    let notes = metadata.field("annotations");
    validate_parts(&metadata, &notes, &spec, options, errors);
}

fn validate_parts(
    metadata: &FieldView<'_>,
    notes: &FieldView<'_>,
    spec: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    annotations::validate(notes, spec, options, errors);
    spec::validate(spec, metadata, options, errors);
    if spec.text("serviceAccountName").is_empty() {
        reject_token_projection(spec, errors);
    }
    for list in ["containers", "initContainers"] {
        for container in spec.field(list).items() {
            containers::reject_image_whitespace(&container, errors);
        }
    }
}

fn reject_token_projection(spec: &FieldView<'_>, errors: &mut ErrorList) {
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

pub(super) fn options(old: &FieldView<'_>) -> PodValidationOptions {
    let metadata = old.field("metadata");
    PodValidationOptions::for_update_of(&old.field("spec"), &metadata.field("annotations"))
        .for_pod()
}

/// Validates an update of a pod.
pub fn validate_update(pod: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
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
            containers::reject_image_whitespace(&container, errors);
        }
    }
    if !validate_deadline(&spec, &old_spec, errors) {
        return;
    }
    validate_tolerations_only_added(&spec, &old_spec, &options, errors);
    validate_gates_only_removed(&spec, &old_spec, errors);
    if let (Some(new), Some(old)) = (spec.object(), old_spec.object()) {
        validate_other_fields_unchanged(&spec, new, old, errors);
    }
}

/// Validates annotations and their changes.
pub(super) fn validate_annotations(
    pod: &FieldView<'_>,
    old: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    let (metadata, old_metadata) = (pod.field("metadata"), old.field("metadata"));
    let notes = metadata.field("annotations");
    annotations::validate_update(&notes, &old_metadata.field("annotations"), errors);
    annotations::validate(&notes, &pod.field("spec"), options, errors);
}

/// Allows `activeDeadlineSeconds` to be set and decreased. Returns whether validation should continue.
fn validate_deadline(spec: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) -> bool {
    let deadline = spec.field("activeDeadlineSeconds");
    let old = old.field("activeDeadlineSeconds").int();
    match (deadline.int(), old) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            let detail = "must be between 0 and 2147483647, inclusive";
            checks::invalid_number(&deadline, errors, detail);
            false
        }
        (Some(seconds), Some(old)) if old < seconds => {
            checks::invalid_number(
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

fn validate_tolerations_only_added(
    spec: &FieldView<'_>,
    old: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    let tolerations = spec.field("tolerations");
    let identity = |toleration: &FieldView<'_>| {
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

fn validate_gates_only_removed(spec: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let (gates, old) = (spec.field("schedulingGates"), old.field("schedulingGates"));
    let old: HashSet<&str> = old.items().map(|gate| gate.text("name")).collect();
    let mut reported = HashSet::new();
    // Of several gates with the same name, only the last one is reported.
    let places: Vec<FieldView<'_>> = gates.items().collect();
    for gate in places.iter().rev() {
        let name = gate.text("name");
        if !old.contains(name) && reported.insert(name) {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            gate.field("name").forbidden(errors, detail);
        }
    }
}

/// Rejects changes of all other fields.
fn validate_other_fields_unchanged(
    view: &FieldView<'_>,
    new: &JsonObject,
    old: &JsonObject,
    errors: &mut ErrorList,
) {
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
            "containers" | "initContainers" => equal_except_images(new_value, old_value),
            "terminationGracePeriodSeconds" => same_grace_period(new_value, old_value),
            "nodeSelector" if is_gated => {
                validate_labels_only_added(view, new_value, old_value, errors);
                true
            }
            "affinity" if is_gated => {
                let affinity = view.field("affinity");
                validate_gated_node_affinity(&affinity, new_value, old_value, errors);
                same_pod_affinity(new_value, old_value)
            }
            _ => field_semantically_equal(name, new_value, old_value),
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
            format!("{IMMUTABLE_POD_FIELDS}\nchanged: {}\n", changed.join(", ")),
        );
    }
}

fn same_grace_period(new: Option<&Value>, old: Option<&Value>) -> bool {
    let new = new.and_then(Value::as_i64);
    let old = old.and_then(Value::as_i64);
    new == old || (new == Some(1) && old.is_some_and(|old| old < 0))
}

fn equal_except_images(new: Option<&Value>, old: Option<&Value>) -> bool {
    let list = |value: Option<&Value>| -> Vec<JsonObject> {
        let items = value.and_then(Value::as_array).into_iter().flatten();
        let mut objects: Vec<JsonObject> =
            items.filter_map(|item| item.as_object().cloned()).collect();
        for object in &mut objects {
            object.remove("image");
        }
        objects
    };
    let (new, old) = (list(new), list(old));
    let as_value = |object: &JsonObject| Value::Object(object.clone());
    new.len() == old.len()
        && new
            .iter()
            .zip(&old)
            .all(|(new, old)| semantically_equal(Some(&as_value(new)), Some(&as_value(old))))
}

fn validate_labels_only_added(
    spec: &FieldView<'_>,
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

/// While a pod is gated, node affinity may only become more restrictive.
fn validate_gated_node_affinity(
    affinity: &FieldView<'_>,
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
    let view = FieldView::at(Some(&new_terms), path);
    if view.len() != old.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let shown = if !has_terms {
            BadValue::Rendered("null".to_owned())
        } else {
            checks::go_list(&view, render_node_selector_term)
        };
        errors.push(Error::invalid(view.path(), shown, detail));
        return;
    }
    for (term, old) in view.items().zip(&old) {
        if !has_only_additions(&term, old) {
            let detail = "only additions are allowed (no mutations or deletions)";
            let shown = BadValue::Rendered(render_node_selector_term(&term));
            errors.push(Error::invalid(term.path(), shown, detail));
        }
    }
}

fn render_node_selector_term(term: &FieldView<'_>) -> String {
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

fn has_only_additions(new: &FieldView<'_>, old: &Value) -> bool {
    let old = FieldView::at(Some(old), Path::NIL);
    let lists = ["matchExpressions", "matchFields"];
    let is_empty = |term: &FieldView<'_>| lists.iter().all(|list| term.field(list).is_empty());
    if is_empty(&old) && !is_empty(new) {
        return false;
    }
    lists.iter().all(|list| {
        let (new, old) = (new.field(list), old.field(list));
        new.len() >= old.len()
            && new
                .items()
                .zip(old.items())
                .all(|(new, old)| semantically_equal(new.value(), old.value()))
    })
}

/// Compares the affinity of a gated pod without node affinity, which is validated separately.
fn same_pod_affinity(new: Option<&Value>, old: Option<&Value>) -> bool {
    let same_part = |part: &str| {
        let (new, old) = (
            new.and_then(|new| new.get(part)),
            old.and_then(|old| old.get(part)),
        );
        field_semantically_equal(part, new, old)
    };
    // As upstream, an empty affinity may be added or removed only together with node affinity.
    match same_part(NODE_AFFINITY) {
        true => field_semantically_equal("affinity", new, old),
        false => same_part("podAffinity") && same_part("podAntiAffinity"),
    }
}

/// An error about the whole pod, which upstream reports with an empty field path.
pub(super) fn pod_error_without_field(detail: &str) -> Error {
    Error::forbidden(&Path::new(""), detail)
}

/// Validates a binding.
pub fn validate_binding(binding: &FieldView<'_>, errors: &mut ErrorList) {
    let target = binding.field("target");
    let kind = target.field("kind");
    if !matches!(kind.str(), "" | "Node") {
        let supported = ["Node", "<empty>"];
        errors.push(Error::not_supported(kind.path(), kind.str(), &supported));
    }
    checks::required(&target.field("name"), errors);
}
