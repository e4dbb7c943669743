//! Objects that another server stored, in protobuf, in another version, or corrupt.

use http::Method;
use rhumb_schema::{Table, protobuf};
use serde_json::{Value, json};

use super::{PODS, server};
use crate::testing::{InterferingStore, TestServer, TestServerOptions};
use rhumb_store::{ExpectedRevision, Transaction};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP_KEY: &str = "/registry/configmaps/default/a";

/// Encodes an object as kube-apiserver stores it.
fn encode_protobuf(schema: &str, object: &Value) -> Vec<u8> {
    let table = Table::builtin();
    let object_type = table.type_id(schema).expect("schema type exists");
    let object = object.as_object().expect("a JSON object");
    protobuf::encode_with_envelope(table, object_type, object).expect("encodes as protobuf")
}

fn config_map(value: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": "u",
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "labels": {"x": "y"},
        },
        "data": {"key": value},
    })
}

fn encode_config_map(value: &str) -> Vec<u8> {
    encode_protobuf("io.k8s.api.core.v1.ConfigMap", &config_map(value))
}

/// Patches the config map with this value, and checks that it is stored as JSON afterwards.
async fn patch_and_check(server: &TestServer, value: &str) {
    let path = format!("{CONFIG_MAPS}/a");
    let patch = json!({"data": {"more": "x"}});
    let (code, response) = server.request(Method::PATCH, &path, patch).await;
    assert_eq!(code, 200, "{response}");
    assert_eq!(response["data"], json!({"key": value, "more": "x"}));
    let entry = server
        .state
        .registry
        .store
        .get(MAP_KEY)
        .await
        .expect("store is readable");
    let stored = entry.expect("entry exists").value;
    assert!(stored.starts_with(b"{\"apiVersion\":"), "{stored:?}");
}

#[tokio::test]
async fn protobuf_objects_are_served_and_rewritten_as_json() {
    let (_directory, server) = server().await;
    server.put_raw(MAP_KEY, encode_config_map("old")).await;
    let (code, mut fetched) = server.get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(code, 200, "{fetched}");
    assert!(fetched["metadata"]["resourceVersion"].take().is_string());
    let mut expect = config_map("old");
    expect["metadata"]["resourceVersion"] = Value::Null;
    assert_eq!(fetched, expect);
    let (_, list) = server
        .get(&format!("{CONFIG_MAPS}?labelSelector=x%3Dy"))
        .await;
    assert_eq!(list["items"][0]["data"], json!({"key": "old"}));
    patch_and_check(&server, "old").await;
    server.put_raw(MAP_KEY, encode_config_map("again")).await;
    assert_eq!(server.delete(&format!("{CONFIG_MAPS}/a")).await.0, 200);
    server.close().await;
}

#[tokio::test]
async fn a_patch_retries_on_top_of_a_concurrent_foreign_write() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let first = std::sync::atomic::AtomicBool::new(true);
    let store = InterferingStore::new(
        TestServer::open_store(directory.path()).await,
        move |transaction| {
            let is_update = transaction.operations().iter().any(|operation| {
                **operation.key() == *MAP_KEY
                    && matches!(operation.expect(), ExpectedRevision::At(_))
            });
            let is_first = is_update && first.swap(false, std::sync::atomic::Ordering::Relaxed);
            is_first.then(|| {
                Transaction::new().put(MAP_KEY, encode_config_map("theirs"), ExpectedRevision::Any)
            })
        },
    );
    let server = TestServer::with_store(store, TestServerOptions::default()).await;
    let (code, _) = server.create(CONFIG_MAPS, config_map("ours")).await;
    assert_eq!(code, 201);
    patch_and_check(&server, "theirs").await;
    server.close().await;
}

#[tokio::test]
async fn fields_of_foreign_objects_can_be_selected() {
    let (_directory, server) = server().await;
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running"},
    });
    let pod = encode_protobuf("io.k8s.api.core.v1.Pod", &pod);
    server.put_raw("/registry/pods/default/p", pod).await;
    for (selector, expect) in [("spec.nodeName%3Dn", 1), ("status.phase%3DPending", 0)] {
        let (_, list) = server
            .get(&format!("{PODS}?fieldSelector={selector}"))
            .await;
        let count = list["items"].as_array().map(Vec::len);
        assert_eq!(count, Some(expect), "{selector}");
    }
    server.close().await;
}

#[tokio::test]
async fn objects_in_other_versions_are_converted_to_the_storage_version() {
    let (_directory, server) = server().await;
    let scaler = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "namespace": "default"},
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "targetCPUUtilizationPercentage": 50,
        },
    });
    let in_protobuf = encode_protobuf("io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler", &scaler);
    for stored in [in_protobuf, scaler.to_string().into_bytes()] {
        server
            .put_raw("/registry/horizontalpodautoscalers/default/h", stored)
            .await;
        let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/h";
        let (code, fetched) = server.get(path).await;
        assert_eq!(code, 200, "{fetched}");
        assert_eq!(fetched["apiVersion"], "autoscaling/v2");
        assert_eq!(
            fetched["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"],
            50
        );
    }
    server.close().await;
}

#[tokio::test]
async fn a_corrupt_object_fails_only_its_own_get() {
    let (_directory, server) = server().await;
    let encoded = encode_config_map("old");
    let truncated = encoded[..encoded.len() - 20].to_vec();
    let unknown = b"k8s\0\x0a\x08\x0a\x02v9\x12\x02No\x12\x00".to_vec();
    for (stored, reason) in [
        (truncated, "unexpected EOF"),
        (unknown, "stored object has unknown type v9 No"),
        (b"k8s\0".to_vec(), "empty body"),
        (b"[1]".to_vec(), "stored value is not a JSON object"),
    ] {
        server.put_raw(MAP_KEY, stored).await;
        let (code, response) = server.get(&format!("{CONFIG_MAPS}/a")).await;
        assert_eq!(code, 500);
        let message = response["message"].as_str().unwrap_or_default();
        assert!(message.contains(reason), "{message}");
        assert_eq!(server.get(CONFIG_MAPS).await.0, 200);
    }
    server.close().await;
}

#[tokio::test]
async fn a_namespace_stored_without_its_name_label_gets_it() {
    let (_directory, server) = server().await;
    let bare = |name: &str, labels: Value| {
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "uid": name, "labels": labels},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        })
    };
    let key = |name: &str| format!("/registry/namespaces/{name}");
    let sealed = encode_protobuf("io.k8s.api.core.v1.Namespace", &bare("a", json!({})));
    server.put_raw(&key("a"), sealed).await;
    let with_other = bare("b", json!({"kubernetes.io/metadata.name": "a", "x": "y"}));
    server.put_raw(&key("b"), with_other.to_string()).await;
    for (name, labels) in [
        ("a", json!({"kubernetes.io/metadata.name": "a"})),
        ("b", json!({"kubernetes.io/metadata.name": "b", "x": "y"})),
    ] {
        let selected =
            format!("/api/v1/namespaces?labelSelector=kubernetes.io/metadata.name={name}");
        let (_, list) = server.get(&selected).await;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
        assert_eq!(list["items"][0]["metadata"]["labels"], labels);
        // The next write stores the fixed object, whatever it changes.
        let path = format!("/api/v1/namespaces/{name}");
        let patch = json!({"metadata": {"annotations": {"seen": "yes"}}});
        let (code, response) = server.request(Method::PATCH, &path, patch).await;
        assert_eq!(code, 200, "{response}");
        let entry = server
            .state
            .registry
            .store
            .get(&key(name))
            .await
            .expect("store is readable");
        let stored: Value = serde_json::from_slice(&entry.expect(name).value).expect("valid JSON");
        assert_eq!(stored["metadata"]["labels"], labels);
    }
    server.close().await;
}
