//! Tests of the validation errors of autoscalers and of the round trip through v1.

use serde_json::{Value, json};

use super::{horizontal_pod_autoscaler, v1_conversion};
use crate::JsonObject;
use crate::validation_helpers::testing::{check_create, check_update, defaulted, with};

fn autoscaler() -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 5,
        },
    })
}

#[test]
fn autoscalers_are_validated() {
    let check = |path: &str, value: Value, expect: &[&str]| {
        let object = with(&autoscaler(), path, value);
        check_create(&horizontal_pod_autoscaler::kind(), &object, expect);
    };
    check("spec.minReplicas", json!(2), &[]);
    check(
        "spec.minReplicas",
        json!(0),
        &[
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
        ],
    );
    check(
        "spec.maxReplicas",
        Value::Null,
        &[
            "spec.maxReplicas: Required value: must be set and greater than 0",
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
        ],
    );
    check(
        "spec.scaleTargetRef",
        json!({"kind": "Deployment"}),
        &[
            "spec.scaleTargetRef.name: Required value",
            "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
        ],
    );
    check(
        "spec.metrics",
        json!([{"type": "Pods", "resource": {"name": "cpu", "target": {"type": "Value", "averageValue": "0"}}}]),
        &[
            "spec.metrics[0].resource.target.averageValue: Invalid value: \"0\": must be positive",
            "spec.metrics[0].pods: Required value: must populate information for the given metric source",
        ],
    );
    check(
        "spec.metrics",
        json!([{"type": "External", "external": {"metric": {}, "target": {"type": "Often"}}, "pods": {}}]),
        &[
            "spec.metrics[0].external.metric.name: Required value: must specify a metric name",
            "spec.metrics[0].external.target.type: Invalid value: \"Often\": must be either Utilization, Value, or AverageValue",
            "spec.metrics[0].external.target.averageValue: Required value: must set either a target value for metric or a per-pod target",
            "spec.metrics[0].pods: Forbidden: must populate the given metric source only",
        ],
    );
    check(
        "spec.behavior",
        json!({"scaleUp": {"stabilizationWindowSeconds": 4000, "selectPolicy": "All", "policies": [{"type": "Nodes"}]}}),
        &[
            "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 4000: must be less than or equal to 3600",
            "spec.behavior.scaleUp.selectPolicy: Unsupported value: \"All\": supported values: \"Disabled\", \"Max\", \"Min\"",
            "spec.behavior.scaleUp.policies[0].type: Unsupported value: \"Nodes\": supported values: \"Percent\", \"Pods\"",
            "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
            "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 0: must be greater than zero",
        ],
    );
}

#[test]
fn existing_scale_target_without_a_group_is_accepted() {
    let old = with(&autoscaler(), "spec.scaleTargetRef.apiVersion", json!("v1"));
    check_update(&horizontal_pod_autoscaler::kind(), &old, &old, &[]);
}

#[test]
fn cpu_metric_and_behavior_are_defaulted() {
    let object = with(&autoscaler(), "spec.behavior", json!({}));
    let spec = &defaulted(&horizontal_pod_autoscaler::kind(), &object)["spec"];
    assert_eq!(spec["minReplicas"], 1);
    assert_eq!(
        spec["metrics"][0]["resource"]["target"]["averageUtilization"],
        80
    );
    assert_eq!(
        spec["behavior"]["scaleDown"],
        json!({"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]})
    );
}

fn object(value: Value) -> JsonObject {
    value.as_object().expect("an object").clone()
}

#[test]
fn conversion_to_v1_and_back_is_lossless() {
    let metric = |kind: &str, name: &str, source: Value| json!({"type": kind, name: source});
    let stored = object(json!({
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": "web", "annotations": {"mine": "yes"}},
        "spec": {
            "maxReplicas": 5,
            "metrics": [
                metric("Object", "object", json!({
                    "describedObject": {"kind": "Service", "name": "s"},
                    "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}},
                    "target": {"type": "AverageValue", "averageValue": "2"},
                })),
                metric("External", "external", json!({
                    "metric": {"name": "queue"},
                    "target": {"type": "Value", "value": "30"},
                })),
                metric("Pods", "pods", json!({
                    "metric": {"name": "lag"},
                    "target": {"type": "AverageValue", "averageValue": "1"},
                })),
                metric("Resource", "resource", json!({
                    "name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 60},
                })),
            ],
            "behavior": {"scaleDown": {"selectPolicy": "Min", "policies": [
                {"type": "Pods", "value": 1, "periodSeconds": 60},
            ]}},
        },
        "status": {
            "currentReplicas": 2,
            "conditions": [{"type": "AbleToScale", "status": "True"}],
            "currentMetrics": [metric("Resource", "resource", json!({
                "name": "cpu",
                "current": {"averageUtilization": 50, "averageValue": "100m"},
            }))],
        },
    }));
    let mut converted = stored.clone();
    v1_conversion::from_v2(&mut converted);
    assert_eq!(converted["apiVersion"], "autoscaling/v1");
    assert_eq!(
        converted["spec"],
        json!({"maxReplicas": 5, "targetCPUUtilizationPercentage": 60})
    );
    assert_eq!(
        converted["status"],
        json!({"currentReplicas": 2, "currentCPUUtilizationPercentage": 50})
    );
    assert_eq!(
        converted["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/behavior"],
        "{\"ScaleUp\":null,\"ScaleDown\":{\"StabilizationWindowSeconds\":null,\"SelectPolicy\":\"Min\",\
         \"Policies\":[{\"Type\":\"Pods\",\"Value\":1,\"PeriodSeconds\":60}],\"Tolerance\":null}}"
    );
    v1_conversion::to_v2(&mut converted);
    assert_eq!(Value::Object(converted), Value::Object(stored));
}

#[test]
fn v1_target_cpu_utilization_becomes_a_v2_metric() {
    let table = [
        (json!({"targetCPUUtilizationPercentage": 50}), 50),
        (json!({}), 80),
    ];
    for (spec, expect) in table {
        let mut converted = object(json!({"spec": spec}));
        v1_conversion::to_v2(&mut converted);
        let metrics = &converted["spec"]["metrics"];
        assert_eq!(
            metrics[0]["resource"]["target"]["averageUtilization"],
            expect
        );
    }
}

#[test]
fn v1_annotation_with_invalid_json_is_ignored() {
    let annotations = json!({
        "autoscaling.alpha.kubernetes.io/metrics": "[",
        "autoscaling.alpha.kubernetes.io/behavior": "7",
    });
    let mut converted = object(json!({"metadata": {"annotations": annotations}, "spec": {}}));
    v1_conversion::to_v2(&mut converted);
    assert_eq!(converted["metadata"], json!({}));
    assert!(converted["spec"]["behavior"].is_null());
}
