use rhumb_meta::field::ErrorList;
use serde_json::json;

use crate::{FieldView, JsonObject, Kind, NameRule, ResourceScope};

fn kind(scope: ResourceScope) -> Kind {
    Kind::new(scope, "", "v1", "Thing", "things", "").names(NameRule::DnsLabel)
}

fn object(metadata: serde_json::Value) -> JsonObject {
    let mut object = JsonObject::new();
    object.insert("metadata".to_owned(), metadata);
    object
}

fn check_create(scope: ResourceScope, metadata: serde_json::Value, want: &[&str]) {
    let object = object(metadata);
    let mut errors = ErrorList::new();
    super::validate_create(&FieldView::root(&object), &kind(scope), &mut errors);
    let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(got, want, "{object:?}");
}

fn check_update(new: serde_json::Value, old: serde_json::Value, want: &[&str]) {
    let (new, old) = (object(new), object(old));
    let mut errors = ErrorList::new();
    let kind = kind(ResourceScope::Namespaced);
    super::validate_update(
        &FieldView::root(&new),
        &FieldView::root(&old),
        &kind,
        &mut errors,
    );
    let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(got, want, "{new:?}");
}

#[test]
fn name_and_namespace_are_required() {
    let namespaced = ResourceScope::Namespaced;
    check_create(namespaced, json!({"name": "a", "namespace": "b"}), &[]);
    check_create(
        namespaced,
        json!({}),
        &[
            "metadata.name: Required value: name or generateName is required",
            "metadata.namespace: Required value",
        ],
    );
    check_create(
        namespaced,
        json!({"name": "a.b", "namespace": "c.d"}),
        &[
            "metadata.name: Invalid value: \"a.b\": must not contain dots",
            "metadata.namespace: Invalid value: \"c.d\": must not contain dots",
        ],
    );
    check_create(
        ResourceScope::Cluster,
        json!({"name": "a", "namespace": "b"}),
        &["metadata.namespace: Forbidden: not allowed on this type"],
    );
    check_create(
        ResourceScope::Cluster,
        json!({"name": "a-x", "generateName": "a-"}),
        &[],
    );
    check_create(
        ResourceScope::Cluster,
        json!({"name": "a-x", "generateName": "a.b-"}),
        &["metadata.generateName: Invalid value: \"a.b-\": must not contain dots"],
    );
}

#[test]
fn labels_annotations_and_finalizers_are_validated() {
    check_create(
        ResourceScope::Cluster,
        json!({"name": "a", "labels": {"a//b": "-"}, "annotations": {"A/b c": ""}, "generation": -1}),
        &[
            "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
            concat!(
                "metadata.labels: Invalid value: \"a//b\": a valid label key must consist of alphanumeric ",
                "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. ",
                "'MyName',  or 'my.name',  or '123-abc', regex used for validation is ",
                "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. ",
                "'example.com/MyName')"
            ),
            concat!(
                "metadata.labels: Invalid value: \"-\": a valid label must be an empty string or consist of ",
                "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character ",
                "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is ",
                "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ),
            concat!(
                "metadata.annotations: Invalid value: \"A/b c\": name part must consist of alphanumeric ",
                "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. ",
                "'MyName',  or 'my.name',  or '123-abc', regex used for validation is ",
                "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ),
        ],
    );
    let long = "x".repeat(super::ANNOTATIONS_MAX_BYTES);
    check_create(
        ResourceScope::Cluster,
        json!({"name": "a", "annotations": {"a": long}}),
        &["metadata.annotations: Too long: may not be more than 262144 bytes"],
    );
    check_create(
        ResourceScope::Cluster,
        json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}),
        &[concat!(
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and ",
            "foregroundDeletion cannot be both set"
        )],
    );
}

#[test]
fn owner_references_are_complete_with_one_controller() {
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "1", "controller": true});
    check_create(
        ResourceScope::Cluster,
        json!({"name": "a", "ownerReferences": [owner("b"), owner("c")]}),
        &[concat!(
            "metadata.ownerReferences: Invalid value: ",
            "[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"b\",\"uid\":\"1\",\"controller\":true},",
            "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"c\",\"uid\":\"1\",\"controller\":true}]: ",
            "Only one reference can have Controller set to true. Found \"true\" in references for Pod/b and Pod/c"
        )],
    );
    check_create(
        ResourceScope::Cluster,
        json!({"name": "a", "ownerReferences": [{}]}),
        &[
            "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ],
    );
    check_create(
        ResourceScope::Cluster,
        json!({"name": "a", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Event", "name": "b", "uid": "1"}
        ]}),
        &[concat!(
            "metadata.ownerReferences: Invalid value: ",
            "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"b\",\"uid\":\"1\"}: ",
            "/v1, Kind=Event is disallowed from being an owner"
        )],
    );
}

#[test]
fn managed_fields_are_validated() {
    check_create(
        ResourceScope::Cluster,
        json!({"name": "a", "managedFields": [
            {"operation": "Update", "manager": "m", "fieldsType": "FieldsV1"},
            {"operation": "Set", "manager": "a\u{7}", "fieldsType": "V2", "subresource": "s".repeat(257)},
        ]}),
        &[
            "metadata.managedFields[1].operation: Invalid value: \"Set\": must be `Apply` or `Update`",
            "metadata.managedFields[1].fieldsType: Invalid value: \"V2\": must be `FieldsV1`",
            "metadata.managedFields[1].manager: Invalid value: \"a\\a\": invalid character U+0007 (at position 1)",
            "metadata.managedFields[1].subresource: Too long: may not be more than 256 bytes",
        ],
    );
}

#[test]
fn immutable_metadata_changes_are_rejected() {
    let old = json!({"name": "a", "namespace": "n", "uid": "1", "generation": 2, "resourceVersion": "7",
        "creationTimestamp": "2024-01-01T00:00:00Z"});
    check_update(old.clone(), old.clone(), &[]);
    check_update(
        json!({"name": "b", "namespace": "n", "generation": 1}),
        old,
        &[
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 1: must not be decremented",
            "metadata.name: Invalid value: \"b\": field is immutable",
            "metadata.uid: Invalid value: \"\": field is immutable",
            "metadata.creationTimestamp: Invalid value: null: field is immutable",
        ],
    );
    let deleted = |finalizers: serde_json::Value| {
        json!({"name": "a", "namespace": "n", "resourceVersion": "7", "finalizers": finalizers,
            "deletionTimestamp": "2024-01-01T00:00:00Z"})
    };
    check_update(deleted(json!([])), deleted(json!(["x/a"])), &[]);
    check_update(
        deleted(json!(["x/b", "x/a", "x/c"])),
        deleted(json!(["x/a"])),
        &[concat!(
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, ",
            "found new finalizers []string{\"x/b\", \"x/c\"}"
        )],
    );
}

#[test]
fn unqualified_finalizers_must_be_known() {
    let want = concat!(
        "metadata.finalizers[1]: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully ",
        "qualified"
    );
    let metadata = json!({"name": "a", "finalizers": ["kubernetes", "mine", "x/y"]});
    check_create(ResourceScope::Cluster, metadata.clone(), &[want]);
    let object = object(metadata);
    let mut errors = ErrorList::new();
    let custom = kind(ResourceScope::Cluster).allow_any_finalizer();
    super::validate_create(&FieldView::root(&object), &custom, &mut errors);
    assert!(errors.is_empty(), "{errors}");
}

#[test]
fn names_are_not_revalidated_on_update() {
    let object = json!({"name": "A.b", "namespace": "n", "resourceVersion": "7"});
    check_update(object.clone(), object, &[]);
}
