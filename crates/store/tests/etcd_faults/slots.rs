//! Outcome slots: deleted by others, in doubt, abandoned.

use std::time::Duration;

use etcd_client::{Client, DeleteOptions, GetOptions};
use rhumb_store::etcd::{EtcdOptions, EtcdStore};
use rhumb_store::{Error, ExpectedRevision, Revision, Store, Transaction};

use crate::cut::ProxiedStoreFixture;
use crate::{connect, eventually, get, put};
use rhumb_etcd_harness::EtcdServer;

const SLOTS: &str = "/rhumb/outcomes/";

async fn client(server: &EtcdServer) -> Client {
    Client::connect([server.endpoint()], None).await.unwrap()
}

async fn slots(client: &mut Client) -> Vec<String> {
    let all = GetOptions::new().with_prefix().with_keys_only();
    let found = client.get(SLOTS, Some(all)).await.unwrap();
    let key = |kv: &etcd_client::KeyValue| kv.key_str().unwrap().to_owned();
    found.kvs().iter().map(key).collect()
}

async fn remove_slots(client: &mut Client) {
    let all = DeleteOptions::new().with_prefix();
    client.delete(SLOTS, Some(all)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_slot_is_created_again() {
    let fixture = ProxiedStoreFixture::new().await;
    remove_slots(&mut client(&fixture.server).await).await;
    let revision = fixture.store.commit(put("/a", "1")).await.unwrap();
    assert_eq!(
        get(&fixture.direct_store, "/a").await.unwrap().modified,
        revision
    );
}

/// Without the slot the outcome cannot be determined, so neither success nor failure may be reported.
async fn lose_answer_and_slot(fixture: ProxiedStoreFixture) {
    fixture.proxy.hold_response_to("/lost");
    let commit = fixture.commit(Transaction::new().put("/lost", "1", ExpectedRevision::Absent));
    eventually("the transaction is applied", async || {
        get(&fixture.direct_store, "/lost").await.is_some()
    })
    .await;
    remove_slots(&mut client(&fixture.server).await).await;
    fixture.proxy.cut().await;
    let result = commit.await.unwrap();
    assert!(
        matches!(result, Err(Error::OutcomeUnknown { .. })),
        "{result:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_used_slot_leaves_the_outcome_unknown() {
    lose_answer_and_slot(ProxiedStoreFixture::new().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_new_slot_leaves_the_outcome_unknown() {
    lose_answer_and_slot(ProxiedStoreFixture::without_slots().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_is_resolved_with_a_new_slot() {
    let fixture = ProxiedStoreFixture::without_slots().await;
    fixture.proxy.hold_response_to("/first");
    let commit = fixture.commit(Transaction::new().put("/first", "1", ExpectedRevision::Absent));
    eventually("the transaction is applied", async || {
        get(&fixture.direct_store, "/first").await.is_some()
    })
    .await;
    fixture.proxy.cut().await;
    let revision = commit.await.unwrap().unwrap();
    assert_eq!(
        get(&fixture.direct_store, "/first").await.unwrap().modified,
        revision
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_with_unknown_creation_is_not_used() {
    let fixture = ProxiedStoreFixture::without_slots().await;
    fixture.proxy.hold_response_to(SLOTS);
    let commit = fixture.commit(put("/a", "1"));
    let mut client = client(&fixture.server).await;
    eventually("the slot is created", async || {
        slots(&mut client).await.len() == 1
    })
    .await;
    let doubtful = slots(&mut client).await;
    fixture.proxy.cut().await;
    let revision = commit.await.unwrap().unwrap();
    let used = client
        .get(SLOTS, Some(GetOptions::new().with_prefix()))
        .await;
    for slot in used.unwrap().kvs() {
        let is_used = Revision::new(slot.mod_revision().try_into().unwrap()) == revision;
        assert_eq!(is_used, slot.key_str().unwrap() != doubtful[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_the_store_removes_its_slots() {
    let fixture = ProxiedStoreFixture::new().await;
    let mut client = client(&fixture.server).await;
    assert_eq!(slots(&mut client).await.len(), 1);
    fixture.store.close().await;
    assert!(slots(&mut client).await.is_empty());
    let refused = fixture.store.commit(put("/a", "1")).await;
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
}

/// Regardless of their value and of the clock of the machine that wrote them.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_slots_are_removed_without_affecting_others() {
    let server = EtcdServer::start().await;
    let mut client = client(&server).await;
    let dead = format!("{SLOTS}dead/0");
    client
        .put(dead.as_str(), "99999999999-7", None)
        .await
        .unwrap();
    let options = EtcdOptions {
        abandoned_after: Duration::from_millis(200),
        ..EtcdOptions::new([server.endpoint()])
    };
    let _tidying = EtcdStore::connect(options).await.unwrap();
    let store = connect(&server.endpoint()).await;
    eventually("the abandoned slot is removed", async || {
        store.commit(put("/a", "1")).await.unwrap();
        !slots(&mut client).await.contains(&dead)
    })
    .await;
    eventually("the idle slot is removed as well", async || {
        slots(&mut client).await.is_empty()
    })
    .await;
    store.commit(put("/a", "2")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_are_not_accessible_through_the_store() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let key = format!("{SLOTS}mine");
    for refused in [
        store.commit(put(&key, "1")).await.map(drop),
        store
            .commit(Transaction::new().delete(key.as_str(), ExpectedRevision::Any))
            .await
            .map(drop),
        store
            .commit(Transaction::new().check(key.as_str(), ExpectedRevision::Absent))
            .await
            .map(drop),
        store.get(&key).await.map(drop),
    ] {
        assert!(
            matches!(refused, Err(Error::InvalidKey { .. })),
            "{refused:?}"
        );
    }
}
