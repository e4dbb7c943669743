//! Webhooks that change what is written.

use http::StatusCode;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Mutating, Validating, config_map, message};
use crate::support::CONFIG_MAPS;
use crate::webhook::{Act, allow, patch};

/// Puts a value below `data`.
fn add(key: &'static str, value: &'static str) -> impl Fn(&Value) -> Act {
    move |_| {
        let path = format!("/data/{key}");
        patch(&json!([{"op": "add", "path": path, "value": value}]))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_change_an_object_in_the_order_of_their_names() {
    let cluster = Cluster::start().await;
    for (path, key) in [("/a1", "1"), ("/a2", "2"), ("/b", "3")] {
        cluster.webhook.on(path, add(key, "x"));
    }
    // Configurations are in the order of their names whenever they were made, webhooks in that of their list.
    cluster.register(Mutating, "b", [cluster.hook("b")]).await;
    cluster
        .register(Mutating, "a", [cluster.hook("a2"), cluster.hook("a1")])
        .await;
    cluster
        .register(Validating, "after", [cluster.hook("after")])
        .await;
    let made = cluster.must_make(CONFIG_MAPS, config_map("c")).await;
    assert_eq!(
        made["data"],
        json!({"1": "x", "2": "x", "3": "x", "a": "b"})
    );
    assert_eq!(cluster.webhook.order(), ["/a2", "/a1", "/b", "/after"]);
    for (path, keys) in [("/a2", 1), ("/a1", 2), ("/b", 3), ("/after", 4)] {
        let request = &cluster.webhook.asked(path)[0].request;
        assert_eq!(request["object"]["data"].as_object().unwrap().len(), keys);
    }
    assert_eq!(
        cluster.get(&format!("{CONFIG_MAPS}/c")).await["data"],
        made["data"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_changed_is_defaulted_and_validated() {
    let cluster = Cluster::start().await;
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
        .sees(&["CREATE"], "", "v1", "services");
    cluster.register(Mutating, "services", [hook]).await;
    // The next one sees the object with its defaults.
    let later = cluster
        .hook("later")
        .sees(&["CREATE"], "", "v1", "services");
    cluster.register(Mutating, "services-later", [later]).await;
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"name": "o", "port": 80}]}});
    let path = "/api/v1/namespaces/default/services";
    let made = cluster.must_make(path, service("right")).await;
    let port = &made["spec"]["ports"][1];
    assert_eq!(
        *port,
        json!({"name": "p", "port": 7000, "protocol": "TCP", "targetPort": 7000})
    );
    let seen = &cluster.webhook.asked("/later")[0].request["object"];
    assert_eq!(seen["spec"]["ports"][1], *port);

    let made = cluster.post(path, &service("wrong")).await;
    assert_eq!(
        made.code,
        StatusCode::UNPROCESSABLE_ENTITY,
        "{}",
        made.text()
    );
    assert!(message(&made).contains("spec.ports[1].port: Invalid value: 70000"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_and_patches_are_changed_too_and_deletions_cannot_be() {
    let cluster = Cluster::start().await;
    cluster.webhook.on("/hook", add("seen", "yes"));
    let everything = ["CREATE", "UPDATE", "DELETE"];
    let hook = cluster
        .hook("hook")
        .sees(&everything, "", "v1", "configmaps")
        .with("objectSelector", json!({"matchLabels": {"see": "this"}}));
    cluster.must_make(CONFIG_MAPS, config_map("c")).await;
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
async fn a_webhook_is_asked_again_if_it_wants_and_others_changed_something_after_it() {
    let cluster = Cluster::start().await;
    // Counts what it sees, so that every call changes the object again.
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
    cluster.must_make(CONFIG_MAPS, config_map("c")).await;
    // The last one is not asked again for its own change, but it is for that of the first in the second round.
    assert_eq!(
        cluster.webhook.order(),
        ["/a-again", "/b-once", "/c-again", "/a-again", "/c-again"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_asked_again_if_nothing_changed() {
    let cluster = Cluster::start().await;
    cluster.webhook.on("/a", add("k", "v"));
    cluster.webhook.on("/b", |_| allow());
    // A patch that leaves the object as it is changes nothing.
    cluster.webhook.on("/c", add("k", "v"));
    let again = |name: &str| {
        cluster
            .hook(name)
            .with("reinvocationPolicy", json!("IfNeeded"))
    };
    cluster
        .register(Mutating, "hooks", [again("a"), again("b"), again("c")])
        .await;
    cluster.must_make(CONFIG_MAPS, config_map("c")).await;
    assert_eq!(cluster.webhook.order(), ["/a", "/b", "/c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_label_with_the_name_of_a_namespace_cannot_be_changed_by_a_webhook() {
    let cluster = Cluster::start().await;
    cluster.webhook.on("/hook", |_| {
        patch(&json!([
            {"op": "add", "path": "/metadata/labels/kubernetes.io~1metadata.name", "value": "other"},
            {"op": "add", "path": "/metadata/labels/x", "value": "y"},
        ]))
    });
    let hook = cluster
        .hook("hook")
        .sees(&["CREATE"], "", "v1", "namespaces");
    cluster.register(Mutating, "hook", [hook]).await;
    let namespace = json!({"metadata": {"name": "n", "labels": {"a": "b"}}});
    let made = cluster.must_make("/api/v1/namespaces", namespace).await;
    let labels = &made["metadata"]["labels"];
    assert_eq!(labels["kubernetes.io/metadata.name"], "n");
    assert_eq!(labels["x"], "y");
}
