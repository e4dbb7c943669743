//! Deletion and completion release usage.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore};
use rhumb_store::{RangeRequest, Store};
use serde_json::{Value, json};

use crate::program::poll_until;
use crate::quota_namespace::{CONTROLLERS, TestNamespace, pod, pod_with, start};
use crate::support::TestServer;
use crate::waiting::{wait_for, wait_until_deleted};

async fn limited(hard: Value) -> (TestServer, TestNamespace) {
    let server = start();
    let namespace = TestNamespace::make(&server.client().await, "a").await;
    namespace.make_quota("q", json!({"hard": hard})).await;
    (server, namespace)
}

#[tokio::test]
async fn deleted_and_completed_pods_release_usage_immediately() {
    let (_server, namespace) = limited(json!({"pods": "1", "count/pods": "4"})).await;
    namespace.must_create(pod("deleted")).await;
    namespace.refused(pod("next")).await;
    namespace.delete("deleted").await;
    // Completed pods no longer count as `pods`, but still as objects.
    for (name, phase) in [("succeeds", "Succeeded"), ("fails", "Failed")] {
        namespace.must_create(pod(name)).await;
        namespace.set_phase(name, "Running").await;
        let full = namespace.refused(pod("next")).await;
        assert!(full.contains("used: pods=1, limited: pods=1"), "{full}");
        namespace.set_phase(name, phase).await;
    }
    let used = json!({"pods": "0", "count/pods": "2"});
    assert_eq!(namespace.used("q").await, used);
    namespace.must_create(pod("third")).await;
    namespace.delete("succeeds").await;
    let used = json!({"pods": "1", "count/pods": "2"});
    assert_eq!(namespace.used("q").await, used);
}

/// Usage is released when the delete response arrives, repeatedly.
#[tokio::test]
async fn usage_is_released_when_the_delete_response_arrives() {
    let (_server, namespace) = limited(json!({"pods": "1"})).await;
    for round in 0..50 {
        let name = format!("p-{round}");
        namespace.must_create(pod(&name)).await;
        namespace.delete(&name).await;
    }
    assert_eq!(namespace.used("q").await, json!({"pods": "0"}));
}

/// A pod with a finalizer stops counting when its grace period ends, although no write happens then.
#[tokio::test]
async fn pod_with_finalizer_counts_until_its_grace_period_ends() {
    let (_server, namespace) = limited(json!({"pods": "1"})).await;
    let mut held = pod_with("held", json!({"nodeName": "n"}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    namespace.must_create(held).await;
    let short = DeleteParams::default().grace_period(2);
    let pods = namespace.pods();
    pods.delete("held", &short).await.expect("a deletion");
    namespace.refused(pod("next")).await;
    assert_eq!(namespace.used("q").await, json!({"pods": "1"}));
    let before = pods.get("held").await.expect("the pod");
    poll_until("room", async || {
        namespace.create(pod("next")).await.ok().map(drop)
    })
    .await;
    let after = pods.get("held").await.expect("the pod is still there");
    assert_eq!(after.resource_version(), before.resource_version());
    assert_eq!(namespace.used("q").await, json!({"pods": "1"}));
    namespace.refused(pod("more")).await;

    // It does not release usage a second time when it is finally deleted.
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = PatchParams::default();
    pods.patch("held", &params, &released)
        .await
        .expect("no finalizers");
    let now = DeleteParams::default().grace_period(0);
    let _ = pods.delete("held", &now).await;
    wait_until_deleted(&pods, "held").await;
    assert_eq!(namespace.used("q").await, json!({"pods": "1"}));
    namespace.refused(pod("more")).await;
}

/// The namespaces with quota epoch records in the store.
async fn namespaces_with_epochs(server: &TestServer) -> Vec<String> {
    let path = server.kubeconfig().with_file_name("store");
    let store = EmbeddedStore::open(&path, EmbeddedOptions::default()).await;
    let store = store.expect("the store of a stopped server");
    let prefix = "/registry/rhumb-quota-turns/";
    let page = store
        .range(RangeRequest::prefix(prefix))
        .await
        .expect("a read");
    let names = page.entries.iter();
    names
        .map(|entry| entry.key[prefix.len()..].to_owned())
        .collect()
}

#[tokio::test]
async fn recreated_namespace_has_no_usage() {
    let (mut server, namespace) = limited(json!({"pods": "2"})).await;
    let other = TestNamespace::make(&namespace.client, "b").await;
    other.make_quota("q", json!({"hard": {"pods": "1"}})).await;
    for round in 0..3 {
        for name in ["one", "two"] {
            namespace.must_create(pod(name)).await;
        }
        namespace.refused(pod("three")).await;
        namespace.delete_namespace().await;
        if round == 2 {
            break;
        }
        TestNamespace::make(&namespace.client, "a").await;
        namespace
            .make_quota("q", json!({"hard": {"pods": "2"}}))
            .await;
        assert_eq!(namespace.used("q").await, json!({"pods": "0"}));
    }
    server.stop();
    assert_eq!(namespaces_with_epochs(&server).await, ["b"]);
    // No other data was lost.
    server.start_again_with(&[CONTROLLERS]);
    let other = TestNamespace::of(&server.client().await, "b");
    other.must_create(pod("one")).await;
    other.refused(pod("two")).await;
}

/// A pod is deleted with its owner.
#[tokio::test]
async fn garbage_collected_pod_releases_usage() {
    let server = TestServer::start_with(&[]);
    let namespace = TestNamespace::make(&server.client().await, "a").await;
    let hard = json!({"pods": "2", "count/configmaps": "2"});
    namespace.make_quota("q", json!({"hard": hard})).await;
    let owner = namespace.must_create(pod("owner")).await;
    let mut owned = pod("owned");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": owner.metadata.uid,
    }]);
    namespace.must_create(owned).await;
    namespace.refused(pod("third")).await;
    namespace.delete("owner").await;
    wait_until_deleted::<Pod>(&namespace.pods(), "owned").await;
    // A controller creates the root certificate config map.
    wait_for(
        &namespace.api::<k8s_openapi::api::core::v1::ConfigMap>(),
        "kube-root-ca.crt",
        |_| true,
    )
    .await;
    let used = json!({"pods": "0", "count/configmaps": "1"});
    assert_eq!(namespace.used("q").await, used);
    namespace.must_create(pod("third")).await;
}
