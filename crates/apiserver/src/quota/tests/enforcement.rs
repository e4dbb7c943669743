//! What quotas keep out, and in which words.

use http::Method;
use serde_json::{Value, json};

use super::{CORE, create_pod, delete_pod, pod, put_quota, requesting, server};

#[tokio::test]
async fn a_refusal_says_what_was_asked_used_and_limited() {
    let (server, _directory) = server().await;
    put_quota(
        &server,
        "small",
        json!({"hard": {"pods": "1", "requests.cpu": "500m"}}),
    )
    .await;
    let (code, answer) = create_pod(&server, "plain", json!({})).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "pods \"plain\" is forbidden: failed quota: small: must specify requests.cpu for: a"
    );
    let (code, answer) = create_pod(&server, "large", requesting("501m")).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "pods \"large\" is forbidden: exceeded quota: small, requested: requests.cpu=501m, used: requests.cpu=0, \
         limited: requests.cpu=500m"
    );
    let (code, answer) = create_pod(&server, "fits", requesting("100m")).await;
    assert_eq!(code, 201, "{answer}");
    let (code, answer) = create_pod(&server, "second", requesting("100m")).await;
    assert_eq!(code, 403);
    assert_eq!(answer["reason"], "Forbidden");
    assert_eq!(
        answer["message"],
        "pods \"second\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1"
    );
}

#[tokio::test]
async fn what_goes_or_completes_makes_room() {
    let (server, _directory) = server().await;
    put_quota(
        &server,
        "q",
        json!({"hard": {"pods": "1", "count/pods": "2"}}),
    )
    .await;
    let (code, answer) = create_pod(&server, "first", json!({})).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(create_pod(&server, "second", json!({})).await.0, 403);
    let done = json!({"status": {"phase": "Succeeded"}});
    let path = format!("{CORE}/pods/first/status");
    let (code, answer) = server.ask(Method::PATCH, &path, done).await;
    assert_eq!(code, 200, "{answer}");
    // A pod that is done is still an object.
    assert_eq!(create_pod(&server, "second", json!({})).await.0, 201);
    delete_pod(&server, "second").await;
    assert_eq!(create_pod(&server, "third", json!({})).await.0, 201);
    let (code, answer) = create_pod(&server, "fourth", json!({})).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "pods \"fourth\" is forbidden: exceeded quota: q, requested: count/pods=1,pods=1, used: \
         count/pods=2,pods=1, limited: count/pods=2,pods=1"
    );
}

#[tokio::test]
async fn a_dry_run_is_told_and_takes_nothing() {
    let (server, _directory) = server().await;
    put_quota(&server, "q", json!({"hard": {"pods": "1"}})).await;
    let dry = format!("{CORE}/pods?dryRun=All");
    for _ in 0..3 {
        let (code, answer) = server.create(&dry, pod("x", json!({}))).await;
        assert_eq!(code, 201, "{answer}");
    }
    assert_eq!(create_pod(&server, "x", json!({})).await.0, 201);
    assert_eq!(server.create(&dry, pod("y", json!({}))).await.0, 403);
}

#[tokio::test]
async fn only_what_grows_in_an_update_is_asked_for() {
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
    let (code, answer) = server.create(&path, service("ClusterIP", 2)).await;
    assert_eq!(code, 201, "{answer}");
    let update = async |service: Value| {
        let path = format!("{CORE}/services/s");
        server.ask(Method::PUT, &path, service).await
    };
    let (code, answer) = update(service("NodePort", 2)).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: \
         services.nodeports=0, limited: services.nodeports=1"
    );
    assert_eq!(update(service("NodePort", 1)).await.0, 200);
    assert_eq!(update(service("ClusterIP", 1)).await.0, 200);
}

#[tokio::test]
async fn every_kind_can_be_counted() {
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
    let (code, answer) = server.create(path, deployment).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "deployments.apps \"d\" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, used: \
         count/deployments.apps=0, limited: count/deployments.apps=0"
    );
}

#[tokio::test]
async fn a_quota_counts_what_was_there_before_it() {
    let (server, _directory) = server().await;
    for name in ["a", "b", "c"] {
        assert_eq!(create_pod(&server, name, json!({})).await.0, 201);
    }
    put_quota(&server, "q", json!({"hard": {"pods": "4"}})).await;
    assert_eq!(create_pod(&server, "d", json!({})).await.0, 201);
    assert_eq!(create_pod(&server, "e", json!({})).await.0, 403);
    // A limit that is raised holds at once.
    let path = format!("{CORE}/resourcequotas/q");
    let more = json!({"spec": {"hard": {"pods": "5"}}});
    assert_eq!(server.ask(Method::PATCH, &path, more).await.0, 200);
    assert_eq!(create_pod(&server, "e", json!({})).await.0, 201);
    assert_eq!(create_pod(&server, "f", json!({})).await.0, 403);
    assert_eq!(server.delete(&path).await.0, 200);
    assert_eq!(create_pod(&server, "f", json!({})).await.0, 201);
}

/// Whatever way a number is written, the pod is counted or refused.
#[tokio::test]
async fn a_pod_with_odd_numbers_is_counted() {
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
    for (place, odd) in odd.iter().enumerate() {
        let more: Value = serde_json::from_str(&format!("{{{odd}}}")).expect("JSON");
        let mut odd_pod = pod(&format!("odd-{place}"), json!({}));
        for (field, value) in more.as_object().expect("fields") {
            odd_pod["spec"][field] = value.clone();
        }
        let (code, answer) = server.create(&format!("{CORE}/pods"), odd_pod).await;
        assert!([400, 403, 422].contains(&code), "{odd}: {code} {answer}");
    }
}

/// A tenant cannot make the book forget what is used by a pod that asks for more than can be added up.
#[tokio::test]
async fn an_immense_pod_from_before_the_quota_buys_nothing() {
    let (server, _directory) = server().await;
    for (name, cpu) in [("real", "2"), ("zimmense", "1e40")] {
        let (code, answer) = create_pod(&server, name, requesting(cpu)).await;
        assert_eq!(code, 201, "{answer}");
    }
    put_quota(&server, "q", json!({"hard": {"requests.cpu": "2"}})).await;
    assert_eq!(
        create_pod(&server, "more", requesting("2")).await.0,
        403,
        "while it is there"
    );
    delete_pod(&server, "zimmense").await;
    let (code, answer) = create_pod(&server, "more", requesting("2")).await;
    assert_eq!(code, 403, "{answer}");
}
