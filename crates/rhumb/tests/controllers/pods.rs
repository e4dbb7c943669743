//! Pod garbage collection: pods that no other component deletes.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::nodes::{create_node, create_pod, set_conditions, set_pod_status, set_taints};
use crate::support::TestServer;
use crate::waiting::{wait_for, wait_until_deleted};

fn has_failed(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Failed")
}

async fn hold(pods: &Api<Pod>, name: &str, finalizers: &[&str]) {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let held = pods.patch(name, &PatchParams::default(), &patch).await;
    held.expect("finalizers");
}

#[tokio::test]
async fn pods_of_a_missing_node_fail_and_are_deleted() {
    let server = TestServer::start_with(&["--node-quarantine", "2s"]);
    let client = server.client().await;
    let pods = create_pod(&client, "p", json!({"nodeName": "never-there"})).await;
    hold(&pods, "p", &["example.com/hold"]).await;
    let pod = wait_for(&pods, "p", has_failed).await;
    let status = pod.status.expect("a status");
    let conditions = status.conditions.expect("conditions");
    let condition = conditions
        .iter()
        .find(|own| own.type_ == "DisruptionTarget");
    let condition = condition.expect("why it goes");
    assert_eq!(condition.reason.as_deref(), Some("DeletionByPodGC"));
    let message = condition.message.as_deref();
    assert_eq!(message, Some("PodGC: node no longer exists"));
    hold(&pods, "p", &[]).await;
    wait_until_deleted(&pods, "p").await;
}

#[tokio::test]
async fn terminating_unscheduled_pod_fails() {
    let server = TestServer::start_with(&[]);
    let client = server.client().await;
    let pods = create_pod(&client, "p", json!({})).await;
    hold(&pods, "p", &["example.com/hold"]).await;
    let deleted = pods.delete("p", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    wait_for(&pods, "p", has_failed).await;
    hold(&pods, "p", &[]).await;
    wait_until_deleted(&pods, "p").await;
}

#[tokio::test]
async fn terminating_pods_on_an_out_of_service_node_are_force_deleted() {
    let server = TestServer::start_with(&[]);
    let client = server.client().await;
    create_node(&client, "n").await;
    let bears = json!({"nodeName": "n", "tolerations": [{"operator": "Exists"}]});
    let pods = create_pod(&client, "ends", bears.clone()).await;
    create_pod(&client, "stays", bears).await;
    let patient = DeleteParams::default().grace_period(3600);
    pods.delete("ends", &patient).await.expect("a deletion");
    set_conditions(&client, "n", &[("Ready", "False")]).await;
    let out = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
    set_taints(&client, "n", out).await;
    wait_until_deleted(&pods, "ends").await;
    pods.get("stays").await.expect("it stays");
    pods.delete("stays", &patient).await.expect("a deletion");
    wait_until_deleted(&pods, "stays").await;
}

#[tokio::test]
async fn oldest_terminated_pods_beyond_the_threshold_are_deleted() {
    let server = TestServer::start_with(&["--terminated-pod-gc-threshold", "2"]);
    let client = server.client().await;
    let names = ["a", "b", "c", "d"];
    let mut pods = Api::namespaced(client.clone(), "default");
    for name in names {
        pods = create_pod(&client, name, json!({})).await;
    }
    for name in names {
        set_pod_status(&pods, name, json!({"phase": "Succeeded"})).await;
    }
    wait_until_deleted(&pods, "a").await;
    wait_until_deleted(&pods, "b").await;
    for name in ["c", "d"] {
        pods.get(name).await.expect("it stays");
    }
}
