//! What goes or completes makes room.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use rhumb_store::embedded::{Embedded, Options};
use rhumb_store::{Range, Store};
use serde_json::{Value, json};

use crate::space::{CONTROLLERS, Space, pod, pod_with, start};
use crate::support::Server;
use crate::waiting::{found, gone, until};

async fn limited(hard: Value) -> (Server, Space) {
    let server = start();
    let space = Space::make(&server.client().await, "a").await;
    space.make_quota("q", json!({"hard": hard})).await;
    (server, space)
}

#[tokio::test]
async fn a_pod_that_goes_or_completes_makes_room_at_once() {
    let (_server, space) = limited(json!({"pods": "1", "count/pods": "4"})).await;
    space.must_create(pod("deleted")).await;
    space.refused(pod("next")).await;
    space.delete("deleted").await;
    // Those that have completed are no longer pods, but are still objects.
    for (name, phase) in [("succeeds", "Succeeded"), ("fails", "Failed")] {
        space.must_create(pod(name)).await;
        space.set_phase(name, "Running").await;
        let full = space.refused(pod("next")).await;
        assert!(full.contains("used: pods=1, limited: pods=1"), "{full}");
        space.set_phase(name, phase).await;
    }
    let used = json!({"pods": "0", "count/pods": "2"});
    assert_eq!(space.used("q").await, used);
    space.must_create(pod("third")).await;
    space.delete("succeeds").await;
    let used = json!({"pods": "1", "count/pods": "2"});
    assert_eq!(space.used("q").await, used);
}

/// Whoever is told that a pod is gone finds its room free, many times in a row.
#[tokio::test]
async fn room_is_free_as_soon_as_the_deletion_is_answered() {
    let (_server, space) = limited(json!({"pods": "1"})).await;
    for round in 0..50 {
        let name = format!("p-{round}");
        space.must_create(pod(&name)).await;
        space.delete(&name).await;
    }
    assert_eq!(space.used("q").await, json!({"pods": "0"}));
}

/// Nothing changes when the grace of a pod is over that somebody holds back. It no longer counts all the same.
#[tokio::test]
async fn a_pod_that_is_held_back_counts_until_its_grace_is_over() {
    let (_server, space) = limited(json!({"pods": "1"})).await;
    let mut held = pod_with("held", json!({"nodeName": "n"}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    space.must_create(held).await;
    let short = DeleteParams::default().grace_period(2);
    let pods = space.pods();
    pods.delete("held", &short).await.expect("a deletion");
    space.refused(pod("next")).await;
    assert_eq!(space.used("q").await, json!({"pods": "1"}));
    let before = pods.get("held").await.expect("the pod");
    until("room", async || {
        space.create(pod("next")).await.ok().map(drop)
    })
    .await;
    let after = pods.get("held").await.expect("the pod is still there");
    assert_eq!(after.resource_version(), before.resource_version());
    assert_eq!(space.used("q").await, json!({"pods": "1"}));
    space.refused(pod("more")).await;

    // It makes no room a second time when it goes at last.
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = PatchParams::default();
    pods.patch("held", &params, &released)
        .await
        .expect("no finalizers");
    let now = DeleteParams::default().grace_period(0);
    let _ = pods.delete("held", &now).await;
    gone(&pods, "held").await;
    assert_eq!(space.used("q").await, json!({"pods": "1"}));
    space.refused(pod("more")).await;
}

/// What the server keeps about the quotas of namespaces, by namespace.
async fn kept_about(server: &Server) -> Vec<String> {
    let path = server.kubeconfig().with_file_name("store");
    let store = Embedded::open(&path, Options::default()).await;
    let store = store.expect("the store of a stopped server");
    let prefix = "/registry/rhumb-quota-turns/";
    let page = store.range(Range::prefix(prefix)).await.expect("a read");
    let names = page.entries.iter();
    names
        .map(|entry| entry.key[prefix.len()..].to_owned())
        .collect()
}

#[tokio::test]
async fn a_namespace_that_is_made_again_begins_at_zero() {
    let (mut server, space) = limited(json!({"pods": "2"})).await;
    let other = Space::make(&space.client, "b").await;
    other.make_quota("q", json!({"hard": {"pods": "1"}})).await;
    for round in 0..3 {
        for name in ["one", "two"] {
            space.must_create(pod(name)).await;
        }
        space.refused(pod("three")).await;
        space.delete_namespace().await;
        if round == 2 {
            break;
        }
        Space::make(&space.client, "a").await;
        space.make_quota("q", json!({"hard": {"pods": "2"}})).await;
        assert_eq!(space.used("q").await, json!({"pods": "0"}));
    }
    server.stop();
    assert_eq!(kept_about(&server).await, ["b"]);
    // Nothing but that was lost.
    server.start_again_with(&[CONTROLLERS]);
    let other = Space::of(&server.client().await, "b");
    other.must_create(pod("one")).await;
    other.refused(pod("two")).await;
}

/// What owns a pod goes, and the pod with it.
#[tokio::test]
async fn a_pod_that_is_collected_makes_room() {
    let server = Server::start_with(&[]);
    let space = Space::make(&server.client().await, "a").await;
    let hard = json!({"pods": "2", "count/configmaps": "2"});
    space.make_quota("q", json!({"hard": hard})).await;
    let owner = space.must_create(pod("owner")).await;
    let mut owned = pod("owned");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": owner.metadata.uid,
    }]);
    space.must_create(owned).await;
    space.refused(pod("third")).await;
    space.delete("owner").await;
    gone::<Pod>(&space.pods(), "owned").await;
    // The certificates of the cluster are in a config map that a controller makes.
    found(
        &space.api::<k8s_openapi::api::core::v1::ConfigMap>(),
        "kube-root-ca.crt",
        |_| true,
    )
    .await;
    let used = json!({"pods": "0", "count/configmaps": "1"});
    assert_eq!(space.used("q").await, used);
    space.must_create(pod("third")).await;
}
