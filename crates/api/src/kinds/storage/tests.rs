//! Tests of the validation errors of the storage kinds.

use serde_json::{Value, json};

use super::{
    csi_driver, csi_node, csi_storage_capacity, storage_class, volume_attachment,
    volume_attributes_class,
};
use crate::validation_helpers::testing::{
    check_create, check_status_update, check_update, defaulted, with,
};

#[test]
fn storage_class_fields_are_immutable() {
    let kind = storage_class::kind();
    let class = json!({"provisioner": "example.com/disk"});
    let check = |path: &str, value: Value, expect: &[&str]| {
        check_create(&kind, &with(&class, path, value), expect);
    };
    check("reclaimPolicy", json!("Retain"), &[]);
    check("provisioner", json!(""), &["provisioner: Required value"]);
    check(
        "reclaimPolicy",
        json!("Recycle"),
        &[
            "reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\"",
        ],
    );
    check(
        "volumeBindingMode",
        json!("Soon"),
        &[
            "volumeBindingMode: Unsupported value: \"Soon\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
        ],
    );
    check(
        "allowedTopologies",
        json!([{"matchLabelExpressions": [{"key": "zone", "values": []}, {"key": "zone", "values": ["a", "a"]}]}]),
        &[
            "allowedTopologies[0].matchLabelExpressions[0].values: Required value",
            "allowedTopologies[0].matchLabelExpressions[1].values[1]: Duplicate value: \"a\"",
            "allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: \"zone\"",
        ],
    );
    check_update(
        &kind,
        &with(&class, "parameters", json!({"a": "b"})),
        &class,
        &["parameters: Invalid value: {\"a\":\"b\"}: field is immutable"],
    );
    let filled = defaulted(&kind, &class);
    assert_eq!(filled["reclaimPolicy"], "Delete");
    assert_eq!(filled["volumeBindingMode"], "Immediate");
}

#[test]
fn csi_drivers_are_validated() {
    let kind = csi_driver::kind();
    let check = |spec: Value, expect: &[&str]| check_create(&kind, &json!({"spec": spec}), expect);
    check(json!({}), &[]);
    check(
        json!({
            "fsGroupPolicy": "Some",
            "tokenRequests": [{"audience": "a", "expirationSeconds": 1}, {"audience": "a"}],
            "volumeLifecycleModes": ["Short"],
            "nodeAllocatableUpdatePeriodSeconds": 9,
        }),
        &[
            "spec.fsGroupPolicy: Unsupported value: \"Some\": supported values: \"File\", \"None\", \"ReadWriteOnceWithFSType\"",
            "spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
            "spec.tokenRequests[1].audience: Duplicate value: \"a\"",
            "spec.volumeLifecycleModes: Unsupported value: \"Short\": supported values: \"Persistent\", \"Ephemeral\"",
            "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
        ],
    );
    check_update(
        &kind,
        &json!({"spec": {"attachRequired": false}}),
        &json!({"spec": {}}),
        &["spec.attachedRequired: Invalid value: false: field is immutable"],
    );
}

#[test]
fn csi_node_drivers_are_validated() {
    let kind = csi_node::kind();
    let node = |drivers: Value| json!({"spec": {"drivers": drivers}});
    check_create(
        &kind,
        &node(json!([
            {"name": "a.b", "nodeID": ""},
            {"name": "a.b", "nodeID": "n", "allocatable": {"count": -1}},
        ])),
        &[
            "spec.drivers[0].nodeID: Required value",
            "spec.drivers[1].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
            "spec.drivers[1].name: Duplicate value: \"a.b\"",
        ],
    );
    let old = node(json!([{"name": "a.b", "nodeID": "n"}]));
    let counted = node(json!([{"name": "a.b", "nodeID": "n", "allocatable": {"count": 3}}]));
    check_update(&kind, &counted, &old, &[]);
    check_update(
        &kind,
        &node(json!([{"name": "a.b", "nodeID": "m"}])),
        &old,
        &["spec.drivers: Invalid value: {\"name\":\"a.b\",\"nodeID\":\"m\"}: field is immutable"],
    );
}

#[test]
fn volume_attachment_spec_is_validated_and_immutable() {
    let kind = volume_attachment::kind();
    let object = json!({"spec": {
        "attacher": "a.b",
        "nodeName": "n",
        "source": {"persistentVolumeName": "pv"},
    }});
    check_create(&kind, &object, &[]);
    check_create(
        &kind,
        &with(&object, "spec.source", json!({})),
        &[
            "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
        ],
    );
    check_update(
        &kind,
        &with(&object, "spec.nodeName", json!("m")),
        &object,
        &[
            "spec: Invalid value: {\"attacher\":\"a.b\",\"nodeName\":\"m\",\"source\":{\"persistentVolumeName\":\"pv\"}}: field is immutable",
        ],
    );
    check_status_update(
        &kind,
        &with(&object, "status", json!({"attachError": {"errorCode": -1}})),
        &object,
        &[
            "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        ],
    );
}

#[test]
fn storage_capacity_and_attributes_class_fields_are_immutable() {
    let capacity = json!({"storageClassName": "fast"});
    check_create(&csi_storage_capacity::kind(), &capacity, &[]);
    check_update(
        &csi_storage_capacity::kind(),
        &json!({"storageClassName": "slow"}),
        &capacity,
        &["storageClassName: Invalid value: \"slow\": field is immutable"],
    );
    let class = json!({"driverName": "a.b", "parameters": {"x": "1"}});
    let kind = volume_attributes_class::kind();
    check_create(
        &kind,
        &json!({"driverName": "a.b"}),
        &["parameters: Required value: must contain at least one key/value pair"],
    );
    check_update(
        &kind,
        &json!({"driverName": "c.d", "parameters": {"x": "2"}}),
        &class,
        &[
            "driverName: Forbidden: updates to driverName are forbidden.",
            "parameters: Forbidden: updates to parameters are forbidden.",
        ],
    );
}
