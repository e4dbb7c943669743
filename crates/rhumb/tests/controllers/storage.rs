//! Claims, volumes and classes of volumes stay while they are used, and no longer.

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
use crate::support::Server;
use crate::waiting::{found, gone, make_namespace};

/// Longer than it takes to let go what nobody uses.
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

/// A pod on a node, or on none, that uses a claim.
fn uses(claim: &str, node: Option<&str>) -> Value {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    json!({"nodeName": node, "volumes": [volume]})
}

async fn stays<K>(api: &Api<K>, name: &str)
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
async fn a_claim_goes_when_no_pod_with_a_node_is_left_that_uses_it() {
    let server = Server::start_with(&[]);
    let client = server.client_for_pods().await;
    create_node(&client, "n").await;

    let claims = create_claim(&client, "default", "unused").await;
    delete(&claims, "unused").await;
    gone(&claims, "unused").await;

    create_claim(&client, "default", "waited-for").await;
    create_pod(&client, "nowhere", uses("waited-for", None)).await;
    delete(&claims, "waited-for").await;
    gone(&claims, "waited-for").await;

    create_claim(&client, "default", "used").await;
    let pods = create_pod(&client, "first", uses("used", Some("n"))).await;
    create_pod(&client, "second", uses("used", Some("n"))).await;
    delete(&claims, "used").await;
    stays(&claims, "used").await;
    delete(&pods, "first").await;
    set_pod_status(&pods, "second", json!({"phase": "Succeeded"})).await;
    stays(&claims, "used").await;
    delete(&pods, "second").await;
    gone(&claims, "used").await;
}

#[tokio::test]
async fn a_claim_made_for_a_pod_does_not_wait_for_what_holds_the_pod() {
    let server = Server::start_with(&[]);
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
    stays(&claims, "p-own").await;
    delete(&pods, "p").await;
    gone(&claims, "p-own").await;
    pods.get("p").await.expect("the pod is held");
}

#[tokio::test]
async fn a_namespace_with_claims_ends() {
    let server = Server::start_with(&[]);
    let client = server.client().await;
    let namespaces = make_namespace(&client, "a").await;
    for number in 0..20 {
        create_claim(&client, "a", &format!("c{number}")).await;
    }
    let deleted = namespaces.delete("a", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    gone(&namespaces, "a").await;
}

#[tokio::test]
async fn a_volume_goes_when_it_is_not_bound() {
    let server = Server::start_with(&[]);
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
    gone(&volumes, "free").await;
    delete(&volumes, "bound").await;
    stays(&volumes, "bound").await;
    set_phase(&volumes, "bound", "Released").await;
    gone(&volumes, "bound").await;
}

async fn set_phase(volumes: &Api<PersistentVolume>, name: &str, phase: &str) {
    let patch = Patch::Merge(json!({"status": {"phase": phase}}));
    let params = PatchParams::default();
    let patched = volumes.patch_status(name, &params, &patch).await;
    patched.expect("a phase");
}

#[tokio::test]
async fn a_class_goes_when_no_claim_and_no_volume_names_it() {
    let server = Server::start_with(&[]);
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
    gone(&classes, "free").await;
    delete(&classes, "named").await;
    stays(&classes, "named").await;
    delete(&claims, "c").await;
    gone(&classes, "named").await;
}

#[tokio::test]
async fn what_has_no_protection_gets_it() {
    let server = Server::start_with(&[]);
    let client = server.client().await;
    let claims = create_claim(&client, "default", "bare").await;
    let bare = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    set(&claims, "bare", bare).await;
    let protected = found(&claims, "bare", |claim| {
        let finalizers = claim.metadata.finalizers.iter().flatten();
        finalizers.eq(["example.com/hold", "kubernetes.io/pvc-protection"])
    });
    protected.await;
}
