//! Eviction and binding of pods, with concurrent writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use rhumb_store::{ExpectedRevision, Transaction};
use serde_json::{Value, json};

use super::{PODS, server};
use crate::testing::{InterferingStore, TestServer, TestServerOptions};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const BUDGET_KEY: &str = "/registry/poddisruptionbudgets/default/b";
const POD_KEY: &str = "/registry/pods/default/p";

/// A pod with a finalizer, so that tests can inspect it after its deletion.
fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["example.com/stay"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

fn budget(allowed: i64, revision_note: usize) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default", "annotations": {"note": revision_note.to_string()}},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2},
    })
}

async fn create_pod(server: &TestServer, phase: &str, ready: bool) -> Value {
    let (code, created) = server.create(PODS, pod()).await;
    assert_eq!(code, 201, "{created}");
    let ready = if ready { "True" } else { "False" };
    let status =
        json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
    let path = format!("{PODS}/p/status");
    let (code, updated) = server.request(Method::PATCH, &path, status).await;
    assert_eq!(code, 200, "{updated}");
    updated
}

async fn evict(server: &TestServer, options: Value) -> (u16, Value) {
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p"},
        "deleteOptions": options,
    });
    server.create(&format!("{PODS}/p/eviction"), eviction).await
}

async fn is_deleting(server: &TestServer) -> bool {
    let (_, pod) = server.get(&format!("{PODS}/p")).await;
    pod["metadata"]["deletionTimestamp"].is_string()
}

async fn force_delete_pod(server: &TestServer) {
    let path = format!("{PODS}/p");
    let release = json!({"metadata": {"finalizers": null}});
    server.request(Method::PATCH, &path, release).await;
    server.delete(&format!("{path}?gracePeriodSeconds=0")).await;
    assert_eq!(server.get(&path).await.0, 404);
}

/// A server whose store commits the transaction of `interfere` before each commit that touches the key. Also returns
/// the number of such commits.
async fn server_with_concurrent_writer(
    key: &'static str,
    interfere: impl Fn(usize) -> Option<Transaction> + Send + Sync + 'static,
) -> (tempfile::TempDir, TestServer, Arc<AtomicUsize>) {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let times = Arc::new(AtomicUsize::new(0));
    let write_count = times.clone();
    let store = InterferingStore::new(
        TestServer::open_store(directory.path()).await,
        move |transaction| {
            let touches_key = |operation: &rhumb_store::TransactionOp| **operation.key() == *key;
            if !transaction.operations().iter().any(touches_key) {
                return None;
            }
            interfere(write_count.fetch_add(1, Ordering::Relaxed))
        },
    );
    let server = TestServer::with_store(store, TestServerOptions::default()).await;
    times.store(0, Ordering::Relaxed);
    (directory, server, times)
}

fn put_unconditionally(key: &str, value: &Value) -> Transaction {
    Transaction::new().put(key, value.to_string().into_bytes(), ExpectedRevision::Any)
}

#[tokio::test]
async fn an_evicted_pod_gets_the_disruption_target_condition() {
    let (_directory, server) = server().await;
    for phase in ["Pending", "Running", "Failed"] {
        create_pod(&server, phase, true).await;
        let (code, response) = evict(&server, json!({"dryRun": ["All"]})).await;
        assert_eq!(code, 201, "{response}");
        let (_, pod) = server.get(&format!("{PODS}/p")).await;
        assert_eq!(pod["status"]["conditions"][1], Value::Null, "{phase}");
        let (code, response) = evict(&server, Value::Null).await;
        assert_eq!(code, 201, "{response}");
        let (_, pod) = server.get(&format!("{PODS}/p")).await;
        let mut condition = pod["status"]["conditions"][1].clone();
        assert!(condition["lastTransitionTime"].take().is_string());
        assert_eq!(
            condition,
            json!({
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
                "lastProbeTime": null,
                "lastTransitionTime": null,
            })
        );
        assert!(is_deleting(&server).await);
        force_delete_pod(&server).await;
    }
    server.close().await;
}

#[tokio::test]
async fn eviction_preconditions_are_checked() {
    let (_directory, server) = server().await;
    for phase in ["Pending", "Running"] {
        let pod = create_pod(&server, phase, true).await;
        let (uid, version) = (&pod["metadata"]["uid"], &pod["metadata"]["resourceVersion"]);
        for (preconditions, message) in [
            (json!({"uid": "other"}), "the UID in the precondition"),
            (
                json!({"uid": uid, "resourceVersion": "1"}),
                "the ResourceVersion in the precondition",
            ),
        ] {
            let (code, response) = evict(&server, json!({"preconditions": preconditions})).await;
            assert_eq!(code, 409, "{phase} {preconditions}: {response}");
            let got = response["message"].as_str().unwrap_or_default();
            assert!(got.contains(message), "{got}");
            let (_, now) = server.get(&format!("{PODS}/p")).await;
            assert_eq!(now["metadata"], pod["metadata"], "{phase} {preconditions}");
        }
        let right = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
        let (code, response) = evict(&server, right).await;
        assert_eq!(code, 201, "{phase}: {response}");
        assert!(is_deleting(&server).await);
        force_delete_pod(&server).await;
    }
    server.close().await;
}

#[tokio::test]
async fn a_constantly_changing_budget_yields_429_with_retry_after() {
    let (_directory, server, times) = server_with_concurrent_writer(BUDGET_KEY, |time| {
        Some(put_unconditionally(BUDGET_KEY, &budget(1, time)))
    })
    .await;
    create_pod(&server, "Running", true).await;
    server.put_raw(BUDGET_KEY, budget(1, 0).to_string()).await;
    let (code, response) = evict(&server, Value::Null).await;
    assert_eq!(code, 429, "{response}");
    assert_eq!(response["details"]["retryAfterSeconds"], 10);
    assert_eq!(
        response["details"]["causes"][0]["reason"],
        "DisruptionBudget"
    );
    assert!(times.load(Ordering::Relaxed) > 10);
    assert!(!is_deleting(&server).await);
    server.close().await;
}

/// As upstream: only a conflict is retried, so the client has to try again, without the budget.
#[tokio::test]
async fn a_budget_deleted_during_an_eviction_is_not_found() {
    let (_directory, server, times) = server_with_concurrent_writer(BUDGET_KEY, |time| {
        (time > 0).then(|| Transaction::new().delete(BUDGET_KEY, ExpectedRevision::Any))
    })
    .await;
    create_pod(&server, "Running", true).await;
    server.put_raw(BUDGET_KEY, budget(1, 0).to_string()).await;
    let (code, response) = evict(&server, Value::Null).await;
    assert_eq!(code, 404, "{response}");
    assert_eq!(
        response["message"],
        "poddisruptionbudgets.policy \"b\" not found"
    );
    assert_eq!(times.load(Ordering::Relaxed), 2);
    assert!(!is_deleting(&server).await);
    assert_eq!(server.get(&format!("{BUDGETS}/b")).await.0, 404);

    let (code, response) = evict(&server, Value::Null).await;
    assert_eq!(code, 201, "{response}");
    assert!(is_deleting(&server).await);
    server.close().await;
}

#[tokio::test]
async fn a_pod_changed_during_eviction_is_checked_again() {
    let check = async |ready: bool, phase: &str, expect: u16| {
        let (_directory, server, times) = server_with_concurrent_writer(POD_KEY, |time| {
            let mut pod = pod();
            pod["metadata"]["namespace"] = "default".into();
            pod["status"] =
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            // The first two commits create the pod and set its status.
            (time == 2).then(|| put_unconditionally(POD_KEY, &pod))
        })
        .await;
        create_pod(&server, phase, ready).await;
        server.put_raw(BUDGET_KEY, budget(0, 0).to_string()).await;
        let (code, response) = evict(&server, Value::Null).await;
        assert_eq!(code, expect, "{response}");
        assert_eq!(times.load(Ordering::Relaxed), 3);
        assert!(
            !is_deleting(&server).await,
            "the budget allows no disruption"
        );
        server.close().await;
    };
    check(false, "Pending", 429).await;
    check(false, "Running", 429).await;
}

#[tokio::test]
async fn a_malformed_stored_status_is_an_internal_error() {
    let (_directory, server) = server().await;
    let mut damaged = pod();
    damaged["metadata"]["namespace"] = "default".into();
    damaged["status"] = 5.into();
    server.put_raw(POD_KEY, damaged.to_string()).await;
    let (code, response) = evict(&server, Value::Null).await;
    assert_eq!(code, 500, "{response}");
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    });
    let (code, response) = server.create(&format!("{PODS}/p/binding"), binding).await;
    assert_eq!(code, 500, "{response}");
    server.delete(&format!("{PODS}/p")).await;

    let mut damaged = budget(1, 0);
    damaged["status"] = json!([1]);
    server
        .put_raw(POD_KEY, Vec::from("{\"metadata\":{\"name\":\"p\",\"namespace\":\"default\",\"labels\":{\"a\":\"b\"}},\"status\":{\"phase\":\"Running\"}}"))
        .await;
    server.put_raw(BUDGET_KEY, damaged.to_string()).await;
    let (code, response) = evict(&server, Value::Null).await;
    assert_eq!(code, 500, "{response}");
    server.close().await;
}
