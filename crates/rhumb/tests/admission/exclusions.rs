//! What exclusion rules leave out: clusters that live on while a webhook is down, and nothing beyond what they say.

use std::net::SocketAddr;
use std::sync::LazyLock;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::cluster::{Cluster, Flavor, Mutating, Validating, config_map, message};
use crate::hook::Hook;
use crate::support::CONFIG_MAPS;
use crate::webhook::{deny, patch};

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

/// An address that is taken, so that nobody else gets it while tests run, but at which nobody listens.
static NOBODY: LazyLock<TcpSocket> = LazyLock::new(|| {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    socket
});

/// A webhook for everything, at an address where nobody listens.
fn down(name: &str) -> Hook {
    let url = format!("https://{}/", NOBODY.local_addr().unwrap());
    let client_config = json!({"url": url});
    Hook::new(name, client_config).sees_everything()
}

async fn refused_by_the_webhook(cluster: &Cluster, path: &str, object: &Value) {
    let made = cluster.post(path, object).await;
    assert_eq!(made.code, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
    let text = message(&made);
    assert!(
        text.contains("failed calling webhook \"down.example.com\""),
        "{text}"
    );
    assert!(text.ends_with("connect: connection refused"), "{text}");
}

/// The rules that operators are advised to have.
fn what_the_cluster_lives_on() -> Value {
    json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
         "namespaces": ["kube-system", "kube-node-lease"]},
        {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "scope": "Cluster"},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"]},
    ])
}

async fn a_cluster_lives_on(flavor: Flavor) {
    let cluster = Cluster::start().await;
    cluster.must_make(NODE_LEASES, lease("n", "a")).await;
    let hook = down("down").excluding(what_the_cluster_lives_on());
    cluster.register(flavor, "down", [hook]).await;

    // Leases renew and begin, nodes join, tokens are looked at.
    let renewed = format!("{NODE_LEASES}/n");
    let renewal = cluster
        .merge(&renewed, &json!({"spec": {"holderIdentity": "b"}}))
        .await;
    assert_eq!(renewal.code, StatusCode::OK, "{}", renewal.text());
    cluster.must_make(NODE_LEASES, lease("m", "a")).await;
    cluster
        .must_make("/api/v1/nodes", json!({"metadata": {"name": "n"}}))
        .await;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let told = cluster.merge("/api/v1/nodes/n/status", &ready).await;
    assert_eq!(told.code, StatusCode::OK, "{}", told.text());
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    cluster
        .must_make(reviews, json!({"spec": {"token": "t"}}))
        .await;

    // What is not left out still fails, and reading is nobody's business.
    refused_by_the_webhook(&cluster, LEASES, &lease("n", "a")).await;
    refused_by_the_webhook(&cluster, CONFIG_MAPS, &config_map("c")).await;
    refused_by_the_webhook(
        &cluster,
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "x"}}),
    )
    .await;
    let access = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/"}}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    refused_by_the_webhook(&cluster, reviews, &access).await;
    cluster.get(CONFIG_MAPS).await;

    cluster.remove(flavor, "down").await;
    cluster.must_make(CONFIG_MAPS, config_map("c")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_lives_on_while_a_validating_webhook_for_everything_is_down() {
    a_cluster_lives_on(Validating).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_lives_on_while_a_mutating_webhook_for_everything_is_down() {
    a_cluster_lives_on(Mutating).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_exclusions_nothing_is_left_but_to_change_the_configuration() {
    let cluster = Cluster::start().await;
    cluster.must_make(NODE_LEASES, lease("n", "a")).await;
    for flavor in [Validating, Mutating] {
        cluster.register(flavor, "down", [down("down")]).await;
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
        refused_by_the_webhook(&cluster, CONFIG_MAPS, &config_map("c")).await;

        // No webhook is asked about configurations: whoever made a mistake can undo it.
        let lenient = down("down").excluding(json!([{"apiGroups": ["coordination.k8s.io"]}]));
        cluster.replace(flavor, "down", [lenient]).await;
        let renewal = cluster
            .merge(&path, &json!({"spec": {"holderIdentity": "b"}}))
            .await;
        assert_eq!(renewal.code, StatusCode::OK, "{}", renewal.text());
        cluster.remove(flavor, "down").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_runs_in_the_cluster_can_come_back() {
    let cluster = Cluster::start().await;
    cluster.make_namespace("hooks", json!({})).await;
    let own = "/api/v1/namespaces/hooks/pods";
    let hook = || down("down").sees(&["CREATE"], "", "v1", "pods");
    cluster.register(Validating, "down", [hook()]).await;
    // Its pods are gone, and it would have to be asked before there are new ones.
    cluster.until_accounts("hooks").await;
    refused_by_the_webhook(&cluster, own, &pod("p")).await;

    let lenient = hook().excluding(json!([{"resources": ["pods"], "namespaces": ["hooks"]}]));
    cluster.replace(Validating, "down", [lenient]).await;
    cluster.must_make(own, pod("p")).await;
    cluster.until_accounts("default").await;
    refused_by_the_webhook(&cluster, PODS, &pod("p")).await;
}

/// Registers a webhook, and says whether it saw the request that `ask` makes.
async fn sees(cluster: &Cluster, flavor: Flavor, hook: Hook, ask: impl AsyncFnOnce()) -> bool {
    cluster.webhook.forget();
    cluster.register(flavor, "hook", [hook]).await;
    ask().await;
    cluster.remove(flavor, "hook").await;
    !cluster.webhook.asked("/hook").is_empty()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exclusion_is_for_all_versions_if_the_rules_are() {
    let cluster = Cluster::start().await;
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
            .sees(&["*"], "autoscaling", "*", "*")
            .with("matchPolicy", json!(policy))
            .excluding(excluded.clone());
        let path = format!(
            "/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers?dryRun=All"
        );
        let seen = sees(&cluster, Validating, hook, async || {
            cluster.must_make(&path, scaler.clone()).await;
        });
        assert_eq!(seen.await, expect, "{policy} {version}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exclusion_of_a_resource_is_not_one_of_its_subresources() {
    let cluster = Cluster::start().await;
    cluster.until_accounts("default").await;
    cluster.must_make(PODS, pod("p")).await;
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
                .sees(&["UPDATE"], "", "v1", "pods/*")
                .excluding(rules);
            let seen = sees(&cluster, Validating, hook, async || {
                let patched = cluster.merge(&format!("{path}?dryRun=All"), &patch).await;
                assert_eq!(patched.code, StatusCode::OK, "{}", patched.text());
            });
            assert_eq!(seen.await, expect, "{resources} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exclusion_by_name_needs_a_name() {
    let cluster = Cluster::start().await;
    let hook = |operation: &str| {
        cluster
            .hook("hook")
            .sees(&[operation], "", "v1", "configmaps")
            .excluding(json!([{"resources": ["configmaps"], "resourceNames": ["keep"]}]))
    };
    for flavor in [Mutating, Validating] {
        for (metadata, expect) in [
            (json!({"name": "keep"}), false),
            (json!({"name": "other"}), true),
            (json!({"generateName": "keep"}), true),
        ] {
            let seen = sees(&cluster, flavor, hook("CREATE"), async || {
                let path = format!("{CONFIG_MAPS}?dryRun=All");
                cluster
                    .must_make(&path, json!({"metadata": metadata}))
                    .await;
            });
            assert_eq!(seen.await, expect, "{metadata}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_a_collection_has_no_name_to_be_excluded_by() {
    let cluster = Cluster::start().await;
    cluster.make_namespace("n", json!({})).await;
    let maps = "/api/v1/namespaces/n/configmaps";
    cluster.must_make(maps, config_map("keep")).await;
    cluster.webhook.on("/hook", |_| deny("no"));
    let hook = cluster
        .hook("hook")
        .sees(&["DELETE"], "", "v1", "configmaps")
        .excluding(
            json!([{"resources": ["configmaps"], "resourceNames": ["keep"], "namespaces": ["n"]}]),
        );
    for flavor in [Validating, Mutating] {
        cluster.register(flavor, "hook", [hook.clone()]).await;
        let selected = format!("{maps}?fieldSelector=metadata.name=keep");
        let all = cluster.delete(&selected).await;
        assert_eq!(all.code, StatusCode::BAD_REQUEST, "{}", all.text());
        let one = cluster.delete(&format!("{maps}/keep?dryRun=All")).await;
        assert_eq!(one.code, StatusCode::OK, "{}", one.text());
        cluster.remove(flavor, "hook").await;
    }
    cluster.get(&format!("{maps}/keep")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exclusion_holds_for_dry_runs_too() {
    let cluster = Cluster::start().await;
    let hook =
        down("down").excluding(json!([{"resources": ["configmaps"], "operations": ["CREATE"]}]));
    cluster.register(Validating, "down", [hook]).await;
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    cluster.must_make(&dry, config_map("c")).await;
    cluster.must_make(CONFIG_MAPS, config_map("c")).await;
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
async fn an_exclusion_by_namespace_asks_for_names_and_labels() {
    let cluster = Cluster::start().await;
    cluster.make_namespace("one", json!({"team": "a"})).await;
    cluster.make_namespace("two", json!({"team": "a"})).await;
    cluster.make_namespace("three", json!({"team": "b"})).await;
    let of_team = json!({"matchLabels": {"team": "a"}});
    let by_name = json!({"matchLabels": {"kubernetes.io/metadata.name": "three"}});
    for (rule, left_out) in [
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
            sees(&cluster, Validating, hook.clone(), async || {
                let path = format!("/api/v1/namespaces/{namespace}/configmaps?dryRun=All");
                cluster.must_make(&path, config_map("c")).await;
            })
            .await
        };
        for namespace in ["one", "two", "three"] {
            let expect = !left_out.contains(&namespace);
            assert_eq!(seen(namespace).await, expect, "{rule} {namespace}");
        }
    }
}

/// How many new config maps were kept away from the validating webhook.
async fn left_out(cluster: &Cluster) -> f64 {
    let labels = [
        ("name", "hook.example.com"),
        ("kind", "webhook"),
        ("type", "validating"),
        ("operation", "CREATE"),
        ("group", ""),
        ("resource", "configmaps"),
    ];
    let name = "rhumb_admission_exclusion_rule_exclusions_total";
    cluster.metric(name, &labels).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_out_is_counted() {
    let cluster = Cluster::start().await;
    let hook = cluster
        .hook("hook")
        .excluding(json!([{"resources": ["configmaps"], "resourceNames": ["c"]}]));
    cluster.register(Validating, "hook", [hook]).await;
    cluster.must_make(CONFIG_MAPS, config_map("c")).await;
    cluster.must_make(CONFIG_MAPS, config_map("d")).await;
    assert_eq!(left_out(&cluster).await, 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_out_by_resource_is_counted_across_changes() {
    let cluster = Cluster::start().await;
    let hook = || {
        let exclusions = json!([{"resources": ["configmaps"], "namespaces": ["default"]}]);
        cluster.hook("hook").excluding(exclusions)
    };
    cluster.register(Validating, "hook", [hook()]).await;
    for name in ["a", "b"] {
        cluster.must_make(CONFIG_MAPS, config_map(name)).await;
    }
    // Another configuration makes all decisions void, but not the counts.
    cluster.register(Validating, "other", []).await;
    cluster.must_make(CONFIG_MAPS, config_map("c")).await;
    assert_eq!(left_out(&cluster).await, 3.0);
    assert!(cluster.webhook.asked("/hook").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_out_of_a_write_is_counted_once() {
    let cluster = Cluster::start().await;
    let rules = json!([{"resources": ["configmaps"], "resourceNames": ["c"]}]);
    let left_out = |name: &str| cluster.hook(name).excluding(rules.clone());
    // Two that change the object one after the other, so that the first is asked again.
    for path in ["/first", "/second"] {
        cluster.webhook.on(path, move |_| {
            let key = format!("/data{path}");
            patch(&json!([{"op": "add", "path": key, "value": "x"}]))
        });
    }
    let first = cluster
        .hook("first")
        .with("reinvocationPolicy", json!("IfNeeded"));
    let hooks = [left_out("left-out"), first, cluster.hook("second")];
    cluster.register(Mutating, "hooks", hooks).await;
    cluster
        .register(Validating, "hooks", [left_out("left-out")])
        .await;
    cluster.must_make(CONFIG_MAPS, config_map("c")).await;
    assert_eq!(cluster.webhook.order(), ["/first", "/second", "/first"]);
    for step in ["admit", "validating"] {
        let labels = [
            ("name", "left-out.example.com"),
            ("kind", "webhook"),
            ("type", step),
            ("operation", "CREATE"),
            ("group", ""),
            ("resource", "configmaps"),
        ];
        let name = "rhumb_admission_exclusion_rule_exclusions_total";
        assert_eq!(cluster.metric(name, &labels).await, 1.0, "{step}");
    }
}
