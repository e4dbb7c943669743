//! KEP-2161: every namespace has its name as a label, whatever clients write.

use std::pin::pin;

use futures_util::TryStreamExt;
use http::Method;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::make::object;
use crate::requests::{JSON, MERGE, OPERATIONS, send};
use crate::support::TestServer;

const LABEL: &str = "kubernetes.io/metadata.name";
const OFF: &str = "--feature-gates=NamespaceDefaultLabelName=false";

fn named(name: &str, labels: Value) -> Namespace {
    object(json!({"metadata": {"name": name, "labels": labels}}))
}

fn label(namespace: &Namespace) -> Option<&str> {
    namespace.labels().get(LABEL).map(String::as_str)
}

async fn create(api: &Api<Namespace>, namespace: Namespace) -> Namespace {
    let made = api.create(&PostParams::default(), &namespace).await;
    made.expect("a creation")
}

/// The names that a selector matches, without the system namespaces.
async fn picked(api: &Api<Namespace>, selector: &str) -> Vec<String> {
    let list = api.list(&ListParams::default().labels(selector)).await;
    let names = list.expect(selector).items.into_iter();
    let names = names.map(|namespace| namespace.name_any());
    names
        .filter(|name| name != "default" && !name.starts_with("kube-"))
        .collect()
}

#[tokio::test]
async fn name_label_cannot_be_removed_or_changed() {
    let server = TestServer::start();
    let api: Api<Namespace> = Api::all(server.client().await);
    for labels in [
        json!(null),
        json!({}),
        json!({LABEL: "b"}),
        json!({"x": "y"}),
    ] {
        let made = create(&api, named("a", labels.clone())).await;
        assert_eq!(label(&made), Some("a"), "created with {labels}");
        let mut put = made.clone();
        put.metadata.labels = serde_json::from_value(labels.clone()).expect("labels");
        let put = api.replace("a", &PostParams::default(), &put).await;
        assert_eq!(
            label(&put.expect("an update")),
            Some("a"),
            "updated with {labels}"
        );
        api.delete("a", &DeleteParams::default())
            .await
            .expect("a deletion");
        wait_until_deleted(&api, "a").await;
    }
    let generated = object(json!({"metadata": {"generateName": "gen-", "labels": {LABEL: "z"}}}));
    let generated = create(&api, generated).await;
    assert_eq!(label(&generated), Some(&*generated.name_any()));

    create(&api, named("a", json!({}))).await;
    let json_patch = |operation: Value| {
        let operations = serde_json::from_value(json!([operation])).expect("a patch");
        Patch::Json::<Value>(operations)
    };
    let pointer = "/metadata/labels/kubernetes.io~1metadata.name";
    for patch in [
        Patch::Merge(json!({"metadata": {"labels": {LABEL: null}}})),
        Patch::Merge(json!({"metadata": {"labels": null}})),
        Patch::Merge(json!({"metadata": {"labels": {LABEL: "b"}}})),
        Patch::Strategic(json!({"metadata": {"labels": {LABEL: null}}})),
        Patch::Strategic(json!({"metadata": {"labels": {"$patch": "replace", "x": "y"}}})),
        json_patch(json!({"op": "remove", "path": pointer})),
        json_patch(json!({"op": "replace", "path": pointer, "value": "b"})),
        json_patch(json!({"op": "remove", "path": "/metadata/labels"})),
    ] {
        let patched = api.patch("a", &PatchParams::default(), &patch).await;
        let patched = patched.expect("a patch is never refused for it");
        assert_eq!(label(&patched), Some("a"), "{patch:?}");
        let patched = api.patch_status("a", &PatchParams::default(), &patch).await;
        let patched = patched.expect("nor is one of the status");
        assert_eq!(label(&patched), Some("a"), "{patch:?} of the status");
        assert_eq!(label(&api.get("a").await.expect("a read")), Some("a"));
    }
}

/// Writes that try to change the label get one warning each, others none.
#[tokio::test]
async fn attempts_to_forge_or_remove_the_label_are_warned_of() {
    const NAMESPACES: &str = "/api/v1/namespaces";
    // As in the header.
    let kept = format!(
        "299 - \"metadata.labels: {LABEL} was not removed: every namespace has its name as this label\""
    );
    let corrected = format!(
        "299 - \"metadata.labels: {LABEL} was not set to \\\"b\\\": the value is always the name of the namespace\""
    );
    let server = TestServer::start();
    let client = server.client().await;
    let create = async |labels: Value| {
        let metadata = json!({"generateName": "made-", "labels": labels});
        let body = json!({"metadata": metadata}).to_string();
        send(&client, Method::POST, NAMESPACES, JSON, body).await
    };
    assert_eq!(create(json!(null)).await.warnings, [""; 0]);
    assert_eq!(create(json!({LABEL: "b"})).await.warnings, [&*corrected]);

    let made = send(
        &client,
        Method::GET,
        &format!("{NAMESPACES}/default"),
        JSON,
        "",
    )
    .await;
    let object = made.object();
    let pointer = "/metadata/labels/kubernetes.io~1metadata.name";
    let with_label = |value: Value| {
        let mut object = object.clone();
        object["metadata"]["labels"] = value;
        object
    };
    let merge = |labels: Value| json!({"metadata": {"labels": labels}});
    let status = "default/status";
    for (method, path, media, body, expect) in [
        (Method::PUT, "default", JSON, object.clone(), ""),
        (
            Method::PUT,
            "default",
            JSON,
            with_label(json!({"x": "y"})),
            &*kept,
        ),
        (
            Method::PUT,
            status,
            JSON,
            with_label(json!({LABEL: "b"})),
            &*corrected,
        ),
        (
            Method::PUT,
            "default/finalize",
            JSON,
            with_label(json!(null)),
            &*kept,
        ),
        (
            Method::PATCH,
            "default",
            MERGE,
            merge(json!({"x": "z"})),
            "",
        ),
        (
            Method::PATCH,
            "default",
            MERGE,
            merge(json!({LABEL: null})),
            &*kept,
        ),
        (
            Method::PATCH,
            status,
            MERGE,
            merge(json!({LABEL: "b"})),
            &*corrected,
        ),
        (
            Method::PATCH,
            "default",
            OPERATIONS,
            json!([{"op": "remove", "path": pointer}]),
            &*kept,
        ),
    ] {
        let path = format!("{NAMESPACES}/{path}");
        let mut body = body;
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        let sent = send(&client, method.clone(), &path, media, body.to_string()).await;
        let warnings: Vec<_> = (!expect.is_empty()).then_some(expect).into_iter().collect();
        assert_eq!(sent.warnings, warnings, "{method} {path} {body}");
        assert_eq!(sent.object()["metadata"]["labels"][LABEL], "default");
    }
}

#[tokio::test]
async fn finalize_keeps_the_name_label() {
    let server = TestServer::start();
    let client = server.client().await;
    let api: Api<Namespace> = Api::all(client.clone());
    let mut made = create(&api, named("a", json!({}))).await;
    made.metadata.labels = None;
    if let Some(spec) = &mut made.spec {
        spec.finalizers = Some(vec!["kubernetes".to_owned(), "example.org/hold".to_owned()]);
    }
    assert_eq!(label(&finalize(&client, &made).await), Some("a"));
}

async fn finalize(client: &Client, namespace: &Namespace) -> Namespace {
    let path = format!("/api/v1/namespaces/{}/finalize", namespace.name_any());
    let request = http::Request::put(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(namespace).expect("JSON"))
        .expect("a request");
    client.request(request).await.expect("an answer")
}

async fn wait_until_deleted(api: &Api<Namespace>, name: &str) {
    let mut left = true;
    while left {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        left = api.get_opt(name).await.expect("a read").is_some();
    }
}

/// With the gate off, no label is added and stored labels are kept. With the gate on again, all reads return the
/// label, and the next write stores it.
#[tokio::test]
async fn stored_namespaces_gain_the_label_when_the_gate_is_enabled() {
    let mut server = TestServer::start();
    let api: Api<Namespace> = Api::all(server.client().await);
    create(&api, named("before", json!({}))).await;

    server.restart_with(&[OFF]);
    let api: Api<Namespace> = Api::all(server.client().await);
    let made = create(&api, named("bare", json!({}))).await;
    assert_eq!(label(&made), None, "the gate is off");
    create(&api, named("liar", json!({LABEL: "before"}))).await;
    let before = api.get("before").await.expect("a read");
    assert_eq!(label(&before), Some("before"), "what is stored stays");
    let since = before.resource_version().expect("a version");
    assert_eq!(
        picked(&api, &format!("{LABEL}=before")).await,
        ["before", "liar"]
    );
    let patch = Patch::Merge(json!({"metadata": {"labels": {LABEL: null}}}));
    let patched = api.patch("before", &PatchParams::default(), &patch).await;
    assert_eq!(
        label(&patched.expect("a patch")),
        None,
        "it can be taken away"
    );

    server.restart_with(&[]);
    let api: Api<Namespace> = Api::all(server.client().await);
    for name in ["bare", "before", "liar"] {
        assert_eq!(label(&api.get(name).await.expect("a read")), Some(name));
        assert_eq!(picked(&api, &format!("{LABEL}={name}")).await, [name]);
    }
    let cases = [
        ("bare,liar", "before"),
        ("before,liar", "bare"),
        ("bare,before", "liar"),
    ];
    for (excluded, left) in cases {
        let selector = format!("{LABEL} notin ({excluded})");
        assert_eq!(picked(&api, &selector).await, [left]);
        assert_eq!(picked(&api, &format!("{LABEL} in ({left})")).await, [left]);
    }
    assert_eq!(picked(&api, &format!("!{LABEL}")).await, [""; 0]);
    watched_from_before(&api, &since).await;

    // A write without visible changes still stores the missing label.
    let read = api.get("bare").await.expect("a read");
    let written = api.replace("bare", &PostParams::default(), &read).await;
    assert_ne!(
        written.expect("a write").resource_version(),
        read.resource_version()
    );
    server.restart_with(&[OFF]);
    let api: Api<Namespace> = Api::all(server.client().await);
    assert_eq!(label(&api.get("bare").await.expect("a read")), Some("bare"));
    let liar = api.get("liar").await.expect("a read");
    assert_eq!(label(&liar), Some("before"), "nobody wrote it since");
}

/// A watch with the label selector includes existing namespaces and past events.
async fn watched_from_before(api: &Api<Namespace>, since: &str) {
    let params = WatchParams::default()
        .labels(&format!("{LABEL}=bare"))
        .timeout(5);
    let stream = api.watch(&params, "0").await.expect("a watch");
    let mut stream = pin!(stream);
    let Some(WatchEvent::Added(found)) = stream.try_next().await.expect("an event") else {
        panic!("no namespace was told");
    };
    assert_eq!((&*found.name_any(), label(&found)), ("bare", Some("bare")));
    let params = WatchParams::default()
        .labels(&format!("{LABEL}=before"))
        .timeout(5);
    let stream = api.watch(&params, since).await.expect("a watch");
    let mut stream = pin!(stream);
    let Some(WatchEvent::Modified(changed)) = stream.try_next().await.expect("an event") else {
        panic!("the change was not told as a change");
    };
    assert_eq!(label(&changed), Some("before"));
}
