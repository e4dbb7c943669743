//! LimitRanger, tested on a whole server.

use http::Method;
use serde_json::{Value, json};

use super::{CORE, claim, pod, recording_server};
use crate::testing::TestServer;

fn limit_range(name: &str, limits: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name},
        "spec": {"limits": limits},
    })
}

async fn create(server: &TestServer, path: &str, body: Value) {
    let (code, response) = server.create(path, body).await;
    assert_eq!(code, 201, "{response}");
}

fn ranges() -> String {
    format!("{CORE}/limitranges")
}

fn pods() -> String {
    format!("{CORE}/pods")
}

fn pod_with_resources(name: &str, requests: Value, limits: Value) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests, "limits": limits});
    pod
}

async fn assert_forbidden(
    server: &TestServer,
    method: Method,
    path: &str,
    body: Value,
    want: &str,
) {
    let (code, status) = server.request(method, path, body).await;
    assert_eq!(
        (code, status["message"].as_str()),
        (403, Some(want)),
        "{status}"
    );
}

#[tokio::test]
async fn pods_get_defaults_and_stay_within_limits() {
    let (server, _, _directory) = recording_server().await;
    let limits = json!([{
        "type": "Container",
        "default": {"cpu": "100m"},
        "defaultRequest": {"cpu": "50m"},
        "max": {"cpu": "1"},
    }]);
    create(&server, &ranges(), limit_range("r", limits)).await;
    let mut body = pod("p");
    body["spec"]["initContainers"] =
        json!([{"name": "i", "image": "i", "resources": {"limits": {"cpu": "1"}}}]);
    let (code, created) = server.create(&pods(), body).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(
        created["spec"]["containers"][0]["resources"],
        json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "100m"}})
    );
    // Its request was defaulted from its own limit before.
    assert_eq!(
        created["spec"]["initContainers"][0]["resources"],
        json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}})
    );
    assert_eq!(
        created["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    assert_eq!(created["status"]["qosClass"], "Burstable");
    let too_much = pod_with_resources("x", json!({}), json!({"cpu": "2"}));
    let reason = "pods \"x\" is forbidden: maximum cpu usage per Container is 1, but limit is 2";
    assert_forbidden(&server, Method::POST, &pods(), too_much.clone(), reason).await;
    // Other namespaces are not affected.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    create(&server, "/api/v1/namespaces", namespace).await;
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let other_namespace = "/api/v1/namespaces/other";
    create(
        &server,
        &format!("{other_namespace}/serviceaccounts"),
        account,
    )
    .await;
    create(&server, &format!("{other_namespace}/pods"), too_much).await;
}

#[tokio::test]
async fn violations_are_reported_together_per_limit_range() {
    let (server, _, _directory) = recording_server().await;
    let container = json!([{"type": "Container", "min": {"cpu": "1"}, "max": {"memory": "1Gi"}}]);
    create(&server, &ranges(), limit_range("b", container)).await;
    let body = || pod_with_resources("x", json!({"cpu": "500m"}), json!({"memory": "2Gi"}));
    let container_message = "pods \"x\" is forbidden: [minimum cpu usage per Container is 1, but request is 500m, maximum memory usage per Container is 1Gi, but limit is 2Gi]";
    assert_forbidden(&server, Method::POST, &pods(), body(), container_message).await;
    // The first limit range by name reports its violation.
    let whole = json!([{"type": "Pod", "max": {"memory": "1Gi"}}]);
    create(&server, &ranges(), limit_range("a", whole)).await;
    let pod_message =
        "pods \"x\" is forbidden: maximum memory usage per Pod is 1Gi, but limit is 2Gi";
    assert_forbidden(&server, Method::POST, &pods(), body(), pod_message).await;
    // A change takes effect as soon as the client has the response.
    let path = format!("{}/a", ranges());
    let raise = json!({"spec": {"limits": [{"type": "Pod", "max": {"memory": "4Gi"}}]}});
    let (code, response) = server.request(Method::PATCH, &path, raise).await;
    assert_eq!(code, 200, "{response}");
    assert_forbidden(&server, Method::POST, &pods(), body(), container_message).await;
    for name in ["a", "b"] {
        let (code, _) = server.delete(&format!("{}/{name}", ranges())).await;
        assert_eq!(code, 200);
    }
    create(&server, &pods(), body()).await;
}

#[tokio::test]
async fn resizes_are_limited_and_other_updates_are_not() {
    let (server, _, _directory) = recording_server().await;
    let body = pod_with_resources("p", json!({"cpu": "1"}), json!({"cpu": "1"}));
    create(&server, &pods(), body).await;
    let path = format!("{}/p", pods());
    let running = json!({"status": {
        "phase": "Running",
        "containerStatuses": [{
            "name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
        }],
    }});
    let (code, response) = server
        .request(Method::PATCH, &format!("{path}/status"), running)
        .await;
    assert_eq!(code, 200, "{response}");
    let limits = json!([{"type": "Container", "max": {"cpu": "500m"}}]);
    create(&server, &ranges(), limit_range("r", limits)).await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(server.request(Method::PATCH, &path, label).await.0, 200);
    let resize = |cpu: &str| {
        let resources = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
        json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
    };
    let resize_path = format!("{path}/resize");
    let reason = "pods \"p\" is forbidden: maximum cpu usage per Container is 500m, but limit is 2";
    assert_forbidden(&server, Method::PATCH, &resize_path, resize("2"), reason).await;
    let (code, response) = server
        .request(Method::PATCH, &resize_path, resize("400m"))
        .await;
    assert_eq!(code, 200, "{response}");
    let stops = json!({"metadata": {"finalizers": ["example.com/f"]}});
    assert_eq!(server.request(Method::PATCH, &path, stops).await.0, 200);
    assert_eq!(server.delete(&path).await.0, 200);
    let (code, response) = server
        .request(Method::PATCH, &resize_path, resize("2"))
        .await;
    assert_ne!(
        code, 403,
        "a pod that is being deleted is not checked: {response}"
    );
}

#[tokio::test]
async fn claims_are_limited_on_create_and_update() {
    let (server, _, _directory) = recording_server().await;
    let claims = format!("{CORE}/persistentvolumeclaims");
    create(&server, &claims, claim("old")).await;
    let limits = json!([{
        "type": "PersistentVolumeClaim",
        "min": {"storage": "2Gi"},
        "max": {"storage": "3Gi"},
    }]);
    create(&server, &ranges(), limit_range("r", limits)).await;
    let says = |name: &str| {
        format!(
            "persistentvolumeclaims \"{name}\" is forbidden: minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"
        )
    };
    assert_forbidden(&server, Method::POST, &claims, claim("x"), &says("x")).await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let path = format!("{claims}/old");
    assert_forbidden(&server, Method::PATCH, &path, label, &says("old")).await;
    let bound = json!({"status": {"phase": "Bound"}});
    let (code, response) = server
        .request(Method::PATCH, &format!("{path}/status"), bound)
        .await;
    assert_eq!(code, 200, "{response}");
    let mut large = claim("y");
    large["spec"]["resources"]["requests"]["storage"] = json!("4Gi");
    let reason = "persistentvolumeclaims \"y\" is forbidden: maximum storage usage per PersistentVolumeClaim is 3Gi, but request is 4Gi";
    assert_forbidden(&server, Method::POST, &claims, large, reason).await;
    // An object that is being deleted can still lose its finalizers.
    assert_eq!(server.delete(&path).await.0, 200);
    let free = json!({"metadata": {"finalizers": null}});
    let (code, response) = server.request(Method::PATCH, &path, free).await;
    assert_eq!(code, 200, "{response}");
}
