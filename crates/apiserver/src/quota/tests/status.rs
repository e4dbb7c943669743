//! What quotas say is used.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use rhumb_store::Store;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{CORE, create_pod, delete_pod, put_quota, requesting, server, used};
use crate::testing::{Others, Server, Setup};

#[tokio::test]
async fn whoever_reads_a_quota_reads_what_is_used_by_then() {
    let (server, _directory) = server().await;
    put_quota(
        &server,
        "q",
        json!({"hard": {"pods": "10", "requests.cpu": "2"}}),
    )
    .await;
    assert_eq!(
        used(&server, "q").await,
        json!({"pods": "0", "requests.cpu": "0"})
    );
    for (place, cpu) in ["100m", "1", "250m"].iter().enumerate() {
        let (code, answer) = create_pod(&server, &format!("p{place}"), requesting(cpu)).await;
        assert_eq!(code, 201, "{answer}");
    }
    assert_eq!(
        used(&server, "q").await,
        json!({"pods": "3", "requests.cpu": "1350m"})
    );
    delete_pod(&server, "p1").await;
    let (_, list) = server.get(&format!("{CORE}/resourcequotas")).await;
    assert_eq!(
        list["items"][0]["status"],
        json!({
            "hard": {"pods": "10", "requests.cpu": "2"},
            "used": {"pods": "2", "requests.cpu": "350m"},
        })
    );
}

/// The reader's server has not heard yet of the quota, nor of what the other server let in.
#[tokio::test]
async fn what_another_server_let_in_is_read_here_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn Store> = Arc::new(Server::store(directory.path()).await);
    let late = |millis| Others::late(store.clone(), Duration::from_millis(millis));
    let quick = Server::on(late(0), Setup::default()).await;
    let slow = Server::on(late(30), Setup::default()).await;
    put_quota(&quick, "q", json!({"hard": {"pods": "3"}})).await;
    for count in 1..4 {
        let (code, answer) = create_pod(&quick, &format!("p{count}"), json!({})).await;
        assert_eq!(code, 201, "{answer}");
        let pods = json!({"pods": count.to_string()});
        assert_eq!(used(&slow, "q").await, pods);
    }
}

/// What is stored, without anybody having asked for the quota.
fn stored_used(server: &Server, name: &str) -> serde_json::Value {
    let quotas = server
        .api
        .registry
        .find("", "resourcequotas")
        .expect("quotas");
    let cache = &quotas.storage.as_ref().expect("stored").cache;
    let key = rhumb_meta::ObjectKey::new(Some("default"), name).expect("a key");
    let entry = cache.get(&key).expect("readable").expect("a quota");
    let quota: serde_json::Value = serde_json::from_slice(entry.json_slice()).expect("JSON");
    quota["status"]["used"].clone()
}

async fn until_stored(server: &Server, name: &str, want: serde_json::Value) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while stored_used(server, name) != want {
        assert!(Instant::now() < deadline, "{}", stored_used(server, name));
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn watchers_are_told_without_anybody_reading() {
    let (server, _directory) = server().await;
    put_quota(&server, "q", json!({"hard": {"pods": "10"}})).await;
    until_stored(&server, "q", json!({"pods": "0"})).await;
    assert_eq!(create_pod(&server, "a", json!({})).await.0, 201);
    until_stored(&server, "q", json!({"pods": "1"})).await;
    delete_pod(&server, "a").await;
    until_stored(&server, "q", json!({"pods": "0"})).await;
    // What somebody else writes there is put right.
    let wrong = json!({"status": {"used": {"pods": "7"}}});
    let path = format!("{CORE}/resourcequotas/q/status");
    assert_eq!(server.ask(Method::PATCH, &path, wrong).await.0, 200);
    until_stored(&server, "q", json!({"pods": "0"})).await;
}

#[tokio::test]
async fn a_restart_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::open(directory.path(), Setup::default()).await;
    put_quota(&server, "q", json!({"hard": {"pods": "2"}})).await;
    assert_eq!(create_pod(&server, "a", json!({})).await.0, 201);
    server.close().await;
    let server = Server::open(directory.path(), Setup::default()).await;
    assert_eq!(used(&server, "q").await, json!({"pods": "1"}));
    assert_eq!(create_pod(&server, "b", json!({})).await.0, 201);
    assert_eq!(create_pod(&server, "c", json!({})).await.0, 403);
}

/// etcd takes no request of more than 1.5 MiB, so large quotas have to be written apart.
#[tokio::test]
async fn large_quotas_are_told_what_is_used() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Server::store(directory.path()).await;
    let store = Others::new(store, |transaction| {
        let sizes = transaction.operations().iter();
        let size: usize = sizes
            .map(|operation| match operation {
                rhumb_store::Operation::Put { value, .. } => value.len(),
                _ => 0,
            })
            .sum();
        // Too large by itself, so that the store refuses it as etcd would have refused the other.
        (size > 3 << 19).then(|| {
            let immense = vec![b'x'; rhumb_store::VALUE_BYTES_MAX + 1];
            rhumb_store::Transaction::new().put("/x", immense, rhumb_store::Expect::Any)
        })
    });
    let server = Server::on(store, Setup::default()).await;
    for place in 0..10 {
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": format!("q{place}"), "annotations": {"a": "x".repeat(200_000)}},
            "spec": {"hard": {"pods": "10"}},
        });
        let path = format!("{CORE}/resourcequotas");
        assert_eq!(server.create(&path, quota).await.0, 201);
    }
    assert_eq!(create_pod(&server, "p", json!({})).await.0, 201);
    assert_eq!(used(&server, "q0").await, json!({"pods": "1"}));
}
