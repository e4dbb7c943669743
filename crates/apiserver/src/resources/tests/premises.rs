//! What an object was let in for, and what becomes of it until it is stored.

use std::sync::atomic::{AtomicUsize, Ordering};

use rhumb_store::{Expect, Operation, Transaction};
use serde_json::json;

use crate::testing::{Others, Server, Setup};

const KEY: &str = "/registry/namespaces/n";
const CONFIG_MAPS: &str = "/api/v1/namespaces/n/configmaps";

/// A namespace as another server stores it.
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

fn stores_a_map(transaction: &Transaction) -> bool {
    let mut operations = transaction.operations().iter();
    operations.any(|operation| {
        matches!(operation, Operation::Put { key, .. } if key.starts_with("/registry/configmaps/n/"))
    })
}

/// Creates a config map while another server writes the namespace, `times` times, each time between the map's
/// admission and its commit. Without a phase, it is deleted.
async fn created_while_changed(
    phase: Option<&'static str>,
    times: usize,
) -> (u16, serde_json::Value) {
    let directory = tempfile::tempdir().expect("a directory");
    let written = AtomicUsize::new(0);
    let store = Others::new(Server::store(directory.path()).await, move |transaction| {
        let is_next = stores_a_map(transaction) && written.load(Ordering::Relaxed) < times;
        is_next.then(|| {
            let number = written.fetch_add(1, Ordering::Relaxed);
            match phase {
                Some(phase) => Transaction::new().put(KEY, namespace(phase, number), Expect::Any),
                None => Transaction::new().delete(KEY, Expect::Any),
            }
        })
    });
    let server = Server::on(store, Setup::default()).await;
    server.plant(KEY, namespace("Active", 99)).await;
    let map = json!({"metadata": {"name": "a"}});
    let answer = server.create(CONFIG_MAPS, map).await;
    let (_, list) = server.get(CONFIG_MAPS).await;
    let count = list["items"].as_array().map(Vec::len);
    assert_eq!(count, Some(usize::from(answer.0 == 201)), "{list}");
    server.close().await;
    answer
}

#[tokio::test]
async fn nothing_slips_into_a_namespace_that_begins_to_end() {
    let (code, answer) = created_while_changed(Some("Terminating"), 1).await;
    assert_eq!(code, 403, "{answer}");
    assert_eq!(
        answer["message"],
        "configmaps \"a\" is forbidden: unable to create new content in namespace n because it is being terminated"
    );
}

#[tokio::test]
async fn other_changes_of_the_namespace_hold_nobody_up() {
    let (code, answer) = created_while_changed(Some("Active"), 5).await;
    assert_eq!(code, 201, "{answer}");
}

#[tokio::test]
async fn nothing_is_stored_in_a_namespace_that_is_gone() {
    let (code, answer) = created_while_changed(None, 1).await;
    assert_eq!(code, 404, "{answer}");
    assert_eq!(answer["message"], "namespaces \"n\" not found");
}
