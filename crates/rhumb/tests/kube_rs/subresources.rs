//! Subresources.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Binding, Node, Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Api, Client};
use serde_json::json;

use crate::access::{current_user_name, with_token};
use crate::make::{code, object, pod, pod_template, refusal};
use crate::support::TestServer;

#[tokio::test]
async fn status_and_spec_are_updated_separately() {
    let server = TestServer::start();
    let api: Api<Pod> = Api::namespaced(server.client_for_pods().await, "default");
    let post = PostParams::default();
    let mut made = api.create(&post, &pod("a")).await.expect("a creation");
    assert_eq!(
        made.status
            .as_ref()
            .and_then(|status| status.phase.as_deref()),
        Some("Pending")
    );
    if let Some(status) = &mut made.status {
        status.phase = Some("Running".into());
        status.pod_ip = Some("10.1.2.3".into());
    }
    made.metadata
        .labels
        .get_or_insert_default()
        .insert("from".into(), "status".into());
    let written = api
        .replace_status("a", &post, &made)
        .await
        .expect("a status");
    assert_eq!(
        written
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref()),
        Some("Running")
    );
    let patch = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    api.patch("a", &PatchParams::default(), &patch)
        .await
        .expect("a patch of the spec");
    let kept = api.get_status("a").await.expect("a read");
    assert_eq!(
        kept.status.and_then(|status| status.phase).as_deref(),
        Some("Running")
    );
    let patched = api
        .patch_status("a", &PatchParams::default(), &patch)
        .await
        .expect("a patch");
    assert_eq!(
        patched.status.and_then(|status| status.phase).as_deref(),
        Some("Failed")
    );
}

#[tokio::test]
async fn deployment_is_scaled_through_the_subresource() {
    let server = TestServer::start();
    let api: Api<Deployment> = Api::namespaced(server.client().await, "default");
    let wanted = object(json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": pod_template()},
    }));
    api.create(&PostParams::default(), &wanted)
        .await
        .expect("a creation");
    let mut scale = api.get_scale("web").await.expect("a scale");
    assert_eq!(
        scale
            .status
            .as_ref()
            .and_then(|status| status.selector.as_deref()),
        Some("app=web")
    );
    scale.spec = object(json!({"replicas": 5}));
    api.replace_scale("web", &PostParams::default(), &scale)
        .await
        .expect("a scale");
    let patch = Patch::Merge(json!({"spec": {"replicas": 7}}));
    let scale = api
        .patch_scale("web", &PatchParams::default(), &patch)
        .await
        .expect("a patch");
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(7));
    let scaled = api.get("web").await.expect("a read");
    assert_eq!(
        (
            scaled.metadata.generation,
            scaled.spec.and_then(|spec| spec.replicas)
        ),
        (Some(3), Some(7))
    );
}

async fn node(client: &Client, name: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = object(json!({"metadata": {"name": name}}));
    nodes
        .create(&PostParams::default(), &node)
        .await
        .expect("a node");
}

#[tokio::test]
async fn pod_is_bound_to_a_node_once() {
    let server = TestServer::start();
    let client = server.client_for_pods().await;
    node(&client, "node-1").await;
    let api: Api<Pod> = Api::namespaced(client, "default");
    let post = PostParams::default();
    api.create(&post, &pod("a")).await.expect("a creation");
    let binding: Binding = object(json!({
        "metadata": {"name": "a"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }));
    let bound: Status = api
        .create_subresource("binding", "a", &post, &binding)
        .await
        .expect("a binding");
    assert!(bound.is_success());
    let pod = api.get("a").await.expect("a read");
    assert_eq!(
        pod.spec.and_then(|spec| spec.node_name).as_deref(),
        Some("node-1")
    );
    let twice = api
        .create_subresource::<_, Status>("binding", "a", &post, &binding)
        .await;
    assert_eq!(code(twice), (409, "Conflict".into()));
}

#[tokio::test]
async fn eviction_respects_the_disruption_budget() {
    let server = TestServer::start();
    let client = server.client_for_pods().await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client, "default");
    let post = PostParams::default();
    let made = pods.create(&post, &pod("a")).await.expect("a creation");
    let mut running = made.clone();
    running.status = Some(object(
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
    ));
    pods.replace_status("a", &post, &running)
        .await
        .expect("it runs");
    let budget = object(json!({
        "metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }));
    budgets.create(&post, &budget).await.expect("a budget");
    let refused = refusal(pods.evict("a", &EvictParams::default()).await);
    assert_eq!(
        (refused.code, refused.reason.as_str()),
        (429, "TooManyRequests")
    );
    let mut budget = budgets.get("web").await.expect("a read");
    budget.status = Some(object(json!({
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1,
    })));
    budgets
        .replace_status("web", &post, &budget)
        .await
        .expect("one may go");
    let evicted = pods
        .evict("a", &EvictParams::default())
        .await
        .expect("an eviction");
    assert!(evicted.is_success());
    assert_eq!(code(pods.get("a").await).0, 404);
}

#[tokio::test]
async fn token_is_valid_until_its_account_is_deleted() {
    let server = TestServer::start();
    let client = server.client().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
    let post = PostParams::default();
    let account = object(json!({"metadata": {"name": "robot"}}));
    accounts.create(&post, &account).await.expect("an account");
    let request = TokenRequest::default();
    let answer: TokenRequest = accounts
        .create_subresource("token", "robot", &post, &request)
        .await
        .expect("a token");
    let token = answer
        .status
        .and_then(|status| status.token)
        .expect("a token");
    let robot = with_token(&server, &token).await;
    assert_eq!(
        current_user_name(&robot).await,
        "system:serviceaccount:default:robot"
    );
    let pods: Api<Pod> = Api::namespaced(robot.clone(), "default");
    let refused = refusal(pods.get("a").await);
    assert!(
        refused
            .message
            .contains("\"system:serviceaccount:default:robot\" cannot get resource \"pods\""),
        "{}",
        refused.message
    );
    accounts
        .delete("robot", &DeleteParams::default())
        .await
        .expect("a deletion");
    assert_eq!(code(pods.get("a").await), (401, "Unauthorized".into()));
}
