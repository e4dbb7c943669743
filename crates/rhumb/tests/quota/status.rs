//! The status of quotas.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use crate::concurrency::{ThreeServersOnEtcd, create_concurrently, pods_of_round};
use crate::quota_namespace::{TestNamespace, pod, pod_requesting, start, used};

fn hard(quota: &ResourceQuota) -> Value {
    let status = quota.status.as_ref();
    json!(status.and_then(|status| status.hard.clone()))
}

#[tokio::test]
async fn status_read_after_a_write_includes_it() {
    let server = start();
    let ns = TestNamespace::make(&server.client().await, "a").await;
    ns.must_create(pod_requesting("before", 250)).await;
    let limits = json!({"pods": "3", "requests.cpu": "1"});
    ns.make_quota("q", json!({"hard": limits})).await;
    let quota = ns.quotas().get("q").await.expect("a quota");
    assert_eq!(hard(&quota), limits);
    assert_eq!(used(&quota), json!({"pods": "1", "requests.cpu": "250m"}));
    ns.must_create(pod_requesting("second", 250)).await;
    let list = ns.quotas().list(&ListParams::default()).await;
    let list = list.expect("a list").items;
    assert_eq!(used(&list[0]), json!({"pods": "2", "requests.cpu": "500m"}));

    // A changed limit applies as soon as the response arrives.
    ns.set_hard("q", json!({"pods": "1", "requests.cpu": "1"}))
        .await;
    let quota = ns.quotas().get("q").await.expect("a quota");
    assert_eq!(hard(&quota), json!({"pods": "1", "requests.cpu": "1"}));
    assert_eq!(used(&quota), json!({"pods": "2", "requests.cpu": "500m"}));
    let full = ns.refused(pod_requesting("third", 100)).await;
    assert!(
        full.ends_with("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=1"),
        "{full}"
    );
    ns.set_hard("q", json!({"pods": "3", "requests.cpu": "600m"}))
        .await;
    let full = ns.refused(pod_requesting("third", 101)).await;
    assert!(
        full.ends_with(
            "requested: requests.cpu=101m, used: requests.cpu=500m, limited: requests.cpu=600m"
        ),
        "{full}"
    );
    ns.must_create(pod_requesting("third", 100)).await;
    // Resources that are no longer limited are removed from the status.
    ns.set_hard("q", json!({"requests.cpu": null})).await;
    assert_eq!(ns.used("q").await, json!({"pods": "3"}));
    ns.refused(pod("fourth")).await;
    let deleted = ns.quotas().delete("q", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    for name in ["fourth", "fifth"] {
        ns.must_create(pod(name)).await;
    }
}

/// The status is updated although no client reads it, and ends with the final values.
#[tokio::test]
async fn watchers_receive_usage_updates() {
    let server = start();
    let ns = TestNamespace::make(&server.client().await, "a").await;
    let created_quota = ns.make_quota("q", json!({"hard": {"pods": "5"}})).await;
    let version = created_quota.resource_version().expect("a version");
    let quotas = ns.quotas();
    let events = quotas.watch(&WatchParams::default(), &version).await;
    let events = events
        .expect("a watch")
        .filter_map(async |event| match event {
            Ok(WatchEvent::Modified(quota)) => Some(used(&quota)),
            Ok(WatchEvent::Bookmark(_)) => None,
            other => panic!("{other:?}"),
        });
    let mut usage_events = pin!(events);
    let mut until_told = async |pods: &str| {
        loop {
            let used = usage_events.next().await.expect("the watch ended");
            if used["pods"] == pods {
                return;
            }
        }
    };
    until_told("0").await;
    let result = create_concurrently(std::slice::from_ref(&ns), pods_of_round(0)).await;
    until_told("5").await;
    ns.set_phase(&result.created[0], "Succeeded").await;
    until_told("4").await;
    ns.delete(&result.created[1]).await;
    until_told("3").await;
    ns.delete_all().await;
    until_told("0").await;
}

#[tokio::test]
async fn fifty_quotas_of_a_namespace_are_all_enforced() {
    const QUOTAS: usize = 50;
    let server = start();
    let ns = TestNamespace::make(&server.client().await, "a").await;
    for index in 0..QUOTAS {
        let pods = (index + 5).to_string();
        ns.make_quota(&format!("q-{index:02}"), json!({"hard": {"pods": pods}}))
            .await;
    }
    let result = create_concurrently(std::slice::from_ref(&ns), pods_of_round(0)).await;
    assert_eq!(result.created.len(), 5);
    for (_, message) in &result.refused {
        assert!(message.contains("exceeded quota: q-00, "), "{message}");
    }
    let list = async || {
        let list = ns.quotas().list(&ListParams::default()).await;
        let quotas = list.expect("a list").items.into_iter();
        let usage = quotas.map(|quota| (quota.name_any(), used(&quota)));
        usage.collect::<BTreeMap<String, Value>>()
    };
    let usage = list().await;
    assert_eq!(usage.len(), QUOTAS);
    assert!(
        usage.values().all(|used| *used == json!({"pods": "5"})),
        "{usage:?}"
    );
    // Without the strictest quota, the next one is exceeded.
    let deleted = ns.quotas().delete("q-00", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    let result = create_concurrently(std::slice::from_ref(&ns), pods_of_round(1)).await;
    assert_eq!(result.created.len(), 1);
    for (_, message) in &result.refused {
        assert!(message.contains("exceeded quota: q-01, "), "{message}");
    }
    let usage = list().await;
    assert!(
        usage.values().all(|used| *used == json!({"pods": "6"})),
        "{usage:?}"
    );
}

#[tokio::test]
async fn status_is_updated_without_a_get() {
    let server = start();
    let client = server.client().await;
    let ns = TestNamespace::make(&client, "a").await;
    let all: kube::Api<ResourceQuota> = kube::Api::all(client);
    // A list of all namespaces shows what is stored.
    let wait_until_stored = async |pods: &str| {
        crate::program::poll_until(pods, async || {
            let list = all.list(&ListParams::default()).await.expect("a list");
            let stored = list.items.first().map(used);
            (stored == Some(json!({"pods": pods}))).then_some(())
        })
        .await;
    };
    ns.make_quota("q", json!({"hard": {"pods": "10"}})).await;
    wait_until_stored("0").await;
    ns.must_create(pod("a")).await;
    wait_until_stored("1").await;
    ns.delete("a").await;
    wait_until_stored("0").await;
    // A wrong status written by a client is corrected.
    let wrong = Patch::Merge(json!({"status": {"used": {"pods": "7"}}}));
    let (quotas, params) = (ns.quotas(), PatchParams::default());
    let patched = quotas.patch_status("q", &params, &wrong).await;
    patched.expect("a patch");
    wait_until_stored("0").await;
}

/// A list of all namespaces does not refresh the status first, but the usage is stored soon.
#[tokio::test]
async fn lists_of_all_namespaces_show_current_usage() {
    let server = start();
    let client = server.client().await;
    for namespace in ["a", "b", "c"] {
        let ns = TestNamespace::make(&client, namespace).await;
        ns.make_quota("q", json!({"hard": {"pods": "5"}})).await;
        ns.must_create(pod("one")).await;
    }
    let all: kube::Api<ResourceQuota> = kube::Api::all(client);
    crate::program::poll_until("what is used", async || {
        let list = all.list(&ListParams::default()).await.expect("a list");
        let used: Vec<Value> = list.items.iter().map(used).collect();
        (used == vec![json!({"pods": "1"}); 3]).then_some(())
    })
    .await;
}

/// Writes acknowledged by one server are included in the usage that the next one shows, without delay.
#[tokio::test]
async fn every_server_shows_usage_of_writes_to_the_others() {
    let servers = ThreeServersOnEtcd::start().await;
    let namespaces = servers.create_namespaces("a").await;
    let created_quota = namespaces[0].make_quota("q", json!({"hard": {"pods": "100"}}));
    created_quota.await;
    let of = |turn: usize| &namespaces[turn % namespaces.len()];
    for turn in 0..30 {
        of(turn).must_create(pod(&format!("p-{turn}"))).await;
        let used = of(turn + 1).used("q").await;
        assert_eq!(used, json!({"pods": (turn + 1).to_string()}));
    }
    for turn in 0..30 {
        of(turn).delete(&format!("p-{turn}")).await;
        let used = of(turn + 2).used("q").await;
        assert_eq!(used, json!({"pods": (29 - turn).to_string()}));
    }
}

/// Changes of a quota on one server apply on all servers immediately.
#[tokio::test]
async fn every_server_enforces_quota_changes_of_the_others() {
    let servers = ThreeServersOnEtcd::start().await;
    let namespaces = servers.create_namespaces("a").await;
    let of = |turn: usize| &namespaces[turn % namespaces.len()];
    for turn in 0..10 {
        let created_quota = of(turn).make_quota("q", json!({"hard": {"pods": "1"}}));
        created_quota.await;
        of(turn + 1).must_create(pod("one")).await;
        of(turn + 2).refused(pod("two")).await;
        of(turn + 1).set_hard("q", json!({"pods": "2"})).await;
        of(turn).must_create(pod("two")).await;
        of(turn + 2).set_hard("q", json!({"pods": "1"})).await;
        of(turn + 1).delete("one").await;
        of(turn).refused(pod("one")).await;
        let quotas = of(turn + 2).quotas();
        let deleted = quotas.delete("q", &DeleteParams::default()).await;
        deleted.expect("a deletion");
        of(turn).must_create(pod("one")).await;
        of(turn).delete_all().await;
    }
}

/// A namespace is deleted on one server and recreated on the next.
#[tokio::test]
async fn namespace_recreated_on_another_server_has_no_usage() {
    let servers = ThreeServersOnEtcd::start().await;
    for round in 0..3 {
        let at = |turn: usize| TestNamespace::of(&servers.clients[(round + turn) % 3], "a");
        TestNamespace::make(&servers.clients[round % 3], "a").await;
        at(1).make_quota("q", json!({"hard": {"pods": "2"}})).await;
        assert_eq!(at(2).used("q").await, json!({"pods": "0"}));
        let namespaces = [at(0), at(1), at(2)];
        assert_eq!(
            create_concurrently(&namespaces, pods_of_round(round))
                .await
                .created
                .len(),
            2
        );
        at(2).delete_namespace().await;
    }
}
