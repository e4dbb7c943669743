//! Commit guards: an object is stored only if its namespace is still as it was at admission.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use rhumb_store::{ExpectedRevision, Transaction, TransactionOp};
use serde_json::json;

use super::server;
use crate::testing::{InterferingStore, TestServer, TestServerOptions};

const KEY: &str = "/registry/namespaces/n";
const CONFIG_MAPS: &str = "/api/v1/namespaces/n/configmaps";

/// A stored namespace.
fn namespace(phase: &str, number: usize) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "n", "uid": "u", "annotations": {"number": number.to_string()}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": phase},
    })
    .to_string()
}

fn puts_a_config_map(transaction: &Transaction) -> bool {
    let mut operations = transaction.operations().iter();
    operations.any(|operation| {
        matches!(operation, TransactionOp::Put { key, .. } if key.starts_with("/registry/configmaps/n/"))
    })
}

/// Creates a config map while another server writes the namespace `times` times, each time between admission and commit
/// of the config map. Without a phase, the namespace is deleted.
async fn create_while_namespace_changes(
    phase: Option<&'static str>,
    times: usize,
) -> (u16, serde_json::Value) {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let write_count = AtomicUsize::new(0);
    let store = InterferingStore::new(
        TestServer::open_store(directory.path()).await,
        move |transaction| {
            let interferes =
                puts_a_config_map(transaction) && write_count.load(Ordering::Relaxed) < times;
            interferes.then(|| {
                let number = write_count.fetch_add(1, Ordering::Relaxed);
                match phase {
                    Some(phase) => {
                        Transaction::new().put(KEY, namespace(phase, number), ExpectedRevision::Any)
                    }
                    None => Transaction::new().delete(KEY, ExpectedRevision::Any),
                }
            })
        },
    );
    let server = TestServer::with_store(store, TestServerOptions::default()).await;
    server.put_raw(KEY, namespace("Active", 99)).await;
    let map = json!({"metadata": {"name": "a"}});
    let response = server.create(CONFIG_MAPS, map).await;
    let (_, list) = server.get(CONFIG_MAPS).await;
    let count = list["items"].as_array().map(Vec::len);
    assert_eq!(count, Some(usize::from(response.0 == 201)), "{list}");
    server.close().await;
    response
}

#[tokio::test]
async fn create_fails_if_the_namespace_starts_terminating_before_commit() {
    let (code, status) = create_while_namespace_changes(Some("Terminating"), 1).await;
    assert_eq!(code, 403, "{status}");
    assert_eq!(
        status["message"],
        "configmaps \"a\" is forbidden: unable to create new content in namespace n because it is being terminated"
    );
}

#[tokio::test]
async fn unrelated_namespace_changes_do_not_fail_a_create() {
    let (code, status) = create_while_namespace_changes(Some("Active"), 5).await;
    assert_eq!(code, 201, "{status}");
}

#[tokio::test]
async fn create_fails_if_the_namespace_is_deleted_before_commit() {
    let (code, status) = create_while_namespace_changes(None, 1).await;
    assert_eq!(code, 404, "{status}");
    assert_eq!(status["message"], "namespaces \"n\" not found");
}

#[tokio::test]
async fn failed_preconditions_of_namespaces_have_upstreams_words() {
    let (_directory, server) = server().await;
    let (code, created) = server
        .create("/api/v1/namespaces", json!({"metadata": {"name": "n"}}))
        .await;
    assert_eq!(code, 201, "{created}");
    let text = |field: &str| created["metadata"][field].as_str().unwrap_or_default();
    let (uid, version) = (text("uid"), text("resourceVersion"));
    for (preconditions, actual, expected) in [
        (
            json!({"uid": "other"}),
            uid,
            "UID in precondition: other, UID",
        ),
        (
            json!({"uid": uid, "resourceVersion": "1"}),
            version,
            "ResourceVersion in precondition: 1, ResourceVersion",
        ),
    ] {
        let options = json!({"preconditions": preconditions});
        let (code, response) = server
            .request(Method::DELETE, "/api/v1/namespaces/n", options)
            .await;
        assert_eq!(code, 409, "{response}");
        assert_eq!(response["details"]["kind"], "namespaces");
        assert_eq!(
            response["message"],
            format!(
                "Operation cannot be fulfilled on namespaces \"n\": Precondition failed: {expected} in object meta: {actual}"
            )
        );
    }
    server.close().await;
}
