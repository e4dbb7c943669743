//! Quotas on devices: claims by device class, and extended resources of pods and claims.

use http::Method;
use serde_json::{Value, json};

use super::{create_pod, put_quota, server, used};
use crate::testing::TestServer;

const DEVICE_CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const DEVICES: &str = "gpu.deviceclass.resource.k8s.io/devices";
const IMPLICIT: &str = "requests.deviceclass.resource.kubernetes.io/gpu";
const EXPLICIT: &str = "requests.example.com/gpu";

async fn put_device_class(server: &TestServer) {
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    });
    let (code, response) = server.create(DEVICE_CLASSES, class).await;
    assert_eq!(code, 201, "{response}");
}

async fn create_claim(server: &TestServer, metadata: Value, request: Value) -> (u16, Value) {
    let mut request = request;
    request["name"] = json!("r");
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata,
        "spec": {"devices": {"requests": [request]}},
    });
    server.create(CLAIMS, claim).await
}

fn exactly(count: u32) -> Value {
    json!({"exactly": {"deviceClassName": "gpu", "count": count}})
}

#[tokio::test]
async fn claims_are_limited_by_devices_of_a_class() {
    let (server, _directory) = server().await;
    let hard = json!({DEVICES: "4", "count/resourceclaims.resource.k8s.io": "9"});
    put_quota(&server, "q", json!({"hard": hard})).await;
    let (code, response) = create_claim(&server, json!({"name": "a"}), exactly(3)).await;
    assert_eq!(code, 201, "{response}");
    let first_available = json!({"firstAvailable": [
        {"name": "one", "deviceClassName": "gpu", "count": 1},
        {"name": "two", "deviceClassName": "gpu", "count": 2},
    ]});
    let (code, response) = create_claim(&server, json!({"name": "b"}), first_available).await;
    assert_eq!(code, 403, "{response}");
    assert_eq!(
        response["message"],
        "resourceclaims.resource.k8s.io \"b\" is forbidden: exceeded quota: q, requested: \
         gpu.deviceclass.resource.k8s.io/devices=2, used: gpu.deviceclass.resource.k8s.io/devices=3, \
         limited: gpu.deviceclass.resource.k8s.io/devices=4"
    );
    let all = json!({"exactly": {"deviceClassName": "gpu", "allocationMode": "All"}});
    let (code, response) = create_claim(&server, json!({"name": "b"}), all).await;
    assert_eq!(code, 403, "{response}");
    let (code, response) = create_claim(&server, json!({"name": "b"}), exactly(1)).await;
    assert_eq!(code, 201, "{response}");
    let want = json!({DEVICES: "4", "count/resourceclaims.resource.k8s.io": "2"});
    assert_eq!(used(&server, "q").await, want);
}

/// As the scheduler does it: a pod requests an extended resource, and gets a claim for devices of the class.
#[tokio::test]
async fn devices_of_a_pod_and_its_claim_are_counted_once() {
    let (server, _directory) = server().await;
    put_quota(
        &server,
        "q",
        json!({"hard": {EXPLICIT: "2", IMPLICIT: "9"}}),
    )
    .await;
    put_device_class(&server).await;
    let devices = json!({"example.com/gpu": "2"});
    let containers = json!([
        {"name": "a", "image": "b", "resources": {"requests": devices, "limits": devices}},
    ]);
    let (code, pod) = create_pod(&server, "p", json!({"spec": {"containers": containers}})).await;
    assert_eq!(code, 201, "{pod}");
    let metadata = |name: &str| {
        json!({
            "name": name,
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"],
                "controller": true,
            }],
        })
    };
    let (code, response) = create_claim(&server, metadata("a"), exactly(2)).await;
    assert_eq!(code, 201, "{response}");
    assert_eq!(
        used(&server, "q").await,
        json!({EXPLICIT: "2", IMPLICIT: "2"})
    );
    let (code, response) = create_claim(&server, metadata("b"), exactly(1)).await;
    assert_eq!(code, 403, "{response}");
    let message = response["message"].as_str().expect("a message");
    let exceeded = "exceeded quota: q, requested: requests.example.com/gpu=1, \
                    used: requests.example.com/gpu=2, limited: requests.example.com/gpu=2";
    assert!(message.ends_with(exceeded), "{message}");

    // Without the extended resource of the class, only the pod counts.
    let path = format!("{DEVICE_CLASSES}/gpu");
    let (code, response) = server.request(Method::DELETE, &path, json!({})).await;
    assert_eq!(code, 200, "{response}");
    let (code, response) = create_claim(&server, metadata("b"), exactly(1)).await;
    assert_eq!(code, 201, "{response}");
    assert_eq!(
        used(&server, "q").await,
        json!({EXPLICIT: "2", IMPLICIT: "3"})
    );
}
