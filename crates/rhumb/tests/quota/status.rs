//! What quotas say about themselves.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use crate::rush::{Trio, crowd, rush};
use crate::space::{Space, pod, pod_requesting, start, used};

fn hard(quota: &ResourceQuota) -> Value {
    let status = quota.status.as_ref();
    json!(status.and_then(|status| status.hard.clone()))
}

#[tokio::test]
async fn a_read_right_after_a_write_shows_it() {
    let server = start();
    let space = Space::make(&server.client().await, "a").await;
    space.must_create(pod_requesting("before", 250)).await;
    let limits = json!({"pods": "3", "requests.cpu": "1"});
    space.make_quota("q", json!({"hard": limits})).await;
    let quota = space.quotas().get("q").await.expect("a quota");
    assert_eq!(hard(&quota), limits);
    assert_eq!(used(&quota), json!({"pods": "1", "requests.cpu": "250m"}));
    space.must_create(pod_requesting("second", 250)).await;
    let list = space.quotas().list(&ListParams::default()).await;
    let list = list.expect("a list").items;
    assert_eq!(used(&list[0]), json!({"pods": "2", "requests.cpu": "500m"}));

    // More or less is allowed from the moment on at which that was answered.
    space
        .set_hard("q", json!({"pods": "1", "requests.cpu": "1"}))
        .await;
    let quota = space.quotas().get("q").await.expect("a quota");
    assert_eq!(hard(&quota), json!({"pods": "1", "requests.cpu": "1"}));
    assert_eq!(used(&quota), json!({"pods": "2", "requests.cpu": "500m"}));
    let full = space.refused(pod_requesting("third", 100)).await;
    assert!(
        full.ends_with("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=1"),
        "{full}"
    );
    space
        .set_hard("q", json!({"pods": "3", "requests.cpu": "600m"}))
        .await;
    let full = space.refused(pod_requesting("third", 101)).await;
    assert!(
        full.ends_with(
            "requested: requests.cpu=101m, used: requests.cpu=500m, limited: requests.cpu=600m"
        ),
        "{full}"
    );
    space.must_create(pod_requesting("third", 100)).await;
    // What is no longer limited is no longer told.
    space.set_hard("q", json!({"requests.cpu": null})).await;
    assert_eq!(space.used("q").await, json!({"pods": "3"}));
    space.refused(pod("fourth")).await;
    let deleted = space.quotas().delete("q", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    for name in ["fourth", "fifth"] {
        space.must_create(pod(name)).await;
    }
}

/// Nobody reads here, and still the numbers arrive, in the end the last ones.
#[tokio::test]
async fn watchers_are_told_what_is_used() {
    let server = start();
    let space = Space::make(&server.client().await, "a").await;
    let made = space.make_quota("q", json!({"hard": {"pods": "5"}})).await;
    let version = made.resource_version().expect("a version");
    let quotas = space.quotas();
    let events = quotas.watch(&WatchParams::default(), &version).await;
    let events = events
        .expect("a watch")
        .filter_map(async |event| match event {
            Ok(WatchEvent::Modified(quota)) => Some(used(&quota)),
            Ok(WatchEvent::Bookmark(_)) => None,
            other => panic!("{other:?}"),
        });
    let mut told = pin!(events);
    let mut until_told = async |pods: &str| {
        loop {
            let used = told.next().await.expect("the watch ended");
            if used["pods"] == pods {
                return;
            }
        }
    };
    until_told("0").await;
    let rushed = rush(std::slice::from_ref(&space), crowd(0)).await;
    until_told("5").await;
    space.set_phase(&rushed.created[0], "Succeeded").await;
    until_told("4").await;
    space.delete(&rushed.created[1]).await;
    until_told("3").await;
    space.delete_all().await;
    until_told("0").await;
}

#[tokio::test]
async fn fifty_quotas_are_all_kept_and_all_hold() {
    const QUOTAS: usize = 50;
    let server = start();
    let space = Space::make(&server.client().await, "a").await;
    for place in 0..QUOTAS {
        let pods = (place + 5).to_string();
        space
            .make_quota(&format!("q-{place:02}"), json!({"hard": {"pods": pods}}))
            .await;
    }
    let rushed = rush(std::slice::from_ref(&space), crowd(0)).await;
    assert_eq!(rushed.created.len(), 5);
    for (_, message) in &rushed.refused {
        assert!(message.contains("exceeded quota: q-00, "), "{message}");
    }
    let list = async || {
        let list = space.quotas().list(&ListParams::default()).await;
        let quotas = list.expect("a list").items.into_iter();
        let told = quotas.map(|quota| (quota.name_any(), used(&quota)));
        told.collect::<BTreeMap<String, Value>>()
    };
    let told = list().await;
    assert_eq!(told.len(), QUOTAS);
    assert!(
        told.values().all(|used| *used == json!({"pods": "5"})),
        "{told:?}"
    );
    // Without the narrowest, the next one is what is full.
    let deleted = space
        .quotas()
        .delete("q-00", &DeleteParams::default())
        .await;
    deleted.expect("a deletion");
    let rushed = rush(std::slice::from_ref(&space), crowd(1)).await;
    assert_eq!(rushed.created.len(), 1);
    for (_, message) in &rushed.refused {
        assert!(message.contains("exceeded quota: q-01, "), "{message}");
    }
    let told = list().await;
    assert!(
        told.values().all(|used| *used == json!({"pods": "6"})),
        "{told:?}"
    );
}

/// A list of all namespaces is not brought up to date first, but what is used is stored before long.
#[tokio::test]
async fn lists_of_all_namespaces_catch_up() {
    let server = start();
    let client = server.client().await;
    for namespace in ["a", "b", "c"] {
        let space = Space::make(&client, namespace).await;
        space.make_quota("q", json!({"hard": {"pods": "5"}})).await;
        space.must_create(pod("one")).await;
    }
    let all: kube::Api<ResourceQuota> = kube::Api::all(client);
    crate::waiting::until("what is used", async || {
        let list = all.list(&ListParams::default()).await.expect("a list");
        let used: Vec<Value> = list.items.iter().map(used).collect();
        (used == vec![json!({"pods": "1"}); 3]).then_some(())
    })
    .await;
}

/// What one server has answered is what the next one says is used, though nobody has told it yet.
#[tokio::test]
async fn every_server_says_what_is_used_by_then() {
    let trio = Trio::start().await;
    let spaces = trio.make_spaces("a").await;
    let made = spaces[0].make_quota("q", json!({"hard": {"pods": "100"}}));
    made.await;
    let of = |turn: usize| &spaces[turn % spaces.len()];
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

/// Wherever a quota is made, changed or deleted, all servers go by it from then on.
#[tokio::test]
async fn every_server_goes_by_the_quotas_of_then() {
    let trio = Trio::start().await;
    let spaces = trio.make_spaces("a").await;
    let of = |turn: usize| &spaces[turn % spaces.len()];
    for turn in 0..10 {
        let made = of(turn).make_quota("q", json!({"hard": {"pods": "1"}}));
        made.await;
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

/// A namespace ends on one server and begins again on the next.
#[tokio::test]
async fn a_namespace_that_is_made_again_elsewhere_begins_at_zero() {
    let trio = Trio::start().await;
    for round in 0..3 {
        let at = |turn: usize| Space::of(&trio.clients[(round + turn) % 3], "a");
        Space::make(&trio.clients[round % 3], "a").await;
        at(1).make_quota("q", json!({"hard": {"pods": "2"}})).await;
        assert_eq!(at(2).used("q").await, json!({"pods": "0"}));
        let spaces = [at(0), at(1), at(2)];
        assert_eq!(rush(&spaces, crowd(round)).await.created.len(), 2);
        at(2).delete_namespace().await;
    }
}
