//! Objects that another server stored, in its own form.

use http::Method;
use rhumb_schema::{Table, protobuf};
use serde_json::{Value, json};

use super::{PODS, server};
use crate::testing::{Others, Server, Setup};
use rhumb_store::{Expect, Transaction};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP_KEY: &str = "/registry/configmaps/default/a";

/// An object as a kube-apiserver stores it.
fn sealed(schema: &str, object: &Value) -> Vec<u8> {
    let table = Table::builtin();
    let of = table.named(schema).expect("a type");
    let object = object.as_object().expect("an object");
    protobuf::seal(table, of, object).expect("a message")
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

fn sealed_map(value: &str) -> Vec<u8> {
    sealed("io.k8s.api.core.v1.ConfigMap", &config_map(value))
}

/// Changes what has this value, and looks at what is stored then.
async fn patch_and_check(server: &Server, value: &str) {
    let path = format!("{CONFIG_MAPS}/a");
    let patch = json!({"data": {"more": "x"}});
    let (code, answer) = server.ask(Method::PATCH, &path, patch).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(answer["data"], json!({"key": value, "more": "x"}));
    let entry = server.api.store.get(MAP_KEY).await.expect("a read");
    let stored = entry.expect("an entry").value;
    assert!(stored.starts_with(b"{\"apiVersion\":"), "{stored:?}");
}

#[tokio::test]
async fn what_is_stored_in_protobuf_is_served_and_written_back_as_json() {
    let (_directory, server) = server().await;
    server.plant(MAP_KEY, sealed_map("old")).await;
    let (code, mut found) = server.get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(code, 200, "{found}");
    assert!(found["metadata"]["resourceVersion"].take().is_string());
    let mut expect = config_map("old");
    expect["metadata"]["resourceVersion"] = Value::Null;
    assert_eq!(found, expect);
    let (_, list) = server
        .get(&format!("{CONFIG_MAPS}?labelSelector=x%3Dy"))
        .await;
    assert_eq!(list["items"][0]["data"], json!({"key": "old"}));
    patch_and_check(&server, "old").await;
    server.plant(MAP_KEY, sealed_map("again")).await;
    assert_eq!(server.delete(&format!("{CONFIG_MAPS}/a")).await.0, 200);
    server.close().await;
}

#[tokio::test]
async fn a_write_goes_over_what_another_server_has_just_stored() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = std::sync::atomic::AtomicBool::new(true);
    let store = Others::new(Server::store(directory.path()).await, move |transaction| {
        let is_update = transaction.operations().iter().any(|operation| {
            **operation.key() == *MAP_KEY && matches!(operation.expect(), Expect::At(_))
        });
        let is_first = is_update && first.swap(false, std::sync::atomic::Ordering::Relaxed);
        is_first.then(|| Transaction::new().put(MAP_KEY, sealed_map("theirs"), Expect::Any))
    });
    let server = Server::on(store, Setup::default()).await;
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
    let pod = sealed("io.k8s.api.core.v1.Pod", &pod);
    server.plant("/registry/pods/default/p", pod).await;
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
async fn another_version_becomes_the_one_that_is_stored() {
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
    let in_protobuf = sealed("io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler", &scaler);
    for stored in [in_protobuf, scaler.to_string().into_bytes()] {
        server
            .plant("/registry/horizontalpodautoscalers/default/h", stored)
            .await;
        let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/h";
        let (code, found) = server.get(path).await;
        assert_eq!(code, 200, "{found}");
        assert_eq!(found["apiVersion"], "autoscaling/v2");
        assert_eq!(
            found["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"],
            50
        );
    }
    server.close().await;
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error_of_that_object_alone() {
    let (_directory, server) = server().await;
    let whole = sealed_map("old");
    let cut = whole[..whole.len() - 20].to_vec();
    let unknown = b"k8s\0\x0a\x08\x0a\x02v9\x12\x02No\x12\x00".to_vec();
    for (stored, reason) in [
        (cut, "unexpected EOF"),
        (unknown, "it is stored as No of v9, which is not known"),
        (b"k8s\0".to_vec(), "empty body"),
        (b"[1]".to_vec(), "not an object in JSON"),
    ] {
        server.plant(MAP_KEY, stored).await;
        let (code, answer) = server.get(&format!("{CONFIG_MAPS}/a")).await;
        assert_eq!(code, 500);
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.contains(reason), "{message}");
        assert_eq!(server.get(CONFIG_MAPS).await.0, 200);
    }
    server.close().await;
}

#[tokio::test]
async fn a_namespace_that_others_stored_without_its_label_has_it() {
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
    let sealed = sealed("io.k8s.api.core.v1.Namespace", &bare("a", json!({})));
    server.plant(&key("a"), sealed).await;
    let with_other = bare("b", json!({"kubernetes.io/metadata.name": "a", "x": "y"}));
    server.plant(&key("b"), with_other.to_string()).await;
    for (name, labels) in [
        ("a", json!({"kubernetes.io/metadata.name": "a"})),
        ("b", json!({"kubernetes.io/metadata.name": "b", "x": "y"})),
    ] {
        let selected =
            format!("/api/v1/namespaces?labelSelector=kubernetes.io/metadata.name={name}");
        let (_, list) = server.get(&selected).await;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
        assert_eq!(list["items"][0]["metadata"]["labels"], labels);
        // The stored form is put right by the next write, whatever that is about.
        let path = format!("/api/v1/namespaces/{name}");
        let patch = json!({"metadata": {"annotations": {"seen": "yes"}}});
        let (code, answer) = server.ask(Method::PATCH, &path, patch).await;
        assert_eq!(code, 200, "{answer}");
        let entry = server.api.store.get(&key(name)).await.expect("a read");
        let stored: Value = serde_json::from_slice(&entry.expect(name).value).expect("JSON");
        assert_eq!(stored["metadata"]["labels"], labels);
    }
    server.close().await;
}
