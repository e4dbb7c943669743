//! The response to a create must equal what is read afterwards.

use serde_json::{Value, json};

use super::server;

/// Paths and objects to create. They cover conversion from other versions, generated names, allocated addresses, and
/// labels and fields that the server sets.
fn create_requests() -> Vec<(&'static str, Value)> {
    let hpa = |version: &str, name: &str| {
        json!({
            "apiVersion": format!("autoscaling/{version}"),
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "maxReplicas": 3,
            },
        })
    };
    vec![
        (
            "/api/v1/namespaces",
            json!({"metadata": {"generateName": "n-", "labels": {"kubernetes.io/metadata.name": "forged"}}}),
        ),
        (
            "/api/v1/namespaces/default/pods",
            json!({"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        ),
        (
            "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}),
        ),
        (
            "/api/v1/namespaces/default/configmaps",
            json!({"metadata": {"name": "c"}, "data": {"a": "b"}}),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}}}),
        ),
        (
            "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
            hpa("v1", "one"),
        ),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            hpa("v2", "two"),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            json!({"metadata": {"name": "r"}, "rules": []}),
        ),
    ]
}

#[tokio::test]
async fn the_create_response_equals_a_later_get() {
    let (_directory, server) = server().await;
    for (path, object) in create_requests() {
        let (code, created) = server.create(path, object).await;
        assert_eq!(code, 201, "{path}: {created}");
        let name = created["metadata"]["name"].as_str().expect("a name");
        let (code, fetched) = server.get(&format!("{path}/{name}")).await;
        assert_eq!((code, &fetched), (200, &created), "{path}");
    }
    server.close().await;
}

#[tokio::test]
async fn resources_with_the_same_plural_are_found_by_group() {
    let (_directory, server) = server().await;
    for group in ["", "events.k8s.io"] {
        let resource = server.state.registry.find(group, "events");
        assert_eq!(resource.expect("resource is served").kind.group, group);
    }
    assert!(server.state.registry.find("apps", "events").is_none());
    server.close().await;
}
