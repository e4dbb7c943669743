//! What the client that creates an object is told of it.

use serde_json::{Value, json};

use super::server;

/// A path, and what is created there: with versions that are not stored as they are, names and addresses that the server
/// chooses, and what it adds to labels and policies.
fn creations() -> Vec<(&'static str, Value)> {
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
async fn the_answer_is_what_is_read_afterwards() {
    let (_directory, server) = server().await;
    for (path, object) in creations() {
        let (code, made) = server.create(path, object).await;
        assert_eq!(code, 201, "{path}: {made}");
        let name = made["metadata"]["name"].as_str().expect("a name");
        let (code, read) = server.get(&format!("{path}/{name}")).await;
        assert_eq!((code, &read), (200, &made), "{path}");
    }
    server.close().await;
}

#[tokio::test]
async fn kinds_of_one_name_in_two_groups_are_told_apart() {
    let (_directory, server) = server().await;
    for group in ["", "events.k8s.io"] {
        let found = server.api.registry.find(group, "events");
        assert_eq!(found.expect("served").kind.group, group);
    }
    assert!(server.api.registry.find("apps", "events").is_none());
    server.close().await;
}
