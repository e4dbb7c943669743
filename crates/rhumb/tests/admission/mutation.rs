//! Mutating webhooks.

use http::StatusCode;
use serde_json::{Value, json};

use crate::cluster::{Mutating, Validating, WebhookTestCluster, config_map, message};
use crate::support::CONFIG_MAPS;
use crate::webhook::{WebhookResponse, allow, patch};

/// Sets a value below `data`.
fn add(key: &'static str, value: &'static str) -> impl Fn(&Value) -> WebhookResponse {
    move |_| {
        let path = format!("/data/{key}");
        patch(&json!([{"op": "add", "path": path, "value": value}]))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutating_webhooks_run_in_name_order() {
    let cluster = WebhookTestCluster::start().await;
    for (path, key) in [("/a1", "1"), ("/a2", "2"), ("/b", "3")] {
        cluster.webhook.on(path, add(key, "x"));
    }
    // Configurations are ordered by name regardless of creation time, webhooks by list position.
    cluster.register(Mutating, "b", [cluster.hook("b")]).await;
    cluster
        .register(Mutating, "a", [cluster.hook("a2"), cluster.hook("a1")])
        .await;
    cluster
        .register(Validating, "after", [cluster.hook("after")])
        .await;
    let response = cluster.must_create(CONFIG_MAPS, config_map("c")).await;
    assert_eq!(
        response["data"],
        json!({"1": "x", "2": "x", "3": "x", "a": "b"})
    );
    assert_eq!(
        cluster.webhook.received_paths(),
        ["/a2", "/a1", "/b", "/after"]
    );
    for (path, keys) in [("/a2", 1), ("/a1", 2), ("/b", 3), ("/after", 4)] {
        let request = &cluster.webhook.received(path)[0].request;
        assert_eq!(request["object"]["data"].as_object().unwrap().len(), keys);
    }
    assert_eq!(
        cluster.get(&format!("{CONFIG_MAPS}/c")).await["data"],
        response["data"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutated_objects_are_defaulted_and_validated() {
    let cluster = WebhookTestCluster::start().await;
    cluster.webhook.on("/services", |request| {
        let name = request["name"].as_str().unwrap();
        let port = match name {
            "wrong" => json!({"name": "p", "port": 70000}),
            _ => json!({"name": "p", "port": 7000}),
        };
        patch(&json!([{"op": "add", "path": "/spec/ports/-", "value": port}]))
    });
    let hook = cluster
        .hook("services")
        .matching(&["CREATE"], "", "v1", "services");
    cluster.register(Mutating, "services", [hook]).await;
    // The next webhook receives the defaulted object.
    let later = cluster
        .hook("later")
        .matching(&["CREATE"], "", "v1", "services");
    cluster.register(Mutating, "services-later", [later]).await;
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"name": "o", "port": 80}]}});
    let path = "/api/v1/namespaces/default/services";
    let response = cluster.must_create(path, service("right")).await;
    let port = &response["spec"]["ports"][1];
    assert_eq!(
        *port,
        json!({"name": "p", "port": 7000, "protocol": "TCP", "targetPort": 7000})
    );
    let seen = &cluster.webhook.received("/later")[0].request["object"];
    assert_eq!(seen["spec"]["ports"][1], *port);

    let response = cluster.post(path, &service("wrong")).await;
    assert_eq!(
        response.code,
        StatusCode::UNPROCESSABLE_ENTITY,
        "{}",
        response.text()
    );
    assert!(message(&response).contains("spec.ports[1].port: Invalid value: 70000"));
}

/// The client sent a valid network policy; it learns which field a webhook has made invalid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn network_policies_made_invalid_by_a_webhook_are_unprocessable() {
    let cluster = WebhookTestCluster::start().await;
    let hook =
        cluster
            .hook("policies")
            .matching(&["*"], "networking.k8s.io", "v1", "networkpolicies");
    cluster.register(Mutating, "policies", [hook]).await;
    let path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let policy = json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}}});
    let port = json!([{"ports": [{"port": 80, "endPort": 70}]}]);
    for (field, value, expect) in [
        (
            "other",
            json!([{}]),
            "strict decoding error after mutating admission: unknown field \"spec.other\"",
        ),
        (
            "minVersion",
            json!("7.0"),
            "spec.minVersion: Unsupported value: \"7.0\"",
        ),
        (
            "ingress",
            port,
            "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`",
        ),
    ] {
        cluster.webhook.on("/policies", move |_| {
            let path = format!("/spec/{field}");
            patch(&json!([{"op": "add", "path": path, "value": value}]))
        });
        let refused = cluster.post(path, &policy).await;
        let text = message(&refused);
        assert_eq!(refused.code, StatusCode::UNPROCESSABLE_ENTITY, "{text}");
        assert!(text.contains(expect), "{text}");
        assert!(
            text.starts_with("NetworkPolicy.networking.k8s.io \"p\" is invalid: "),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_and_patches_are_mutated_but_not_deletes() {
    let cluster = WebhookTestCluster::start().await;
    cluster.webhook.on("/hook", add("seen", "yes"));
    let everything = ["CREATE", "UPDATE", "DELETE"];
    let hook = cluster
        .hook("hook")
        .matching(&everything, "", "v1", "configmaps")
        .with("objectSelector", json!({"matchLabels": {"see": "this"}}));
    cluster.must_create(CONFIG_MAPS, config_map("c")).await;
    cluster.register(Mutating, "hook", [hook]).await;

    let path = format!("{CONFIG_MAPS}/c");
    let label = json!({"metadata": {"labels": {"see": "this"}}});
    let patched = cluster.merge(&path, &label).await;
    assert_eq!(patched.json()["data"]["seen"], "yes");
    let mut map = config_map("c");
    map["metadata"]["labels"] = json!({"see": "this"});
    let put = cluster.put(&path, &map).await;
    assert_eq!(put.json()["data"]["seen"], "yes");

    let deleted = cluster.delete(&path).await;
    assert_eq!(deleted.code, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(
        message(&deleted),
        "Internal error occurred: admission webhook \"hook.example.com\" attempted to modify the object, which is \
         not supported for this operation"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_is_reinvoked_if_needed_after_later_mutations() {
    let cluster = WebhookTestCluster::start().await;
    // Counts calls, so that every call changes the object again.
    for path in ["/a-again", "/b-once", "/c-again"] {
        cluster.webhook.on(path, move |request| {
            let keys = request["object"]["data"].as_object().unwrap().len();
            let key = format!("/data{path}-{keys}");
            patch(&json!([{"op": "add", "path": key, "value": "x"}]))
        });
    }
    let again = |name: &str| {
        cluster
            .hook(name)
            .with("reinvocationPolicy", json!("IfNeeded"))
    };
    let hooks = [again("a-again"), cluster.hook("b-once"), again("c-again")];
    cluster.register(Mutating, "hooks", hooks).await;
    cluster.must_create(CONFIG_MAPS, config_map("c")).await;
    // The last webhook is not reinvoked for its own change, but for that of the first webhook in the second round.
    assert_eq!(
        cluster.webhook.received_paths(),
        ["/a-again", "/b-once", "/c-again", "/a-again", "/c-again"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reinvocation_without_mutation() {
    let cluster = WebhookTestCluster::start().await;
    cluster.webhook.on("/a", add("k", "v"));
    cluster.webhook.on("/b", |_| allow());
    // A patch without effect is no mutation.
    cluster.webhook.on("/c", add("k", "v"));
    let again = |name: &str| {
        cluster
            .hook(name)
            .with("reinvocationPolicy", json!("IfNeeded"))
    };
    cluster
        .register(Mutating, "hooks", [again("a"), again("b"), again("c")])
        .await;
    cluster.must_create(CONFIG_MAPS, config_map("c")).await;
    assert_eq!(cluster.webhook.received_paths(), ["/a", "/b", "/c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_cannot_change_the_namespace_name_label() {
    let cluster = WebhookTestCluster::start().await;
    cluster.webhook.on("/hook", |_| {
        patch(&json!([
            {"op": "add", "path": "/metadata/labels/kubernetes.io~1metadata.name", "value": "other"},
            {"op": "add", "path": "/metadata/labels/x", "value": "y"},
        ]))
    });
    let hook = cluster
        .hook("hook")
        .matching(&["CREATE"], "", "v1", "namespaces");
    cluster.register(Mutating, "hook", [hook]).await;
    let namespace = json!({"metadata": {"name": "n", "labels": {"a": "b"}}});
    let response = cluster.must_create("/api/v1/namespaces", namespace).await;
    let labels = &response["metadata"]["labels"];
    assert_eq!(labels["kubernetes.io/metadata.name"], "n");
    assert_eq!(labels["x"], "y");
}
