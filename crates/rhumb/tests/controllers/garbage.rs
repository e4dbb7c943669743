//! Garbage collection of dependents.

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::make::object;
use crate::program::poll_until;
use crate::support::TestServer;
use crate::waiting::{kill_during_deletions, make_namespace, wait_for, wait_until_deleted};

/// A namespace with config maps that own each other.
struct OwnedConfigMaps {
    server: TestServer,
    client: Client,
    maps: Api<ConfigMap>,
}

impl OwnedConfigMaps {
    async fn start() -> OwnedConfigMaps {
        let server = TestServer::start_with(&[]);
        let client = server.client().await;
        OwnedConfigMaps {
            maps: Api::namespaced(client.clone(), "default"),
            server,
            client,
        }
    }

    /// Creates a config map with owners; `!` before a name sets `blockOwnerDeletion`.
    async fn make(&self, name: &str, owners: &[&str]) -> ConfigMap {
        self.make_with_finalizers(name, owners, &[]).await
    }

    async fn make_with_finalizers(
        &self,
        name: &str,
        owners: &[&str],
        finalizers: &[&str],
    ) -> ConfigMap {
        let mut references = Vec::new();
        for owner in owners {
            let blocks = owner.starts_with('!');
            let owner = owner.trim_start_matches('!');
            let owner = self.maps.get(owner).await.expect("an owner");
            references.push(reference(&owner, blocks));
        }
        create(&self.maps, name, references, finalizers).await
    }

    async fn delete(&self, name: &str, policy: Option<PropagationPolicy>) {
        let params = DeleteParams {
            propagation_policy: policy,
            ..DeleteParams::default()
        };
        self.maps.delete(name, &params).await.expect("a deletion");
    }

    async fn names(&self) -> Vec<String> {
        let maps = self
            .maps
            .list(&ListParams::default())
            .await
            .expect("a list");
        let names = maps.items.iter().map(ResourceExt::name_any);
        names.filter(|name| name != "kube-root-ca.crt").collect()
    }

    /// Waits until exactly these config maps are left.
    async fn wait_for_exactly(&self, expected: &[&str]) {
        let what = format!("that only {expected:?} are left");
        poll_until(&what, async || {
            (self.names().await == expected).then_some(())
        })
        .await;
    }

    async fn owners_of(&self, name: &str) -> Vec<String> {
        let map = self.maps.get(name).await.expect("an object");
        let owners = map.owner_references().iter();
        owners.map(|owner| owner.name.clone()).collect()
    }

    /// Waits until an object with finalizers has a deletion timestamp.
    async fn wait_for_deletion_timestamp(&self, name: &str) {
        wait_for(&self.maps, name, |map| {
            map.meta().deletion_timestamp.is_some()
        })
        .await;
    }

    async fn release(&self, name: &str) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let params = PatchParams::default();
        let patched = self.maps.patch(name, &params, &patch).await;
        patched.expect("a patch");
    }
}

fn reference(owner: &ConfigMap, blocks: bool) -> Value {
    reference_to(&owner.name_any(), &owner.uid().expect("a uid"), blocks)
}

fn reference_to(name: &str, uid: &str, blocks: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid,
        "blockOwnerDeletion": blocks,
    })
}

async fn create(
    maps: &Api<ConfigMap>,
    name: &str,
    owners: Vec<Value>,
    finalizers: &[&str],
) -> ConfigMap {
    let map = object(json!({"metadata": {
        "name": name, "ownerReferences": owners, "finalizers": finalizers,
    }}));
    let created = maps.create(&PostParams::default(), &map).await;
    created.expect("a config map")
}

/// Waits for the event about an owner that is not in the namespace of its dependent.
async fn wait_for_owner_event(
    client: &Client,
    events_in: &str,
    dependent: &str,
    owner: &str,
    namespace: &str,
) {
    let events: Api<Event> = Api::namespaced(client.clone(), events_in);
    let message = format!("ownerRef {owner} does not exist in namespace {namespace:?}");
    poll_until("an event", async || {
        let events = events.list(&ListParams::default()).await.unwrap();
        let mut events = events.into_iter();
        events.find(|event| {
            event.reason.as_deref() == Some("OwnerRefInvalidNamespace")
                && event.type_.as_deref() == Some("Warning")
                && event.message.as_ref() == Some(&message)
                && event.involved_object.name.as_deref() == Some(dependent)
        })
    })
    .await;
}

const HOLD: &str = "example.com/hold";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_are_deleted_recursively() {
    let maps = OwnedConfigMaps::start().await;
    maps.make("stays", &[]).await;
    maps.make("owner", &[]).await;
    maps.make("dependent", &["owner"]).await;
    maps.make("blocking", &["!owner"]).await;
    maps.make("grandchild", &["dependent"]).await;
    maps.delete("owner", None).await;
    assert!(!maps.names().await.contains(&"owner".to_owned()));
    maps.wait_for_exactly(&["stays"]).await;
    // The deprecated `orphanDependents` option.
    maps.make("owner", &[]).await;
    maps.make("dependent", &["owner"]).await;
    let request = http::Request::delete("/api/v1/namespaces/default/configmaps/owner")
        .header("content-type", "application/json")
        .body(br#"{"kind":"DeleteOptions","apiVersion":"v1","orphanDependents":false}"#.to_vec());
    maps.client.request_text(request.unwrap()).await.unwrap();
    maps.wait_for_exactly(&["stays"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreground_deletion_waits_for_blocking_dependents() {
    let maps = OwnedConfigMaps::start().await;
    maps.make("owner", &[]).await;
    maps.make("middle", &["!owner"]).await;
    maps.make_with_finalizers("leaf", &["!middle"], &[HOLD])
        .await;
    maps.make_with_finalizers("loose", &["owner"], &[HOLD])
        .await;
    maps.delete("owner", Some(PropagationPolicy::Foreground))
        .await;
    for name in ["owner", "middle", "leaf", "loose"] {
        maps.wait_for_deletion_timestamp(name).await;
    }
    let middle = maps.maps.get("middle").await.unwrap();
    assert_eq!(middle.finalizers(), ["foregroundDeletion"]);
    maps.release("leaf").await;
    // Dependents that do not block are not waited for.
    maps.wait_for_exactly(&["loose"]).await;
    maps.release("loose").await;
    maps.wait_for_exactly(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_are_kept_without_owner_references() {
    let maps = OwnedConfigMaps::start().await;
    maps.make("other", &[]).await;
    maps.make("owner", &[]).await;
    maps.make("child", &["!owner"]).await;
    maps.make("shared", &["owner", "other"]).await;
    maps.delete("owner", Some(PropagationPolicy::Orphan)).await;
    maps.wait_for_exactly(&["child", "other", "shared"]).await;
    assert!(maps.owners_of("child").await.is_empty());
    assert_eq!(maps.owners_of("shared").await, ["other"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependent_with_one_live_owner_is_kept_and_dangling_references_removed() {
    let maps = OwnedConfigMaps::start().await;
    for name in ["first", "second", "third"] {
        maps.make(name, &[]).await;
    }
    maps.make("dependent", &["first", "!second", "third"]).await;
    maps.delete("first", None).await;
    let owners = async |expected: &[&str]| {
        let named = |map: &ConfigMap| -> Vec<String> {
            let owners = map.owner_references().iter();
            owners.map(|owner| owner.name.clone()).collect()
        };
        wait_for(&maps.maps, "dependent", |map| named(map) == expected).await;
    };
    owners(&["second", "third"]).await;
    // An owner in foreground deletion releases a dependent that has another owner.
    maps.delete("second", Some(PropagationPolicy::Foreground))
        .await;
    maps.wait_for_exactly(&["dependent", "third"]).await;
    owners(&["third"]).await;
    maps.delete("third", None).await;
    maps.wait_for_exactly(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_does_not_affect_references_with_another_kind() {
    let maps = OwnedConfigMaps::start().await;
    let named = |api_version: &str, kind: &str, owner: &ConfigMap| {
        let (name, uid) = (owner.name_any(), owner.uid());
        json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid})
    };
    let remaining = [
        ("of-foo", "foo.com/v1", "Foo"),
        ("of-nonsense", "v1", "Nonsense"),
        ("of-old-version", "apps/v1beta1", "Deployment"),
        ("of-other-group", "apps/v1", "ConfigMap"),
    ];
    for (name, api_version, kind) in remaining {
        let owner = maps.make("owner", &[]).await;
        let references = vec![named(api_version, kind, &owner)];
        create(&maps.maps, name, references, &[]).await;
        maps.delete("owner", None).await;
    }
    // A cluster-scoped object cannot have a namespaced owner; an event reports it.
    let owner = maps.make("owner", &[]).await;
    let classes: Api<PriorityClass> = Api::all(maps.client.clone());
    let class = object(json!({
        "metadata": {"name": "class", "ownerReferences": [named("v1", "ConfigMap", &owner)]},
        "value": 1,
    }));
    let params = PostParams::default();
    classes.create(&params, &class).await.unwrap();
    maps.delete("owner", None).await;
    // Objects are processed in order, so the earlier ones have been processed.
    maps.make("owner", &[]).await;
    maps.make("valid", &["owner"]).await;
    maps.delete("owner", None).await;
    maps.wait_for_exactly(&remaining.map(|(name, ..)| name))
        .await;
    classes.get("class").await.unwrap();
    let owner = maps.make("owner", &[]).await;
    let class = object(json!({
        "metadata": {"name": "other", "ownerReferences": [named("v1", "ConfigMap", &owner)]},
        "value": 2,
    }));
    classes.create(&params, &class).await.unwrap();
    let uid = owner.uid().unwrap();
    let named = format!("[v1/ConfigMap, namespace: , name: owner, uid: {uid}]");
    wait_for_owner_event(&maps.client, "default", "other", &named, "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_of_absent_owners_are_deleted() {
    let maps = OwnedConfigMaps::start().await;
    let owner = maps.make("owner", &[]).await;
    maps.make("valid", &["owner"]).await;
    // A stale UID with the owner's name, and an owner that never existed.
    let other = "00000000-0000-4000-8000-000000000000";
    create(
        &maps.maps,
        "stale",
        vec![reference_to("owner", other, false)],
        &[],
    )
    .await;
    create(
        &maps.maps,
        "lost",
        vec![reference_to("nobody", other, true)],
        &[],
    )
    .await;
    // An object in another namespace cannot be the owner; an event reports it.
    let namespaces = make_namespace(&maps.client, "elsewhere").await;
    let elsewhere: Api<ConfigMap> = Api::namespaced(maps.client.clone(), "elsewhere");
    create(&elsewhere, "abroad", vec![reference(&owner, false)], &[]).await;
    maps.wait_for_exactly(&["owner", "valid"]).await;
    wait_until_deleted(&elsewhere, "abroad").await;
    let uid = owner.uid().unwrap();
    let named = format!("[v1/ConfigMap, namespace: elsewhere, name: owner, uid: {uid}]");
    wait_for_owner_event(&maps.client, "elsewhere", "abroad", &named, "elsewhere").await;
    // A namespace is cluster-scoped, so it can own config maps.
    let owner = namespaces.get("elsewhere").await.unwrap();
    let reference = json!({
        "apiVersion": "v1", "kind": "Namespace", "name": "elsewhere", "uid": owner.uid().unwrap(),
    });
    create(&maps.maps, "of-a-namespace", vec![reference], &[]).await;
    namespaces
        .delete("elsewhere", &DeleteParams::default())
        .await
        .unwrap();
    maps.wait_for_exactly(&["owner", "valid"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ownership_cycle_is_deleted_in_foreground() {
    let maps = OwnedConfigMaps::start().await;
    maps.make("a", &[]).await;
    maps.make("b", &["!a"]).await;
    let c = maps.make("c", &["!b"]).await;
    let patch = Patch::Merge(json!({"metadata": {"ownerReferences": [reference(&c, true)]}}));
    let params = PatchParams::default();
    maps.maps.patch("a", &params, &patch).await.unwrap();
    maps.delete("a", Some(PropagationPolicy::Foreground)).await;
    maps.wait_for_exactly(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cascading_deletion_resumes_after_kill_9() {
    const DEPENDENTS: usize = 2000;
    let mut maps = OwnedConfigMaps::start().await;
    maps.make("stays", &[]).await;
    maps.make("stays-too", &["stays"]).await;
    let owner = maps.make("owner", &[]).await;
    let names: Vec<String> = (0..DEPENDENTS).map(|number| format!("d{number}")).collect();
    for names in names.chunks(50) {
        let created = names
            .iter()
            .map(|name| create(&maps.maps, name, vec![reference(&owner, true)], &[]));
        join_all(created).await;
    }
    let OwnedConfigMaps {
        server, maps: api, ..
    } = &mut maps;
    let remaining = kill_during_deletions(server, "default", async || {
        let params = DeleteParams::background();
        api.delete("owner", &params).await.expect("a deletion");
    })
    .await;
    // Three config maps are not dependents, including the root certificates.
    assert!(
        3 < remaining && remaining < DEPENDENTS,
        "{remaining} are left"
    );
    maps.server.restart_with(&[]);
    maps.client = maps.server.client().await;
    maps.maps = Api::namespaced(maps.client.clone(), "default");
    maps.wait_for_exactly(&["stays", "stays-too"]).await;
}
