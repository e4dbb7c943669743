//! How a namespace ends.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;

use crate::make::{config_map, object, pod_spec, refusal};
use crate::program::NO_CONTROLLERS;
use crate::support::Server;
use crate::waiting::{found, gone, kill_amid_deletions, make_namespace};

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
async fn everything_in_a_namespace_goes_and_pods_go_first() {
    let server = Server::start_with(&[]);
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
    let ending = found(&namespaces, "a", |namespace| {
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
    refused_while_ending(&client).await;

    release(&pods, "held").await;
    gone(&namespaces, "a").await;
    assert_eq!(policies.get_opt("guard").await.expect("a read"), None);
    assert_eq!(maps.get_opt("m").await.expect("a read"), None);
    // The name is free again, and what was in it does not come back.
    make_namespace(&client, "a").await;
    assert_eq!(maps.get_opt("m").await.expect("a read"), None);
}

async fn refused_while_ending(client: &Client) {
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
async fn what_others_hold_is_waited_for() {
    let server = Server::start_with(&[]);
    let client = server.client().await;
    let namespaces = make_namespace(&client, "a").await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "a");
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.org/hold"]}});
    let made = maps.create(&PostParams::default(), &object(held)).await;
    made.expect("a map");
    let own = Patch::Merge(json!({"metadata": {"finalizers": ["example.org/own"]}}));
    let patched = namespaces.patch("a", &PatchParams::default(), &own).await;
    patched.expect("a patch");

    delete(&namespaces, "a").await;
    found(&namespaces, "a", |namespace| {
        condition(namespace, "NamespaceContentRemaining")
            == (
                "True",
                "Some resources are remaining: configmaps. has 1 resource instances",
            )
    })
    .await;
    release(&maps, "held").await;
    // Its contents are gone, and now only its own finalizer holds it.
    let empty = found(&namespaces, "a", |namespace| {
        let spec = namespace.spec.as_ref();
        spec.and_then(|spec| spec.finalizers.as_ref())
            .is_none_or(Vec::is_empty)
    })
    .await;
    assert_eq!(condition(&empty, "NamespaceContentRemaining").0, "False");
    release(&namespaces, "a").await;
    gone(&namespaces, "a").await;
}

#[tokio::test]
async fn the_first_namespaces_stay() {
    let server = Server::start_with(&[]);
    let namespaces: Api<Namespace> = Api::all(server.client().await);
    for name in ["default", "kube-system", "kube-public"] {
        let status = refusal(namespaces.delete(name, &DeleteParams::default()).await);
        let message =
            format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        assert_eq!((status.code, status.message), (403, message));
    }
}

#[tokio::test]
async fn what_every_cluster_has_comes_back() {
    let server = Server::start_with(&[]);
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
    found(&namespaces, "kube-node-lease", |now| {
        now.uid() != namespace.uid()
    })
    .await;
    let again = found(&services, "kubernetes", |_| true).await;
    let address = |service: &Service| {
        service
            .spec
            .as_ref()
            .and_then(|spec| spec.cluster_ip.clone())
    };
    assert_eq!(address(&again), address(&service));
}

/// Killing the server in the middle loses nothing: it goes on after its start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_ends_although_the_server_was_killed_meanwhile() {
    const MAPS: usize = 2000;
    let mut server = Server::start_with(&[]);
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
    let left = kill_amid_deletions(&mut server, "a", async || {
        delete(&namespaces, "a").await;
    })
    .await;
    assert!(0 < left && left < MAPS, "{left} are left");
    server.restart_with(&[]);
    let client = server.client().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    gone(&namespaces, "a").await;
    let maps: Api<ConfigMap> = Api::all(client);
    let list = maps.list(&ListParams::default()).await.expect("a list");
    let leftovers = list
        .items
        .iter()
        .filter(|map| map.namespace().as_deref() == Some("a"));
    assert_eq!(leftovers.count(), 0);
}

/// What was said about a namespace stays when it begins to end, and to end it again changes nothing.
#[tokio::test]
async fn a_namespace_that_ends_keeps_its_conditions_and_can_be_ended_again() {
    let server = Server::start_with(&[NO_CONTROLLERS]);
    let namespaces: Api<Namespace> = Api::all(server.client().await);
    let made = object(json!({"metadata": {"name": "a"}}));
    namespaces
        .create(&PostParams::default(), &made)
        .await
        .expect("a namespace");
    let patch = json!({"status": {"conditions": [{"type": "X", "status": "True"}]}});
    let params = PatchParams::default();
    let patched = namespaces
        .patch_status("a", &params, &Patch::Merge(patch))
        .await;
    patched.expect("a patch");
    let delete = async || {
        let answer = namespaces.delete("a", &DeleteParams::default()).await;
        answer.expect("a deletion").left().expect("the namespace")
    };
    let ending = delete().await;
    let status = ending.status.clone().expect("a status");
    assert_eq!(status.phase.as_deref(), Some("Terminating"));
    assert_eq!(status.conditions.expect("conditions")[0].type_, "X");
    assert_eq!(delete().await, ending);
}
