//! Pods that nobody else would delete.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::nodes::{create_node, create_pod, say, set_pod_status, set_taints};
use crate::support::Server;
use crate::waiting::{found, gone};

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
async fn pods_of_a_node_that_is_not_there_fail_and_go() {
    let server = Server::start_with(&["--node-quarantine", "2s"]);
    let client = server.client().await;
    let pods = create_pod(&client, "p", json!({"nodeName": "never-there"})).await;
    hold(&pods, "p", &["example.com/hold"]).await;
    let pod = found(&pods, "p", has_failed).await;
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
    gone(&pods, "p").await;
}

#[tokio::test]
async fn a_pod_that_ends_without_a_node_fails() {
    let server = Server::start_with(&[]);
    let client = server.client().await;
    let pods = create_pod(&client, "p", json!({})).await;
    hold(&pods, "p", &["example.com/hold"]).await;
    let deleted = pods.delete("p", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    found(&pods, "p", has_failed).await;
    hold(&pods, "p", &[]).await;
    gone(&pods, "p").await;
}

#[tokio::test]
async fn pods_that_end_on_a_node_out_of_service_go_at_once() {
    let server = Server::start_with(&[]);
    let client = server.client().await;
    create_node(&client, "n").await;
    let bears = json!({"nodeName": "n", "tolerations": [{"operator": "Exists"}]});
    let pods = create_pod(&client, "ends", bears.clone()).await;
    create_pod(&client, "stays", bears).await;
    let patient = DeleteParams::default().grace_period(3600);
    pods.delete("ends", &patient).await.expect("a deletion");
    say(&client, "n", &[("Ready", "False")]).await;
    let out = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
    set_taints(&client, "n", out).await;
    gone(&pods, "ends").await;
    pods.get("stays").await.expect("it stays");
    pods.delete("stays", &patient).await.expect("a deletion");
    gone(&pods, "stays").await;
}

#[tokio::test]
async fn of_too_many_finished_pods_the_first_go() {
    let server = Server::start_with(&["--terminated-pod-gc-threshold", "2"]);
    let client = server.client().await;
    let names = ["a", "b", "c", "d"];
    let mut pods = Api::namespaced(client.clone(), "default");
    for name in names {
        pods = create_pod(&client, name, json!({})).await;
    }
    for name in names {
        set_pod_status(&pods, name, json!({"phase": "Succeeded"})).await;
    }
    gone(&pods, "a").await;
    gone(&pods, "b").await;
    for name in ["c", "d"] {
        pods.get(name).await.expect("it stays");
    }
}
