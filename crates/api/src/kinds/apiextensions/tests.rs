//! Tests of the validation errors of custom resource definitions.

use serde_json::{Value, json};

use super::custom_resource_definition;
use crate::validation_helpers::testing::{check_create, check_update, created, updated, with};

fn definition() -> Value {
    json!({
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    })
}

fn stored(object: &Value) -> Value {
    Value::Object(created(&custom_resource_definition::kind(), object))
}

#[test]
fn names_are_defaulted_and_stored_versions_recorded() {
    let object = stored(&definition());
    assert_eq!(
        object["spec"]["names"],
        json!({"plural": "boats", "kind": "Boat", "singular": "boat", "listKind": "BoatList"})
    );
    assert_eq!(object["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(object["status"]["storedVersions"], json!(["v1"]));

    let mut newer = object.clone();
    newer["spec"]["versions"][0]["storage"] = json!(false);
    let mut version = object["spec"]["versions"][0].clone();
    version["name"] = json!("v2");
    newer["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .push(version);
    let newer = updated(&custom_resource_definition::kind(), &newer, &object);
    assert_eq!(newer["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn custom_resource_definitions_are_validated() {
    let check = |path: &str, value: Value, expect: &[&str]| {
        let object = with(&definition(), path, value);
        check_create(&custom_resource_definition::kind(), &object, expect);
    };
    check("spec.names.shortNames", json!(["bo"]), &[]);
    check(
        "metadata.name",
        json!("boat.example.com"),
        &[
            "metadata.name: Invalid value: \"boat.example.com\": must be spec.names.plural+\".\"+spec.group",
        ],
    );
    check(
        "spec.scope",
        json!("Galaxy"),
        &[
            "spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\"",
        ],
    );
    check(
        "spec.names.listKind",
        json!("Boat"),
        &["spec.names.listKind: Invalid value: \"Boat\": kind and listKind may not be the same"],
    );
    check(
        "spec.versions.0.schema",
        Value::Null,
        &["spec.versions[0].schema.openAPIV3Schema: Required value"],
    );
    check(
        "spec.versions.0.additionalPrinterColumns",
        json!([{"name": "Age", "type": "time"}]),
        &[
            "spec.additionalPrinterColumns[0].type: Invalid value: \"time\": must be one of boolean,date,integer,number,string",
            "spec.additionalPrinterColumns[0].JSONPath: Required value",
        ],
    );
    check(
        "spec.versions.0.subresources",
        json!({"scale": {"specReplicasPath": "spec.x"}}),
        &[
            "spec.subresources.scale.specReplicasPath: Invalid value: \"spec.x\": must be a simple json path starting with .",
            "spec.subresources.scale.statusReplicasPath: Required value",
        ],
    );
    check(
        "spec.conversion",
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v9"]}}),
        &[
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
            "spec.conversion.conversionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1",
        ],
    );
    check(
        "spec.preserveUnknownFields",
        json!(true),
        &[
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ],
    );
}

#[test]
fn protected_groups_require_the_approval_annotation() {
    let object = with(&definition(), "spec.group", json!("boats.k8s.io"));
    let object = with(&object, "metadata.name", json!("boats.boats.k8s.io"));
    let kind = custom_resource_definition::kind();
    check_create(
        &kind,
        &object,
        &[
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        ],
    );
    for text in [
        "unapproved, for now",
        "https://github.com/kubernetes/enhancements/pull/1",
    ] {
        let annotations = json!({"api-approved.kubernetes.io": text});
        check_create(
            &kind,
            &with(&object, "metadata.annotations", annotations),
            &[],
        );
    }
}

#[test]
fn stored_versions_and_established_scope_are_immutable() {
    let kind = custom_resource_definition::kind();
    let old = stored(&definition());
    let changed = with(&old, "spec.versions.0.name", json!("v2"));
    check_update(
        &kind,
        &changed,
        &old,
        &[
            "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions",
        ],
    );
    let scoped = with(&old, "spec.scope", json!("Cluster"));
    check_update(&kind, &scoped, &old, &[]);
    let conditions = json!([{"type": "Established", "status": "True"}]);
    check_update(
        &kind,
        &scoped,
        &with(&old, "status.conditions", conditions),
        &["spec.scope: Invalid value: \"Cluster\": field is immutable"],
    );
}
