//! Tests of the validation errors of resource claims and slices.

use serde_json::{Value, json};

use super::{resource_claim, resource_claim_template, resource_slice};
use crate::validation_helpers::testing::{
    check_create, check_status_update, check_update, created, with,
};

#[test]
fn resource_claim_spec_is_immutable() {
    let old = json!({"spec": {"devices": {}}});
    let new = json!({"spec": {"devices": {"requests": [{"name": "gpu"}]}}});
    let expect = [
        "spec: Invalid value: {\"devices\":{\"requests\":[{\"name\":\"gpu\"}]}}: field is immutable",
    ];
    for kind in [resource_claim::kind(), resource_claim_template::kind()] {
        check_update(&kind, &old, &old, &[]);
        check_update(&kind, &new, &old, &expect);
    }
}

#[test]
fn reserved_for_requires_an_allocation() {
    let kind = resource_claim::kind();
    let consumer = json!({"resource": "pods", "name": "a", "uid": "1"});
    let status = |status: Value| json!({"metadata": {}, "status": status});
    check_status_update(
        &kind,
        &status(json!({"reservedFor": [consumer, consumer]})),
        &status(json!({})),
        &[
            "status.reservedFor[1]: Duplicate value: \"1\"",
            "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
        ],
    );
    let going = with(
        &status(json!({"allocation": {}, "reservedFor": [consumer]})),
        "metadata.deletionTimestamp",
        json!("2024-01-01T00:00:00Z"),
    );
    check_status_update(
        &kind,
        &going,
        &status(json!({"allocation": {}})),
        &[
            "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
        ],
    );
    check_status_update(
        &kind,
        &status(json!({"allocation": {"nodeSelector": {"a": "b"}}})),
        &status(json!({"allocation": {}})),
        &["status.allocation: Invalid value: {\"nodeSelector\":{\"a\":\"b\"}}: field is immutable"],
    );
}

#[test]
fn resource_slice_driver_and_node_selection_are_validated() {
    let kind = resource_slice::kind();
    let slice = json!({"spec": {"driver": "a.b", "pool": {"name": "p"}, "nodeName": "n"}});
    check_create(&kind, &slice, &[]);
    check_create(
        &kind,
        &json!({"spec": {"driver": "a.b", "devices": [{"name": "d"}, {"name": "d"}]}}),
        &[
            "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
            "spec.devices[1]: Duplicate value: \"d\"",
        ],
    );
    check_create(
        &kind,
        &with(&slice, "spec.allNodes", json!(true)),
        &[
            "spec: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set",
        ],
    );
    check_update(
        &kind,
        &with(&slice, "spec.driver", json!("c.d")),
        &slice,
        &["spec.driver: Invalid value: \"c.d\": field is immutable"],
    );
}

#[test]
fn device_taint_time_is_set_on_create() {
    let device = json!({"name": "d", "taints": [{"key": "broken"}]});
    let object = created(
        &resource_slice::kind(),
        &json!({"spec": {"devices": [device]}}),
    );
    assert_eq!(
        object["spec"]["devices"][0]["taints"][0]["timeAdded"],
        "2023-11-14T22:13:20Z"
    );
}
