//! CertificateSigningRequest.

mod signer;

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhumb_meta::field::{Error, ErrorList, Path};
use serde_json::{Value, json};

use crate::{
    Kind, Object, Request, Rules, Scope, Selectable, SubresourceKind, Verb, View, checks, fields,
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
    .selectable(&[Selectable {
        name: "spec.signerName",
        value: |object| fields::text(object, "spec.signerName"),
    }])
    .subresource(
        "approval",
        SubresourceKind::Approval,
        &[Verb::Get, Verb::Patch, Verb::Update],
    )
    .status()
    .rules(RequestRules)
}

const SECONDS_MIN: i64 = 600;

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

#[derive(Debug)]
struct RequestRules;

/// What an update goes through decides what it may change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Through {
    Object,
    Status,
    Approval,
}

impl Rules for RequestRules {
    /// Who asks is not for the client to say. The name is set here; what else is known of the user is the server's
    /// to add.
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        for name in ["uid", "groups", "extra"] {
            fields::remove(object, &format!("spec.{name}"));
        }
        fields::set(object, "spec.username", request.user);
        object.insert("status".to_owned(), json!({}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _: &Request<'_>) {
        fields::keep(object, old, "spec");
        fields::keep(object, old, "status");
    }

    fn prepare_status_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        keep_conditions(object, old, "Approved");
        keep_conditions(object, old, "Denied");
        fill_times(object, old, request);
    }

    fn prepare_subresource(
        &self,
        _: &str,
        object: &mut Object,
        old: &Object,
        request: &Request<'_>,
    ) {
        fill_times(object, old, request);
        let conditions = fields::get(object, CONDITIONS).cloned();
        fields::keep(object, old, "spec");
        fields::keep(object, old, "status");
        match conditions {
            Some(conditions) => fields::set(object, CONDITIONS, conditions),
            None => {
                fields::remove(object, CONDITIONS);
            }
        }
    }

    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate(object, None, errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate_change(object, old, Through::Object, errors);
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate_change(object, old, Through::Status, errors);
    }

    fn validate_subresource(
        &self,
        _: &str,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate_change(object, old, Through::Approval, errors);
    }
}

const CONDITIONS: &str = "status.conditions";

fn indices(object: &Object, kind: &str) -> Vec<usize> {
    let conditions = fields::items(object, CONDITIONS).iter().enumerate();
    conditions
        .filter(|(_, condition)| condition.get("type").and_then(Value::as_str) == Some(kind))
        .map(|(index, _)| index)
        .collect()
}

/// Conditions that only an approver may change; added or removed ones are for validation to refuse.
fn keep_conditions(object: &mut Object, old: &Object, kind: &str) {
    let (now, before) = (indices(object, kind), indices(old, kind));
    if now.len() != before.len() {
        return;
    }
    let known = fields::items(old, CONDITIONS);
    let Some(Value::Array(conditions)) = fields::get_mut(object, CONDITIONS) else {
        return;
    };
    for (now, before) in now.into_iter().zip(before) {
        conditions[now] = known[before].clone();
    }
}

fn fill_times(object: &mut Object, old: &Object, request: &Request<'_>) {
    let now = request.now.rfc3339().to_string();
    for condition in fields::objects_mut(object, CONDITIONS) {
        if fields::get(condition, "lastUpdateTime").is_none() {
            fields::set(condition, "lastUpdateTime", now.as_str());
        }
        if fields::get(condition, "lastTransitionTime").is_some() {
            continue;
        }
        let same = |other: &&Object| {
            ["type", "status"]
                .iter()
                .all(|name| fields::str(other, name) == fields::str(condition, name))
        };
        let known = fields::items(old, CONDITIONS).iter();
        let known = known.filter_map(Value::as_object).find(same);
        let time = known.map(|known| fields::str(known, "lastTransitionTime"));
        let time = time
            .filter(|time| !time.is_empty())
            .unwrap_or(&now)
            .to_owned();
        fields::set(condition, "lastTransitionTime", time);
    }
}

fn validate(object: &View<'_>, old: Option<&View<'_>>, errors: &mut ErrorList) {
    let spec = object.field("spec");
    let request = spec.field("request");
    if !holds_pem(request.str(), "CERTIFICATE REQUEST") {
        request.invalid(errors, "PEM block type must be CERTIFICATE REQUEST");
    }
    let usages = spec.field("usages");
    if usages.is_empty() {
        usages.required(errors, "");
    }
    // What was accepted once is not judged again: the specification never changes.
    if old.is_none() {
        for usage in usages.items() {
            checks::one_of(&usage, USAGES, errors);
        }
        let mut seen = BTreeSet::new();
        for usage in usages.items() {
            if !seen.insert(usage.str().to_owned()) {
                usage.duplicate(errors);
            }
        }
    }
    signer::validate(&spec.field("signerName"), old.is_some(), errors);
    let seconds = spec.field("expirationSeconds");
    if seconds.int().is_some_and(|seconds| seconds < SECONDS_MIN) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        seconds.invalid(errors, detail);
    }
    validate_conditions(object, errors);
    let status = object.field("status");
    let certificate = status.field("certificate");
    if !certificate.is_empty() && !holds_pem(certificate.str(), "CERTIFICATE") {
        let detail = "must contain at least one CERTIFICATE PEM block";
        errors.push(Error::invalid(
            certificate.path(),
            "<certificate data>",
            detail,
        ));
    }
}

fn holds_pem(encoded: &str, kind: &str) -> bool {
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded);
    text.contains(&format!("-----BEGIN {kind}-----"))
        && text.contains(&format!("-----END {kind}-----"))
}

fn validate_conditions(object: &View<'_>, errors: &mut ErrorList) {
    let status = object.field("status");
    let conditions = status.field("conditions");
    let mut seen = BTreeSet::new();
    for condition in conditions.items() {
        let (kind, state) = (condition.field("type"), condition.field("status"));
        if kind.is_empty() {
            kind.required(errors, "");
        }
        if state.is_empty() {
            state.required(errors, "");
        } else if matches!(kind.str(), "Approved" | "Denied" | "Failed") {
            checks::one_of(&state, &["True"], errors);
        } else {
            checks::one_of(&state, &["False", "True", "Unknown"], errors);
        }
        let opposite = match kind.str() {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if seen.contains(opposite) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(Error::invalid(conditions.path(), kind.str(), detail));
        }
        if !seen.insert(kind.str().to_owned()) {
            kind.duplicate(errors);
        }
    }
}

fn validate_change(object: &View<'_>, old: &View<'_>, through: Through, errors: &mut ErrorList) {
    validate(object, Some(old), errors);
    let path = Path::new(CONDITIONS);
    let of = |object: &View<'_>, kind: &str| -> Vec<Value> {
        let status = object.field("status");
        let conditions = status.field("conditions");
        conditions
            .items()
            .filter(|condition| condition.field("type").str() == kind)
            .filter_map(|condition| condition.value().cloned())
            .collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(object, kind).len() < of(old, kind).len() {
            let detail = format!("updates may not remove a condition of type \"{kind}\"");
            errors.push(Error::forbidden(&path, detail));
        }
    }
    for kind in ["Approved", "Denied"] {
        let (now, before) = (of(object, kind), of(old, kind));
        if through == Through::Approval || now.len() < before.len() || now == before {
            continue;
        }
        let what = if now.len() > before.len() {
            "add"
        } else {
            "modify"
        };
        let detail = format!("updates may not {what} a condition of type \"{kind}\"");
        errors.push(Error::forbidden(&path, detail));
    }
    let (status, old_status) = (object.field("status"), old.field("status"));
    let certificate = status.field("certificate");
    let old_certificate = old_status.field("certificate");
    if certificate.str() == old_certificate.str() {
        return;
    }
    if through != Through::Status {
        certificate.forbidden(errors, "updates may not set certificate content");
    } else if !old_certificate.is_empty() {
        certificate.forbidden(
            errors,
            "updates may not modify existing certificate content",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_create, check_status, create, kind, object, patched, request};
    use crate::{Gates, Object};

    fn signing_request(changes: Value) -> Value {
        let pem = "-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----\n";
        let base = json!({"spec": {"request": STANDARD.encode(pem), "usages": ["client auth"],
            "signerName": "example.com/signer"}});
        Value::Object(patched(base.as_object().expect("an object"), changes))
    }

    fn requests() -> Kind {
        kind("certificates.k8s.io", "CertificateSigningRequest")
    }

    #[test]
    fn requests_say_what_they_are_for() {
        check_create(&requests(), signing_request(json!({})), &[]);
        check_create(
            &requests(),
            signing_request(json!({"spec": {"request": "AAAA", "usages": ["any", "any"],
                "signerName": "signer", "expirationSeconds": 599}})),
            &[
                "spec.request: Invalid value: \"AAAA\": PEM block type must be CERTIFICATE REQUEST",
                "spec.usages[1]: Duplicate value: \"any\"",
                concat!(
                    "spec.signerName: Invalid value: \"signer\": must be a fully qualified domain and path of the form ",
                    "'example.com/signer-name'"
                ),
                concat!(
                    "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds ",
                    "(10 minutes)"
                ),
            ],
        );
    }

    #[test]
    fn the_server_says_who_asks() {
        let forged =
            signing_request(json!({"spec": {"username": "root", "groups": ["system:masters"]}}));
        let (made, _) = create(&requests(), forged, &Gates::default());
        assert_eq!(made["spec"]["username"], "someone");
        assert_eq!(made["spec"].get("groups"), None);
    }

    fn approve(old: &Object, through: Through) -> (Object, Vec<String>) {
        let conditions = json!([{"type": "Approved", "status": "True"}]);
        let mut new = patched(old, json!({"status": {"conditions": conditions}}));
        let rules = requests().rules;
        let gates = Gates::default();
        if through == Through::Approval {
            rules.prepare_subresource("approval", &mut new, old, &request(&gates));
        }
        let mut errors = ErrorList::new();
        validate_change(&View::root(&new), &View::root(old), through, &mut errors);
        let errors = errors.iter().map(ToString::to_string).collect();
        (new, errors)
    }

    #[test]
    fn only_approvers_approve() {
        let old = object(&requests(), signing_request(json!({})));
        let (new, errors) = approve(&old, Through::Approval);
        assert_eq!(errors, [""; 0]);
        let time = "2023-11-14T22:13:20Z";
        let want = json!([{"type": "Approved", "status": "True", "lastUpdateTime": time,
            "lastTransitionTime": time}]);
        assert_eq!(new["status"]["conditions"], want);
        let (_, errors) = approve(&old, Through::Status);
        let want =
            "status.conditions: Forbidden: updates may not add a condition of type \"Approved\"";
        assert_eq!(errors, [want]);
    }

    #[test]
    fn a_certificate_is_issued_once() {
        let pem = STANDARD.encode("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n");
        let issued = json!({"status": {"certificate": pem}});
        check_status(&requests(), signing_request(json!({})), issued.clone(), &[]);
        let other =
            STANDARD.encode("-----BEGIN CERTIFICATE-----\nAB==\n-----END CERTIFICATE-----\n");
        check_status(
            &requests(),
            signing_request(issued),
            json!({"status": {"certificate": other}}),
            &["status.certificate: Forbidden: updates may not modify existing certificate content"],
        );
    }
}
