//! What webhooks say, and where it arrives: refusals, warnings, and the audit log.

use std::path::Path;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Flavor, Mutating, Validating, config_map, message, warnings};
use crate::support::{Answer, CONFIG_MAPS};
use crate::webhook::{Act, patch};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_has_the_status_that_the_webhook_gives_it() {
    let cluster = Cluster::start().await;
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
        for flavor in [Mutating, Validating] {
            let response = json!({"allowed": false, "status": status});
            cluster
                .webhook
                .on("/hook", move |_| Act::Respond(response.clone()));
            cluster
                .register(flavor, "hook", [cluster.hook("hook")])
                .await;
            let made = cluster.make("c").await;
            cluster.remove(flavor, "hook").await;
            assert_eq!(made.code.as_u16(), code, "{}", made.text());
            let said = made.json();
            assert_eq!(said["kind"], "Status");
            assert_eq!(said["status"], "Failure");
            assert_eq!(said["code"], code);
            assert_eq!(said["reason"], reason);
            assert_eq!(message(&made), format!("{denied}{text}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_code_that_http_does_not_have_is_still_a_refusal() {
    let cluster = Cluster::start().await;
    cluster
        .register(Validating, "hook", [cluster.hook("hook")])
        .await;
    for code in [1000, 70_000, i32::MAX] {
        let response = json!({"allowed": false, "status": {"message": "no", "code": code}});
        cluster
            .webhook
            .on("/hook", move |_| Act::Respond(response.clone()));
        let made = cluster.make("c").await;
        assert!(made.code.is_server_error() || made.code.is_client_error());
        let expect = "admission webhook \"hook.example.com\" denied the request: no";
        assert_eq!(message(&made), expect);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_causes_of_a_refusal_reach_whoever_asked() {
    let cluster = Cluster::start().await;
    let details = json!({
        "name": "c",
        "kind": "configmaps",
        "causes": [{"reason": "FieldValueInvalid", "message": "too long", "field": "data.a"}],
    });
    let status = json!({"message": "no", "reason": "Invalid", "code": 422, "details": details});
    cluster.webhook.on("/hook", move |_| {
        Act::Respond(json!({"allowed": false, "status": status}))
    });
    cluster
        .register(Validating, "hook", [cluster.hook("hook")])
        .await;
    assert_eq!(cluster.make("c").await.json()["details"], details);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warnings_cannot_be_more_than_warnings() {
    let cluster = Cluster::start().await;
    let nasty = ["größe", "a\r\nset-cookie: b=c", &"x".repeat(5000)];
    let response = json!({"allowed": true, "warnings": nasty});
    cluster
        .webhook
        .on("/hook", move |_| Act::Respond(response.clone()));
    cluster
        .register(Validating, "hook", [cluster.hook("hook")])
        .await;
    let made = cluster.make("c").await;
    assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    assert_eq!(made.headers.get("set-cookie"), None);
    let cut = "x".repeat(256);
    assert_eq!(
        warnings(&made),
        ["größe", &cut].map(|text| format!("299 - \"{text}\""))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_says_very_much_holds_nobody() {
    let (cluster, _directory) = audited().await;
    let many: serde_json::Map<String, Value> = (0..200_000)
        .map(|number| (format!("key-{number}"), json!("")))
        .collect();
    let warnings: Vec<String> = (0..200_000).map(|number| format!("w{number}")).collect();
    let response = json!({"allowed": true, "auditAnnotations": many, "warnings": warnings});
    cluster
        .webhook
        .on("/hook", move |_| Act::Respond(response.clone()));
    cluster
        .register(Validating, "hook", [cluster.hook("hook")])
        .await;
    let begun = std::time::Instant::now();
    let made = cluster.make("c").await;
    assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warnings_reach_whoever_asked_also_with_a_refusal() {
    let cluster = Cluster::start().await;
    let warn = |allowed: bool, text: &'static str| {
        move |_: &Value| Act::Respond(json!({"allowed": allowed, "warnings": [text]}))
    };
    cluster.webhook.on("/change", warn(true, "beware of \"a\""));
    cluster.webhook.on("/check", warn(true, "and of b"));
    cluster
        .register(Mutating, "change", [cluster.hook("change")])
        .await;
    cluster
        .register(Validating, "check", [cluster.hook("check")])
        .await;
    let made = cluster.make("c").await;
    assert_eq!(made.code, StatusCode::CREATED);
    let expect = ["299 - \"beware of \\\"a\\\"\"", "299 - \"and of b\""];
    assert_eq!(warnings(&made), expect);

    cluster.webhook.on("/check", warn(false, "and of b"));
    let refused = cluster.make("d").await;
    assert_eq!(refused.code, StatusCode::BAD_REQUEST);
    assert_eq!(warnings(&refused), expect);
}

/// The annotations that the audit log has of a request.
async fn annotations(log: &Path, answer: &Answer) -> Value {
    let id = answer.headers["audit-id"].to_str().unwrap();
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

/// A cluster whose audit log has what requests are about, and where that log is.
async fn audited() -> (Cluster, tempfile::TempDir) {
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
    let cluster = Cluster::start_with(&[&flags[0], &flags[1]]).await;
    (cluster, directory)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_log_tells_what_webhooks_said_and_did() {
    let (cluster, directory) = audited().await;
    let log = directory.path().join("log");
    cluster.webhook.on("/change", |_| {
        let Act::Respond(mut response) =
            patch(&json!([{"op": "add", "path": "/data/x", "value": "y"}]))
        else {
            unreachable!();
        };
        response["auditAnnotations"] = json!({"owner": "me"});
        Act::Respond(response)
    });
    cluster.webhook.on("/check", |_| {
        Act::Respond(json!({"allowed": true, "auditAnnotations": {"checked": "yes"}}))
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
    let made = cluster.make("c").await;
    let said = annotations(&log, &made).await;
    assert_eq!(said["change.example.com/owner"], "me");
    assert_eq!(said["check.example.com/checked"], "yes");
    let mutation = |index: usize| {
        let key = format!("mutation.webhook.admission.k8s.io/round_0_index_{index}");
        serde_json::from_str::<Value>(said[&key].as_str().expect(&key)).unwrap()
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
    let patch = &said["patch.webhook.admission.k8s.io/round_0_index_0"];
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
async fn the_audit_log_tells_who_was_passed_over() {
    let (cluster, directory) = audited().await;
    let log = directory.path().join("log");
    cluster.webhook.on("/broken", |_| Act::Reset);
    let cases: [(Flavor, &str, Value); 2] = [
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
    for (flavor, key, expect) in cases {
        let hook = cluster.hook("broken").ignoring_failures();
        cluster.register(flavor, "broken", [hook]).await;
        let made = cluster
            .post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("c"))
            .await;
        assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
        assert_eq!(annotations(&log, &made).await[key], expect);
        cluster.remove(flavor, "broken").await;

        let rules = json!([{"resources": ["configmaps"], "resourceNames": ["c"]}]);
        let hook = cluster.hook("left-out").excluding(rules);
        cluster.register(flavor, "hook", [hook]).await;
        let made = cluster
            .post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("c"))
            .await;
        let said = annotations(&log, &made).await;
        let said = said.as_object().unwrap();
        assert!(
            said.values()
                .any(|value| value.as_str().unwrap().contains("left-out.example.com")),
            "{said:?}"
        );
        cluster.remove(flavor, "hook").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_log_tells_who_was_left_out_of_a_write_that_was_refused() {
    let (cluster, directory) = audited().await;
    let log = directory.path().join("log");
    cluster.webhook.on("/no", |_| crate::webhook::deny("no"));
    let rules = json!([{"resources": ["configmaps"], "resourceNames": ["c"]}]);
    for flavor in [Validating, Mutating] {
        let hooks = [
            cluster.hook("left-out").excluding(rules.clone()),
            cluster.hook("no"),
        ];
        cluster.register(flavor, "hooks", hooks).await;
        let refused = cluster.make("c").await;
        assert_eq!(refused.code, StatusCode::BAD_REQUEST);
        cluster.remove(flavor, "hooks").await;
        let key = format!(
            "admission.rhumb/excluded-{}-webhooks",
            format!("{flavor:?}").to_lowercase()
        );
        let said = annotations(&log, &refused).await;
        assert_eq!(said[&key], "hooks/left-out.example.com[0]");
    }
}
