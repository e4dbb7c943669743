//! Devices, flow control and custom resources.

use serde_json::{Value, json};

use crate::{Object, edit, fields};

pub(super) fn device_request(request: &mut Object) {
    edit::default_text(request, "allocationMode", "ExactCount");
    if edit::text(request, "allocationMode") == "ExactCount" {
        edit::default_number(request, "count", 1);
    }
}

pub(super) fn flow_schema(object: &mut Object) {
    edit::within(object, &["spec"], |spec| {
        edit::default_number(spec, "matchingPrecedence", 1000);
    });
}

pub(super) fn exempt_priority_level(level: &mut Object) {
    edit::default(level, "nominalConcurrencyShares", 0);
    edit::default(level, "lendablePercent", 0);
}

pub(super) fn limited_priority_level(level: &mut Object) {
    edit::default(level, "nominalConcurrencyShares", 30);
    edit::default(level, "lendablePercent", 0);
}

pub(super) fn queuing(queuing: &mut Object) {
    edit::default_number(queuing, "handSize", 8);
    edit::default_number(queuing, "queues", 64);
    edit::default_number(queuing, "queueLengthLimit", 50);
}

pub(super) fn custom_resource_definition(object: &mut Object) {
    edit::within(object, &["spec"], |spec| {
        edit::within(spec, &["names"], |names| {
            let kind = edit::text(names, "kind").to_owned();
            edit::default_text(names, "singular", &kind.to_lowercase());
            if !kind.is_empty() {
                edit::default_text(names, "listKind", &format!("{kind}List"));
            }
        });
        edit::default(spec, "conversion", json!({"strategy": "None"}));
    });
    default_stored_versions(object);
}

/// What is stored now is all that was ever stored.
fn default_stored_versions(object: &mut Object) {
    let stored = edit::get(object, &["status", "storedVersions"]).and_then(Value::as_array);
    if stored.is_some_and(|versions| !versions.is_empty()) {
        return;
    }
    let name = fields::objects_mut(object, "spec.versions")
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .map(|version| edit::text(version, "name").to_owned());
    if let Some(name) = name {
        edit::within(object, &["status"], |status| {
            status.insert("storedVersions".to_owned(), json!([name]));
        });
    }
}
