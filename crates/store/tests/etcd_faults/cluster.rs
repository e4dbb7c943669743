//! A cluster of three members with a frozen, killed or lagging member.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::Client;
use rhumb_store::etcd::{EtcdOptions, EtcdStore};
use rhumb_store::{ExpectedRevision, Revision, Store, Transaction};

use crate::crash::IncrementLoad;
use crate::{connect, error_text, eventually, get, put};
use rhumb_etcd_harness::EtcdServer;

/// The time of one attempt on a member that does not respond, resolving its outcome, and a second attempt, with some
/// slack for a busy machine.
const SLOWEST_CALL_MAX: Duration = Duration::from_secs(8);

async fn connect_all(members: &[EtcdServer]) -> EtcdStore {
    let endpoints = members.iter().map(EtcdServer::endpoint);
    EtcdStore::connect(EtcdOptions::new(endpoints))
        .await
        .unwrap()
}

async fn is_leader(member: &EtcdServer) -> bool {
    let mut client = Client::connect([member.endpoint()], None).await.unwrap();
    let status = client.status().await.unwrap();
    status.leader() == status.header().unwrap().member_id()
}

/// Starts a cluster; the leader is the first member.
async fn start_cluster() -> Vec<EtcdServer> {
    let mut members = EtcdServer::start_cluster().await;
    for index in 0..members.len() {
        if is_leader(&members[index]).await {
            members.swap(0, index);
        }
    }
    members
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_continue_with_a_frozen_follower_and_after_a_killed_leader() {
    let mut members = start_cluster().await;
    let load = IncrementLoad::start(Arc::new(connect_all(&members).await)).await;
    load.wait_for_progress().await;
    members[1].freeze();
    load.wait_for_progress().await;
    // After the first calls only occasional probes wait for the frozen member.
    load.wait_for_progress().await;
    load.wait_for_progress().await;
    members[1].thaw();
    let slowest = load.take_slowest();
    assert!(slowest < SLOWEST_CALL_MAX, "{slowest:?}");
    members[0].kill();
    load.wait_for_progress().await;
    load.wait_for_progress().await;
    let slowest = load.take_slowest();
    assert!(slowest < SLOWEST_CALL_MAX, "{slowest:?}");
    members[0].restart().await;
    load.wait_for_progress().await;
    load.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_through_one_member_is_immediately_visible_through_all() {
    let members = start_cluster().await;
    let mut stores = Vec::new();
    for member in &members {
        stores.push(connect(&member.endpoint()).await);
    }
    for round in 0..100 {
        let value = round.to_string();
        let writer = &stores[round % stores.len()];
        let written = writer.commit(put("/a", &value)).await.unwrap();
        let readers = stores.iter().map(async |store| {
            assert!(store.revision().await.unwrap() >= written);
            let check = Transaction::new().check("/a", ExpectedRevision::At(written));
            assert!(store.commit(check).await.unwrap() >= written);
            assert_eq!(get(store, "/a").await.unwrap().value, value.as_str());
        });
        for reader in readers {
            reader.await;
        }
    }
}

/// Each kind of read directly after the write, so that no earlier read has synchronised the member.
#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_read_sees_the_last_write() {
    let members = start_cluster().await;
    let leader = connect(&members[0].endpoint()).await;
    let follower = connect(&members[1].endpoint()).await;
    for round in 0..300 {
        let written = leader.commit(put("/a", "1")).await.unwrap();
        match round % 3 {
            0 => assert!(follower.revision().await.unwrap() >= written),
            1 => assert_eq!(get(&follower, "/a").await.unwrap().modified, written),
            _ => {
                let check = Transaction::new().check("/a", ExpectedRevision::At(written));
                assert!(follower.commit(check).await.unwrap() >= written);
            }
        }
    }
}

/// A check with `Any` needs no read for its result; it must read anyway to be linearizable.
#[tokio::test(flavor = "multi_thread")]
async fn an_unconditional_check_is_linearizable_on_a_lagging_member() {
    let members = start_cluster().await;
    let leader = connect(&members[0].endpoint()).await;
    let follower = connect(&members[1].endpoint()).await;
    for _ in 0..20 {
        let mut written = Revision::ZERO;
        members[1].freeze();
        for _ in 0..10 {
            written = leader.commit(put("/a", "1")).await.unwrap();
        }
        members[1].thaw();
        let check = Transaction::new().check("/a", ExpectedRevision::Any);
        let seen = follower.commit(check).await.unwrap();
        assert!(seen >= written, "{seen} < {written}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_a_leader_reports_it() {
    let mut members = start_cluster().await;
    let store = connect(&members[2].endpoint()).await;
    members[0].kill();
    members[1].kill();
    eventually("the missing leader is reported", async || {
        error_text(store.get("/a").await).contains("no leader")
    })
    .await;
}
