//! Pods that are asked to leave, and bound, while others write too.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use rhumb_store::{Expect, Transaction};
use serde_json::{Value, json};

use super::{PODS, server};
use crate::testing::{Others, Server, Setup};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const BUDGET_KEY: &str = "/registry/poddisruptionbudgets/default/b";
const POD_KEY: &str = "/registry/pods/default/p";

/// A pod that stays until its finalizer goes, so that a test can look at it.
fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["example.com/stay"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

fn budget(allowed: i64, note: usize) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default", "annotations": {"note": note.to_string()}},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2},
    })
}

async fn make_pod(server: &Server, phase: &str, ready: bool) -> Value {
    let (code, made) = server.create(PODS, pod()).await;
    assert_eq!(code, 201, "{made}");
    let ready = if ready { "True" } else { "False" };
    let status =
        json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
    let path = format!("{PODS}/p/status");
    let (code, made) = server.ask(Method::PATCH, &path, status).await;
    assert_eq!(code, 200, "{made}");
    made
}

async fn evict(server: &Server, options: Value) -> (u16, Value) {
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p"},
        "deleteOptions": options,
    });
    server.create(&format!("{PODS}/p/eviction"), eviction).await
}

async fn is_leaving(server: &Server) -> bool {
    let (_, pod) = server.get(&format!("{PODS}/p")).await;
    pod["metadata"]["deletionTimestamp"].is_string()
}

async fn remove(server: &Server) {
    let path = format!("{PODS}/p");
    let release = json!({"metadata": {"finalizers": null}});
    server.ask(Method::PATCH, &path, release).await;
    server.delete(&format!("{path}?gracePeriodSeconds=0")).await;
    assert_eq!(server.get(&path).await.0, 404);
}

/// Somebody else does this before each commit that is about a key.
async fn with_others(
    key: &'static str,
    first: impl Fn(usize) -> Option<Transaction> + Send + Sync + 'static,
) -> (tempfile::TempDir, Server, Arc<AtomicUsize>) {
    let directory = tempfile::tempdir().expect("a directory");
    let times = Arc::new(AtomicUsize::new(0));
    let counted = times.clone();
    let store = Others::new(Server::store(directory.path()).await, move |transaction| {
        let is_about = |operation: &rhumb_store::Operation| **operation.key() == *key;
        if !transaction.operations().iter().any(is_about) {
            return None;
        }
        first(counted.fetch_add(1, Ordering::Relaxed))
    });
    let server = Server::on(store, Setup::default()).await;
    times.store(0, Ordering::Relaxed);
    (directory, server, times)
}

fn put(key: &str, value: &Value) -> Transaction {
    Transaction::new().put(key, value.to_string().into_bytes(), Expect::Any)
}

#[tokio::test]
async fn a_pod_says_why_it_was_evicted() {
    let (_directory, server) = server().await;
    for phase in ["Pending", "Running", "Failed"] {
        make_pod(&server, phase, true).await;
        let (code, answer) = evict(&server, json!({"dryRun": ["All"]})).await;
        assert_eq!(code, 201, "{answer}");
        let (_, pod) = server.get(&format!("{PODS}/p")).await;
        assert_eq!(pod["status"]["conditions"][1], Value::Null, "{phase}");
        let (code, answer) = evict(&server, Value::Null).await;
        assert_eq!(code, 201, "{answer}");
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
        assert!(is_leaving(&server).await);
        remove(&server).await;
    }
    server.close().await;
}

#[tokio::test]
async fn an_eviction_is_of_the_pod_that_is_meant() {
    let (_directory, server) = server().await;
    for phase in ["Pending", "Running"] {
        let pod = make_pod(&server, phase, true).await;
        let (uid, version) = (&pod["metadata"]["uid"], &pod["metadata"]["resourceVersion"]);
        for (wrong, message) in [
            (json!({"uid": "other"}), "the UID in the precondition"),
            (
                json!({"uid": uid, "resourceVersion": "1"}),
                "the ResourceVersion in the precondition",
            ),
        ] {
            let (code, answer) = evict(&server, json!({"preconditions": wrong})).await;
            assert_eq!(code, 409, "{phase} {wrong}: {answer}");
            let told = answer["message"].as_str().unwrap_or_default();
            assert!(told.contains(message), "{told}");
            let (_, now) = server.get(&format!("{PODS}/p")).await;
            assert_eq!(now["metadata"], pod["metadata"], "{phase} {wrong}");
        }
        let right = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
        let (code, answer) = evict(&server, right).await;
        assert_eq!(code, 201, "{phase}: {answer}");
        assert!(is_leaving(&server).await);
        remove(&server).await;
    }
    server.close().await;
}

#[tokio::test]
async fn a_budget_that_others_keep_changing_is_asked_again_later() {
    let (_directory, server, times) =
        with_others(BUDGET_KEY, |time| Some(put(BUDGET_KEY, &budget(1, time)))).await;
    make_pod(&server, "Running", true).await;
    server.plant(BUDGET_KEY, budget(1, 0).to_string()).await;
    let (code, answer) = evict(&server, Value::Null).await;
    assert_eq!(code, 429, "{answer}");
    assert_eq!(answer["details"]["retryAfterSeconds"], 10);
    assert_eq!(answer["details"]["causes"][0]["reason"], "DisruptionBudget");
    assert!(times.load(Ordering::Relaxed) > 10);
    assert!(!is_leaving(&server).await);
    server.close().await;
}

#[tokio::test]
async fn a_budget_that_is_removed_holds_nobody() {
    let (_directory, server, times) = with_others(BUDGET_KEY, |time| {
        (time > 0).then(|| Transaction::new().delete(BUDGET_KEY, Expect::Any))
    })
    .await;
    make_pod(&server, "Running", true).await;
    server.plant(BUDGET_KEY, budget(1, 0).to_string()).await;
    let (code, answer) = evict(&server, Value::Null).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(times.load(Ordering::Relaxed), 2);
    assert!(is_leaving(&server).await);
    assert_eq!(server.get(&format!("{BUDGETS}/b")).await.0, 404);
    server.close().await;
}

#[tokio::test]
async fn a_pod_that_changes_while_it_leaves_is_looked_at_again() {
    let check = async |ready: bool, phase: &str, expect: u16| {
        let (_directory, server, times) = with_others(POD_KEY, |time| {
            let mut pod = pod();
            pod["metadata"]["namespace"] = "default".into();
            pod["status"] =
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            // The first two commits made the pod.
            (time == 2).then(|| put(POD_KEY, &pod))
        })
        .await;
        make_pod(&server, phase, ready).await;
        server.plant(BUDGET_KEY, budget(0, 0).to_string()).await;
        let (code, answer) = evict(&server, Value::Null).await;
        assert_eq!(code, expect, "{answer}");
        assert_eq!(times.load(Ordering::Relaxed), 3);
        assert!(!is_leaving(&server).await, "its budget allows nothing");
        server.close().await;
    };
    check(false, "Pending", 429).await;
    check(false, "Running", 429).await;
}

#[tokio::test]
async fn a_status_that_is_none_is_an_error() {
    let (_directory, server) = server().await;
    let mut damaged = pod();
    damaged["metadata"]["namespace"] = "default".into();
    damaged["status"] = 5.into();
    server.plant(POD_KEY, damaged.to_string()).await;
    let (code, answer) = evict(&server, Value::Null).await;
    assert_eq!(code, 500, "{answer}");
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    });
    let (code, answer) = server.create(&format!("{PODS}/p/binding"), binding).await;
    assert_eq!(code, 500, "{answer}");
    server.delete(&format!("{PODS}/p")).await;

    let mut damaged = budget(1, 0);
    damaged["status"] = json!([1]);
    server
        .plant(POD_KEY, Vec::from("{\"metadata\":{\"name\":\"p\",\"namespace\":\"default\",\"labels\":{\"a\":\"b\"}},\"status\":{\"phase\":\"Running\"}}"))
        .await;
    server.plant(BUDGET_KEY, damaged.to_string()).await;
    let (code, answer) = evict(&server, Value::Null).await;
    assert_eq!(code, 500, "{answer}");
    server.close().await;
}
