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

/// What did not happen takes no room, and what happened does, whether or not somebody waited for it.
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

/// Another server takes the turn right before three of four commits.
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

/// A server that hears of changes a little later than others is not shut out by one that writes all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slow_server_gets_in_beside_a_busy_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn Store> = Arc::new(Server::store(directory.path()).await);
    let late = |millis| Others::late(store.clone(), Duration::from_millis(millis));
    let busy = Server::on(late(0), Setup::default()).await;
    let slow = Server::on(late(40), Setup::default()).await;
    put_quota(&busy, "q", json!({"hard": {"pods": "1000000"}})).await;
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let busy = busy.clone();
            tokio::spawn(async move {
                for count in 0.. {
                    let name = format!("w{writer}-{count}");
                    let (code, answer) = create_pod(&busy, &name, json!({})).await;
                    assert_eq!(code, 201, "{answer}");
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut took = Vec::new();
    for place in 0..3 {
        let began = std::time::Instant::now();
        let (code, answer) = create_pod(&slow, &format!("slow-{place}"), json!({})).await;
        took.push((code, began.elapsed(), answer["message"].clone()));
    }
    writers.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(
        took.iter()
            .all(|(code, took, _)| *code == 201 && *took < Duration::from_secs(2)),
        "{took:?}"
    );
}

/// Room of requests that were given up, and of which nothing came, is there for others soon.
#[tokio::test]
async fn room_of_requests_that_were_given_up_can_be_had() {
    let (server, _directory) = server().await;
    put_quota(&server, "q", json!({"hard": {"pods": "20"}})).await;
    for place in 0..200_u64 {
        let name = format!("given-up-{place}");
        let creation = create_pod(&server, &name, json!({}));
        let _ = tokio::time::timeout(Duration::from_micros(place * 8), creation).await;
    }
    let (_, pods) = server.get(&format!("{CORE}/pods")).await;
    let there = pods["items"].as_array().map_or(0, Vec::len);
    for place in there..20 {
        let began = std::time::Instant::now();
        let (code, answer) = create_pod(&server, &format!("more-{place}"), json!({})).await;
        let took = began.elapsed();
        assert_eq!(
            code, 201,
            "{place} after {took:?}, {there} at first: {answer}"
        );
    }
}

/// The next creation would begin another, which knows nothing of what is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_till_that_holds_something_is_not_forgotten() {
    let directory = tempfile::tempdir().expect("a directory");
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let store = Others::new(Server::store(directory.path()).await, move |transaction| {
        let mut operations = transaction.operations().iter();
        if operations.any(|operation| operation.key().ends_with("/pods/default/first")) {
            let _ = tell.send(());
            std::thread::sleep(Duration::from_millis(500));
        }
        None
    });
    let server = Server::on(store, Setup::default()).await;
    put_quota(&server, "q", json!({"hard": {"pods": "1"}})).await;
    // So that it is this server's turn.
    assert_eq!(create_pod(&server, "before", json!({})).await.0, 201);
    delete_pod(&server, "before").await;
    let first = {
        let server = server.clone();
        tokio::spawn(async move { create_pod(&server, "first", json!({})).await.0 })
    };
    told.recv().await;
    let till = server.api.tills.of("default").expect("a till");
    let ledger = till.open(&server.api).await.expect("a ledger");
    assert!(!server.api.tills.forget("default", &ledger));
    drop(ledger);
    let second = create_pod(&server, "second", json!({})).await.0;
    let mut codes = [first.await.expect("no panic"), second];
    codes.sort_unstable();
    assert_eq!(codes, [201, 403]);
}

/// An update whose turn others take again and again is told to come back, not that the object was modified.
#[tokio::test]
async fn an_update_is_never_told_of_a_conflict_that_is_not_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Others::new(Server::store(directory.path()).await, |transaction| {
        let is_update = transaction.operations().iter().any(|operation| {
            operation.key().contains("/services/")
                && operation.key().ends_with("/default/s")
                && matches!(
                    operation,
                    rhumb_store::Operation::Put {
                        expect: Expect::At(_),
                        ..
                    }
                )
        });
        is_update.then(|| {
            let key = "/registry/rhumb-quota-turns/default";
            Transaction::new().put(key, "another server", Expect::Any)
        })
    });
    let server = Server::on(store, Setup::default()).await;
    put_quota(&server, "q", json!({"hard": {"services.nodeports": "5"}})).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"type": "ClusterIP", "ports": [{"port": 1}]},
    });
    let (code, answer) = server.create(&format!("{CORE}/services"), service).await;
    assert_eq!(code, 201, "{answer}");
    let more = json!({"spec": {"type": "NodePort"}});
    let path = format!("{CORE}/services/s");
    let (code, answer) = server.ask(http::Method::PATCH, &path, more).await;
    assert_ne!(code, 409, "{answer}");
}

/// An update that happened, though its client had gone by then, is not counted twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_update_that_was_given_up_counts_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn Store> = Arc::new(Server::store(directory.path()).await);
    let late = Others::late(store, Duration::from_millis(100));
    let server = Server::on(late, Setup::default()).await;
    put_quota(&server, "q", json!({"hard": {"services.nodeports": "2"}})).await;
    let service = |name: &str, kind: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": kind, "ports": [{"port": 1}]},
        })
    };
    let path = format!("{CORE}/services");
    let (code, answer) = server.create(&path, service("s", "ClusterIP")).await;
    assert_eq!(code, 201, "{answer}");
    // So that it is this server's turn, and nothing has to be waited for but the cache.
    let (code, answer) = server.create(&path, service("t", "NodePort")).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(server.delete(&format!("{path}/t")).await.0, 200);
    let update = {
        let (server, one) = (server.clone(), format!("{path}/s"));
        let more = json!({"spec": {"type": "NodePort"}});
        tokio::spawn(async move { server.ask(http::Method::PATCH, &one, more).await })
    };
    let services = server.api.registry.find("", "services").expect("services");
    let prefix = &services.storage.as_ref().expect("stored").prefix;
    let key = rhumb_meta::ObjectKey::new(Some("default"), "s").expect("a key");
    let is_written = async || {
        let entry = server.api.store.get(&prefix.object(&key)).await;
        let entry = entry.expect("readable").expect("a service");
        entry.value.windows(8).any(|part| part == b"NodePort")
    };
    while !is_written().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    update.abort();
    assert!(
        update.await.is_err(),
        "it was answered before it was given up"
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(used(&server, "q").await, json!({"services.nodeports": "1"}));
    let (code, answer) = server.create(&path, service("u", "NodePort")).await;
    assert_eq!(code, 201, "{answer}");
}

/// The same with more room than one turn can give out: nobody is told to come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_that_share_a_store_share_much_room() {
    let directory = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn Store> = Arc::new(Server::store(directory.path()).await);
    let late = |millis| Others::late(store.clone(), Duration::from_millis(millis));
    let servers = [
        Server::on(late(0), Setup::default()).await,
        Server::on(late(10), Setup::default()).await,
        Server::on(late(30), Setup::default()).await,
    ];
    put_quota(&servers[0], "q", json!({"hard": {"pods": "300"}})).await;
    let all: Vec<&Server> = servers.iter().collect();
    assert_eq!(rush(&all, 0, 600).await, 300);
}
