//! Deletion of namespaces.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;

use crate::make::{config_map, object, pod_spec, refusal};
use crate::program::NO_CONTROLLERS;
use crate::support::TestServer;
use crate::waiting::{kill_during_deletions, make_namespace, wait_for, wait_until_deleted};

fn condition<'a>(namespace: &'a Namespace, type_: &str) -> (&'a str, &'a str) {
    let conditions = namespace
        .status
        .iter()
        .flat_map(|status| &status.conditions);
    conditions
        .flatten()
        .find(|condition| condition.type_ == type_)
        .map_or(("", ""), |condition| {
            let message = condition.message.as_deref().unwrap_or_default();
            (condition.status.as_str(), message)
        })
}

async fn delete(namespaces: &Api<Namespace>, name: &str) {
    let deleted = namespaces.delete(name, &DeleteParams::default()).await;
    deleted.expect("a deletion");
}

async fn release<K>(api: &Api<K>, name: &str)
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch(name, &PatchParams::default(), &patch)
        .await
        .expect("a patch");
}

#[tokio::test]
async fn namespace_contents_are_deleted_with_pods_first() {
    let server = TestServer::start_with(&[]);
    let client = server.client().await;
    let namespaces = make_namespace(&client, "a").await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "a");
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), "a");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "a");
    let params = PostParams::default();
    let held = json!({
        "metadata": {"name": "held", "finalizers": ["example.org/hold"]},
        "spec": pod_spec(),
    });
    pods.create(&params, &object(held)).await.expect("a pod");
    let policy = json!({"metadata": {"name": "guard"}, "spec": {"podSelector": {}}});
    policies
        .create(&params, &object(policy))
        .await
        .expect("a policy");
    maps.create(&params, &config_map("m", ""))
        .await
        .expect("a map");

    delete(&namespaces, "a").await;
    let ending = wait_for(&namespaces, "a", |namespace| {
        condition(namespace, "NamespaceFinalizersRemaining").0 == "True"
    })
    .await;
    assert_eq!(
        condition(&ending, "NamespaceContentRemaining"),
        (
            "True",
            "Some resources are remaining: pods. has 1 resource instances"
        )
    );
    assert_eq!(
        condition(&ending, "NamespaceFinalizersRemaining"),
        (
            "True",
            "Some content in the namespace has finalizers remaining: example.org/hold in 1 resource instances"
        )
    );
    assert_eq!(
        condition(&ending, "NamespaceDeletionContentFailure").0,
        "False"
    );
    let phase = ending
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    assert_eq!(phase, Some("Terminating"));
    policies
        .get("guard")
        .await
        .expect("a policy outlives its pods");
    assert_rejected_while_terminating(&client).await;

    release(&pods, "held").await;
    wait_until_deleted(&namespaces, "a").await;
    assert_eq!(policies.get_opt("guard").await.expect("a read"), None);
    assert_eq!(maps.get_opt("m").await.expect("a read"), None);
    // The name can be reused, and the old contents do not reappear.
    make_namespace(&client, "a").await;
    assert_eq!(maps.get_opt("m").await.expect("a read"), None);
}

async fn assert_rejected_while_terminating(client: &Client) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "a");
    let late = object(json!({"metadata": {"name": "late"}}));
    let status = refusal(secrets.create(&PostParams::default(), &late).await);
    assert_eq!(
        (status.code, &*status.reason, &*status.message),
        (
            403,
            "Forbidden",
            "secrets \"late\" is forbidden: unable to create new content in namespace a because it is being terminated"
        )
    );
    let causes = status.details.expect("details").causes;
    assert_eq!(causes[0].reason, "NamespaceTerminating");
}

#[tokio::test]
async fn namespace_deletion_waits_for_finalizers() {
    let server = TestServer::start_with(&[]);
    let client = server.client().await;
    let namespaces = make_namespace(&client, "a").await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "a");
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.org/hold"]}});
    let created = maps.create(&PostParams::default(), &object(held)).await;
    created.expect("a map");
    let own = Patch::Merge(json!({"metadata": {"finalizers": ["example.org/own"]}}));
    let patched = namespaces.patch("a", &PatchParams::default(), &own).await;
    patched.expect("a patch");

    delete(&namespaces, "a").await;
    wait_for(&namespaces, "a", |namespace| {
        condition(namespace, "NamespaceContentRemaining")
            == (
                "True",
                "Some resources are remaining: configmaps. has 1 resource instances",
            )
    })
    .await;
    release(&maps, "held").await;
    // The contents are deleted; only the namespace's own finalizer remains.
    let empty = wait_for(&namespaces, "a", |namespace| {
        let spec = namespace.spec.as_ref();
        spec.and_then(|spec| spec.finalizers.as_ref())
            .is_none_or(Vec::is_empty)
    })
    .await;
    assert_eq!(condition(&empty, "NamespaceContentRemaining").0, "False");
    release(&namespaces, "a").await;
    wait_until_deleted(&namespaces, "a").await;
}

#[tokio::test]
async fn system_namespaces_cannot_be_deleted() {
    let server = TestServer::start_with(&[]);
    let namespaces: Api<Namespace> = Api::all(server.client().await);
    for name in ["default", "kube-system", "kube-public"] {
        let status = refusal(namespaces.delete(name, &DeleteParams::default()).await);
        let message =
            format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        assert_eq!((status.code, status.message), (403, message));
    }
}

#[tokio::test]
async fn system_objects_are_recreated() {
    let server = TestServer::start_with(&[]);
    let client = server.client().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let services: Api<Service> = Api::namespaced(client, "default");
    let namespace = namespaces.get("kube-node-lease").await.expect("a read");
    let service = services.get("kubernetes").await.expect("a read");
    delete(&namespaces, "kube-node-lease").await;
    let params = DeleteParams::default();
    services
        .delete("kubernetes", &params)
        .await
        .expect("a deletion");
    wait_for(&namespaces, "kube-node-lease", |now| {
        now.uid() != namespace.uid()
    })
    .await;
    let again = wait_for(&services, "kubernetes", |_| true).await;
    let address = |service: &Service| {
        service
            .spec
            .as_ref()
            .and_then(|spec| spec.cluster_ip.clone())
    };
    assert_eq!(address(&again), address(&service));
}

/// Deletion resumes after the server is killed and restarted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_deletion_survives_a_killed_server() {
    const MAPS: usize = 2000;
    let mut server = TestServer::start_with(&[]);
    let client = server.client().await;
    let namespaces = make_namespace(&client, "a").await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "a");
    let mut writers = JoinSet::new();
    for writer in 0..20 {
        let maps = maps.clone();
        writers.spawn(async move {
            for index in 0..MAPS / 20 {
                let map = config_map(&format!("{writer}-{index}"), "");
                maps.create(&PostParams::default(), &map)
                    .await
                    .expect("a map");
            }
        });
    }
    writers.join_all().await;
    let remaining = kill_during_deletions(&mut server, "a", async || {
        delete(&namespaces, "a").await;
    })
    .await;
    assert!(0 < remaining && remaining < MAPS, "{remaining} are left");
    server.restart_with(&[]);
    let client = server.client().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    wait_until_deleted(&namespaces, "a").await;
    let maps: Api<ConfigMap> = Api::all(client);
    let list = maps.list(&ListParams::default()).await.expect("a list");
    let leftovers = list
        .items
        .iter()
        .filter(|map| map.namespace().as_deref() == Some("a"));
    assert_eq!(leftovers.count(), 0);
}

/// Conditions survive the start of the deletion, and a second deletion changes nothing.
#[tokio::test]
async fn terminating_namespace_keeps_its_conditions_and_can_be_deleted_again() {
    let server = TestServer::start_with(&[NO_CONTROLLERS]);
    let namespaces: Api<Namespace> = Api::all(server.client().await);
    let created = object(json!({"metadata": {"name": "a"}}));
    namespaces
        .create(&PostParams::default(), &created)
        .await
        .expect("a namespace");
    let patch = json!({"status": {"conditions": [{"type": "X", "status": "True"}]}});
    let params = PatchParams::default();
    let patched = namespaces
        .patch_status("a", &params, &Patch::Merge(patch))
        .await;
    patched.expect("a patch");
    let delete = async || {
        let response = namespaces.delete("a", &DeleteParams::default()).await;
        response.expect("a deletion").left().expect("the namespace")
    };
    let ending = delete().await;
    let status = ending.status.clone().expect("a status");
    assert_eq!(status.phase.as_deref(), Some("Terminating"));
    assert_eq!(status.conditions.expect("conditions")[0].type_, "X");
    assert_eq!(delete().await, ending);
}
