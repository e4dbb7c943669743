//! Webhooks and admission policies.

use serde_json::json;

use crate::{Object, edit};

pub(super) fn webhook(webhook: &mut Object) {
    edit::default(webhook, "failurePolicy", "Fail");
    matching(webhook);
    edit::default(webhook, "timeoutSeconds", 10);
}

pub(super) fn mutating_webhook(object: &mut Object) {
    webhook(object);
    edit::default(object, "reinvocationPolicy", "Never");
}

/// What webhooks and policies say alike of the requests they want to see.
pub(super) fn matching(object: &mut Object) {
    edit::default(object, "matchPolicy", "Equivalent");
    edit::default(object, "namespaceSelector", json!({}));
    edit::default(object, "objectSelector", json!({}));
}

pub(super) fn rule(rule: &mut Object) {
    edit::default(rule, "scope", "*");
}

pub(super) fn service_reference(service: &mut Object) {
    edit::default(service, "port", 443);
}

pub(super) fn policy(object: &mut Object) {
    edit::within(object, &["spec"], |spec| {
        edit::default(spec, "failurePolicy", "Fail");
    });
}
