//! Denials by quotas and their messages.

use http::Method;
use serde_json::{Value, json};

use super::{CORE, create_pod, delete_pod, pod, pod_requesting_cpu, put_quota, server};

#[tokio::test]
async fn a_denial_lists_requested_used_and_limited() {
    let (server, _directory) = server().await;
    put_quota(
        &server,
        "small",
        json!({"hard": {"pods": "1", "requests.cpu": "500m"}}),
    )
    .await;
    let (code, response) = create_pod(&server, "plain", json!({})).await;
    assert_eq!(code, 403);
    assert_eq!(
        response["message"],
        "pods \"plain\" is forbidden: failed quota: small: must specify requests.cpu for: a"
    );
    let (code, response) = create_pod(&server, "large", pod_requesting_cpu("501m")).await;
    assert_eq!(code, 403);
    assert_eq!(
        response["message"],
        "pods \"large\" is forbidden: exceeded quota: small, requested: requests.cpu=501m, used: requests.cpu=0, \
         limited: requests.cpu=500m"
    );
    let (code, response) = create_pod(&server, "fits", pod_requesting_cpu("100m")).await;
    assert_eq!(code, 201, "{response}");
    let (code, response) = create_pod(&server, "second", pod_requesting_cpu("100m")).await;
    assert_eq!(code, 403);
    assert_eq!(response["reason"], "Forbidden");
    assert_eq!(
        response["message"],
        "pods \"second\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1"
    );
}

#[tokio::test]
async fn deleted_and_completed_pods_release_quota() {
    let (server, _directory) = server().await;
    put_quota(
        &server,
        "q",
        json!({"hard": {"pods": "1", "count/pods": "2"}}),
    )
    .await;
    let (code, response) = create_pod(&server, "first", json!({})).await;
    assert_eq!(code, 201, "{response}");
    assert_eq!(create_pod(&server, "second", json!({})).await.0, 403);
    let done = json!({"status": {"phase": "Succeeded"}});
    let path = format!("{CORE}/pods/first/status");
    let (code, response) = server.request(Method::PATCH, &path, done).await;
    assert_eq!(code, 200, "{response}");
    // A terminated pod is not counted by `pods`, but still by `count/pods`.
    assert_eq!(create_pod(&server, "second", json!({})).await.0, 201);
    delete_pod(&server, "second").await;
    assert_eq!(create_pod(&server, "third", json!({})).await.0, 201);
    let (code, response) = create_pod(&server, "fourth", json!({})).await;
    assert_eq!(code, 403);
    assert_eq!(
        response["message"],
        "pods \"fourth\" is forbidden: exceeded quota: q, requested: count/pods=1,pods=1, used: \
         count/pods=2,pods=1, limited: count/pods=2,pods=1"
    );
}

#[tokio::test]
async fn a_dry_run_is_checked_but_reserves_nothing() {
    let (server, _directory) = server().await;
    put_quota(&server, "q", json!({"hard": {"pods": "1"}})).await;
    let dry = format!("{CORE}/pods?dryRun=All");
    for _ in 0..3 {
        let (code, response) = server.create(&dry, pod("x", json!({}))).await;
        assert_eq!(code, 201, "{response}");
    }
    assert_eq!(create_pod(&server, "x", json!({})).await.0, 201);
    assert_eq!(server.create(&dry, pod("y", json!({}))).await.0, 403);
}

#[tokio::test]
async fn an_update_requests_only_its_usage_increase() {
    let (server, _directory) = server().await;
    put_quota(
        &server,
        "q",
        json!({"hard": {"services": "2", "services.nodeports": "1"}}),
    )
    .await;
    let service = |kind: &str, ports: usize| {
        let ports: Vec<Value> = (1..=ports)
            .map(|port| json!({"name": format!("p{port}"), "port": port}))
            .collect();
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"type": kind, "ports": ports},
        })
    };
    let path = format!("{CORE}/services");
    let (code, response) = server.create(&path, service("ClusterIP", 2)).await;
    assert_eq!(code, 201, "{response}");
    let update = async |service: Value| {
        let path = format!("{CORE}/services/s");
        server.request(Method::PUT, &path, service).await
    };
    let (code, response) = update(service("NodePort", 2)).await;
    assert_eq!(code, 403);
    assert_eq!(
        response["message"],
        "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: \
         services.nodeports=0, limited: services.nodeports=1"
    );
    assert_eq!(update(service("NodePort", 1)).await.0, 200);
    assert_eq!(update(service("ClusterIP", 1)).await.0, 200);
}

#[tokio::test]
async fn object_counts_of_any_kind_are_limited() {
    let (server, _directory) = server().await;
    put_quota(
        &server,
        "q",
        json!({"hard": {"configmaps": "1", "count/deployments.apps": "0"}}),
    )
    .await;
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let path = format!("{CORE}/configmaps");
    assert_eq!(server.create(&path, map("a")).await.0, 201);
    assert_eq!(server.create(&path, map("b")).await.0, 403);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]},
        }},
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let (code, response) = server.create(path, deployment).await;
    assert_eq!(code, 403);
    assert_eq!(
        response["message"],
        "deployments.apps \"d\" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, used: \
         count/deployments.apps=0, limited: count/deployments.apps=0"
    );
}

#[tokio::test]
async fn a_new_quota_counts_existing_objects() {
    let (server, _directory) = server().await;
    for name in ["a", "b", "c"] {
        assert_eq!(create_pod(&server, name, json!({})).await.0, 201);
    }
    put_quota(&server, "q", json!({"hard": {"pods": "4"}})).await;
    assert_eq!(create_pod(&server, "d", json!({})).await.0, 201);
    assert_eq!(create_pod(&server, "e", json!({})).await.0, 403);
    // A raised limit takes effect immediately.
    let path = format!("{CORE}/resourcequotas/q");
    let patch = json!({"spec": {"hard": {"pods": "5"}}});
    assert_eq!(server.request(Method::PATCH, &path, patch).await.0, 200);
    assert_eq!(create_pod(&server, "e", json!({})).await.0, 201);
    assert_eq!(create_pod(&server, "f", json!({})).await.0, 403);
    assert_eq!(server.delete(&path).await.0, 200);
    assert_eq!(create_pod(&server, "f", json!({})).await.0, 201);
}

/// A pod is counted or rejected however its numbers are written.
#[tokio::test]
async fn pods_with_unusual_quantities_are_counted() {
    let (server, _directory) = server().await;
    put_quota(&server, "q", json!({"hard": {"pods": "0"}})).await;
    let odd = [
        r#""activeDeadlineSeconds": 5.0"#,
        r#""activeDeadlineSeconds": 5e0"#,
        r#""overhead": {"cpu": 1.5e3}"#,
        r#""overhead": {"cpu": null}"#,
        r#""resources": {"requests": {"cpu": 9223372036854775808}}"#,
        r#""resources": {"requests": {"cpu": 1e300}}"#,
        r#""priorityClassName": null"#,
        r#""affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": null}}"#,
    ];
    for (index, odd) in odd.iter().enumerate() {
        let metadata_patch: Value =
            serde_json::from_str(&format!("{{{odd}}}")).expect("valid JSON");
        let mut odd_pod = pod(&format!("odd-{index}"), json!({}));
        for (field, value) in metadata_patch.as_object().expect("JSON object") {
            odd_pod["spec"][field] = value.clone();
        }
        let (code, response) = server.create(&format!("{CORE}/pods"), odd_pod).await;
        assert!([400, 403, 422].contains(&code), "{odd}: {code} {response}");
    }
}

/// A pod whose request overflows the sum must not reset the tracked usage.
#[tokio::test]
async fn an_overflowing_pod_does_not_reset_usage() {
    let (server, _directory) = server().await;
    for (name, cpu) in [("real", "2"), ("zimmense", "1e40")] {
        let (code, response) = create_pod(&server, name, pod_requesting_cpu(cpu)).await;
        assert_eq!(code, 201, "{response}");
    }
    put_quota(&server, "q", json!({"hard": {"requests.cpu": "2"}})).await;
    assert_eq!(
        create_pod(&server, "more", pod_requesting_cpu("2")).await.0,
        403,
        "while the immense pod exists"
    );
    delete_pod(&server, "zimmense").await;
    let (code, response) = create_pod(&server, "more", pod_requesting_cpu("2")).await;
    assert_eq!(code, 403, "{response}");
}
