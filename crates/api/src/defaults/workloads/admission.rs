//! Defaults of admission webhooks and admission policies.

use serde_json::{Value, json};

use crate::{JsonObject, object_edit};

pub(super) fn webhook(webhook: &mut JsonObject) {
    object_edit::set_default(webhook, "failurePolicy", "Fail");
    match_resources(webhook);
    object_edit::set_default(webhook, "timeoutSeconds", 10);
}

pub(super) fn mutating_webhook(object: &mut JsonObject) {
    webhook(object);
    object_edit::set_default(object, "reinvocationPolicy", "Never");
}

/// The match criteria that webhooks and policies have in common.
pub(super) fn match_resources(object: &mut JsonObject) {
    object_edit::set_default(object, "matchPolicy", "Equivalent");
    object_edit::set_default(object, "namespaceSelector", json!({}));
    object_edit::set_default(object, "objectSelector", json!({}));
}

/// The match criteria of policies and bindings. Only their exclusion rules get a default scope, as upstream's do: an
/// unchanged webhook that is applied again shall not differ from what is stored.
pub(super) fn policy_match_resources(object: &mut JsonObject) {
    match_resources(object);
    let exclusions = object.get_mut("excludeResourceRules");
    for exclusion in exclusions
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(exclusion) = exclusion.as_object_mut() {
            rule(exclusion);
        }
    }
}

pub(super) fn rule(rule: &mut JsonObject) {
    object_edit::set_default(rule, "scope", "*");
}

pub(super) fn service_reference(service: &mut JsonObject) {
    object_edit::set_default(service, "port", 443);
}

pub(super) fn policy(object: &mut JsonObject) {
    object_edit::edit_child(object, &["spec"], |spec| {
        object_edit::set_default(spec, "failurePolicy", "Fail");
    });
}
