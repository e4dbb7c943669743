//! CertificateSigningRequest.

use rhumb_meta::field::ErrorList;
use serde_json::{Value, json};

use super::validation::{self, Path};
use crate::{
    Kind, NameRule, Object, Request, Rules, Scope, Selectable, Selected, SubresourceKind, Verb,
    View, edit, fields,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        "io.k8s.api.certificates.v1.CertificateSigningRequest",
    )
    .short(&["csr"])
    .subresource(
        "approval",
        SubresourceKind::Approval,
        &[Verb::Get, Verb::Patch, Verb::Update],
    )
    .status()
    .names(NameRule::PathSegment)
    .selectable(&[Selectable {
        name: "spec.signerName",
        value: Selected::Text("spec.signerName"),
    }])
    .rules(CertificateSigningRequest)
}

#[derive(Debug)]
struct CertificateSigningRequest;

impl Rules for CertificateSigningRequest {
    /// Who asks is not for the one who asks to say.
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        edit::within(object, &["spec"], |spec| {
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

    fn prepare_update(&self, object: &mut Object, old: &Object, _: &Request<'_>) {
        fields::keep(object, old, "spec");
        fields::keep(object, old, "status");
    }

    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validation::validate(object, None, errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validation::validate_update(object, old, Path::Object, errors);
    }

    fn prepare_status_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        for kind in ["Approved", "Denied"] {
            keep_conditions(object, old, kind);
        }
        stamp_conditions(object, old, request);
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validation::validate_update(object, old, Path::Status, errors);
    }

    /// An approval is about the conditions alone.
    fn prepare_subresource(
        &self,
        subresource: &str,
        object: &mut Object,
        old: &Object,
        request: &Request<'_>,
    ) {
        if subresource != "approval" {
            return;
        }
        stamp_conditions(object, old, request);
        let conditions = fields::get(object, "status.conditions").cloned();
        fields::keep(object, old, "spec");
        fields::keep(object, old, "status");
        edit::within(object, &["status"], |status| match conditions {
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
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        if subresource == "approval" {
            validation::validate_update(object, old, Path::Approval, errors);
        }
    }
}

fn is_of(condition: &Object, kind: &str) -> bool {
    edit::text(condition, "type") == kind
}

/// Gives conditions of this type back what they were, if there are still as many.
fn keep_conditions(object: &mut Object, old: &Object, kind: &str) {
    let before: Vec<&Object> = fields::items(old, "status.conditions")
        .iter()
        .filter_map(Value::as_object)
        .filter(|condition| is_of(condition, kind))
        .collect();
    let now = fields::objects_mut(object, "status.conditions");
    let now: Vec<&mut Object> = now.filter(|condition| is_of(condition, kind)).collect();
    if now.len() == before.len() {
        for (condition, before) in now.into_iter().zip(before) {
            *condition = before.clone();
        }
    }
}

/// Says when each condition was written, and since when it is what it is.
fn stamp_conditions(object: &mut Object, old: &Object, request: &Request<'_>) {
    let now = request.now.rfc3339().to_string();
    let before = fields::items(old, "status.conditions");
    for condition in fields::objects_mut(object, "status.conditions") {
        edit::default_text(condition, "lastUpdateTime", &now);
        let since = before.iter().filter_map(Value::as_object).find(|before| {
            ["type", "status"]
                .iter()
                .all(|name| edit::text(before, name) == edit::text(condition, name))
                && !edit::text(before, "lastTransitionTime").is_empty()
        });
        let since = since.map_or(now.as_str(), |before| {
            edit::text(before, "lastTransitionTime")
        });
        edit::default_text(condition, "lastTransitionTime", since);
    }
}
