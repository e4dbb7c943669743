//! Defaults of device requests, flow control and CustomResourceDefinitions.

use serde_json::{Value, json};

use crate::{JsonObject, fields, object_edit};

pub(super) fn device_request(request: &mut JsonObject) {
    object_edit::set_default_string(request, "allocationMode", "ExactCount");
    if object_edit::text(request, "allocationMode") == "ExactCount" {
        object_edit::set_default_number(request, "count", 1);
    }
}

pub(super) fn flow_schema(object: &mut JsonObject) {
    object_edit::edit_child(object, &["spec"], |spec| {
        object_edit::set_default_number(spec, "matchingPrecedence", 1000);
    });
}

pub(super) fn exempt_priority_level(level: &mut JsonObject) {
    object_edit::set_default(level, "nominalConcurrencyShares", 0);
    object_edit::set_default(level, "lendablePercent", 0);
}

pub(super) fn limited_priority_level(level: &mut JsonObject) {
    object_edit::set_default(level, "nominalConcurrencyShares", 30);
    object_edit::set_default(level, "lendablePercent", 0);
}

pub(super) fn queuing(queuing: &mut JsonObject) {
    object_edit::set_default_number(queuing, "handSize", 8);
    object_edit::set_default_number(queuing, "queues", 64);
    object_edit::set_default_number(queuing, "queueLengthLimit", 50);
}

pub(super) fn custom_resource_definition(object: &mut JsonObject) {
    object_edit::edit_child(object, &["spec"], |spec| {
        object_edit::edit_child(spec, &["names"], |names| {
            let kind = object_edit::text(names, "kind").to_owned();
            object_edit::set_default_string(names, "singular", &kind.to_lowercase());
            if !kind.is_empty() {
                object_edit::set_default_string(names, "listKind", &format!("{kind}List"));
            }
        });
        object_edit::set_default(spec, "conversion", json!({"strategy": "None"}));
    });
    default_stored_versions(object);
}

/// `status.storedVersions` defaults to the storage version.
fn default_stored_versions(object: &mut JsonObject) {
    let stored = object_edit::get(object, &["status", "storedVersions"]).and_then(Value::as_array);
    if stored.is_some_and(|versions| !versions.is_empty()) {
        return;
    }
    let name = fields::objects_mut(object, "spec.versions")
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .map(|version| object_edit::text(version, "name").to_owned());
    if let Some(name) = name {
        object_edit::edit_child(object, &["status"], |status| {
            status.insert("storedVersions".to_owned(), json!([name]));
        });
    }
}
