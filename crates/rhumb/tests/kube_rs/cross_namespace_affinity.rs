//! The story of KEP-2249, from `examples/cross-namespace-affinity`: which pods may have cross-namespace affinity.

use std::path::Path;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::examples::{create, directory, documents};
use crate::make::{CROSS_NAMESPACE_AFFINITY_LIMITED, object, pod, refusal};
use crate::support::TestServer;

/// The controllers that most tests need, and the quota status controller.
const CONTROLLERS: &str =
    "--controllers=namespace-controller,serviceaccount-controller,resourcequota-controller";

/// Applies these files of the example.
async fn apply(client: &Client, files: &[&str]) {
    for file in files {
        for document in documents(&format!("cross-namespace-affinity/{file}")) {
            create(client, document).await;
        }
    }
}

fn only(file: &str) -> Value {
    let mut documents = documents(&format!("cross-namespace-affinity/{file}"));
    assert_eq!(documents.len(), 1, "{file}");
    documents.remove(0)
}

/// Creates a pod of the example with another name and namespace.
async fn try_pod(
    client: &Client,
    mut pod: Value,
    name: &str,
    namespace: &str,
) -> Result<Pod, kube::Error> {
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["namespace"] = json!(namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    pods.create(&PostParams::default(), &object(pod)).await
}

async fn message(client: &Client, pod: Value, name: &str, namespace: &str) -> String {
    let refused = refusal(try_pod(client, pod, name, namespace).await);
    assert_eq!((refused.code, &*refused.reason), (403, "Forbidden"));
    refused.message
}

async fn used(client: &Client, namespace: &str, quota: &str) -> String {
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), namespace);
    let quota = quotas.get(quota).await.expect("a quota");
    let used = quota.status.and_then(|status| status.used);
    used.expect("what is used")["pods"].0.clone()
}

#[tokio::test]
async fn cross_namespace_affinity_is_allowed_and_limited_by_quota() {
    let server = TestServer::start_with(&[CONTROLLERS]);
    let client = server.client().await;
    apply(
        &client,
        &["customers.yaml", "tenant.yaml", "workloads.yaml"],
    )
    .await;
    let workload = || documents("cross-namespace-affinity/workloads.yaml").remove(0);

    // Customers can use their quota, and pods without cross-namespace terms do not count.
    let ada = "customer-ada";
    let quota = "cross-namespace-affinity";
    assert_eq!(used(&client, ada, quota).await, "1");
    let second = try_pod(&client, workload(), "second", ada).await;
    second.expect("there is room for two");
    assert_eq!(
        message(&client, workload(), "third", ada).await,
        "pods \"third\" is forbidden: exceeded quota: cross-namespace-affinity, requested: pods=1, used: pods=2, \
         limited: pods=2"
    );
    let pods: Api<Pod> = Api::namespaced(client.clone(), ada);
    let plain = pods.create(&PostParams::default(), &pod("plain")).await;
    plain.expect("a pod that stays in its namespace");
    assert_eq!(used(&client, ada, quota).await, "2");
    assert_eq!(used(&client, "customer-bob", quota).await, "1");

    // A tenant gets the reason, and cannot change the quota.
    let tina = server
        .client_with(|config| config.auth_info.impersonate = Some("tina".to_owned()))
        .await;
    let denied = "pods \"intruder\" is forbidden: exceeded quota: disable-cross-namespace-affinity, requested: \
                  pods=1, used: pods=0, limited: pods=0";
    let intruder = || only("intruder.yaml");
    assert_eq!(
        message(&tina, intruder(), "intruder", "tenant").await,
        denied
    );
    let quotas: Api<ResourceQuota> = Api::namespaced(tina.clone(), "tenant");
    let more = Patch::Merge(json!({"spec": {"hard": {"pods": "9"}}}));
    let name = "disable-cross-namespace-affinity";
    let raised = quotas.patch(name, &PatchParams::default(), &more).await;
    assert_eq!(refusal(raised).code, 403);
    let pods: Api<Pod> = Api::namespaced(tina, "tenant");
    let plain = pods.create(&PostParams::default(), &pod("plain")).await;
    plain.expect("a pod that stays in its namespace");
}

#[tokio::test]
async fn cross_namespace_affinity_requires_a_quota() {
    let flag = |file: &Path| format!("--admission-control-config-file={}", file.display());
    let file = flag(&directory().join("admission/limited-resources.yaml"));
    let mut server = TestServer::start_with(&[CONTROLLERS, &file]);
    let client = server.client().await;
    apply(&client, &["customers.yaml", "workloads.yaml"]).await;
    let newcomer =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "newcomer"}});
    create(&client, newcomer).await;
    let intruder = || only("intruder.yaml");
    assert_eq!(
        message(&client, intruder(), "intruder", "newcomer").await,
        "pods \"intruder\" is forbidden: insufficient quota to match these scopes: \
         [{CrossNamespacePodAffinity Exists []}]"
    );
    let pods: Api<Pod> = Api::namespaced(client, "newcomer");
    let plain = pods.create(&PostParams::default(), &pod("plain")).await;
    plain.expect("a pod that stays in its namespace");

    // The configuration of the proposal, with its quota.
    let temporary = tempfile::tempdir().expect("a directory");
    let path = temporary.path().join("admission.yaml");
    std::fs::write(&path, CROSS_NAMESPACE_AFFINITY_LIMITED).expect("a file");
    server.restart_with(&[CONTROLLERS, &flag(&path)]);
    let client = server.client().await;
    assert_eq!(
        message(&client, intruder(), "intruder", "newcomer").await,
        "pods \"intruder\" is forbidden: insufficient quota to match these scopes: \
         [{CrossNamespaceAffinity Exists []}]"
    );
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "one", "namespace": "newcomer"},
        "spec": {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
            {"scopeName": "CrossNamespaceAffinity"},
        ]}},
    });
    create(&client, quota).await;
    let allowed = try_pod(&client, intruder(), "first", "newcomer").await;
    allowed.expect("a quota has room for it");
    assert_eq!(
        message(&client, intruder(), "second", "newcomer").await,
        "pods \"second\" is forbidden: exceeded quota: one, requested: pods=1, used: pods=1, limited: pods=1"
    );
}
