mod creating;
mod ending;
mod eviction;
mod foreign;
mod network_policies;
mod premises;
mod reading;

use http::Method;
use serde_json::{Value, json};

use crate::testing::{Server, Setup};

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

async fn server() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::open(directory.path(), Setup::default()).await;
    (directory, server)
}

#[tokio::test]
async fn what_says_the_same_in_other_words_is_not_written() {
    let (_directory, server) = server().await;
    for (path, kind) in [(DAEMON_SETS, "DaemonSet"), (DEPLOYMENTS, "Deployment")] {
        let (code, made) = server.create(path, workload(kind)).await;
        assert_eq!(code, 201, "{made}");
        let (code, put) = server
            .ask(Method::PUT, &format!("{path}/w"), workload(kind))
            .await;
        assert_eq!(code, 200, "{put}");
        assert_eq!(put["metadata"], made["metadata"]);
    }
    server.close().await;
}

#[tokio::test]
async fn a_status_update_may_change_metadata_that_its_kind_does_not_keep() {
    let (_directory, server) = server().await;
    let (_, mut deployment) = server.create(DEPLOYMENTS, workload("Deployment")).await;
    deployment["metadata"]["labels"] = json!({"x": "y"});
    deployment["metadata"]["annotations"] = json!({"x": "y"});
    deployment["spec"]["replicas"] = json!(7);
    deployment["status"] = json!({"replicas": 3});
    let path = format!("{DEPLOYMENTS}/w/status");
    let (code, put) = server.ask(Method::PUT, &path, deployment).await;
    assert_eq!(code, 200, "{put}");
    assert_eq!(put["metadata"]["labels"], Value::Null);
    assert_eq!(put["metadata"]["annotations"], json!({"x": "y"}));
    assert_eq!(put["spec"]["replicas"], 1);
    assert_eq!(put["status"]["replicas"], 3);
    server.close().await;
}

#[tokio::test]
async fn an_update_names_its_version_where_the_kind_wants_it() {
    let (_directory, server) = server().await;
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}});
    server.create(LEASES, lease.clone()).await;
    let (code, answer) = server.ask(Method::PUT, &format!("{LEASES}/l"), lease).await;
    assert_eq!(code, 422);
    assert_eq!(
        answer["message"],
        "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    server.close().await;
}

#[tokio::test]
async fn a_name_that_will_be_free_again_is_still_taken() {
    let (_directory, server) = server().await;
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "finalizers": ["example.com/x"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    server.create(PODS, pod.clone()).await;
    let (_, answer) = server.create(PODS, pod.clone()).await;
    assert_eq!(answer["message"], "pods \"p\" already exists");
    server.delete(&format!("{PODS}/p")).await;
    let (_, answer) = server.create(PODS, pod).await;
    assert_eq!(
        answer["message"],
        "object is being deleted: pods \"p\" already exists"
    );
    server.close().await;
}

#[tokio::test]
async fn classes_of_the_system_stay() {
    let (_directory, server) = server().await;
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
    let (code, _) = server.delete(path).await;
    assert_eq!(code, 403);
    server.close().await;
}
