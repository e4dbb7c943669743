//! Webhook calls: reviews, order, connections and metrics.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http::{StatusCode, Version};
use serde_json::{Value, json};

use crate::cluster::{Mutating, Validating, WebhookTestCluster, config_map, message};
use crate::support::CONFIG_MAPS;
use crate::webhook::{WebhookResponse, allow, deny};
use crate::webhook_builder::WebhookBuilder;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn after_ms(pause: u64) -> impl Fn(&Value) -> WebhookResponse {
    move |_| WebhookResponse::After(Duration::from_millis(pause), Box::new(allow()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn review_contains_all_request_attributes() {
    let cluster = WebhookTestCluster::start().await;
    let hook = cluster
        .hook("hook")
        .matching(&["*"], "", "v1", "configmaps");
    cluster.register(Validating, "hook", [hook]).await;
    cluster.must_create(CONFIG_MAPS, config_map("c")).await;
    let path = format!("{CONFIG_MAPS}/c");
    let change = json!({"data": {"a": "c"}});
    let changed = cluster
        .merge(&format!("{path}?fieldManager=me"), &change)
        .await;
    assert_eq!(changed.code, StatusCode::OK);
    cluster.delete(&path).await;

    let received = cluster.webhook.received("/hook");
    assert_eq!(received.len(), 3);
    for received in &received {
        assert_eq!(received.review["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(received.review["kind"], "AdmissionReview");
        assert_eq!(received.query, "timeout=10s");
        let request = &received.request;
        assert_eq!(request["uid"].as_str().unwrap().len(), 36);
        let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
        assert_eq!(request["kind"], kind);
        assert_eq!(request["requestKind"], kind);
        let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
        assert_eq!(request["resource"], resource);
        assert_eq!(request["requestResource"], resource);
        assert_eq!(request.get("subResource"), None);
        assert_eq!(request["name"], "c");
        assert_eq!(request["namespace"], "default");
        assert_eq!(request["dryRun"], false);
        assert_eq!(request["userInfo"]["username"], "kubernetes-admin");
        let groups = request["userInfo"]["groups"].as_array().unwrap();
        assert!(groups.contains(&json!("system:authenticated")));
    }
    let [created, updated, deleted] = [0, 1, 2].map(|index| &received[index].request);
    assert_eq!(created["operation"], "CREATE");
    assert_eq!(created["oldObject"], Value::Null);
    assert_eq!(created["object"]["kind"], "ConfigMap");
    assert_eq!(created["object"]["apiVersion"], "v1");
    assert_eq!(created["object"]["data"]["a"], "b");
    assert!(created["object"]["metadata"]["uid"].is_string());
    assert_eq!(created["options"]["kind"], "CreateOptions");
    assert_eq!(updated["operation"], "UPDATE");
    assert_eq!(updated["oldObject"]["data"]["a"], "b");
    assert_eq!(updated["object"]["data"]["a"], "c");
    assert_eq!(updated["options"]["kind"], "UpdateOptions");
    assert_eq!(updated["options"]["fieldManager"], "me");
    assert_eq!(deleted["operation"], "DELETE");
    assert_eq!(deleted["oldObject"]["data"]["a"], "c");
    assert_eq!(deleted["object"], Value::Null);
    assert_eq!(deleted["options"]["kind"], "DeleteOptions");
    let uids: std::collections::HashSet<_> = received
        .iter()
        .map(|received| received.request["uid"].as_str())
        .collect();
    assert_eq!(uids.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_name_is_in_the_review_once_known() {
    let cluster = WebhookTestCluster::start().await;
    for (webhook_kind, name) in [(Mutating, "change"), (Validating, "check")] {
        cluster
            .register(webhook_kind, name, [cluster.hook(name)])
            .await;
    }
    let object = json!({"metadata": {"generateName": "made-"}});
    let response = cluster.must_create(CONFIG_MAPS, object).await;
    let name = &response["metadata"]["name"];
    let received = |path| cluster.webhook.received(path)[0].request.clone();
    assert_eq!(received("/change").get("name"), None);
    assert_eq!(
        received("/change")["object"]["metadata"]["generateName"],
        "made-"
    );
    assert_eq!(received("/check")["name"], *name);
    assert_eq!(received("/check")["object"]["metadata"]["name"], *name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn review_of_a_namespace_has_its_own_name_as_namespace() {
    let cluster = WebhookTestCluster::start().await;
    let hook = cluster
        .hook("hook")
        .matching(&["*"], "", "v1", "namespaces");
    cluster.register(Validating, "hook", [hook]).await;
    cluster.create_namespace("n", json!({})).await;
    let path = "/api/v1/namespaces/n";
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    cluster.merge(path, &labelled).await;
    cluster.delete(path).await;
    let received = cluster.webhook.received("/hook");
    assert_eq!(received.len(), 3);
    for received in received {
        assert_eq!(received.request["name"], "n");
        assert_eq!(received.request["namespace"], "n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_supported_review_version_is_used() {
    let cluster = WebhookTestCluster::start().await;
    for (name, versions, expect) in [
        ("new", json!(["v2", "v1", "v1beta1"]), "admission.k8s.io/v1"),
        ("old", json!(["v1beta1", "v1"]), "admission.k8s.io/v1beta1"),
    ] {
        let hook = cluster.hook(name).with("admissionReviewVersions", versions);
        cluster.register(Validating, name, [hook]).await;
        cluster
            .must_create(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("c"))
            .await;
        let received = cluster.webhook.received(&format!("/{name}"));
        assert_eq!(received[0].review["apiVersion"], expect);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dry_run_is_flagged_and_webhooks_with_side_effects_reject_it() {
    let cluster = WebhookTestCluster::start().await;
    let hooks = [
        cluster.hook("none"),
        cluster
            .hook("none-on-dry-run")
            .with("sideEffects", json!("NoneOnDryRun")),
    ];
    cluster.register(Validating, "hooks", hooks).await;
    cluster
        .must_create(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("c"))
        .await;
    for path in ["/none", "/none-on-dry-run"] {
        let request = &cluster.webhook.received(path)[0].request;
        assert_eq!(request["dryRun"], true);
        assert_eq!(request["options"]["dryRun"], json!(["All"]));
    }
    let gone = cluster.server.get(&format!("{CONFIG_MAPS}/c")).await;
    assert_eq!(gone.code, StatusCode::NOT_FOUND);

    for effects in ["Some", "Unknown"] {
        let hook = cluster.hook("hook").with("sideEffects", json!(effects));
        let configuration = json!({
            "metadata": {"name": "effects"},
            "webhooks": [hook.into_value()],
        });
        let response = cluster.post(&Validating.path(), &configuration).await;
        assert_eq!(response.code, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(message(&response).contains("webhooks[0].sideEffects: Unsupported value"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn validating_webhooks_run_in_parallel_and_mutating_in_sequence() {
    let cluster = WebhookTestCluster::start().await;
    for path in ["/a", "/b", "/c"] {
        cluster.webhook.on(path, after_ms(600));
    }
    let hooks = || ["a", "b", "c"].map(|name| cluster.hook(name));
    for (webhook_kind, took_ms) in [(Validating, 600..1200), (Mutating, 1800..4000)] {
        cluster.register(webhook_kind, "hooks", hooks()).await;
        let started = Instant::now();
        let path = format!("{CONFIG_MAPS}?dryRun=All");
        cluster.must_create(&path, config_map("c")).await;
        let took = started.elapsed().as_millis();
        assert!(took_ms.contains(&took), "{webhook_kind:?}: {took} ms");
        cluster.remove(webhook_kind, "hooks").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_webhook_delays_only_matching_requests() {
    // The in-flight limit is far below the number of writes that wait for the webhook.
    let cluster = WebhookTestCluster::start_with(&["--max-mutating-requests-inflight=5"]).await;
    cluster.webhook.on("/slow", after_ms(3000));
    for webhook_kind in [Validating, Mutating] {
        cluster
            .register(webhook_kind, "slow", [cluster.hook("slow")])
            .await;
    }
    let slow = async {
        let started = Instant::now();
        let response = join_all((0..50).map(|index| {
            let cluster = &cluster;
            async move { cluster.create_config_map(&format!("slow-{index}")).await }
        }))
        .await;
        assert!(
            response
                .iter()
                .all(|response| response.code == StatusCode::CREATED)
        );
        started.elapsed()
    };
    let others = async {
        // The slow requests are in flight by then.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let started = Instant::now();
        for index in 0..20 {
            let secret = json!({"metadata": {"name": format!("quick-{index}")}});
            cluster.must_create(SECRETS, secret).await;
            cluster.get(CONFIG_MAPS).await;
        }
        started.elapsed()
    };
    let (slow, others) = futures_util::join!(slow, others);
    assert!(slow >= Duration::from_secs(6), "{slow:?}");
    assert!(others < Duration::from_secs(3), "{others:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_webhooks_are_called_and_the_first_denial_is_returned() {
    let cluster = WebhookTestCluster::start().await;
    cluster.webhook.on("/no", |_| deny("no"));
    let hooks = [
        cluster.hook("yes"),
        cluster.hook("no"),
        cluster.hook("fine"),
    ];
    cluster.register(Validating, "hooks", hooks).await;
    let response = cluster.create_config_map("c").await;
    assert_eq!(
        message(&response),
        "admission webhook \"no.example.com\" denied the request: no"
    );
    let mut received = cluster.webhook.received_paths();
    received.sort_unstable();
    assert_eq!(received, ["/fine", "/no", "/yes"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_reused_over_both_protocols() {
    for (protocols, version, connections) in [
        (&["h2", "http/1.1"][..], Version::HTTP_11, 1),
        (&["http/1.1"][..], Version::HTTP_11, 1),
        // HTTP/1.1 is offered first.
        (&["h2"][..], Version::HTTP_2, 2),
    ] {
        let cluster = WebhookTestCluster::start().await;
        let webhook = &cluster.webhook;
        webhook.use_certificate(&webhook.authority, protocols, |_| {});
        cluster
            .register(Validating, "hook", [cluster.hook("hook")])
            .await;
        cluster
            .register(Mutating, "hook", [cluster.hook("hook")])
            .await;
        for index in 0..10 {
            cluster
                .must_create(CONFIG_MAPS, config_map(&format!("c{index}")))
                .await;
        }
        let received = webhook.received("/hook");
        assert_eq!(received.len(), 20);
        assert!(received.iter().all(|received| received.version == version));
        assert_eq!(webhook.connections(), connections);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_webhook_connections_cause_no_failures() {
    for (protocols, connections) in [(&["h2"][..], 21), (&["http/1.1"][..], 20)] {
        let cluster = WebhookTestCluster::start().await;
        let webhook = &cluster.webhook;
        webhook.use_certificate(&webhook.authority, protocols, |_| {});
        cluster
            .register(Validating, "hook", [cluster.hook("hook")])
            .await;
        for index in 0..20 {
            let name = format!("c{index}");
            cluster.must_create(CONFIG_MAPS, config_map(&name)).await;
            webhook.close_connections();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(webhook.connections(), connections);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_apply_to_the_first_write_after_a_restart() {
    let mut cluster = WebhookTestCluster::start().await;
    cluster.webhook.on("/hook", |_| deny("no"));
    cluster
        .register(Validating, "hook", [cluster.hook("hook")])
        .await;
    for _ in 0..3 {
        cluster = cluster.restart();
        assert_eq!(
            cluster.create_config_map("c").await.code,
            StatusCode::BAD_REQUEST
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn external_name_service_is_resolved() {
    let cluster = WebhookTestCluster::start().await;
    let client_config = json!({
        "service": {
            "namespace": "default",
            "name": "hook",
            "path": "/hook",
            "port": cluster.webhook.address.port(),
        },
        "caBundle": cluster.webhook.authority.bundle(),
    });
    let hook = WebhookBuilder::new("hook", client_config);
    cluster.register(Validating, "hook", [hook]).await;
    let response = cluster.create_config_map("c").await;
    assert_eq!(response.code, StatusCode::INTERNAL_SERVER_ERROR);
    let text = message(&response);
    let port = cluster.webhook.address.port();
    let url = format!(
        "Post \"https://hook.default.svc:{port}/hook?timeout=10s\": service \"hook\" not found"
    );
    assert!(text.ends_with(&url), "{text}");

    let service = json!({
        "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    cluster
        .must_create("/api/v1/namespaces/default/services", service)
        .await;
    cluster.must_create(CONFIG_MAPS, config_map("c")).await;
    let received = cluster.webhook.received("/hook");
    assert_eq!(received.len(), 1);
    // A service may have several backends, so HTTP/1.1 connections are used.
    assert_eq!(received[0].version, Version::HTTP_11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_calls_are_counted_by_result() {
    let cluster = WebhookTestCluster::start().await;
    let webhook = &cluster.webhook;
    webhook.on("/no", |_| {
        WebhookResponse::Respond(json!({"allowed": false, "status": {"code": 403}}))
    });
    webhook.on("/broken", |_| WebhookResponse::Send {
        code: 500,
        headers: vec![],
        body: String::new(),
    });
    let (mutating, validating) = ((Mutating, "admit"), (Validating, "validating"));
    for (webhook_kind, step) in [mutating, validating] {
        let hooks = [
            cluster.hook("yes"),
            cluster.hook("ignored").ignoring_failures(),
            cluster.hook("no"),
        ];
        webhook.on("/ignored", |_| WebhookResponse::Reset);
        cluster.register(webhook_kind, "hooks", hooks).await;
        cluster.create_config_map("c").await;
        cluster.remove(webhook_kind, "hooks").await;
        cluster
            .register(webhook_kind, "hooks", [cluster.hook("broken")])
            .await;
        cluster.create_config_map("c").await;
        cluster.remove(webhook_kind, "hooks").await;

        let labels = |name: &'static str, rest: &[(&'static str, &'static str)]| {
            let fixed = [("name", name), ("type", step)];
            [&fixed, rest].concat()
        };
        let creation = ("operation", "CREATE");
        for (name, code, rejected) in [
            ("yes.example.com", "200", "false"),
            ("ignored.example.com", "503", "false"),
            ("no.example.com", "403", "true"),
            ("broken.example.com", "500", "true"),
        ] {
            let rejected = ("rejected", rejected);
            let answered = labels(name, &[creation, ("code", code), rejected]);
            let calls = cluster
                .metric("apiserver_admission_webhook_request_total", &answered)
                .await;
            assert_eq!(calls, 1.0, "{step} {name}");
            let timed = labels(name, &[creation, rejected]);
            let count = "apiserver_admission_webhook_admission_duration_seconds_count";
            assert_eq!(cluster.metric(count, &timed).await, 1.0, "{step} {name}");
        }
        for (name, why, code) in [
            ("no.example.com", "no_error", "403"),
            ("broken.example.com", "calling_webhook_error", "500"),
        ] {
            let why = [creation, ("error_type", why), ("rejection_code", code)];
            let count = "apiserver_admission_webhook_rejection_count";
            assert_eq!(
                cluster.metric(count, &labels(name, &why)).await,
                1.0,
                "{step} {name}"
            );
        }
        let count = "apiserver_admission_webhook_fail_open_count";
        let open = labels("ignored.example.com", &[]);
        assert_eq!(cluster.metric(count, &open).await, 1.0, "{step}");
    }
}
