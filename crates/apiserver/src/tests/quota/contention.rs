//! Concurrent writes that compete for the same quota, on one server and on several that share a store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rhumb_store::{Error, ExpectedRevision, Store, Transaction};
use serde_json::json;

use super::{CORE, create_pod, delete_pod, pod, put_quota, server, used};
use crate::testing::{InterferingStore, TestServer, TestServerOptions};

/// Creates `count` pods concurrently and returns how many were created. Every other response must be an exceeded quota.
async fn create_pods_concurrently(servers: &[&TestServer], round: usize, count: usize) -> usize {
    let creations = (0..count).map(|index| {
        let server = servers[index % servers.len()].clone();
        tokio::spawn(
            async move { create_pod(&server, &format!("r{round}-{index}"), json!({})).await },
        )
    });
    let mut created = 0;
    for response in join_all(creations).await {
        let (code, response) = response.expect("task must not panic");
        match code {
            201 => created += 1,
            403 => {
                let message = response["message"].as_str().unwrap_or_default();
                assert!(
                    message.contains("exceeded quota: q, requested: pods=1"),
                    "{message}"
                );
            }
            _ => panic!("{code}: {response}"),
        }
    }
    created
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_creates_stay_within_the_quota() {
    let (server, _directory) = server().await;
    put_quota(&server, "q", json!({"hard": {"pods": "5"}})).await;
    for round in 0..5 {
        assert_eq!(create_pods_concurrently(&[&server], round, 100).await, 5);
        assert_eq!(used(&server, "q").await, json!({"pods": "5"}));
        server
            .request(
                http::Method::DELETE,
                &format!("{CORE}/pods"),
                json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}),
            )
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_sharing_a_store_stay_within_the_quota() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let store: Arc<dyn Store> = Arc::new(TestServer::open_store(directory.path()).await);
    let delayed_store =
        |millis| InterferingStore::delayed(store.clone(), Duration::from_millis(millis));
    let servers = [
        TestServer::with_store(delayed_store(0), TestServerOptions::default()).await,
        TestServer::with_store(delayed_store(5), TestServerOptions::default()).await,
        TestServer::with_store(delayed_store(40), TestServerOptions::default()).await,
    ];
    put_quota(&servers[0], "q", json!({"hard": {"pods": "5"}})).await;
    let all: Vec<&TestServer> = servers.iter().collect();
    for (round, server) in servers.iter().enumerate() {
        assert_eq!(create_pods_concurrently(&all, round, 60).await, 5);
        let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        let (code, response) = server
            .request(http::Method::DELETE, &format!("{CORE}/pods"), now)
            .await;
        assert_eq!(code, 200, "{response}");
    }
}

/// A quota just created on another server is enforced here before this server's cache shows it.
#[tokio::test]
async fn a_quota_is_enforced_before_the_cache_contains_it() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let store: Arc<dyn Store> = Arc::new(TestServer::open_store(directory.path()).await);
    let fast_server = TestServer::with_store(
        InterferingStore::delayed(store.clone(), Duration::ZERO),
        TestServerOptions::default(),
    )
    .await;
    let slow_server = InterferingStore::delayed(store.clone(), Duration::from_millis(300));
    let slow_server = TestServer::with_store(slow_server, TestServerOptions::default()).await;
    put_quota(&fast_server, "q", json!({"hard": {"pods": "0"}})).await;
    let (code, response) = create_pod(&slow_server, "p", json!({})).await;
    assert_eq!(code, 403, "{response}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failed_create_releases_its_reservation() {
    let (server, _directory) = server().await;
    put_quota(&server, "q", json!({"hard": {"pods": "2"}})).await;
    // All but one of these fail with AlreadyExists; none of them may keep a reservation.
    let duplicates = (0..50).map(|_| {
        let server = server.clone();
        tokio::spawn(async move { create_pod(&server, "same", json!({})).await.0 })
    });
    let codes: Vec<u16> = join_all(duplicates)
        .await
        .into_iter()
        .map(|code| code.expect("task must not panic"))
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

/// Cancelled requests count if and only if their write was committed.
#[tokio::test]
async fn cancelled_requests_neither_leak_nor_exceed_quota() {
    let (server, _directory) = server().await;
    put_quota(&server, "q", json!({"hard": {"pods": "3"}})).await;
    for index in 0..40_u64 {
        let name = format!("given-up-{index}");
        let creation = create_pod(&server, &name, json!({}));
        let _ = tokio::time::timeout(Duration::from_micros(index * 40), creation).await;
    }
    let (_, pods) = server.get(&format!("{CORE}/pods")).await;
    let pod_count = pods["items"].as_array().map_or(0, Vec::len);
    assert!(pod_count <= 3, "{pod_count} pods");
    assert_eq!(
        used(&server, "q").await,
        json!({"pods": pod_count.to_string()})
    );
}

/// Another server takes the epoch over right before three of four commits.
#[tokio::test]
async fn epoch_conflicts_are_retried_internally() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let conflicts = std::sync::atomic::AtomicUsize::new(0);
    let store = InterferingStore::new(
        TestServer::open_store(directory.path()).await,
        move |transaction| {
            let is_pod = transaction
                .operations()
                .iter()
                .any(|operation| operation.key().contains("/pods/default/"));
            let count =
                conflicts.fetch_add(usize::from(is_pod), std::sync::atomic::Ordering::Relaxed);
            (is_pod && count % 4 != 3).then(|| {
                let key = "/registry/rhumb-quota-turns/default";
                Transaction::new().put(key, "another server", ExpectedRevision::Any)
            })
        },
    );
    let server = TestServer::with_store(store, TestServerOptions::default()).await;
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
fn storage_full_is_known_to_have_changed_nothing() {
    assert!(!Error::Closed.changed_nothing());
    let full = Error::StorageFull {
        reason: String::new(),
    };
    assert!(full.changed_nothing());
}

/// A server whose watch lags is not starved by one that writes all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lagging_server_is_not_starved_by_a_busy_one() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let store: Arc<dyn Store> = Arc::new(TestServer::open_store(directory.path()).await);
    let delayed_store =
        |millis| InterferingStore::delayed(store.clone(), Duration::from_millis(millis));
    let fast_server = TestServer::with_store(delayed_store(0), TestServerOptions::default()).await;
    let slow_server = TestServer::with_store(delayed_store(40), TestServerOptions::default()).await;
    put_quota(&fast_server, "q", json!({"hard": {"pods": "1000000"}})).await;
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let fast_server = fast_server.clone();
            tokio::spawn(async move {
                for count in 0.. {
                    let name = format!("w{writer}-{count}");
                    let (code, response) = create_pod(&fast_server, &name, json!({})).await;
                    assert_eq!(code, 201, "{response}");
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut durations = Vec::new();
    for index in 0..3 {
        let started = std::time::Instant::now();
        let (code, response) = create_pod(&slow_server, &format!("slow-{index}"), json!({})).await;
        durations.push((code, started.elapsed(), response["message"].clone()));
    }
    writers.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(
        durations
            .iter()
            .all(|(code, durations, _)| *code == 201 && *durations < Duration::from_secs(2)),
        "{durations:?}"
    );
}

/// Quota reserved by cancelled requests that did not commit is available again soon.
#[tokio::test]
async fn quota_of_cancelled_requests_becomes_available_again() {
    let (server, _directory) = server().await;
    put_quota(&server, "q", json!({"hard": {"pods": "20"}})).await;
    for index in 0..200_u64 {
        let name = format!("given-up-{index}");
        let creation = create_pod(&server, &name, json!({}));
        let _ = tokio::time::timeout(Duration::from_micros(index * 8), creation).await;
    }
    let (_, pods) = server.get(&format!("{CORE}/pods")).await;
    let pod_count = pods["items"].as_array().map_or(0, Vec::len);
    for index in pod_count..20 {
        let started = std::time::Instant::now();
        let (code, response) = create_pod(&server, &format!("more-{index}"), json!({})).await;
        let elapsed = started.elapsed();
        assert_eq!(
            code, 201,
            "{index} after {elapsed:?}, {pod_count} at first: {response}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reservation_in_progress_counts_against_the_quota() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let store = InterferingStore::new(
        TestServer::open_store(directory.path()).await,
        move |transaction| {
            let mut operations = transaction.operations().iter();
            if operations.any(|operation| operation.key().ends_with("/pods/default/first")) {
                let _ = sender.send(());
                std::thread::sleep(Duration::from_millis(500));
            }
            None
        },
    );
    let server = TestServer::with_store(store, TestServerOptions::default()).await;
    put_quota(&server, "q", json!({"hard": {"pods": "1"}})).await;
    // Makes this server the holder of the epoch.
    assert_eq!(create_pod(&server, "before", json!({})).await.0, 201);
    delete_pod(&server, "before").await;
    let first = {
        let server = server.clone();
        tokio::spawn(async move { create_pod(&server, "first", json!({})).await.0 })
    };
    receiver.recv().await;
    let second_code = create_pod(&server, "second", json!({})).await.0;
    let mut codes = [first.await.expect("task must not panic"), second_code];
    codes.sort_unstable();
    assert_eq!(codes, [201, 403]);
}

/// An update whose epoch is taken over again and again gets a retryable error, not a conflict on the object.
#[tokio::test]
async fn epoch_conflicts_are_not_reported_as_object_conflicts() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let store = InterferingStore::new(
        TestServer::open_store(directory.path()).await,
        |transaction| {
            let is_update = transaction.operations().iter().any(|operation| {
                operation.key().contains("/services/")
                    && operation.key().ends_with("/default/s")
                    && matches!(
                        operation,
                        rhumb_store::TransactionOp::Put {
                            expect: ExpectedRevision::At(_),
                            ..
                        }
                    )
            });
            is_update.then(|| {
                let key = "/registry/rhumb-quota-turns/default";
                Transaction::new().put(key, "another server", ExpectedRevision::Any)
            })
        },
    );
    let server = TestServer::with_store(store, TestServerOptions::default()).await;
    put_quota(&server, "q", json!({"hard": {"services.nodeports": "5"}})).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"type": "ClusterIP", "ports": [{"port": 1}]},
    });
    let (code, response) = server.create(&format!("{CORE}/services"), service).await;
    assert_eq!(code, 201, "{response}");
    let patch = json!({"spec": {"type": "NodePort"}});
    let path = format!("{CORE}/services/s");
    let (code, response) = server.request(http::Method::PATCH, &path, patch).await;
    assert_ne!(code, 409, "{response}");
}

/// An update that was committed after its client disconnected is not counted twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancelled_update_is_counted_once() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let store: Arc<dyn Store> = Arc::new(TestServer::open_store(directory.path()).await);
    let delayed_store = InterferingStore::delayed(store, Duration::from_millis(100));
    let server = TestServer::with_store(delayed_store, TestServerOptions::default()).await;
    put_quota(&server, "q", json!({"hard": {"services.nodeports": "2"}})).await;
    let service = |name: &str, kind: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": kind, "ports": [{"port": 1}]},
        })
    };
    let path = format!("{CORE}/services");
    let (code, response) = server.create(&path, service("s", "ClusterIP")).await;
    assert_eq!(code, 201, "{response}");
    // Makes this server the holder of the epoch, so that only the cache has to be waited for.
    let (code, response) = server.create(&path, service("t", "NodePort")).await;
    assert_eq!(code, 201, "{response}");
    assert_eq!(server.delete(&format!("{path}/t")).await.0, 200);
    let update = {
        let (server, service_path) = (server.clone(), format!("{path}/s"));
        let patch = json!({"spec": {"type": "NodePort"}});
        tokio::spawn(async move {
            server
                .request(http::Method::PATCH, &service_path, patch)
                .await
        })
    };
    let services = server
        .state
        .registry
        .find("", "services")
        .expect("services are registered");
    let prefix = &services
        .storage
        .as_ref()
        .expect("resource is stored")
        .prefix;
    let key = rhumb_meta::ObjectKey::new(Some("default"), "s").expect("valid key");
    let is_written = async || {
        let entry = server.state.registry.store.get(&prefix.object(&key)).await;
        let entry = entry.expect("read succeeds").expect("service exists");
        entry.value.windows(8).any(|part| part == b"NodePort")
    };
    while !is_written().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    update.abort();
    assert!(
        update.await.is_err(),
        "the update was answered before it was cancelled"
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(used(&server, "q").await, json!({"services.nodeports": "1"}));
    let (code, response) = server.create(&path, service("u", "NodePort")).await;
    assert_eq!(code, 201, "{response}");
}

/// With more quota than one tenure can use up, no request gets a retryable error.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_sharing_a_large_quota_get_no_retryable_errors() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let store: Arc<dyn Store> = Arc::new(TestServer::open_store(directory.path()).await);
    let delayed_store =
        |millis| InterferingStore::delayed(store.clone(), Duration::from_millis(millis));
    let servers = [
        TestServer::with_store(delayed_store(0), TestServerOptions::default()).await,
        TestServer::with_store(delayed_store(10), TestServerOptions::default()).await,
        TestServer::with_store(delayed_store(30), TestServerOptions::default()).await,
    ];
    put_quota(&servers[0], "q", json!({"hard": {"pods": "300"}})).await;
    let all: Vec<&TestServer> = servers.iter().collect();
    assert_eq!(create_pods_concurrently(&all, 0, 600).await, 300);
}
