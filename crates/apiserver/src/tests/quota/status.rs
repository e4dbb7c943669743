//! `status.used` of quotas: on read, across servers and restarts.

use std::sync::Arc;
use std::time::Duration;

use rhumb_store::Store;
use serde_json::json;

use super::{CORE, create_pod, delete_pod, pod_requesting_cpu, put_quota, server, used};
use crate::testing::{InterferingStore, TestServer, TestServerOptions};

#[tokio::test]
async fn a_get_returns_current_usage() {
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
    for (index, cpu) in ["100m", "1", "250m"].iter().enumerate() {
        let (code, response) =
            create_pod(&server, &format!("p{index}"), pod_requesting_cpu(cpu)).await;
        assert_eq!(code, 201, "{response}");
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

/// The cache of the server that is read from shows neither the quota nor the pods yet.
#[tokio::test]
async fn status_counts_pods_admitted_by_another_server() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let store: Arc<dyn Store> = Arc::new(TestServer::open_store(directory.path()).await);
    let delayed_store =
        |millis| InterferingStore::delayed(store.clone(), Duration::from_millis(millis));
    let fast_server = TestServer::with_store(delayed_store(0), TestServerOptions::default()).await;
    let slow_server = TestServer::with_store(delayed_store(30), TestServerOptions::default()).await;
    put_quota(&fast_server, "q", json!({"hard": {"pods": "3"}})).await;
    for count in 1..4 {
        let (code, response) = create_pod(&fast_server, &format!("p{count}"), json!({})).await;
        assert_eq!(code, 201, "{response}");
        let pods = json!({"pods": count.to_string()});
        assert_eq!(used(&slow_server, "q").await, pods);
    }
}

#[tokio::test]
async fn usage_is_correct_after_a_restart() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
    put_quota(&server, "q", json!({"hard": {"pods": "2"}})).await;
    assert_eq!(create_pod(&server, "a", json!({})).await.0, 201);
    server.close().await;
    let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
    assert_eq!(used(&server, "q").await, json!({"pods": "1"}));
    assert_eq!(create_pod(&server, "b", json!({})).await.0, 201);
    assert_eq!(create_pod(&server, "c", json!({})).await.0, 403);
}

/// etcd rejects requests larger than 1.5 MiB, so large quotas have to be written in separate transactions.
#[tokio::test]
async fn status_of_large_quotas_is_updated() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let store = TestServer::open_store(directory.path()).await;
    let store = InterferingStore::new(store, |transaction| {
        let sizes = transaction.operations().iter();
        let size: usize = sizes
            .map(|operation| match operation {
                rhumb_store::TransactionOp::Put { value, .. } => value.len(),
                _ => 0,
            })
            .sum();
        // A value too large for this store simulates etcd's rejection of the whole transaction.
        (size > 3 << 19).then(|| {
            let immense = vec![b'x'; rhumb_store::VALUE_BYTES_MAX + 1];
            rhumb_store::Transaction::new().put("/x", immense, rhumb_store::ExpectedRevision::Any)
        })
    });
    let server = TestServer::with_store(store, TestServerOptions::default()).await;
    for index in 0..10 {
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": format!("q{index}"), "annotations": {"a": "x".repeat(200_000)}},
            "spec": {"hard": {"pods": "10"}},
        });
        let path = format!("{CORE}/resourcequotas");
        assert_eq!(server.create(&path, quota).await.0, 201);
    }
    assert_eq!(create_pod(&server, "p", json!({})).await.0, 201);
    assert_eq!(used(&server, "q0").await, json!({"pods": "1"}));
}
