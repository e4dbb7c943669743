//! The `ephemeralcontainers` subresource of pods.

use std::collections::HashMap;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::gotext;
use serde_json::Value;

use super::semantic_equality::semantically_equal;
use super::{annotations, prepare, update};
use crate::{FieldView, JsonObject};

const FIELD: &str = "ephemeralContainers";

/// Restores everything but the ephemeral containers from the old pod.
pub fn prepare_ephemeral_containers(pod: &mut JsonObject, old: &JsonObject) {
    let added = match pod.get_mut("spec") {
        Some(Value::Object(spec)) => spec.remove(FIELD),
        _ => None,
    };
    for part in ["spec", "status"] {
        match old.get(part) {
            Some(value) => pod.insert(part.to_owned(), value.clone()),
            None => pod.remove(part),
        };
    }
    prepare::restore_metadata(pod, old);
    if let Some(Value::Object(spec)) = pod.get_mut("spec") {
        match added {
            Some(added) => spec.insert(FIELD.to_owned(), added),
            None => spec.remove(FIELD),
        };
    }
}

/// Validates an update of the ephemeral containers: existing ones may not be changed or removed.
pub fn validate_ephemeral_containers(
    pod: &FieldView<'_>,
    old: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    let old_metadata = old.field("metadata");
    if old_metadata
        .field("annotations")
        .has(annotations::MIRROR_POD_ANNOTATION)
    {
        let detail = "static pods do not support ephemeral containers";
        errors.push(update::pod_error_without_field(detail));
        return;
    }
    let options = update::options(old);
    update::validate_metadata_and_spec(pod, &options, errors);
    update::validate_annotations(pod, old, &options, errors);
    let (spec, old_spec) = (pod.field("spec"), old.field("spec"));
    let containers = spec.field(FIELD);
    let new: HashMap<&str, Option<&Value>> = containers
        .items()
        .map(|container| (container.text("name"), container.value()))
        .collect();
    for container in old_spec.field(FIELD).items() {
        let name = gotext::quote(container.text("name"));
        let detail = match new.get(container.text("name")) {
            None => format!("existing ephemeral containers {name} may not be removed\n"),
            Some(new) if !semantically_equal(*new, container.value()) => {
                format!("existing ephemeral containers {name} may not be changed\n")
            }
            Some(_) => continue,
        };
        errors.push(Error::forbidden(containers.path(), detail));
    }
}
