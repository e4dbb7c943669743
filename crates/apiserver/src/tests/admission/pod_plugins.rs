//! Tests of the PodTopologyLabels and PodResizeValidator plugins on a whole server.

use http::Method;
use serde_json::{Value, json};

use super::{CORE, pod};
use crate::testing::{TestServer, TestServerOptions};

/// A server with a node in zone a that has one CPU.
async fn server_with_node() -> (TestServer, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n", "labels": {
            "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r", "rack": "7",
        }},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi"}},
    });
    let (code, created) = server.create("/api/v1/nodes", node).await;
    assert_eq!(code, 201, "{created}");
    (server, directory)
}

fn topology_labels(pod: &Value) -> Value {
    pod["metadata"]["labels"].clone()
}

#[tokio::test]
async fn pods_get_the_zone_and_region_of_their_node() {
    let (server, _directory) = server_with_node().await;
    let pods = format!("{CORE}/pods");
    let want = json!({"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"});

    assert_eq!(server.create(&pods, pod("bound")).await.0, 201);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "bound"},
        "target": {"kind": "Node", "name": "n"},
    });
    let (code, response) = server
        .create(&format!("{pods}/bound/binding"), binding)
        .await;
    assert_eq!(code, 201, "{response}");
    let (_, bound) = server.get(&format!("{pods}/bound")).await;
    assert_eq!(topology_labels(&bound), want);

    let mut placed = pod("placed");
    placed["spec"]["nodeName"] = "n".into();
    placed["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "other"});
    let (code, placed) = server.create(&pods, placed).await;
    assert_eq!(code, 201, "{placed}");
    assert_eq!(topology_labels(&placed), want);

    let mut elsewhere = pod("elsewhere");
    elsewhere["spec"]["nodeName"] = "no-such-node".into();
    let (code, elsewhere) = server.create(&pods, elsewhere).await;
    assert_eq!((code, topology_labels(&elsewhere)), (201, Value::Null));
}

#[tokio::test]
async fn a_resize_must_fit_into_the_node() {
    let (server, _directory) = server_with_node().await;
    let pods = format!("{CORE}/pods");
    let resources = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    let mut placed = pod("p");
    placed["spec"]["nodeName"] = "n".into();
    placed["spec"]["containers"][0]["resources"] = resources("500m");
    let (code, created) = server.create(&pods, placed).await;
    assert_eq!(code, 201, "{created}");
    let path = format!("{pods}/p/resize");
    let resize = |cpu: &str| {
        let mut container = created["spec"]["containers"][0].clone();
        container["resources"] = resources(cpu);
        json!({"spec": {"containers": [container]}})
    };
    let (code, response) = server.request(Method::PATCH, &path, resize("900m")).await;
    assert_eq!(code, 200, "{response}");
    let (code, response) = server.request(Method::PATCH, &path, resize("1100m")).await;
    assert_eq!(code, 403, "{response}");
    assert_eq!(
        response["message"],
        "pods \"p\" is forbidden: node didn't have enough allocatable resources: cpu, requested: 1100, allocatable: 1000"
    );
    assert_eq!(
        response["details"]["causes"],
        json!([{"reason": "NodeCapacity"}])
    );
}
