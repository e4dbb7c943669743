//! Exclusion rules: a cluster works while a webhook is down, and nothing else is excluded.

use std::net::SocketAddr;
use std::sync::LazyLock;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::cluster::{Mutating, Validating, WebhookKind, WebhookTestCluster, config_map, message};
use crate::support::CONFIG_MAPS;
use crate::webhook::{deny, patch};
use crate::webhook_builder::WebhookBuilder;

const NODE_LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn lease(name: &str, holder: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 40},
    })
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]},
    })
}

/// A reserved address on which nothing listens.
static NOBODY: LazyLock<TcpSocket> = LazyLock::new(|| {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    socket
});

/// A catch-all webhook at an address on which nothing listens.
fn down(name: &str) -> WebhookBuilder {
    let url = format!("https://{}/", NOBODY.local_addr().unwrap());
    let client_config = json!({"url": url});
    WebhookBuilder::new(name, client_config).matching_everything()
}

async fn assert_webhook_unreachable(cluster: &WebhookTestCluster, path: &str, object: &Value) {
    let response = cluster.post(path, object).await;
    assert_eq!(response.code, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
    let text = message(&response);
    assert!(
        text.contains("failed calling webhook \"down.example.com\""),
        "{text}"
    );
    assert!(text.ends_with("connect: connection refused"), "{text}");
}

/// The exclusion rules recommended to operators.
fn recommended_exclusions() -> Value {
    json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
         "namespaces": ["kube-system", "kube-node-lease"]},
        {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "scope": "Cluster"},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"]},
    ])
}

async fn cluster_works_while_catch_all_webhook_is_down(webhook_kind: WebhookKind) {
    let cluster = WebhookTestCluster::start().await;
    cluster.must_create(NODE_LEASES, lease("n", "a")).await;
    let hook = down("down").excluding(recommended_exclusions());
    cluster.register(webhook_kind, "down", [hook]).await;

    // Leases are renewed and created, nodes register, tokens are reviewed.
    let renewed = format!("{NODE_LEASES}/n");
    let renewal = cluster
        .merge(&renewed, &json!({"spec": {"holderIdentity": "b"}}))
        .await;
    assert_eq!(renewal.code, StatusCode::OK, "{}", renewal.text());
    cluster.must_create(NODE_LEASES, lease("m", "a")).await;
    cluster
        .must_create("/api/v1/nodes", json!({"metadata": {"name": "n"}}))
        .await;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let response = cluster.merge("/api/v1/nodes/n/status", &ready).await;
    assert_eq!(response.code, StatusCode::OK, "{}", response.text());
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    cluster
        .must_create(reviews, json!({"spec": {"token": "t"}}))
        .await;

    // Writes that are not excluded still fail, and reads are not affected.
    assert_webhook_unreachable(&cluster, LEASES, &lease("n", "a")).await;
    assert_webhook_unreachable(&cluster, CONFIG_MAPS, &config_map("c")).await;
    assert_webhook_unreachable(
        &cluster,
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "x"}}),
    )
    .await;
    let access = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/"}}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_webhook_unreachable(&cluster, reviews, &access).await;
    cluster.get(CONFIG_MAPS).await;

    cluster.remove(webhook_kind, "down").await;
    cluster.must_create(CONFIG_MAPS, config_map("c")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_works_while_a_catch_all_validating_webhook_is_down() {
    cluster_works_while_catch_all_webhook_is_down(Validating).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_works_while_a_catch_all_mutating_webhook_is_down() {
    cluster_works_while_catch_all_webhook_is_down(Mutating).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_exclusions_only_the_configuration_can_be_changed() {
    let cluster = WebhookTestCluster::start().await;
    cluster.must_create(NODE_LEASES, lease("n", "a")).await;
    for webhook_kind in [Validating, Mutating] {
        cluster.register(webhook_kind, "down", [down("down")]).await;
        let path = format!("{NODE_LEASES}/n");
        let renewal = cluster
            .merge(&path, &json!({"spec": {"holderIdentity": "b"}}))
            .await;
        assert_eq!(
            renewal.code,
            StatusCode::INTERNAL_SERVER_ERROR,
            "{}",
            renewal.text()
        );
        assert_webhook_unreachable(&cluster, CONFIG_MAPS, &config_map("c")).await;

        // No webhook is called for configurations, so that mistakes can be corrected.
        let lenient = down("down").excluding(json!([{"apiGroups": ["coordination.k8s.io"]}]));
        cluster.replace(webhook_kind, "down", [lenient]).await;
        let renewal = cluster
            .merge(&path, &json!({"spec": {"holderIdentity": "b"}}))
            .await;
        assert_eq!(renewal.code, StatusCode::OK, "{}", renewal.text());
        cluster.remove(webhook_kind, "down").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_cluster_webhook_can_recover() {
    let cluster = WebhookTestCluster::start().await;
    cluster.create_namespace("hooks", json!({})).await;
    let own = "/api/v1/namespaces/hooks/pods";
    let hook = || down("down").matching(&["CREATE"], "", "v1", "pods");
    cluster.register(Validating, "down", [hook()]).await;
    // Its pods are deleted, and it would be called before new ones can be created.
    cluster.wait_for_default_account("hooks").await;
    assert_webhook_unreachable(&cluster, own, &pod("p")).await;

    let lenient = hook().excluding(json!([{"resources": ["pods"], "namespaces": ["hooks"]}]));
    cluster.replace(Validating, "down", [lenient]).await;
    cluster.must_create(own, pod("p")).await;
    cluster.wait_for_default_account("default").await;
    assert_webhook_unreachable(&cluster, PODS, &pod("p")).await;
}

/// Registers a webhook and returns whether it was called for the request that `send` makes.
async fn is_called(
    cluster: &WebhookTestCluster,
    webhook_kind: WebhookKind,
    hook: WebhookBuilder,
    send: impl AsyncFnOnce(),
) -> bool {
    cluster.webhook.clear_received();
    cluster.register(webhook_kind, "hook", [hook]).await;
    send().await;
    cluster.remove(webhook_kind, "hook").await;
    !cluster.webhook.received("/hook").is_empty()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exclusion_applies_to_equivalent_versions_with_match_policy_equivalent() {
    let cluster = WebhookTestCluster::start().await;
    let scaler = json!({
        "metadata": {"name": "s"},
        "spec": {
            "maxReplicas": 2,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        },
    });
    let excluded = json!([{"apiGroups": ["autoscaling"], "apiVersions": ["v1"],
                           "resources": ["horizontalpodautoscalers"]}]);
    for (policy, version, expect) in [
        ("Equivalent", "v1", false),
        ("Equivalent", "v2", false),
        ("Exact", "v1", false),
        ("Exact", "v2", true),
    ] {
        let hook = cluster
            .hook("hook")
            .matching(&["*"], "autoscaling", "*", "*")
            .with("matchPolicy", json!(policy))
            .excluding(excluded.clone());
        let path = format!(
            "/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers?dryRun=All"
        );
        let seen = is_called(&cluster, Validating, hook, async || {
            cluster.must_create(&path, scaler.clone()).await;
        });
        assert_eq!(seen.await, expect, "{policy} {version}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excluding_a_resource_does_not_exclude_its_subresources() {
    let cluster = WebhookTestCluster::start().await;
    cluster.wait_for_default_account("default").await;
    cluster.must_create(PODS, pod("p")).await;
    let main = format!("{PODS}/p");
    let status = format!("{PODS}/p/status");
    for (resources, main_seen, status_seen) in [
        (json!(["pods"]), false, true),
        (json!(["pods/status"]), true, false),
        (json!(["pods/*"]), false, false),
        (json!(["*"]), false, true),
        (json!(["*/status"]), true, false),
    ] {
        for (path, expect, patch) in [
            (
                &main,
                main_seen,
                json!({"metadata": {"labels": {"a": "b"}}}),
            ),
            (&status, status_seen, json!({"status": {"message": "m"}})),
        ] {
            let rules =
                json!([{"apiGroups": [""], "resources": resources, "resourceNames": ["p"]}]);
            let hook = cluster
                .hook("hook")
                .matching(&["UPDATE"], "", "v1", "pods/*")
                .excluding(rules);
            let seen = is_called(&cluster, Validating, hook, async || {
                let patched = cluster.merge(&format!("{path}?dryRun=All"), &patch).await;
                assert_eq!(patched.code, StatusCode::OK, "{}", patched.text());
            });
            assert_eq!(seen.await, expect, "{resources} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exclusion_by_name_requires_a_name() {
    let cluster = WebhookTestCluster::start().await;
    let hook = |operation: &str| {
        cluster
            .hook("hook")
            .matching(&[operation], "", "v1", "configmaps")
            .excluding(json!([{"resources": ["configmaps"], "resourceNames": ["keep"]}]))
    };
    for webhook_kind in [Mutating, Validating] {
        for (metadata, expect) in [
            (json!({"name": "keep"}), false),
            (json!({"name": "other"}), true),
            (json!({"generateName": "keep"}), true),
        ] {
            let seen = is_called(&cluster, webhook_kind, hook("CREATE"), async || {
                let path = format!("{CONFIG_MAPS}?dryRun=All");
                cluster
                    .must_create(&path, json!({"metadata": metadata}))
                    .await;
            });
            assert_eq!(seen.await, expect, "{metadata}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delete_collection_is_not_excluded_by_name() {
    let cluster = WebhookTestCluster::start().await;
    cluster.create_namespace("n", json!({})).await;
    let maps = "/api/v1/namespaces/n/configmaps";
    cluster.must_create(maps, config_map("keep")).await;
    cluster.webhook.on("/hook", |_| deny("no"));
    let hook = cluster
        .hook("hook")
        .matching(&["DELETE"], "", "v1", "configmaps")
        .excluding(
            json!([{"resources": ["configmaps"], "resourceNames": ["keep"], "namespaces": ["n"]}]),
        );
    for webhook_kind in [Validating, Mutating] {
        cluster.register(webhook_kind, "hook", [hook.clone()]).await;
        let selected = format!("{maps}?fieldSelector=metadata.name=keep");
        let all = cluster.delete(&selected).await;
        assert_eq!(all.code, StatusCode::BAD_REQUEST, "{}", all.text());
        let one = cluster.delete(&format!("{maps}/keep?dryRun=All")).await;
        assert_eq!(one.code, StatusCode::OK, "{}", one.text());
        cluster.remove(webhook_kind, "hook").await;
    }
    cluster.get(&format!("{maps}/keep")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exclusion_applies_to_dry_runs() {
    let cluster = WebhookTestCluster::start().await;
    let hook =
        down("down").excluding(json!([{"resources": ["configmaps"], "operations": ["CREATE"]}]));
    cluster.register(Validating, "down", [hook]).await;
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    cluster.must_create(&dry, config_map("c")).await;
    cluster.must_create(CONFIG_MAPS, config_map("c")).await;
    let path = format!("{CONFIG_MAPS}/c?dryRun=All");
    let changed = cluster.merge(&path, &json!({"data": {"a": "c"}})).await;
    assert_eq!(
        changed.code,
        StatusCode::INTERNAL_SERVER_ERROR,
        "{}",
        changed.text()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exclusion_matches_namespace_names_and_labels() {
    let cluster = WebhookTestCluster::start().await;
    cluster.create_namespace("one", json!({"team": "a"})).await;
    cluster.create_namespace("two", json!({"team": "a"})).await;
    cluster
        .create_namespace("three", json!({"team": "b"}))
        .await;
    let of_team = json!({"matchLabels": {"team": "a"}});
    let by_name = json!({"matchLabels": {"kubernetes.io/metadata.name": "three"}});
    for (rule, excluded_namespaces) in [
        (json!({"namespaces": ["one"]}), vec!["one"]),
        (json!({"namespaceSelector": of_team}), vec!["one", "two"]),
        (json!({"namespaceSelector": by_name}), vec!["three"]),
        (
            json!({"namespaces": ["two", "three"], "namespaceSelector": of_team}),
            vec!["two"],
        ),
    ] {
        let hook = cluster.hook("hook").excluding(json!([rule]));
        let seen = async |namespace: &str| {
            is_called(&cluster, Validating, hook.clone(), async || {
                let path = format!("/api/v1/namespaces/{namespace}/configmaps?dryRun=All");
                cluster.must_create(&path, config_map("c")).await;
            })
            .await
        };
        for namespace in ["one", "two", "three"] {
            let expect = !excluded_namespaces.contains(&namespace);
            assert_eq!(seen(namespace).await, expect, "{rule} {namespace}");
        }
    }
}

/// The number of config map creates from which the validating webhook was excluded.
async fn excluded_call_count(cluster: &WebhookTestCluster) -> f64 {
    let labels = [
        ("configuration", "hook"),
        ("name", "hook.example.com"),
        ("kind", "webhook"),
        ("rule", "0"),
        ("type", "validating"),
        ("operation", "CREATE"),
        ("group", ""),
        ("resource", "configmaps"),
    ];
    let name = "rhumb_admission_exclusion_rule_exclusions_total";
    cluster.metric(name, &labels).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excluded_calls_are_counted() {
    let cluster = WebhookTestCluster::start().await;
    let hook = cluster
        .hook("hook")
        .excluding(json!([{"resources": ["configmaps"], "resourceNames": ["c"]}]));
    cluster.register(Validating, "hook", [hook]).await;
    cluster.must_create(CONFIG_MAPS, config_map("c")).await;
    cluster.must_create(CONFIG_MAPS, config_map("d")).await;
    assert_eq!(excluded_call_count(&cluster).await, 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excluded_calls_are_counted_across_configuration_changes() {
    let cluster = WebhookTestCluster::start().await;
    let hook = || {
        let exclusions = json!([{"resources": ["configmaps"], "namespaces": ["default"]}]);
        cluster.hook("hook").excluding(exclusions)
    };
    cluster.register(Validating, "hook", [hook()]).await;
    for name in ["a", "b"] {
        cluster.must_create(CONFIG_MAPS, config_map(name)).await;
    }
    // Another configuration invalidates all match decisions, but not the counts.
    cluster.register(Validating, "other", []).await;
    cluster.must_create(CONFIG_MAPS, config_map("c")).await;
    assert_eq!(excluded_call_count(&cluster).await, 3.0);
    assert!(cluster.webhook.received("/hook").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excluded_calls_are_counted_once_per_write() {
    let cluster = WebhookTestCluster::start().await;
    let rules = json!([{"resources": ["configmaps"], "resourceNames": ["c"]}]);
    let excluded_hook = |name: &str| cluster.hook(name).excluding(rules.clone());
    // Two webhooks that change the object one after the other, so that the first is reinvoked.
    for path in ["/first", "/second"] {
        cluster.webhook.on(path, move |_| {
            let key = format!("/data{path}");
            patch(&json!([{"op": "add", "path": key, "value": "x"}]))
        });
    }
    let first = cluster
        .hook("first")
        .with("reinvocationPolicy", json!("IfNeeded"));
    let hooks = [excluded_hook("left-out"), first, cluster.hook("second")];
    cluster.register(Mutating, "hooks", hooks).await;
    cluster
        .register(Validating, "hooks", [excluded_hook("left-out")])
        .await;
    cluster.must_create(CONFIG_MAPS, config_map("c")).await;
    assert_eq!(
        cluster.webhook.received_paths(),
        ["/first", "/second", "/first"]
    );
    for step in ["admit", "validating"] {
        let labels = [
            ("configuration", "hooks"),
            ("name", "left-out.example.com"),
            ("kind", "webhook"),
            ("rule", "0"),
            ("type", step),
            ("operation", "CREATE"),
            ("group", ""),
            ("resource", "configmaps"),
        ];
        let name = "rhumb_admission_exclusion_rule_exclusions_total";
        assert_eq!(cluster.metric(name, &labels).await, 1.0, "{step}");
    }
}
