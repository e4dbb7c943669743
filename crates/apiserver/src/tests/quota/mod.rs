//! Quota enforcement on complete API servers.

mod claims;
mod contention;
mod enforcement;
mod status;
mod template_warnings;

use http::Method;
use serde_json::{Value, json};

use crate::testing::{TestServer, TestServerOptions};

const CORE: &str = "/api/v1/namespaces/default";

async fn server() -> (TestServer, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
    (server, directory)
}

fn quota(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec})
}

async fn put_quota(server: &TestServer, name: &str, spec: Value) {
    let (code, response) = server
        .create(&format!("{CORE}/resourcequotas"), quota(name, spec))
        .await;
    assert_eq!(code, 201, "{response}");
}

fn pod(name: &str, patch: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    });
    json_patch::merge(&mut pod, &patch);
    pod
}

async fn create_pod(server: &TestServer, name: &str, patch: Value) -> (u16, Value) {
    server
        .create(&format!("{CORE}/pods"), pod(name, patch))
        .await
}

fn pod_requesting_cpu(cpu: &str) -> Value {
    json!({"spec": {"containers": [
        {"name": "a", "image": "b", "resources": {"requests": {"cpu": cpu}}},
    ]}})
}

async fn used(server: &TestServer, name: &str) -> Value {
    let (code, quota) = server.get(&format!("{CORE}/resourcequotas/{name}")).await;
    assert_eq!(code, 200, "{quota}");
    quota["status"]["used"].clone()
}

async fn delete_pod(server: &TestServer, name: &str) {
    let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    let path = format!("{CORE}/pods/{name}");
    let (code, response) = server.request(Method::DELETE, &path, now).await;
    assert_eq!(code, 200, "{response}");
}
