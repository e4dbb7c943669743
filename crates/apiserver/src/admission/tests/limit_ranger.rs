//! Limit ranges are in force.

use http::Method;
use serde_json::{Value, json};

use super::{CORE, claim, pod, recorded};
use crate::testing::Server;

fn limit_range(name: &str, limits: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name},
        "spec": {"limits": limits},
    })
}

async fn make(server: &Server, path: &str, body: Value) {
    let (code, answer) = server.create(path, body).await;
    assert_eq!(code, 201, "{answer}");
}

fn ranges() -> String {
    format!("{CORE}/limitranges")
}

fn pods() -> String {
    format!("{CORE}/pods")
}

fn asking(name: &str, requests: Value, limits: Value) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests, "limits": limits});
    pod
}

async fn refused(server: &Server, method: Method, path: &str, body: Value, want: &str) {
    let (code, status) = server.ask(method, path, body).await;
    assert_eq!(
        (code, status["message"].as_str()),
        (403, Some(want)),
        "{status}"
    );
}

#[tokio::test]
async fn pods_get_defaults_and_stay_within_limits() {
    let (server, _, _directory) = recorded().await;
    let limits = json!([{
        "type": "Container",
        "default": {"cpu": "100m"},
        "defaultRequest": {"cpu": "50m"},
        "max": {"cpu": "1"},
    }]);
    make(&server, &ranges(), limit_range("r", limits)).await;
    let mut body = pod("p");
    body["spec"]["initContainers"] =
        json!([{"name": "i", "image": "i", "resources": {"limits": {"cpu": "1"}}}]);
    let (code, made) = server.create(&pods(), body).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "100m"}})
    );
    // What it says itself had its own default before.
    assert_eq!(
        made["spec"]["initContainers"][0]["resources"],
        json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}})
    );
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    assert_eq!(made["status"]["qosClass"], "Burstable");
    let too_much = asking("x", json!({}), json!({"cpu": "2"}));
    let reason = "pods \"x\" is forbidden: maximum cpu usage per Container is 1, but limit is 2";
    refused(&server, Method::POST, &pods(), too_much.clone(), reason).await;
    // Other namespaces are not concerned.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    make(&server, "/api/v1/namespaces", namespace).await;
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let other = "/api/v1/namespaces/other";
    make(&server, &format!("{other}/serviceaccounts"), account).await;
    make(&server, &format!("{other}/pods"), too_much).await;
}

#[tokio::test]
async fn all_that_is_wrong_is_said_at_once_range_by_range() {
    let (server, _, _directory) = recorded().await;
    let container = json!([{"type": "Container", "min": {"cpu": "1"}, "max": {"memory": "1Gi"}}]);
    make(&server, &ranges(), limit_range("b", container)).await;
    let body = || asking("x", json!({"cpu": "500m"}), json!({"memory": "2Gi"}));
    let both = "pods \"x\" is forbidden: [minimum cpu usage per Container is 1, but request is 500m, maximum memory usage per Container is 1Gi, but limit is 2Gi]";
    refused(&server, Method::POST, &pods(), body(), both).await;
    // The first by name is the one that says it.
    let whole = json!([{"type": "Pod", "max": {"memory": "1Gi"}}]);
    make(&server, &ranges(), limit_range("a", whole)).await;
    let first = "pods \"x\" is forbidden: maximum memory usage per Pod is 1Gi, but limit is 2Gi";
    refused(&server, Method::POST, &pods(), body(), first).await;
    // Whoever was told of a change is subject to it.
    let path = format!("{}/a", ranges());
    let raise = json!({"spec": {"limits": [{"type": "Pod", "max": {"memory": "4Gi"}}]}});
    let (code, answer) = server.ask(Method::PATCH, &path, raise).await;
    assert_eq!(code, 200, "{answer}");
    refused(&server, Method::POST, &pods(), body(), both).await;
    for name in ["a", "b"] {
        let (code, _) = server.delete(&format!("{}/{name}", ranges())).await;
        assert_eq!(code, 200);
    }
    make(&server, &pods(), body()).await;
}

#[tokio::test]
async fn a_resize_stays_within_limits_and_other_updates_are_free() {
    let (server, _, _directory) = recorded().await;
    let body = asking("p", json!({"cpu": "1"}), json!({"cpu": "1"}));
    make(&server, &pods(), body).await;
    let path = format!("{}/p", pods());
    let running = json!({"status": {
        "phase": "Running",
        "containerStatuses": [{
            "name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
        }],
    }});
    let (code, answer) = server
        .ask(Method::PATCH, &format!("{path}/status"), running)
        .await;
    assert_eq!(code, 200, "{answer}");
    let limits = json!([{"type": "Container", "max": {"cpu": "500m"}}]);
    make(&server, &ranges(), limit_range("r", limits)).await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(server.ask(Method::PATCH, &path, label).await.0, 200);
    let resize = |cpu: &str| {
        let resources = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
        json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
    };
    let at = format!("{path}/resize");
    let reason = "pods \"p\" is forbidden: maximum cpu usage per Container is 500m, but limit is 2";
    refused(&server, Method::PATCH, &at, resize("2"), reason).await;
    let (code, answer) = server.ask(Method::PATCH, &at, resize("400m")).await;
    assert_eq!(code, 200, "{answer}");
    let stops = json!({"metadata": {"finalizers": ["example.com/f"]}});
    assert_eq!(server.ask(Method::PATCH, &path, stops).await.0, 200);
    assert_eq!(server.delete(&path).await.0, 200);
    let (code, answer) = server.ask(Method::PATCH, &at, resize("2")).await;
    assert_ne!(
        code, 403,
        "whoever is being deleted is left alone: {answer}"
    );
}

#[tokio::test]
async fn claims_stay_within_limits_as_they_are_made_and_changed() {
    let (server, _, _directory) = recorded().await;
    let claims = format!("{CORE}/persistentvolumeclaims");
    make(&server, &claims, claim("old")).await;
    let limits = json!([{
        "type": "PersistentVolumeClaim",
        "min": {"storage": "2Gi"},
        "max": {"storage": "3Gi"},
    }]);
    make(&server, &ranges(), limit_range("r", limits)).await;
    let says = |name: &str| {
        format!(
            "persistentvolumeclaims \"{name}\" is forbidden: minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"
        )
    };
    refused(&server, Method::POST, &claims, claim("x"), &says("x")).await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let path = format!("{claims}/old");
    refused(&server, Method::PATCH, &path, label, &says("old")).await;
    let bound = json!({"status": {"phase": "Bound"}});
    let (code, answer) = server
        .ask(Method::PATCH, &format!("{path}/status"), bound)
        .await;
    assert_eq!(code, 200, "{answer}");
    let mut large = claim("y");
    large["spec"]["resources"]["requests"]["storage"] = json!("4Gi");
    let reason = "persistentvolumeclaims \"y\" is forbidden: maximum storage usage per PersistentVolumeClaim is 3Gi, but request is 4Gi";
    refused(&server, Method::POST, &claims, large, reason).await;
    // What is being deleted can still lose its finalizers.
    assert_eq!(server.delete(&path).await.0, 200);
    let free = json!({"metadata": {"finalizers": null}});
    let (code, answer) = server.ask(Method::PATCH, &path, free).await;
    assert_eq!(code, 200, "{answer}");
}
