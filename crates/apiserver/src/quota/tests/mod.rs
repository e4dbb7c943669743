//! Quotas on whole servers.

mod contention;
mod enforcement;
mod status;

use http::Method;
use serde_json::{Value, json};

use crate::testing::{Server, Setup};

const CORE: &str = "/api/v1/namespaces/default";

async fn server() -> (Server, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::open(directory.path(), Setup::default()).await;
    (server, directory)
}

fn quota(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec})
}

async fn put_quota(server: &Server, name: &str, spec: Value) {
    let (code, answer) = server
        .create(&format!("{CORE}/resourcequotas"), quota(name, spec))
        .await;
    assert_eq!(code, 201, "{answer}");
}

fn pod(name: &str, more: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    });
    json_patch::merge(&mut pod, &more);
    pod
}

async fn create_pod(server: &Server, name: &str, more: Value) -> (u16, Value) {
    server
        .create(&format!("{CORE}/pods"), pod(name, more))
        .await
}

fn requesting(cpu: &str) -> Value {
    json!({"spec": {"containers": [
        {"name": "a", "image": "b", "resources": {"requests": {"cpu": cpu}}},
    ]}})
}

async fn used(server: &Server, name: &str) -> Value {
    let (code, quota) = server.get(&format!("{CORE}/resourcequotas/{name}")).await;
    assert_eq!(code, 200, "{quota}");
    quota["status"]["used"].clone()
}

async fn delete_pod(server: &Server, name: &str) {
    let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    let path = format!("{CORE}/pods/{name}");
    let (code, answer) = server.ask(Method::DELETE, &path, now).await;
    assert_eq!(code, 200, "{answer}");
}
