//! Tests of the validation errors of certificate signing requests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::certificate_signing_request;
use crate::validation_helpers::testing::{
    approved, check_approval, check_create, check_status_update, check_update, created, with,
};

fn armored(label: &str) -> String {
    STANDARD.encode(format!(
        "-----BEGIN {label}-----\nAQID\n-----END {label}-----\n"
    ))
}

fn request() -> Value {
    json!({
        "metadata": {"name": "who cares"},
        "spec": {
            "request": armored("CERTIFICATE REQUEST"),
            "signerName": "example.com/signer",
            "usages": ["client auth"],
        },
    })
}

#[test]
fn signing_requests_are_validated_on_create() {
    let check = |path: &str, value: Value, expect: &[&str]| {
        let object = with(&request(), path, value);
        check_create(&certificate_signing_request::kind(), &object, expect);
    };
    check("spec.expirationSeconds", json!(600), &[]);
    check(
        "spec.request",
        json!("aGVsbG8="),
        &["spec.request: Invalid value: \"aGVsbG8=\": PEM block type must be CERTIFICATE REQUEST"],
    );
    check("spec.usages", json!([]), &["spec.usages: Required value"]);
    check(
        "spec.usages",
        json!(["signing", "signing"]),
        &["spec.usages[1]: Duplicate value: \"signing\""],
    );
    check(
        "spec.signerName",
        Value::Null,
        &["spec.signerName: Required value"],
    );
    check(
        "spec.signerName",
        json!("kubernetes.io/legacy-unknown"),
        &[
            "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this API version",
        ],
    );
    check(
        "spec.signerName",
        json!("me"),
        &[
            "spec.signerName: Invalid value: \"me\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ],
    );
    check(
        "spec.signerName",
        json!("me/you"),
        &[
            "spec.signerName: Invalid value: \"me\": should be a domain with at least two segments separated by dots",
        ],
    );
    check(
        "spec.expirationSeconds",
        json!(599),
        &[
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
        ],
    );
}

#[test]
fn requester_identity_is_set_by_the_server() {
    let object = with(&request(), "spec.username", json!("admin"));
    let object = with(&object, "spec.groups", json!(["system:masters"]));
    let spec = &created(&certificate_signing_request::kind(), &object)["spec"];
    assert_eq!(spec["username"], "tester");
    assert_eq!(spec.get("groups"), None);
}

#[test]
fn update_changes_only_metadata() {
    let changed = with(&request(), "spec.signerName", json!("other.com/signer"));
    check_update(
        &certificate_signing_request::kind(),
        &changed,
        &request(),
        &[],
    );
}

fn with_conditions(conditions: Value) -> Value {
    with(&request(), "status", json!({"conditions": conditions}))
}

#[test]
fn approval_requires_the_approval_subresource() {
    let kind = certificate_signing_request::kind();
    let approval = with_conditions(json!([{"type": "Approved", "status": "True"}]));
    check_approval(&kind, &approval, &request(), &[]);
    check_status_update(
        &kind,
        &approval,
        &request(),
        &["status.conditions: Forbidden: updates may not add a condition of type \"Approved\""],
    );
    check_approval(
        &kind,
        &request(),
        &approval,
        &["status.conditions: Forbidden: updates may not remove a condition of type \"Approved\""],
    );
    check_approval(
        &kind,
        &with_conditions(json!([
            {"type": "Approved", "status": "False"},
            {"type": "Denied", "status": "True"},
            {"type": "Denied", "status": "True"},
            {"status": ""},
        ])),
        &request(),
        &[
            "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
            "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
            "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
            "status.conditions[2].type: Duplicate value: \"Denied\"",
            "status.conditions[3].type: Required value",
            "status.conditions[3].status: Required value",
        ],
    );
}

#[test]
fn approval_changes_only_conditions_and_sets_their_times() {
    let object = with_conditions(json!([{"type": "Approved", "status": "True"}]));
    let object = with(&object, "status.certificate", json!("AQID"));
    let object = with(&object, "spec.signerName", json!("other.com/signer"));
    let object = approved(&certificate_signing_request::kind(), &object, &request());
    assert_eq!(object["spec"]["signerName"], "example.com/signer");
    let now = "2023-11-14T22:13:20Z";
    let condition = json!({
        "type": "Approved",
        "status": "True",
        "lastUpdateTime": now,
        "lastTransitionTime": now,
    });
    assert_eq!(object["status"], json!({"conditions": [condition]}));
}

#[test]
fn certificate_is_set_once_through_status() {
    let kind = certificate_signing_request::kind();
    let issued = |text: &str| with(&request(), "status", json!({"certificate": text}));
    let good = issued(&armored("CERTIFICATE"));
    check_status_update(&kind, &good, &request(), &[]);
    check_status_update(
        &kind,
        &issued(&armored("PRIVATE KEY")),
        &request(),
        &[
            "status.certificate: Invalid value: \"<certificate data>\": only CERTIFICATE PEM blocks are allowed, found \"PRIVATE KEY\"",
        ],
    );
    check_status_update(
        &kind,
        &issued("aGVsbG8="),
        &request(),
        &[
            "status.certificate: Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block",
        ],
    );
    let other = STANDARD.encode("-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n");
    check_status_update(
        &kind,
        &issued(&other),
        &good,
        &["status.certificate: Forbidden: updates may not modify existing certificate content"],
    );
}
