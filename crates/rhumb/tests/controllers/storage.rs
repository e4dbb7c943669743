//! Protection finalizers of claims, volumes and volume attributes classes.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::make::object;
use crate::nodes::{create_node, create_pod, set_pod_status};
use crate::support::TestServer;
use crate::waiting::{make_namespace, wait_for, wait_until_deleted};

/// Longer than the removal of an unused finalizer takes.
const A_WHILE: Duration = Duration::from_millis(700);

async fn create<K>(api: &Api<K>, value: Value)
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let created = api.create(&PostParams::default(), &object(value)).await;
    created.expect("a creation");
}

async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned,
{
    let at_once = DeleteParams::default().grace_period(0);
    api.delete(name, &at_once).await.expect("a deletion");
}

async fn create_claim(client: &Client, namespace: &str, name: &str) -> Api<PersistentVolumeClaim> {
    let claims = Api::namespaced(client.clone(), namespace);
    create(&claims, claim(name)).await;
    claims
}

fn claim(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

/// A pod that uses a claim, on a node or unscheduled.
fn uses(claim: &str, node: Option<&str>) -> Value {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    json!({"nodeName": node, "volumes": [volume]})
}

async fn assert_not_deleted<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned + Resource,
{
    tokio::time::sleep(A_WHILE).await;
    let object = api.get(name).await.expect("it stays");
    assert!(object.meta().deletion_timestamp.is_some(), "{object:?}");
}

async fn set<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + Debug + DeserializeOwned,
{
    let patched = api
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.expect("a patch");
}

#[tokio::test]
async fn claim_is_deleted_when_no_scheduled_pod_uses_it() {
    let server = TestServer::start_with(&[]);
    let client = server.client_for_pods().await;
    create_node(&client, "n").await;

    let claims = create_claim(&client, "default", "unused").await;
    delete(&claims, "unused").await;
    wait_until_deleted(&claims, "unused").await;

    create_claim(&client, "default", "waited-for").await;
    create_pod(&client, "nowhere", uses("waited-for", None)).await;
    delete(&claims, "waited-for").await;
    wait_until_deleted(&claims, "waited-for").await;

    create_claim(&client, "default", "used").await;
    let pods = create_pod(&client, "first", uses("used", Some("n"))).await;
    create_pod(&client, "second", uses("used", Some("n"))).await;
    delete(&claims, "used").await;
    assert_not_deleted(&claims, "used").await;
    delete(&pods, "first").await;
    set_pod_status(&pods, "second", json!({"phase": "Succeeded"})).await;
    assert_not_deleted(&claims, "used").await;
    delete(&pods, "second").await;
    wait_until_deleted(&claims, "used").await;
}

#[tokio::test]
async fn ephemeral_claim_does_not_wait_for_finalizers_of_its_pod() {
    let server = TestServer::start_with(&[]);
    let client = server.client_for_pods().await;
    create_node(&client, "n").await;
    let template = json!({"spec": claim("")["spec"]});
    let volume = json!({"name": "own", "ephemeral": {"volumeClaimTemplate": template}});
    let spec = json!({"nodeName": "n", "volumes": [volume]});
    let pods = create_pod(&client, "p", spec).await;
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    set(&pods, "p", held).await;
    let pod = pods.get("p").await.expect("the pod");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, "default");
    let mut own = claim("p-own");
    own["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "uid": pod.metadata.uid,
        "controller": true,
    }]);
    create(&claims, own).await;

    delete(&claims, "p-own").await;
    assert_not_deleted(&claims, "p-own").await;
    delete(&pods, "p").await;
    wait_until_deleted(&claims, "p-own").await;
    pods.get("p").await.expect("the pod is held");
}

#[tokio::test]
async fn namespace_with_claims_is_deleted() {
    let server = TestServer::start_with(&[]);
    let client = server.client().await;
    let namespaces = make_namespace(&client, "a").await;
    for number in 0..20 {
        create_claim(&client, "a", &format!("c{number}")).await;
    }
    let deleted = namespaces.delete("a", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    wait_until_deleted(&namespaces, "a").await;
}

#[tokio::test]
async fn volume_is_deleted_when_it_is_not_bound() {
    let server = TestServer::start_with(&[]);
    let client = server.client().await;
    let volumes: Api<PersistentVolume> = Api::all(client);
    let spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/tmp/v"},
    });
    for name in ["free", "bound"] {
        let volume = json!({"metadata": {"name": name}, "spec": spec});
        create(&volumes, volume).await;
    }
    set_phase(&volumes, "bound", "Bound").await;
    delete(&volumes, "free").await;
    wait_until_deleted(&volumes, "free").await;
    delete(&volumes, "bound").await;
    assert_not_deleted(&volumes, "bound").await;
    set_phase(&volumes, "bound", "Released").await;
    wait_until_deleted(&volumes, "bound").await;
}

async fn set_phase(volumes: &Api<PersistentVolume>, name: &str, phase: &str) {
    let patch = Patch::Merge(json!({"status": {"phase": phase}}));
    let params = PatchParams::default();
    let patched = volumes.patch_status(name, &params, &patch).await;
    patched.expect("a phase");
}

#[tokio::test]
async fn attributes_class_is_deleted_when_no_claim_or_volume_uses_it() {
    let server = TestServer::start_with(&[]);
    let client = server.client().await;
    let classes: Api<VolumeAttributesClass> = Api::all(client.clone());
    for name in ["free", "named"] {
        let class = json!({
            "metadata": {"name": name},
            "driverName": "example.com",
            "parameters": {"speed": "1"},
        });
        create(&classes, class).await;
    }
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, "default");
    let mut naming = claim("c");
    naming["spec"]["volumeAttributesClassName"] = json!("named");
    create(&claims, naming).await;

    delete(&classes, "free").await;
    wait_until_deleted(&classes, "free").await;
    delete(&classes, "named").await;
    assert_not_deleted(&classes, "named").await;
    delete(&claims, "c").await;
    wait_until_deleted(&classes, "named").await;
}

#[tokio::test]
async fn missing_protection_finalizer_is_added() {
    let server = TestServer::start_with(&[]);
    let client = server.client().await;
    let claims = create_claim(&client, "default", "bare").await;
    let bare = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    set(&claims, "bare", bare).await;
    let protected = wait_for(&claims, "bare", |claim| {
        let finalizers = claim.metadata.finalizers.iter().flatten();
        finalizers.eq(["example.com/hold", "kubernetes.io/pvc-protection"])
    });
    protected.await;
}
