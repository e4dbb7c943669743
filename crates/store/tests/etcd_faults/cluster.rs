//! Three members, of which one fails in its own way.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::Client;
use rhumb_store::etcd::{Etcd, Options};
use rhumb_store::{Expect, Revision, Store, Transaction};

use crate::crash::Load;
use crate::etcd_server::EtcdServer;
use crate::{connect, eventually, get, put, text_of};

/// One attempt at a server that does not answer, finding out what became of it, and another attempt; with
/// room for a busy machine.
const SLOWEST: Duration = Duration::from_secs(8);

async fn connect_all(members: &[EtcdServer]) -> Etcd {
    let endpoints = members.iter().map(EtcdServer::endpoint);
    Etcd::connect(Options::new(endpoints)).await.unwrap()
}

async fn is_leader(member: &EtcdServer) -> bool {
    let mut client = Client::connect([member.endpoint()], None).await.unwrap();
    let status = client.status().await.unwrap();
    status.leader() == status.header().unwrap().member_id()
}

/// The leader comes first.
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
async fn a_frozen_follower_and_then_a_killed_leader_stop_nobody() {
    let mut members = start_cluster().await;
    let load = Load::start(Arc::new(connect_all(&members).await)).await;
    load.gets_on().await;
    members[1].freeze();
    load.gets_on().await;
    // After the first calls nobody waits for the one that is frozen, but for those who try it out.
    load.gets_on().await;
    load.gets_on().await;
    members[1].thaw();
    let slowest = load.slowest();
    assert!(slowest < SLOWEST, "{slowest:?}");
    members[0].kill();
    load.gets_on().await;
    load.gets_on().await;
    let slowest = load.slowest();
    assert!(slowest < SLOWEST, "{slowest:?}");
    members[0].restart().await;
    load.gets_on().await;
    load.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_through_one_member_is_seen_through_all_at_once() {
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
            let check = Transaction::new().check("/a", Expect::At(written));
            assert!(store.commit(check).await.unwrap() >= written);
            assert_eq!(get(store, "/a").await.unwrap().value, value.as_str());
        });
        for reader in readers {
            reader.await;
        }
    }
}

/// Each kind of read on its own right after the write, so that none is helped by the one before.
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
                let check = Transaction::new().check("/a", Expect::At(written));
                assert!(follower.commit(check).await.unwrap() >= written);
            }
        }
    }
}

/// Of what may be anything nothing need be read, so it is read only for this.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_of_nothing_sees_the_last_write_on_a_member_that_is_behind() {
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
        let check = Transaction::new().check("/a", Expect::Any);
        let seen = follower.commit(check).await.unwrap();
        assert!(seen >= written, "{seen} < {written}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_a_leader_says_so_rather_than_nothing() {
    let mut members = start_cluster().await;
    let store = connect(&members[2].endpoint()).await;
    members[0].kill();
    members[1].kill();
    eventually("the lack of a leader is told", async || {
        text_of(store.get("/a").await).contains("no leader")
    })
    .await;
}
