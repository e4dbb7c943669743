//! Webhooks that hang, disconnect or send invalid responses: the timeout applies, and the failure policy decides.

use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::{Value, json};

use crate::cluster::{Mutating, Validating, WebhookKind, WebhookTestCluster, message};
use crate::webhook::{WebhookResponse, deny, patch, respond_with};

/// A webhook's behavior, and the expected error after its name. `ADDRESS` is that of the webhook server.
struct WebhookFailureCase {
    name: &'static str,
    act: fn(&Value) -> WebhookResponse,
    expect: &'static str,
}

const BOTH: &[WebhookFailureCase] = &[
    WebhookFailureCase {
        name: "hangs",
        act: |_| WebhookResponse::Hang,
        expect: "failed to call webhook: Post \"https://ADDRESS/hangs?timeout=1s\": context deadline exceeded",
    },
    WebhookFailureCase {
        name: "resets",
        act: |_| WebhookResponse::Reset,
        expect: "failed to call webhook: Post \"https://ADDRESS/resets?timeout=1s\": EOF",
    },
    WebhookFailureCase {
        name: "broken",
        act: |_| WebhookResponse::Send {
            code: 500,
            headers: vec![("content-type", "text/plain".into())],
            body: "no database".into(),
        },
        expect: "failed to call webhook: an error on the server (\"no database\") has prevented the request from \
                 succeeding",
    },
    WebhookFailureCase {
        name: "missing",
        act: |_| WebhookResponse::Send {
            code: 404,
            headers: vec![],
            body: "404 page not found".into(),
        },
        expect: "failed to call webhook: the server could not find the requested resource",
    },
    WebhookFailureCase {
        name: "empty",
        act: |_| respond_with(""),
        expect: "failed to call webhook: 0-length response with status code: 200 and content type: application/json",
    },
    WebhookFailureCase {
        name: "huge",
        act: |_| respond_with(" ".repeat(8 << 20)),
        expect: "failed to call webhook: the response body is longer than 7340032 bytes",
    },
    WebhookFailureCase {
        name: "redirects",
        act: |_| WebhookResponse::Send {
            code: 307,
            headers: vec![("location", "/elsewhere".into())],
            body: String::new(),
        },
        expect: "failed to call webhook: the server responded with a redirect (307) to \"/elsewhere\", and redirects \
                 are not followed",
    },
    WebhookFailureCase {
        name: "silent",
        act: |_| {
            respond_with(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}))
        },
        expect: "received invalid webhook response: webhook response was absent",
    },
    WebhookFailureCase {
        name: "unnamed",
        act: |request| respond_with(json!({"response": {"uid": request["uid"], "allowed": true}})),
        expect: "received invalid webhook response: expected webhook response of admission.k8s.io/v1, \
                 Kind=AdmissionReview, got /, Kind=",
    },
];

/// Registers a webhook with a timeout of one second, and returns the result of a create.
async fn attempt(
    cluster: &WebhookTestCluster,
    webhook_kind: WebhookKind,
    name: &str,
    failure_policy: &str,
) -> (StatusCode, String) {
    let hook = cluster
        .hook(name)
        .with("timeoutSeconds", json!(1))
        .with("failurePolicy", json!(failure_policy));
    cluster.register(webhook_kind, name, [hook]).await;
    let response = cluster.create_config_map(name).await;
    cluster.remove(webhook_kind, name).await;
    if response.code == StatusCode::CREATED {
        let path = format!("{}/{name}", crate::support::CONFIG_MAPS);
        assert_eq!(cluster.delete(&path).await.code, StatusCode::OK);
    }
    (response.code, message(&response))
}

async fn check(webhook_kind: WebhookKind, cases: &[WebhookFailureCase]) {
    let cluster = WebhookTestCluster::start().await;
    // Over HTTP/2 only the stream would be reset.
    let webhook = &cluster.webhook;
    webhook.use_certificate(&webhook.authority, &["http/1.1"], |_| {});
    for WebhookFailureCase { name, act, expect } in cases {
        webhook.on(&format!("/{name}"), *act);
        let started = Instant::now();
        let (code, message) = attempt(&cluster, webhook_kind, name, "Fail").await;
        assert!(started.elapsed() < Duration::from_secs(10), "{name}");
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR, "{name}: {message}");
        let message = message.replace(&webhook.address.to_string(), "ADDRESS");
        assert_eq!(
            message,
            format!(
                "Internal error occurred: failed calling webhook \"{name}.example.com\": {expect}"
            )
        );
        let ignored = attempt(&cluster, webhook_kind, name, "Ignore").await;
        assert_eq!(ignored.0, StatusCode::CREATED, "{name}: {}", ignored.1);
    }
    assert!(webhook.received("/elsewhere").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_validating_webhooks_follow_the_failure_policy() {
    check(Validating, BOTH).await;
    let no_patches = WebhookFailureCase {
        name: "patches",
        act: |_| patch(&json!([{"op": "add", "path": "/data/x", "value": "y"}])),
        expect: "received invalid webhook response: validating webhook may not return response.patch",
    };
    check(Validating, &[no_patches]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_mutating_webhooks_follow_the_failure_policy() {
    check(Mutating, BOTH).await;
    let no_type = WebhookFailureCase {
        name: "untyped",
        act: |_| WebhookResponse::Respond(json!({"allowed": true, "patch": "W10="})),
        expect: "received invalid webhook response: webhook returned response.patch but not response.patchType",
    };
    check(Mutating, &[no_type]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mismatched_responses_are_failures() {
    let cluster = WebhookTestCluster::start().await;
    let review = |uid: Value, version: &str| {
        respond_with(json!({
            "apiVersion": version,
            "kind": "AdmissionReview",
            "response": {"uid": uid, "allowed": true},
        }))
    };
    let webhook = &cluster.webhook;
    webhook.on("/uid", move |_| {
        review("wrong".into(), "admission.k8s.io/v1")
    });
    let old = "admission.k8s.io/v1beta1";
    webhook.on("/version", move |request| {
        review(request["uid"].clone(), old)
    });
    webhook.on("/text", |_| respond_with("I agree"));
    for (webhook_kind, name, expect) in [
        (Validating, "uid", ", got \"wrong\""),
        (Mutating, "uid", ", got \"wrong\""),
        (
            Validating,
            "version",
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1beta1, \
             Kind=AdmissionReview",
        ),
        (Validating, "text", ""),
    ] {
        let (code, message) = attempt(&cluster, webhook_kind, name, "Fail").await;
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR, "{message}");
        assert!(message.ends_with(expect), "{message}");
        let names = format!("failed calling webhook \"{name}.example.com\": ");
        assert!(message.contains(&names), "{message}");
        let ignored = attempt(&cluster, webhook_kind, name, "Ignore").await;
        assert_eq!(ignored.0, StatusCode::CREATED, "{}", ignored.1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_patches_are_failures() {
    let cluster = WebhookTestCluster::start().await;
    let webhook = &cluster.webhook;
    webhook.on("/unreadable", |_| patch(&json!({"op": "add"})));
    let (code, message) = attempt(&cluster, Mutating, "unreadable", "Fail").await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    let expect = "received undecodable patch in webhook response";
    assert!(message.contains(expect), "{message}");
    let ignored = attempt(&cluster, Mutating, "unreadable", "Ignore").await;
    assert_eq!(ignored.0, StatusCode::CREATED, "{}", ignored.1);

    // A well-formed patch is a decision of the webhook: that it does not apply is no call failure.
    webhook.on("/unfit", |_| {
        patch(&json!([{"op": "remove", "path": "/data/none"}]))
    });
    webhook.on("/nonsense", |_| {
        patch(&json!([{"op": "replace", "path": "/data", "value": "text"}]))
    });
    for name in ["unfit", "nonsense"] {
        let (code, message) = attempt(&cluster, Mutating, name, "Ignore").await;
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR, "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denials_apply_with_any_failure_policy() {
    let cluster = WebhookTestCluster::start().await;
    cluster.webhook.on("/no", |_| deny("no"));
    for webhook_kind in [Mutating, Validating] {
        for policy in ["Fail", "Ignore"] {
            let (code, message) = attempt(&cluster, webhook_kind, "no", policy).await;
            assert_eq!(code, StatusCode::BAD_REQUEST);
            assert_eq!(
                message,
                "admission webhook \"no.example.com\" denied the request: no"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeout_is_per_webhook() {
    let cluster = WebhookTestCluster::start().await;
    for (seconds, wait_ms, expect) in [
        (1, 2500, StatusCode::INTERNAL_SERVER_ERROR),
        (4, 2500, StatusCode::CREATED),
    ] {
        let name = format!("within-{seconds}");
        cluster.webhook.on(&format!("/{name}"), move |_| {
            let pause = Duration::from_millis(wait_ms);
            WebhookResponse::After(pause, Box::new(crate::webhook::allow()))
        });
        let hook = cluster.hook(&name).with("timeoutSeconds", json!(seconds));
        cluster.register(Validating, &name, [hook]).await;
        let started = Instant::now();
        assert_eq!(cluster.create_config_map(&name).await.code, expect);
        let took = started.elapsed().as_millis();
        assert!((1000..4000).contains(&took), "{took} ms");
        let received = cluster.webhook.received(&format!("/{name}"));
        assert_eq!(received[0].query, format!("timeout={seconds}s"));
        cluster.remove(Validating, &name).await;
    }
}
