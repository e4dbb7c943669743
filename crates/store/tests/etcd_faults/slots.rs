//! The keys by which transactions are recognised: lost, removed, left behind.

use std::time::Duration;

use etcd_client::{Client, DeleteOptions, GetOptions};
use rhumb_store::etcd::{Etcd, Options};
use rhumb_store::{Error, Expect, Revision, Store, Transaction};

use crate::cut::Scene;
use crate::etcd_server::EtcdServer;
use crate::{connect, eventually, get, put};

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
async fn a_slot_removed_by_somebody_is_made_again() {
    let scene = Scene::new().await;
    remove_slots(&mut client(&scene.server).await).await;
    let revision = scene.store.commit(put("/a", "1")).await.unwrap();
    assert_eq!(get(&scene.witness, "/a").await.unwrap().modified, revision);
}

/// Nothing is left to tell that it happened, and that it did not must not be said.
async fn lose_answer_and_slot(scene: Scene) {
    scene.proxy.hold_response_to("/lost");
    let commit = scene.commit(Transaction::new().put("/lost", "1", Expect::Absent));
    eventually("the transaction is applied", async || {
        get(&scene.witness, "/lost").await.is_some()
    })
    .await;
    remove_slots(&mut client(&scene.server).await).await;
    scene.proxy.cut().await;
    let result = commit.await.unwrap();
    assert!(
        matches!(result, Err(Error::OutcomeUnknown { .. })),
        "{result:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_slot_that_is_gone_leaves_the_outcome_unknown() {
    lose_answer_and_slot(Scene::new().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_slot_that_is_gone_leaves_the_outcome_unknown() {
    lose_answer_and_slot(Scene::without_slots().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_lost_on_a_fresh_slot_is_found_out() {
    let scene = Scene::without_slots().await;
    scene.proxy.hold_response_to("/first");
    let commit = scene.commit(Transaction::new().put("/first", "1", Expect::Absent));
    eventually("the transaction is applied", async || {
        get(&scene.witness, "/first").await.is_some()
    })
    .await;
    scene.proxy.cut().await;
    let revision = commit.await.unwrap().unwrap();
    assert_eq!(
        get(&scene.witness, "/first").await.unwrap().modified,
        revision
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_whose_making_is_in_doubt_is_not_used() {
    let scene = Scene::without_slots().await;
    scene.proxy.hold_response_to(SLOTS);
    let commit = scene.commit(put("/a", "1"));
    let mut client = client(&scene.server).await;
    eventually("the slot is made", async || {
        slots(&mut client).await.len() == 1
    })
    .await;
    let doubtful = slots(&mut client).await;
    scene.proxy.cut().await;
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
async fn slots_go_with_their_store() {
    let scene = Scene::new().await;
    let mut client = client(&scene.server).await;
    assert_eq!(slots(&mut client).await.len(), 1);
    scene.store.close().await;
    assert!(slots(&mut client).await.is_empty());
    let refused = scene.store.commit(put("/a", "1")).await;
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
}

/// Whatever they hold, and whatever time it is on the machine that wrote them.
#[tokio::test(flavor = "multi_thread")]
async fn slots_that_do_not_change_are_removed_and_nobody_is_harmed() {
    let server = EtcdServer::start().await;
    let mut client = client(&server).await;
    let dead = format!("{SLOTS}dead/0");
    client
        .put(dead.as_str(), "99999999999-7", None)
        .await
        .unwrap();
    let options = Options {
        abandoned_after: Duration::from_millis(200),
        ..Options::new([server.endpoint()])
    };
    let _tidying = Etcd::connect(options).await.unwrap();
    let store = connect(&server.endpoint()).await;
    eventually("the dead slot is gone", async || {
        store.commit(put("/a", "1")).await.unwrap();
        !slots(&mut client).await.contains(&dead)
    })
    .await;
    eventually("the idle slot is gone as well", async || {
        slots(&mut client).await.is_empty()
    })
    .await;
    store.commit(put("/a", "2")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_writes_or_reads_slots() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let key = format!("{SLOTS}mine");
    for refused in [
        store.commit(put(&key, "1")).await.map(drop),
        store
            .commit(Transaction::new().delete(key.as_str(), Expect::Any))
            .await
            .map(drop),
        store
            .commit(Transaction::new().check(key.as_str(), Expect::Absent))
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
