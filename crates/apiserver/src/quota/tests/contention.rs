//! Many who want the same room at once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rhumb_store::{Error, Expect, Store, Transaction};
use serde_json::json;

use super::{CORE, create_pod, delete_pod, pod, put_quota, server, used};
use crate::testing::{Others, Server, Setup};

/// Everybody creates a pod of their own; how many got one. Nobody is told anything but that, or that the quota is full.
async fn rush(servers: &[&Server], round: usize, count: usize) -> usize {
    let creations = (0..count).map(|place| {
        let server = servers[place % servers.len()].clone();
        tokio::spawn(
            async move { create_pod(&server, &format!("r{round}-{place}"), json!({})).await },
        )
    });
    let mut created = 0;
    for answer in join_all(creations).await {
        let (code, answer) = answer.expect("no panic");
        match code {
            201 => created += 1,
            403 => {
                let message = answer["message"].as_str().unwrap_or_default();
                assert!(
                    message.contains("exceeded quota: q, requested: pods=1"),
                    "{message}"
                );
            }
            _ => panic!("{code}: {answer}"),
        }
    }
    created
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_hundred_at_once_five_get_in() {
    let (server, _directory) = server().await;
    put_quota(&server, "q", json!({"hard": {"pods": "5"}})).await;
    for round in 0..5 {
        assert_eq!(rush(&[&server], round, 100).await, 5);
        assert_eq!(used(&server, "q").await, json!({"pods": "5"}));
        server
            .ask(
                http::Method::DELETE,
                &format!("{CORE}/pods"),
                json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}),
            )
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_that_share_a_store_share_the_room() {
    let directory = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn Store> = Arc::new(Server::store(directory.path()).await);
    let late = |millis| Others::late(store.clone(), Duration::from_millis(millis));
    let servers = [
        Server::on(late(0), Setup::default()).await,
        Server::on(late(5), Setup::default()).await,
        Server::on(late(40), Setup::default()).await,
    ];
    put_quota(&servers[0], "q", json!({"hard": {"pods": "5"}})).await;
    let all: Vec<&Server> = servers.iter().collect();
    for (round, server) in servers.iter().enumerate() {
        assert_eq!(rush(&all, round, 60).await, 5);
        let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        let (code, answer) = server
            .ask(http::Method::DELETE, &format!("{CORE}/pods"), now)
            .await;
        assert_eq!(code, 200, "{answer}");
    }
}

/// A quota that was made elsewhere a moment ago holds here, though nobody has told this server yet.
#[tokio::test]
async fn a_quota_holds_on_a_server_that_has_not_heard_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn Store> = Arc::new(Server::store(directory.path()).await);
    let quick = Server::on(
        Others::late(store.clone(), Duration::ZERO),
        Setup::default(),
    )
    .await;
    let slow = Others::late(store.clone(), Duration::from_millis(300));
    let slow = Server::on(slow, Setup::default()).await;
    put_quota(&quick, "q", json!({"hard": {"pods": "0"}})).await;
    let (code, answer) = create_pod(&slow, "p", json!({})).await;
    assert_eq!(code, 403, "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_creation_that_fails_gives_its_room_back() {
    let (server, _directory) = server().await;
    put_quota(&server, "q", json!({"hard": {"pods": "2"}})).await;
    // All but one of these fail, since the name is taken by then; none of them may cost room.
    let same = (0..50).map(|_| {
        let server = server.clone();
        tokio::spawn(async move { create_pod(&server, "same", json!({})).await.0 })
    });
    let codes: Vec<u16> = join_all(same)
        .await
        .into_iter()
        .map(|code| code.expect("no panic"))
        .collect();
    assert_eq!(
        codes.iter().filter(|&&code| code == 201).count(),
        1,
        "{codes:?}"
    );
    assert!(
        codes.iter().all(|code| [201, 409].contains(code)),
        "{codes:?}"
    );
    assert_eq!(create_pod(&server, "other", json!({})).await.0, 201);
    delete_pod(&server, "same").await;
    assert_eq!(create_pod(&server, "again", json!({})).await.0, 201);
    assert_eq!(create_pod(&server, "full", json!({})).await.0, 403);
}

/// A store that fails for a while: what did not happen takes no room, and what may have happened does.
#[tokio::test]
async fn requests_that_are_given_up_neither_leak_nor_overdraw() {
    let (server, _directory) = server().await;
    put_quota(&server, "q", json!({"hard": {"pods": "3"}})).await;
    for place in 0..40_u64 {
        let name = format!("given-up-{place}");
        let creation = create_pod(&server, &name, json!({}));
        let _ = tokio::time::timeout(Duration::from_micros(place * 40), creation).await;
    }
    let (_, pods) = server.get(&format!("{CORE}/pods")).await;
    let there = pods["items"].as_array().map_or(0, Vec::len);
    assert!(there <= 3, "{there} pods");
    assert_eq!(used(&server, "q").await, json!({"pods": there.to_string()}));
}

/// The object of somebody who knows nothing of turns, planted right before the commit.
#[tokio::test]
async fn a_conflict_is_never_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let touched = std::sync::atomic::AtomicUsize::new(0);
    let store = Others::new(Server::store(directory.path()).await, move |transaction| {
        let is_pod = transaction
            .operations()
            .iter()
            .any(|operation| operation.key().contains("/pods/default/"));
        let count = touched.fetch_add(usize::from(is_pod), std::sync::atomic::Ordering::Relaxed);
        (is_pod && count % 4 != 3).then(|| {
            let key = "/registry/rhumb-quota-turns/default";
            Transaction::new().put(key, "another server", Expect::Any)
        })
    });
    let server = Server::on(store, Setup::default()).await;
    put_quota(&server, "q", json!({"hard": {"pods": "2"}})).await;
    let path = format!("{CORE}/pods");
    let codes: Vec<u16> = [
        server.create(&path, pod("a", json!({}))).await.0,
        server.create(&path, pod("b", json!({}))).await.0,
        server.create(&path, pod("c", json!({}))).await.0,
    ]
    .to_vec();
    assert_eq!(codes, [201, 201, 403]);
}

#[test]
fn what_is_known_not_to_have_happened() {
    assert!(!Error::Closed.changed_nothing());
    let full = Error::StorageFull {
        reason: String::new(),
    };
    assert!(full.changed_nothing());
}
