//! Effects of webhook responses: denials, warnings, and the audit log.

use std::path::Path;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use crate::cluster::{
    Mutating, Validating, WebhookKind, WebhookTestCluster, config_map, message, warnings,
};
use crate::support::{CONFIG_MAPS, HttpResponse};
use crate::webhook::{WebhookResponse, patch};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denial_has_the_status_of_the_webhook() {
    let cluster = WebhookTestCluster::start().await;
    let denied = "admission webhook \"hook.example.com\" denied the request";
    for (status, code, reason, text) in [
        (Value::Null, 400, Value::Null, " without explanation"),
        (json!({"message": "no"}), 400, Value::Null, ": no"),
        (
            json!({"reason": "Because"}),
            400,
            json!("Because"),
            ": Because",
        ),
        (
            json!({"message": "no", "code": 200}),
            400,
            Value::Null,
            ": no",
        ),
        (
            json!({"message": "no", "reason": "Forbidden", "code": 403}),
            403,
            json!("Forbidden"),
            ": no",
        ),
        (
            json!({"message": "short", "reason": "Invalid", "code": 422}),
            422,
            json!("Invalid"),
            ": short",
        ),
        (
            json!({"message": "no", "code": -1}),
            400,
            Value::Null,
            ": no",
        ),
    ] {
        for webhook_kind in [Mutating, Validating] {
            let response = json!({"allowed": false, "status": status});
            cluster
                .webhook
                .on("/hook", move |_| WebhookResponse::Respond(response.clone()));
            cluster
                .register(webhook_kind, "hook", [cluster.hook("hook")])
                .await;
            let create_response = cluster.create_config_map("c").await;
            cluster.remove(webhook_kind, "hook").await;
            assert_eq!(
                create_response.code.as_u16(),
                code,
                "{}",
                create_response.text()
            );
            let status = create_response.json();
            assert_eq!(status["kind"], "Status");
            assert_eq!(status["status"], "Failure");
            assert_eq!(status["code"], code);
            assert_eq!(status["reason"], reason);
            assert_eq!(message(&create_response), format!("{denied}{text}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_status_code_is_still_a_denial() {
    let cluster = WebhookTestCluster::start().await;
    cluster
        .register(Validating, "hook", [cluster.hook("hook")])
        .await;
    for code in [1000, 70_000, i32::MAX] {
        let response = json!({"allowed": false, "status": {"message": "no", "code": code}});
        cluster
            .webhook
            .on("/hook", move |_| WebhookResponse::Respond(response.clone()));
        let create_response = cluster.create_config_map("c").await;
        assert!(create_response.code.is_server_error() || create_response.code.is_client_error());
        let expect = "admission webhook \"hook.example.com\" denied the request: no";
        assert_eq!(message(&create_response), expect);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denial_causes_reach_the_client() {
    let cluster = WebhookTestCluster::start().await;
    let details = json!({
        "name": "c",
        "kind": "configmaps",
        "causes": [{"reason": "FieldValueInvalid", "message": "too long", "field": "data.a"}],
    });
    let status = json!({"message": "no", "reason": "Invalid", "code": 422, "details": details});
    cluster.webhook.on("/hook", move |_| {
        WebhookResponse::Respond(json!({"allowed": false, "status": status}))
    });
    cluster
        .register(Validating, "hook", [cluster.hook("hook")])
        .await;
    assert_eq!(
        cluster.create_config_map("c").await.json()["details"],
        details
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_warnings_are_sanitized_and_truncated() {
    let cluster = WebhookTestCluster::start().await;
    let nasty = ["größe", "a\r\nset-cookie: b=c", &"x".repeat(5000)];
    let response = json!({"allowed": true, "warnings": nasty});
    cluster
        .webhook
        .on("/hook", move |_| WebhookResponse::Respond(response.clone()));
    cluster
        .register(Validating, "hook", [cluster.hook("hook")])
        .await;
    let create_response = cluster.create_config_map("c").await;
    assert_eq!(
        create_response.code,
        StatusCode::CREATED,
        "{}",
        create_response.text()
    );
    assert_eq!(create_response.headers.get("set-cookie"), None);
    let cut = "x".repeat(256);
    assert_eq!(
        warnings(&create_response),
        ["größe", &cut].map(|text| format!("299 - \"{text}\""))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn huge_webhook_response_does_not_delay_the_request() {
    let (cluster, _directory) = audited().await;
    let many: serde_json::Map<String, Value> = (0..200_000)
        .map(|number| (format!("key-{number}"), json!("")))
        .collect();
    let warnings: Vec<String> = (0..200_000).map(|number| format!("w{number}")).collect();
    let response = json!({"allowed": true, "auditAnnotations": many, "warnings": warnings});
    cluster
        .webhook
        .on("/hook", move |_| WebhookResponse::Respond(response.clone()));
    cluster
        .register(Validating, "hook", [cluster.hook("hook")])
        .await;
    let started = std::time::Instant::now();
    let create_response = cluster.create_config_map("c").await;
    assert_eq!(
        create_response.code,
        StatusCode::CREATED,
        "{}",
        create_response.text()
    );
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warnings_reach_the_client_with_a_denial() {
    let cluster = WebhookTestCluster::start().await;
    let warn = |allowed: bool, text: &'static str| {
        move |_: &Value| WebhookResponse::Respond(json!({"allowed": allowed, "warnings": [text]}))
    };
    cluster.webhook.on("/change", warn(true, "beware of \"a\""));
    cluster.webhook.on("/check", warn(true, "and of b"));
    cluster
        .register(Mutating, "change", [cluster.hook("change")])
        .await;
    cluster
        .register(Validating, "check", [cluster.hook("check")])
        .await;
    let create_response = cluster.create_config_map("c").await;
    assert_eq!(create_response.code, StatusCode::CREATED);
    let expect = ["299 - \"beware of \\\"a\\\"\"", "299 - \"and of b\""];
    assert_eq!(warnings(&create_response), expect);

    cluster.webhook.on("/check", warn(false, "and of b"));
    let refused = cluster.create_config_map("d").await;
    assert_eq!(refused.code, StatusCode::BAD_REQUEST);
    assert_eq!(warnings(&refused), expect);
}

/// The audit annotations of a request.
async fn annotations(log: &Path, http_response: &HttpResponse) -> Value {
    let id = http_response.headers["audit-id"].to_str().unwrap();
    for _ in 0..200 {
        let lines = std::fs::read_to_string(log).unwrap();
        let complete = lines
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let mut events = complete.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let found =
            events.find(|event| event["auditID"] == id && event["stage"] == "ResponseComplete");
        if let Some(event) = found {
            return event["annotations"].clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the audit log does not have {id}");
}

/// A cluster with an audit log at level Request, and the log's directory.
async fn audited() -> (WebhookTestCluster, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("policy.yaml");
    let rules = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Request}]}";
    std::fs::write(&policy, rules).unwrap();
    let flags = [
        format!("--audit-policy-file={}", policy.display()),
        format!(
            "--audit-log-path={}",
            directory.path().join("log").display()
        ),
    ];
    let cluster = WebhookTestCluster::start_with(&[&flags[0], &flags[1]]).await;
    (cluster, directory)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_log_has_webhook_annotations_and_patches() {
    let (cluster, directory) = audited().await;
    let log = directory.path().join("log");
    cluster.webhook.on("/change", |_| {
        let WebhookResponse::Respond(mut response) =
            patch(&json!([{"op": "add", "path": "/data/x", "value": "y"}]))
        else {
            unreachable!();
        };
        response["auditAnnotations"] = json!({"owner": "me"});
        WebhookResponse::Respond(response)
    });
    cluster.webhook.on("/check", |_| {
        WebhookResponse::Respond(json!({"allowed": true, "auditAnnotations": {"checked": "yes"}}))
    });
    cluster
        .register(
            Mutating,
            "change",
            [cluster.hook("change"), cluster.hook("other")],
        )
        .await;
    cluster
        .register(Validating, "check", [cluster.hook("check")])
        .await;
    let create_response = cluster.create_config_map("c").await;
    let annotations_logged = annotations(&log, &create_response).await;
    assert_eq!(annotations_logged["change.example.com/owner"], "me");
    assert_eq!(annotations_logged["check.example.com/checked"], "yes");
    let mutation = |index: usize| {
        let key = format!("mutation.webhook.admission.k8s.io/round_0_index_{index}");
        serde_json::from_str::<Value>(annotations_logged[&key].as_str().expect(&key)).unwrap()
    };
    for (index, name, mutated) in [
        (0, "change.example.com", true),
        (1, "other.example.com", false),
    ] {
        assert_eq!(
            mutation(index),
            json!({"configuration": "change", "webhook": name, "mutated": mutated})
        );
    }
    let patch = &annotations_logged["patch.webhook.admission.k8s.io/round_0_index_0"];
    let patch: Value = serde_json::from_str(patch.as_str().unwrap()).unwrap();
    assert_eq!(
        patch,
        json!({
            "configuration": "change",
            "webhook": "change.example.com",
            "patch": [{"op": "add", "path": "/data/x", "value": "y"}],
            "patchType": "JSONPatch",
        })
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_log_has_webhooks_that_failed_open() {
    let (cluster, directory) = audited().await;
    let log = directory.path().join("log");
    cluster.webhook.on("/broken", |_| WebhookResponse::Reset);
    let cases: [(WebhookKind, &str, Value); 2] = [
        (
            Validating,
            "failed-open.validating.webhook.admission.k8s.io/round_0_index_0",
            json!("broken.example.com"),
        ),
        (
            Mutating,
            "failed-open.mutation.webhook.admission.k8s.io/round_0_index_0",
            json!("broken.example.com"),
        ),
    ];
    for (webhook_kind, key, expect) in cases {
        let hook = cluster.hook("broken").ignoring_failures();
        cluster.register(webhook_kind, "broken", [hook]).await;
        let create_response = cluster
            .post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("c"))
            .await;
        assert_eq!(
            create_response.code,
            StatusCode::CREATED,
            "{}",
            create_response.text()
        );
        assert_eq!(annotations(&log, &create_response).await[key], expect);
        cluster.remove(webhook_kind, "broken").await;

        let rules = json!([{"resources": ["configmaps"], "resourceNames": ["c"]}]);
        let hook = cluster.hook("left-out").excluding(rules);
        cluster.register(webhook_kind, "hook", [hook]).await;
        let create_response = cluster
            .post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("c"))
            .await;
        let annotations_logged = annotations(&log, &create_response).await;
        let annotations_logged = annotations_logged.as_object().unwrap();
        assert!(
            annotations_logged
                .values()
                .any(|value| value.as_str().unwrap().contains("left-out.example.com")),
            "{annotations_logged:?}"
        );
        cluster.remove(webhook_kind, "hook").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_log_has_excluded_webhooks_of_a_denied_write() {
    let (cluster, directory) = audited().await;
    let log = directory.path().join("log");
    cluster.webhook.on("/no", |_| crate::webhook::deny("no"));
    let rules = json!([{"resources": ["configmaps"], "resourceNames": ["c"]}]);
    for webhook_kind in [Validating, Mutating] {
        let hooks = [
            cluster.hook("left-out").excluding(rules.clone()),
            cluster.hook("no"),
        ];
        cluster.register(webhook_kind, "hooks", hooks).await;
        let refused = cluster.create_config_map("c").await;
        assert_eq!(refused.code, StatusCode::BAD_REQUEST);
        cluster.remove(webhook_kind, "hooks").await;
        let key = format!(
            "admission.rhumb/excluded-{}-webhooks",
            format!("{webhook_kind:?}").to_lowercase()
        );
        let annotations_logged = annotations(&log, &refused).await;
        assert_eq!(annotations_logged[&key], "hooks/left-out.example.com[0]");
    }
}
