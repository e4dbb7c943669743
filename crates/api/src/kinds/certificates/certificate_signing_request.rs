//! Declares `CertificateSigningRequest` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/certificates/validation`.

use rhumb_meta::field::ErrorList;
use serde_json::{Value, json};

use super::validation::{self, CsrUpdateTarget};
use crate::{
    FieldView, JsonObject, Kind, NameRule, ResourceScope, ResourceStrategy, SelectableField,
    StrategyContext, SubresourceKind, Verb, fields, object_edit,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        "io.k8s.api.certificates.v1.CertificateSigningRequest",
    )
    .short_names(&["csr"])
    .subresource(
        "approval",
        SubresourceKind::Approval,
        &[Verb::Get, Verb::Patch, Verb::Update],
    )
    .status()
    .names(NameRule::PathSegment)
    .selectable(&[SelectableField::string(
        "spec.signerName",
        "spec.signerName",
    )])
    .strategy(CertificateSigningRequestStrategy)
}

#[derive(Debug)]
struct CertificateSigningRequestStrategy;

impl ResourceStrategy for CertificateSigningRequestStrategy {
    /// Sets the requester (user name, uid, groups, extra) from the request; clients cannot choose it.
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        object_edit::edit_child(object, &["spec"], |spec| {
            for name in ["username", "uid", "groups", "extra"] {
                spec.remove(name);
            }
            if !request.user.is_empty() {
                spec.insert("username".to_owned(), json!(request.user));
            }
            if !request.uid.is_empty() {
                spec.insert("uid".to_owned(), json!(request.uid));
            }
            if !request.groups.is_empty() {
                spec.insert("groups".to_owned(), json!(request.groups));
            }
            if let Some(extra) = request.extra.filter(|extra| !extra.is_empty()) {
                spec.insert("extra".to_owned(), json!(extra));
            }
        });
    }

    fn prepare_update(&self, object: &mut JsonObject, old: &JsonObject, _: &StrategyContext<'_>) {
        fields::restore_from(object, old, "spec");
        fields::restore_from(object, old, "status");
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validation::validate(object, None, errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validation::validate_update(object, old, CsrUpdateTarget::Object, errors);
    }

    fn prepare_status_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        for kind in ["Approved", "Denied"] {
            restore_conditions(object, old, kind);
        }
        set_condition_times(object, old, request);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validation::validate_update(object, old, CsrUpdateTarget::Status, errors);
    }

    /// An update of `approval` changes only the conditions.
    fn prepare_subresource(
        &self,
        subresource: &str,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        if subresource != "approval" {
            return;
        }
        set_condition_times(object, old, request);
        let conditions = fields::get(object, "status.conditions").cloned();
        fields::restore_from(object, old, "spec");
        fields::restore_from(object, old, "status");
        object_edit::edit_child(object, &["status"], |status| match conditions {
            Some(conditions) => {
                status.insert("conditions".to_owned(), conditions);
            }
            None => {
                status.remove("conditions");
            }
        });
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        if subresource == "approval" {
            validation::validate_update(object, old, CsrUpdateTarget::Approval, errors);
        }
    }
}

fn has_type(condition: &JsonObject, kind: &str) -> bool {
    object_edit::text(condition, "type") == kind
}

/// Restores the old conditions of this type, if their number is unchanged.
fn restore_conditions(object: &mut JsonObject, old: &JsonObject, kind: &str) {
    let before: Vec<&JsonObject> = fields::items(old, "status.conditions")
        .iter()
        .filter_map(Value::as_object)
        .filter(|condition| has_type(condition, kind))
        .collect();
    let now = fields::objects_mut(object, "status.conditions");
    let now: Vec<&mut JsonObject> = now.filter(|condition| has_type(condition, kind)).collect();
    if now.len() == before.len() {
        for (condition, before) in now.into_iter().zip(before) {
            *condition = before.clone();
        }
    }
}

/// Sets `lastUpdateTime` and `lastTransitionTime` of the conditions.
fn set_condition_times(object: &mut JsonObject, old: &JsonObject, request: &StrategyContext<'_>) {
    let now = request.now.rfc3339().to_string();
    let before = fields::items(old, "status.conditions");
    for condition in fields::objects_mut(object, "status.conditions") {
        object_edit::set_default_string(condition, "lastUpdateTime", &now);
        let since = before.iter().filter_map(Value::as_object).find(|before| {
            ["type", "status"]
                .iter()
                .all(|name| object_edit::text(before, name) == object_edit::text(condition, name))
                && !object_edit::text(before, "lastTransitionTime").is_empty()
        });
        let since = since.map_or(now.as_str(), |before| {
            object_edit::text(before, "lastTransitionTime")
        });
        object_edit::set_default_string(condition, "lastTransitionTime", since);
    }
}
