//! All patch types that kube-rs sends, except server-side apply.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::make::{code, config_map, object, pod_template, value_of};
use crate::support::TestServer;

async fn deployments(server: &TestServer) -> Api<Deployment> {
    let api = Api::namespaced(server.client().await, "default");
    let wanted = object(json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": pod_template()},
    }));
    api.create(&PostParams::default(), &wanted)
        .await
        .expect("a creation");
    api
}

#[tokio::test]
async fn strategic_merge_patch_merges_lists_by_key() {
    let server = TestServer::start();
    let api = deployments(&server).await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "side", "image": "registry.example/side:1"},
        {"name": "main", "image": "registry.example/main:2"},
    ]}}}});
    let patched = api
        .patch("web", &PatchParams::default(), &Patch::Strategic(patch))
        .await;
    let pod = patched
        .expect("a patch")
        .spec
        .and_then(|spec| spec.template.spec)
        .expect("a pod");
    let mut images: Vec<_> = pod
        .containers
        .into_iter()
        .filter_map(|container| container.image)
        .collect();
    images.sort();
    assert_eq!(
        images,
        ["registry.example/main:2", "registry.example/side:1"]
    );
}

#[tokio::test]
async fn a_merge_patch_replaces_lists_and_removes_with_null() {
    let server = TestServer::start();
    let api = deployments(&server).await;
    let patch = json!({
        "metadata": {"labels": {"a": "1", "b": null}},
        "spec": {"template": {"spec": {"containers": [{"name": "other", "image": "registry.example/other:1"}]}}},
    });
    let patched = api
        .patch("web", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .expect("a patch");
    assert_eq!(patched.labels().len(), 1);
    assert_eq!(patched.metadata.generation, Some(2));
    let pod = patched
        .spec
        .and_then(|spec| spec.template.spec)
        .expect("a pod");
    assert_eq!(pod.containers.len(), 1);
    assert_eq!(pod.containers[0].name, "other");
}

#[tokio::test]
async fn json_patch_test_operation_guards_the_write() {
    let server = TestServer::start();
    let api: Api<ConfigMap> = Api::namespaced(server.client().await, "default");
    api.create(&PostParams::default(), &config_map("a", "1"))
        .await
        .expect("a creation");
    let swap = |from: &str, to: &str| {
        let patch = json!([
            {"op": "test", "path": "/data/value", "value": from},
            {"op": "replace", "path": "/data/value", "value": to},
        ]);
        Patch::Json::<()>(serde_json::from_value(patch).expect("a patch"))
    };
    let params = PatchParams::default();
    let patched = api
        .patch("a", &params, &swap("1", "2"))
        .await
        .expect("a patch");
    assert_eq!(value_of(&patched), "2");
    assert_eq!(
        code(api.patch("a", &params, &swap("1", "3")).await),
        (422, "Invalid".into())
    );
    assert_eq!(value_of(&api.get("a").await.expect("a read")), "2");
}

#[tokio::test]
async fn patch_with_a_stale_version_conflicts_and_dry_run_writes_nothing() {
    let server = TestServer::start();
    let api: Api<ConfigMap> = Api::namespaced(server.client().await, "default");
    let made = api
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .expect("a creation");
    let to = |value: &str| Patch::Merge(json!({"data": {"value": value}}));
    let params = PatchParams::default();
    let shown = api
        .patch("a", &params.clone().dry_run(), &to("2"))
        .await
        .expect("a dry run");
    assert_eq!(value_of(&shown), "2");
    assert_eq!(api.get("a").await.expect("a read"), made);
    api.patch("a", &params, &to("2")).await.expect("a patch");
    let late =
        json!({"metadata": {"resourceVersion": made.resource_version()}, "data": {"value": "3"}});
    assert_eq!(
        code(api.patch("a", &params, &Patch::Merge(late)).await),
        (409, "Conflict".into())
    );
}

#[tokio::test]
async fn partial_object_metadata_can_be_requested() {
    let server = TestServer::start();
    let api: Api<ConfigMap> = Api::namespaced(server.client().await, "default");
    api.create(&PostParams::default(), &config_map("a", "1"))
        .await
        .expect("a creation");
    let patch = Patch::Merge(json!({"metadata": {"labels": {"color": "red"}}}));
    let patched = api
        .patch_metadata("a", &PatchParams::default(), &patch)
        .await
        .expect("a patch");
    assert_eq!(
        patched.labels().get("color").map(String::as_str),
        Some("red")
    );
    let read = api.get_metadata("a").await.expect("a read");
    assert_eq!(read.metadata, patched.metadata);
    assert_eq!(value_of(&api.get("a").await.expect("a read")), "1");
}
