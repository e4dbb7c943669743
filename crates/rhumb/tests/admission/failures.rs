//! Webhooks that hang, break off or answer nonsense: the time-out holds, and the failure policy decides.

use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Flavor, Mutating, Validating, message};
use crate::webhook::{Act, deny, patch, say};

/// What a webhook does, and what is said of it after its name. `ADDRESS` is that of the webhook server.
struct Case {
    name: &'static str,
    act: fn(&Value) -> Act,
    expect: &'static str,
}

const BOTH: &[Case] = &[
    Case {
        name: "hangs",
        act: |_| Act::Hang,
        expect: "failed to call webhook: Post \"https://ADDRESS/hangs?timeout=1s\": context deadline exceeded",
    },
    Case {
        name: "resets",
        act: |_| Act::Reset,
        expect: "failed to call webhook: Post \"https://ADDRESS/resets?timeout=1s\": EOF",
    },
    Case {
        name: "broken",
        act: |_| Act::Send {
            code: 500,
            headers: vec![("content-type", "text/plain".into())],
            body: "no database".into(),
        },
        expect: "failed to call webhook: an error on the server (\"no database\") has prevented the request from \
                 succeeding",
    },
    Case {
        name: "missing",
        act: |_| Act::Send {
            code: 404,
            headers: vec![],
            body: "404 page not found".into(),
        },
        expect: "failed to call webhook: the server could not find the requested resource",
    },
    Case {
        name: "empty",
        act: |_| say(""),
        expect: "failed to call webhook: 0-length response with status code: 200 and content type: application/json",
    },
    Case {
        name: "huge",
        act: |_| say(" ".repeat(8 << 20)),
        expect: "failed to call webhook: the response body is longer than 7340032 bytes",
    },
    Case {
        name: "redirects",
        act: |_| Act::Send {
            code: 307,
            headers: vec![("location", "/elsewhere".into())],
            body: String::new(),
        },
        expect: "failed to call webhook: the server responded with a redirect (307) to \"/elsewhere\", and redirects \
                 are not followed",
    },
    Case {
        name: "silent",
        act: |_| say(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"})),
        expect: "received invalid webhook response: webhook response was absent",
    },
    Case {
        name: "unnamed",
        act: |request| say(json!({"response": {"uid": request["uid"], "allowed": true}})),
        expect: "received invalid webhook response: expected webhook response of admission.k8s.io/v1, \
                 Kind=AdmissionReview, got /, Kind=",
    },
];

/// Registers a webhook that has one second, and tells how a creation ends.
async fn attempt(
    cluster: &Cluster,
    flavor: Flavor,
    name: &str,
    failure_policy: &str,
) -> (StatusCode, String) {
    let hook = cluster
        .hook(name)
        .with("timeoutSeconds", json!(1))
        .with("failurePolicy", json!(failure_policy));
    cluster.register(flavor, name, [hook]).await;
    let made = cluster.make(name).await;
    cluster.remove(flavor, name).await;
    if made.code == StatusCode::CREATED {
        let path = format!("{}/{name}", crate::support::CONFIG_MAPS);
        assert_eq!(cluster.delete(&path).await.code, StatusCode::OK);
    }
    (made.code, message(&made))
}

async fn check(flavor: Flavor, cases: &[Case]) {
    let cluster = Cluster::start().await;
    // Over HTTP/2 only a stream would end.
    let webhook = &cluster.webhook;
    webhook.show(&webhook.authority, &["http/1.1"], |_| {});
    for Case { name, act, expect } in cases {
        webhook.on(&format!("/{name}"), *act);
        let begun = Instant::now();
        let (code, message) = attempt(&cluster, flavor, name, "Fail").await;
        assert!(begun.elapsed() < Duration::from_secs(10), "{name}");
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR, "{name}: {message}");
        let message = message.replace(&webhook.address.to_string(), "ADDRESS");
        assert_eq!(
            message,
            format!(
                "Internal error occurred: failed calling webhook \"{name}.example.com\": {expect}"
            )
        );
        let ignored = attempt(&cluster, flavor, name, "Ignore").await;
        assert_eq!(ignored.0, StatusCode::CREATED, "{name}: {}", ignored.1);
    }
    assert!(webhook.asked("/elsewhere").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn validating_webhooks_that_fail() {
    check(Validating, BOTH).await;
    let no_patches = Case {
        name: "patches",
        act: |_| patch(&json!([{"op": "add", "path": "/data/x", "value": "y"}])),
        expect: "received invalid webhook response: validating webhook may not return response.patch",
    };
    check(Validating, &[no_patches]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutating_webhooks_that_fail() {
    check(Mutating, BOTH).await;
    let no_type = Case {
        name: "untyped",
        act: |_| Act::Respond(json!({"allowed": true, "patch": "W10="})),
        expect: "received invalid webhook response: webhook returned response.patch but not response.patchType",
    };
    check(Mutating, &[no_type]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_not_to_the_question() {
    let cluster = Cluster::start().await;
    let review = |uid: Value, version: &str| {
        say(json!({
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
    webhook.on("/text", |_| say("I agree"));
    for (flavor, name, expect) in [
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
        let (code, message) = attempt(&cluster, flavor, name, "Fail").await;
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR, "{message}");
        assert!(message.ends_with(expect), "{message}");
        let names = format!("failed calling webhook \"{name}.example.com\": ");
        assert!(message.contains(&names), "{message}");
        let ignored = attempt(&cluster, flavor, name, "Ignore").await;
        assert_eq!(ignored.0, StatusCode::CREATED, "{}", ignored.1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_that_are_no_patches() {
    let cluster = Cluster::start().await;
    let webhook = &cluster.webhook;
    webhook.on("/unreadable", |_| patch(&json!({"op": "add"})));
    let (code, message) = attempt(&cluster, Mutating, "unreadable", "Fail").await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    let expect = "received undecodable patch in webhook response";
    assert!(message.contains(expect), "{message}");
    let ignored = attempt(&cluster, Mutating, "unreadable", "Ignore").await;
    assert_eq!(ignored.0, StatusCode::CREATED, "{}", ignored.1);

    // A patch that can be read is the webhook's decision: that it does not fit is no failure of the call.
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
async fn refusals_count_whatever_the_failure_policy_is() {
    let cluster = Cluster::start().await;
    cluster.webhook.on("/no", |_| deny("no"));
    for flavor in [Mutating, Validating] {
        for policy in ["Fail", "Ignore"] {
            let (code, message) = attempt(&cluster, flavor, "no", policy).await;
            assert_eq!(code, StatusCode::BAD_REQUEST);
            assert_eq!(
                message,
                "admission webhook \"no.example.com\" denied the request: no"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_that_a_webhook_has_is_its_own() {
    let cluster = Cluster::start().await;
    for (seconds, wait_ms, expect) in [
        (1, 2500, StatusCode::INTERNAL_SERVER_ERROR),
        (4, 2500, StatusCode::CREATED),
    ] {
        let name = format!("within-{seconds}");
        cluster.webhook.on(&format!("/{name}"), move |_| {
            let pause = Duration::from_millis(wait_ms);
            Act::After(pause, Box::new(crate::webhook::allow()))
        });
        let hook = cluster.hook(&name).with("timeoutSeconds", json!(seconds));
        cluster.register(Validating, &name, [hook]).await;
        let begun = Instant::now();
        assert_eq!(cluster.make(&name).await.code, expect);
        let took = begun.elapsed().as_millis();
        assert!((1000..4000).contains(&took), "{took} ms");
        let asked = cluster.webhook.asked(&format!("/{name}"));
        assert_eq!(asked[0].query, format!("timeout={seconds}s"));
        cluster.remove(Validating, &name).await;
    }
}
