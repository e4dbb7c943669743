//! How webhooks are asked: with what, in which order, over which connections, and what is counted.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http::{StatusCode, Version};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Mutating, Validating, config_map, message};
use crate::hook::Hook;
use crate::support::CONFIG_MAPS;
use crate::webhook::{Act, allow, deny};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn after_ms(pause: u64) -> impl Fn(&Value) -> Act {
    move |_| Act::After(Duration::from_millis(pause), Box::new(allow()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_review_tells_all_about_a_request() {
    let cluster = Cluster::start().await;
    let hook = cluster.hook("hook").sees(&["*"], "", "v1", "configmaps");
    cluster.register(Validating, "hook", [hook]).await;
    cluster.must_make(CONFIG_MAPS, config_map("c")).await;
    let path = format!("{CONFIG_MAPS}/c");
    let change = json!({"data": {"a": "c"}});
    let changed = cluster
        .merge(&format!("{path}?fieldManager=me"), &change)
        .await;
    assert_eq!(changed.code, StatusCode::OK);
    cluster.delete(&path).await;

    let asked = cluster.webhook.asked("/hook");
    assert_eq!(asked.len(), 3);
    for asked in &asked {
        assert_eq!(asked.review["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(asked.review["kind"], "AdmissionReview");
        assert_eq!(asked.query, "timeout=10s");
        let request = &asked.request;
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
    let [created, updated, deleted] = [0, 1, 2].map(|index| &asked[index].request);
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
    let uids: std::collections::HashSet<_> = asked
        .iter()
        .map(|asked| asked.request["uid"].as_str())
        .collect();
    assert_eq!(uids.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_still_to_be_made_is_told_when_it_is_known() {
    let cluster = Cluster::start().await;
    for (flavor, name) in [(Mutating, "change"), (Validating, "check")] {
        cluster.register(flavor, name, [cluster.hook(name)]).await;
    }
    let object = json!({"metadata": {"generateName": "made-"}});
    let made = cluster.must_make(CONFIG_MAPS, object).await;
    let name = &made["metadata"]["name"];
    let asked = |path| cluster.webhook.asked(path)[0].request.clone();
    assert_eq!(asked("/change").get("name"), None);
    assert_eq!(
        asked("/change")["object"]["metadata"]["generateName"],
        "made-"
    );
    assert_eq!(asked("/check")["name"], *name);
    assert_eq!(asked("/check")["object"]["metadata"]["name"], *name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_told_as_its_own_namespace() {
    let cluster = Cluster::start().await;
    let hook = cluster.hook("hook").sees(&["*"], "", "v1", "namespaces");
    cluster.register(Validating, "hook", [hook]).await;
    cluster.make_namespace("n", json!({})).await;
    let path = "/api/v1/namespaces/n";
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    cluster.merge(path, &labelled).await;
    cluster.delete(path).await;
    let asked = cluster.webhook.asked("/hook");
    assert_eq!(asked.len(), 3);
    for asked in asked {
        assert_eq!(asked.request["name"], "n");
        assert_eq!(asked.request["namespace"], "n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_version_of_reviews_that_both_know_is_spoken() {
    let cluster = Cluster::start().await;
    for (name, versions, expect) in [
        ("new", json!(["v2", "v1", "v1beta1"]), "admission.k8s.io/v1"),
        ("old", json!(["v1beta1", "v1"]), "admission.k8s.io/v1beta1"),
    ] {
        let hook = cluster.hook(name).with("admissionReviewVersions", versions);
        cluster.register(Validating, name, [hook]).await;
        cluster
            .must_make(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("c"))
            .await;
        let asked = cluster.webhook.asked(&format!("/{name}"));
        assert_eq!(asked[0].review["apiVersion"], expect);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dry_runs_are_told_and_webhooks_with_side_effects_are_not_accepted() {
    let cluster = Cluster::start().await;
    let hooks = [
        cluster.hook("none"),
        cluster
            .hook("none-on-dry-run")
            .with("sideEffects", json!("NoneOnDryRun")),
    ];
    cluster.register(Validating, "hooks", hooks).await;
    cluster
        .must_make(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("c"))
        .await;
    for path in ["/none", "/none-on-dry-run"] {
        let request = &cluster.webhook.asked(path)[0].request;
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
        let made = cluster.post(&Validating.path(), &configuration).await;
        assert_eq!(made.code, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(message(&made).contains("webhooks[0].sideEffects: Unsupported value"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn validating_webhooks_are_asked_at_once_and_mutating_ones_in_turn() {
    let cluster = Cluster::start().await;
    for path in ["/a", "/b", "/c"] {
        cluster.webhook.on(path, after_ms(600));
    }
    let hooks = || ["a", "b", "c"].map(|name| cluster.hook(name));
    for (flavor, took_ms) in [(Validating, 600..1200), (Mutating, 1800..4000)] {
        cluster.register(flavor, "hooks", hooks()).await;
        let begun = Instant::now();
        let path = format!("{CONFIG_MAPS}?dryRun=All");
        cluster.must_make(&path, config_map("c")).await;
        let took = begun.elapsed().as_millis();
        assert!(took_ms.contains(&took), "{flavor:?}: {took} ms");
        cluster.remove(flavor, "hooks").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_webhook_holds_only_what_it_wants_to_see() {
    // Far fewer writes are handled at a time than wait for the webhook.
    let cluster = Cluster::start_with(&["--max-mutating-requests-inflight=5"]).await;
    cluster.webhook.on("/slow", after_ms(3000));
    for flavor in [Validating, Mutating] {
        cluster
            .register(flavor, "slow", [cluster.hook("slow")])
            .await;
    }
    let slow = async {
        let begun = Instant::now();
        let made = join_all((0..50).map(|index| {
            let cluster = &cluster;
            async move { cluster.make(&format!("slow-{index}")).await }
        }))
        .await;
        assert!(made.iter().all(|made| made.code == StatusCode::CREATED));
        begun.elapsed()
    };
    let others = async {
        // The slow ones are on their way by then.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let begun = Instant::now();
        for index in 0..20 {
            let secret = json!({"metadata": {"name": format!("quick-{index}")}});
            cluster.must_make(SECRETS, secret).await;
            cluster.get(CONFIG_MAPS).await;
        }
        begun.elapsed()
    };
    let (slow, others) = futures_util::join!(slow, others);
    assert!(slow >= Duration::from_secs(6), "{slow:?}");
    assert!(others < Duration::from_secs(3), "{others:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_many_refusals_is_told_and_all_are_asked() {
    let cluster = Cluster::start().await;
    cluster.webhook.on("/no", |_| deny("no"));
    let hooks = [
        cluster.hook("yes"),
        cluster.hook("no"),
        cluster.hook("fine"),
    ];
    cluster.register(Validating, "hooks", hooks).await;
    let made = cluster.make("c").await;
    assert_eq!(
        message(&made),
        "admission webhook \"no.example.com\" denied the request: no"
    );
    let mut asked = cluster.webhook.order();
    asked.sort_unstable();
    assert_eq!(asked, ["/fine", "/no", "/yes"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_used_again_over_both_protocols() {
    for (protocols, version, connections) in [
        (&["h2", "http/1.1"][..], Version::HTTP_11, 1),
        (&["http/1.1"][..], Version::HTTP_11, 1),
        // It is offered HTTP/1.1 first.
        (&["h2"][..], Version::HTTP_2, 2),
    ] {
        let cluster = Cluster::start().await;
        let webhook = &cluster.webhook;
        webhook.show(&webhook.authority, protocols, |_| {});
        cluster
            .register(Validating, "hook", [cluster.hook("hook")])
            .await;
        cluster
            .register(Mutating, "hook", [cluster.hook("hook")])
            .await;
        for index in 0..10 {
            cluster
                .must_make(CONFIG_MAPS, config_map(&format!("c{index}")))
                .await;
        }
        let asked = webhook.asked("/hook");
        assert_eq!(asked.len(), 20);
        assert!(asked.iter().all(|asked| asked.version == version));
        assert_eq!(webhook.connections(), connections);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_server_that_ends_its_connections_is_not_noticed() {
    for (protocols, connections) in [(&["h2"][..], 21), (&["http/1.1"][..], 20)] {
        let cluster = Cluster::start().await;
        let webhook = &cluster.webhook;
        webhook.show(&webhook.authority, protocols, |_| {});
        cluster
            .register(Validating, "hook", [cluster.hook("hook")])
            .await;
        for index in 0..20 {
            let name = format!("c{index}");
            cluster.must_make(CONFIG_MAPS, config_map(&name)).await;
            webhook.end_connections();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(webhook.connections(), connections);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_slips_by_after_a_restart() {
    let mut cluster = Cluster::start().await;
    cluster.webhook.on("/hook", |_| deny("no"));
    cluster
        .register(Validating, "hook", [cluster.hook("hook")])
        .await;
    for _ in 0..3 {
        cluster = cluster.restart();
        assert_eq!(cluster.make("c").await.code, StatusCode::BAD_REQUEST);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_called_where_it_is() {
    let cluster = Cluster::start().await;
    let client_config = json!({
        "service": {
            "namespace": "default",
            "name": "hook",
            "path": "/hook",
            "port": cluster.webhook.address.port(),
        },
        "caBundle": cluster.webhook.authority.bundle(),
    });
    let hook = Hook::new("hook", client_config);
    cluster.register(Validating, "hook", [hook]).await;
    let made = cluster.make("c").await;
    assert_eq!(made.code, StatusCode::INTERNAL_SERVER_ERROR);
    let text = message(&made);
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
        .must_make("/api/v1/namespaces/default/services", service)
        .await;
    cluster.must_make(CONFIG_MAPS, config_map("c")).await;
    let asked = cluster.webhook.asked("/hook");
    assert_eq!(asked.len(), 1);
    // Behind a service there may be many: each has its own connections.
    assert_eq!(asked[0].version, Version::HTTP_11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_counted_by_how_they_ended() {
    let cluster = Cluster::start().await;
    let webhook = &cluster.webhook;
    webhook.on("/no", |_| {
        Act::Respond(json!({"allowed": false, "status": {"code": 403}}))
    });
    webhook.on("/broken", |_| Act::Send {
        code: 500,
        headers: vec![],
        body: String::new(),
    });
    let (mutating, validating) = ((Mutating, "admit"), (Validating, "validating"));
    for (flavor, step) in [mutating, validating] {
        let hooks = [
            cluster.hook("yes"),
            cluster.hook("ignored").ignoring_failures(),
            cluster.hook("no"),
        ];
        webhook.on("/ignored", |_| Act::Reset);
        cluster.register(flavor, "hooks", hooks).await;
        cluster.make("c").await;
        cluster.remove(flavor, "hooks").await;
        cluster
            .register(flavor, "hooks", [cluster.hook("broken")])
            .await;
        cluster.make("c").await;
        cluster.remove(flavor, "hooks").await;

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
