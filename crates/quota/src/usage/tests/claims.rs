//! Claims count for the extended resources of their device classes, less what their pod counts.

use std::sync::Arc;

use super::*;
use crate::DeviceClassMapping;

fn device_pod(uid: &str, resource: &str, devices: &str, status: Value) -> JsonObject {
    object(json!({
        "metadata": {"name": "p", "uid": uid},
        "spec": {"containers": [{"name": "a", "resources": {"requests": {resource: devices}}}]},
        "status": status,
    }))
}

/// A claim for devices of the class `gpu`, generated for the pod `p`.
fn pod_claim(name: &str, second: u32, pod_uid: &str, devices: u32) -> JsonObject {
    object(json!({
        "metadata": {
            "name": name,
            "creationTimestamp": format!("2026-01-01T00:00:0{second}Z"),
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod_uid, "controller": true,
            }],
        },
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {
            "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": devices,
        }}]}},
    }))
}

const PODS: usize = 0;
const CLAIMS: usize = 1;

/// Usage of devices of the class `gpu`, whose extended resource is `example.com/gpu`.
struct DeviceUsage(NamespaceUsage);

impl DeviceUsage {
    fn with_limits(hard: Value) -> DeviceUsage {
        let evaluators = vec![
            evaluator("", "pods"),
            evaluator("resource.k8s.io", "resourceclaims"),
        ];
        let quota = quota("q", json!({"hard": hard}));
        let mut usage = NamespaceUsage::new(vec![quota], evaluators);
        usage.set_device_classes(&device_classes("example.com/gpu"));
        DeviceUsage(usage)
    }

    fn set(&mut self, resource: usize, name: &str, object: Option<&JsonObject>) {
        let evaluator = self.0.resources[resource].evaluator.clone();
        let usage = object.map(|object| evaluator.usage(object));
        self.0.set_object(resource, name, usage);
    }

    fn check_claim(&self, claim: &JsonObject) -> String {
        let evaluator = evaluator("resource.k8s.io", "resourceclaims");
        let request = UsageRequest {
            group: "resource.k8s.io",
            resource: "resourceclaims",
            evaluator: &evaluator,
            new_usage: &evaluator.usage(claim),
            old_usage: None,
            object: claim,
        };
        denial_text(self.0.check(&request, &[]))
    }

    fn used(&self) -> String {
        self.0.used(0).to_string()
    }
}

fn device_classes(resource: &str) -> Arc<DeviceClassMapping> {
    let mut mapping = DeviceClassMapping::default();
    mapping.add(&object(json!({
        "metadata": {"name": "gpu"}, "spec": {"extendedResourceName": resource},
    })));
    Arc::new(mapping)
}

const IMPLICIT: &str = "requests.deviceclass.resource.kubernetes.io/gpu";

#[test]
fn claims_count_for_extended_resources_of_their_classes() {
    let mut usage = DeviceUsage::with_limits(json!({
        "gpu.deviceclass.resource.k8s.io/devices": "9", IMPLICIT: "9", "requests.example.com/gpu": "4",
    }));
    let mut claim = pod_claim("c", 0, "u", 3);
    claim.insert("metadata".into(), json!({"name": "c"}));
    usage.set(CLAIMS, "c", Some(&claim));
    assert_eq!(
        usage.used(),
        format!(
            "gpu.deviceclass.resource.k8s.io/devices=3,{IMPLICIT}=3,requests.example.com/gpu=3"
        )
    );
    assert_eq!(
        usage.check_claim(&claim),
        "exceeded quota: q, requested: requests.example.com/gpu=3, used: requests.example.com/gpu=3, \
         limited: requests.example.com/gpu=4"
    );
    usage
        .0
        .set_device_classes(&device_classes("example.com/other"));
    assert!(usage.used().ends_with("requests.example.com/gpu=0"));
    assert_eq!(usage.check_claim(&claim), "Fits");
    usage.set(CLAIMS, "c", None);
    assert!(
        usage
            .used()
            .starts_with("gpu.deviceclass.resource.k8s.io/devices=0")
    );
}

#[test]
fn only_extended_resources_of_claims_depend_on_device_classes() {
    let claims = evaluator("resource.k8s.io", "resourceclaims");
    assert!(claims.uses_device_classes("requests.example.com/gpu"));
    assert!(!claims.uses_device_classes("gpu.deviceclass.resource.k8s.io/devices"));
    assert!(!claims.uses_device_classes("count/resourceclaims.resource.k8s.io"));
    assert!(!evaluator("", "pods").uses_device_classes("requests.example.com/gpu"));
}

#[test]
fn a_mapping_is_the_same_whether_classes_are_added_or_set() {
    let mut mapping = DeviceClassMapping::default();
    mapping.set("gpu", Some("example.com/gpu"));
    mapping.set("deleted", Some("example.com/other"));
    mapping.set("deleted", None);
    mapping.set("unnamed", Some(""));
    assert_eq!(mapping, *device_classes("example.com/gpu"));
    mapping.retain(|class| class != "gpu");
    assert_eq!(mapping, DeviceClassMapping::default());
}

#[test]
fn devices_of_a_pod_are_not_counted_again_for_its_claim() {
    let mut usage = DeviceUsage::with_limits(json!({"requests.example.com/gpu": "2"}));
    let pod = device_pod("u", "example.com/gpu", "2", json!({}));
    usage.set(PODS, "p", Some(&pod));
    let claim = pod_claim("c", 1, "u", 2);
    assert_eq!(usage.check_claim(&claim), "Fits");
    usage.set(CLAIMS, "c", Some(&claim));
    assert_eq!(usage.used(), "requests.example.com/gpu=2");
    let exceeded = "exceeded quota: q, requested: requests.example.com/gpu=";
    let denied = |claim: &JsonObject, more: &str| {
        let text = usage.check_claim(claim);
        assert!(text.starts_with(&format!("{exceeded}{more},")), "{text}");
    };
    denied(&pod_claim("bigger", 0, "u", 3), "1");
    denied(&pod_claim("later", 2, "u", 2), "2");
    denied(&pod_claim("d", 1, "u", 2), "2");
    denied(&pod_claim("c", 0, "other", 2), "2");
}

/// What a claim counts for depends on its pod and on other claims of the pod, whatever is seen first.
#[test]
fn claims_are_counted_again_when_their_pod_or_another_claim_changes() {
    let mut usage = DeviceUsage::with_limits(json!({"requests.example.com/gpu": "9"}));
    let mut check = |resource: usize, name: &str, object: Option<JsonObject>, want: u32| {
        usage.set(resource, name, object.as_ref());
        assert_eq!(usage.used(), format!("requests.example.com/gpu={want}"));
    };
    let pod = |uid: &str, status: Value| Some(device_pod(uid, "example.com/gpu", "2", status));
    let claim = |name: &str, second| Some(pod_claim(name, second, "u", 2));
    check(CLAIMS, "b", claim("b", 1), 2);
    check(PODS, "p", pod("u", json!({})), 2);
    check(CLAIMS, "a", claim("a", 2), 4);
    check(CLAIMS, "c", claim("c", 0), 6);
    let claim_status = json!({"extendedResourceClaimStatus": {"resourceClaimName": "none"}});
    check(PODS, "p", pod("u", claim_status), 8);
    check(PODS, "p", pod("u", json!({})), 6);
    check(CLAIMS, "c", None, 4);
    check(CLAIMS, "b", None, 2);
    check(PODS, "p", pod("other", json!({})), 4);
    check(PODS, "p", pod("u", json!({})), 2);
    check(PODS, "p", pod("u", json!({"phase": "Failed"})), 2);
    check(PODS, "p", pod("u", json!({})), 2);
    check(PODS, "p", None, 2);
    check(CLAIMS, "a", None, 0);
}
