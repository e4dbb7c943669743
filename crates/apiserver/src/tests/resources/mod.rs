//! Tests of the verbs through the request pipeline, on an embedded store.

mod create_responses;
mod eviction;
mod foreign_encodings;
mod list_and_watch;
mod namespace_guards;
mod network_policies;
mod shutdown;
mod stale_reads;

use http::Method;
use serde_json::{Value, json};

use crate::testing::{TestServer, TestServerOptions};

const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn workload(kind: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "w", "labels": {}},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}, "annotations": {}},
                "spec": {"containers": [{"name": "c", "image": "i", "env": [], "resources": {"limits": {"cpu": 1}}}]},
            },
        },
    })
}

async fn server() -> (tempfile::TempDir, TestServer) {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
    (directory, server)
}

#[tokio::test]
async fn a_semantically_equal_update_is_not_written() {
    let (_directory, server) = server().await;
    for (path, kind) in [(DAEMON_SETS, "DaemonSet"), (DEPLOYMENTS, "Deployment")] {
        let (code, created) = server.create(path, workload(kind)).await;
        assert_eq!(code, 201, "{created}");
        let (code, updated) = server
            .request(Method::PUT, &format!("{path}/w"), workload(kind))
            .await;
        assert_eq!(code, 200, "{updated}");
        assert_eq!(updated["metadata"], created["metadata"]);
    }
    server.close().await;
}

#[tokio::test]
async fn a_status_update_may_change_unprotected_metadata() {
    let (_directory, server) = server().await;
    let (_, mut deployment) = server.create(DEPLOYMENTS, workload("Deployment")).await;
    deployment["metadata"]["labels"] = json!({"x": "y"});
    deployment["metadata"]["annotations"] = json!({"x": "y"});
    deployment["spec"]["replicas"] = json!(7);
    deployment["status"] = json!({"replicas": 3});
    let path = format!("{DEPLOYMENTS}/w/status");
    let (code, updated) = server.request(Method::PUT, &path, deployment).await;
    assert_eq!(code, 200, "{updated}");
    assert_eq!(updated["metadata"]["labels"], Value::Null);
    assert_eq!(updated["metadata"]["annotations"], json!({"x": "y"}));
    assert_eq!(updated["spec"]["replicas"], 1);
    assert_eq!(updated["status"]["replicas"], 3);
    server.close().await;
}

#[tokio::test]
async fn conditional_only_kinds_require_a_resource_version() {
    let (_directory, server) = server().await;
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}});
    server.create(LEASES, lease.clone()).await;
    let (code, status) = server
        .request(Method::PUT, &format!("{LEASES}/l"), lease)
        .await;
    assert_eq!(code, 422);
    assert_eq!(
        status["message"],
        "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    server.close().await;
}

#[tokio::test]
async fn creating_an_object_that_is_being_deleted_reports_the_deletion() {
    let (_directory, server) = server().await;
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "finalizers": ["example.com/x"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    server.create(PODS, pod.clone()).await;
    let (_, status) = server.create(PODS, pod.clone()).await;
    assert_eq!(status["message"], "pods \"p\" already exists");
    server.delete(&format!("{PODS}/p")).await;
    let (_, status) = server.create(PODS, pod).await;
    assert_eq!(
        status["message"],
        "object is being deleted: pods \"p\" already exists"
    );
    server.close().await;
}

#[tokio::test]
async fn system_priority_classes_cannot_be_deleted() {
    let (_directory, server) = server().await;
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
    let (code, _) = server.delete(path).await;
    assert_eq!(code, 403);
    server.close().await;
}

#[tokio::test]
async fn a_proxy_request_may_name_scheme_and_port() {
    let (_directory, server) = server().await;
    let (code, _) = server
        .create("/api/v1/nodes", json!({"metadata": {"name": "n"}}))
        .await;
    assert_eq!(code, 201);
    for (target, expect_code, expect) in [
        ("n", 501, "does not connect to nodes"),
        ("n:10250", 501, "does not connect to nodes"),
        ("https:n:10250", 501, "does not connect to nodes"),
        ("m:10250", 404, "nodes \"m\" not found"),
        ("a:b:c:d", 400, "invalid node request \"a:b:c:d\""),
    ] {
        let path = format!("/api/v1/nodes/{target}/proxy/metrics");
        let (code, response) = server.get(&path).await;
        let message = response["message"].as_str().unwrap_or_default();
        assert_eq!(code, expect_code, "{target}: {message}");
        assert!(message.contains(expect), "{target}: {message}");
    }
    server.close().await;
}
