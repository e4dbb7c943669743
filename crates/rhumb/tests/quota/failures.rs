//! Failed creates consume no quota.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::concurrency::{create_concurrently, pods_of_round};
use crate::make::{code, object};
use crate::program::poll_until;
use crate::quota_namespace::{CONTROLLERS, TestNamespace, forbidden, pod, pod_with, start};
use crate::support::TestServer;
use crate::webhook::{WebhookServer, allow, deny};
use rhumb_etcd_harness::EtcdServer;

/// A namespace with a quota for this many pods.
async fn ns(server: &TestServer, namespace: &str, pods_max: usize) -> TestNamespace {
    let ns = TestNamespace::make(&server.client().await, namespace).await;
    let spec = json!({"hard": {"pods": pods_max.to_string()}});
    ns.make_quota("q", spec).await;
    ns
}

/// Checks that exactly this many more pods can be created.
async fn check_remaining(ns: &TestNamespace, expected: usize) {
    let creates = create_concurrently(std::slice::from_ref(ns), pods_of_round(0)).await;
    assert_eq!(creates.created.len(), expected);
}

#[tokio::test]
async fn already_exists_consumes_no_quota() {
    let server = start();
    let ns = ns(&server, "a", 3).await;
    let mut creations = JoinSet::new();
    for _ in 0..60 {
        let ns = ns.clone();
        creations.spawn(async move { ns.create(pod("same")).await });
    }
    let results = creations.join_all().await;
    let (created_count, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(created_count.len(), 1);
    for result in failed {
        assert_eq!(code(result), (409, "AlreadyExists".to_owned()));
    }
    assert_eq!(ns.used("q").await, json!({"pods": "1"}));
    check_remaining(&ns, 2).await;
}

/// Validation runs before the quota is checked.
#[tokio::test]
async fn invalid_objects_consume_no_quota() {
    let server = start();
    let ns = ns(&server, "a", 1).await;
    for index in 0..20 {
        let name = format!("p-{index}");
        let invalid = ns.create(pod_with(&name, json!({"restartPolicy": "Maybe"})));
        assert_eq!(code(invalid.await), (422, "Invalid".to_owned()));
    }
    assert_eq!(ns.used("q").await, json!({"pods": "0"}));
    check_remaining(&ns, 1).await;
}

#[tokio::test]
async fn dry_run_is_checked_but_consumes_no_quota() {
    let server = start();
    let ns = ns(&server, "a", 2).await;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let pods = ns.pods();
    for index in 0..10 {
        let pod = object(pod(&format!("dry-{index}")));
        pods.create(&dry, &pod).await.expect("there is room");
    }
    assert_eq!(ns.used("q").await, json!({"pods": "0"}));
    check_remaining(&ns, 2).await;
    let denial = forbidden(pods.create(&dry, &object(pod("late"))).await);
    assert_eq!(
        denial,
        "pods \"late\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    );
}

fn configuration(client_config: Value) -> ValidatingWebhookConfiguration {
    object(json!({
        "metadata": {"name": "gate"},
        "webhooks": [{
            "name": "gate.example.com",
            "clientConfig": client_config,
            "rules": [{
                "operations": ["CREATE"],
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods"],
            }],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    }))
}

async fn register(ns: &TestNamespace, webhook: &WebhookServer) {
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(ns.client.clone());
    let configuration = configuration(webhook.client_config("/gate"));
    let created_count = configurations
        .create(&PostParams::default(), &configuration)
        .await;
    created_count.expect("a configuration");
}

/// Half of the creates are denied by a webhook, the other half competes for the quota.
#[tokio::test]
async fn webhook_denials_consume_no_quota() {
    let server = start();
    let ns = ns(&server, "a", 10).await;
    let webhook = WebhookServer::start().await;
    webhook.on("/gate", |request| {
        let name = request["name"].as_str().unwrap_or_default();
        if name.ends_with(['0', '2', '4', '6', '8']) {
            deny("even")
        } else {
            allow()
        }
    });
    register(&ns, &webhook).await;
    let mut creations = JoinSet::new();
    for pod in pods_of_round(0) {
        let ns = ns.clone();
        creations.spawn(async move { ns.create(pod).await });
    }
    let [mut created_count, mut denied, mut full] = [0; 3];
    for result in creations.join_all().await {
        if result.is_ok() {
            created_count += 1;
            continue;
        }
        let message = crate::make::refusal(result).message;
        if message == "admission webhook \"gate.example.com\" denied the request: even" {
            denied += 1;
        } else if message.contains("exceeded quota: q, ") {
            full += 1;
        } else {
            panic!("{message}");
        }
    }
    assert_eq!((created_count, denied, full), (10, 50, 40));
    assert_eq!(ns.used("q").await, json!({"pods": "10"}));
}

#[tokio::test]
async fn policy_denials_consume_no_quota() {
    let server = start();
    let ns = ns(&server, "a", 3).await;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(ns.client.clone());
    let policy = json!({
        "metadata": {"name": "gate"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "operations": ["CREATE"],
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods"],
            }]},
            "validations": [{
                "expression": "!object.metadata.name.startsWith('bad')",
                "message": "bad",
            }],
        },
    });
    let params = PostParams::default();
    policies
        .create(&params, &object(policy))
        .await
        .expect("a policy");
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(ns.client.clone());
    let binding = json!({
        "metadata": {"name": "gate"},
        "spec": {"policyName": "gate", "validationActions": ["Deny"]},
    });
    bindings
        .create(&params, &object(binding))
        .await
        .expect("a binding");
    let is_denied = |message: &str| message.ends_with("denied request: bad");
    poll_until("the policy", async || {
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        ns.pods()
            .create(&dry, &object(pod("bad")))
            .await
            .is_err()
            .then_some(())
    })
    .await;
    for index in 0..20 {
        let message = crate::make::refusal(ns.create(pod(&format!("bad-{index}"))).await).message;
        assert!(is_denied(&message), "{message}");
    }
    assert_eq!(ns.used("q").await, json!({"pods": "0"}));
    check_remaining(&ns, 3).await;
}

/// Clients disconnect at random times during a create, some with a name that exists already. Created pods are counted,
/// and everything else is released at once.
#[tokio::test]
async fn disconnected_clients_leak_no_reservation() {
    const ROOM: usize = 12;
    let server = start();
    let ns = ns(&server, "a", ROOM).await;
    let mut creations = JoinSet::new();
    for index in 0..120_u64 {
        // A separate client has its own connection, which closes with the create.
        let name = format!("given-up-{}", index % 8);
        let own_namespace = TestNamespace::of(&server.client().await, "a");
        creations.spawn(async move {
            let deadline = Duration::from_micros(index * 100);
            timeout(deadline, own_namespace.create(pod(&name)))
                .await
                .is_ok()
        });
    }
    let acknowledged = creations.join_all().await;
    assert!(acknowledged.contains(&false), "nobody hung up");
    let creates = create_concurrently(std::slice::from_ref(&ns), pods_of_round(0)).await;
    let existing = ns.names().await.len();
    assert_eq!(existing, ROOM, "{} of them after", creates.created.len());
    let used = json!({"pods": ROOM.to_string()});
    assert_eq!(ns.used("q").await, used);
}

/// etcd is frozen with creates in flight, and all clients give up. After it resumes, created pods are counted and
/// everything else is released.
#[tokio::test]
async fn disconnected_clients_leak_no_reservation_while_etcd_is_frozen() {
    const ROOM: usize = 5;
    let etcd = EtcdServer::start().await;
    let endpoint = format!("--etcd-servers={}", etcd.endpoint());
    let server = TestServer::start_with(&[&endpoint, CONTROLLERS]);
    let ns = ns(&server, "a", ROOM).await;
    // The first batch uses an existing name and must fail; the second uses new names.
    for is_new in [false, true] {
        ns.must_create(pod("first")).await;
        etcd.freeze();
        let mut creations = JoinSet::new();
        for index in 0..20 {
            let own_namespace = TestNamespace::of(&server.client().await, "a");
            let name = if is_new {
                format!("given-up-{index}")
            } else {
                "first".to_owned()
            };
            creations.spawn(async move {
                let deadline = Duration::from_millis(300);
                timeout(deadline, own_namespace.create(pod(&name)))
                    .await
                    .is_ok()
            });
        }
        let acknowledged = creations.join_all().await;
        etcd.thaw();
        assert!(
            !acknowledged.contains(&true),
            "the store does not stand still"
        );
        create_concurrently(std::slice::from_ref(&ns), pods_of_round(0)).await;
        assert_eq!(ns.names().await.len(), ROOM, "new: {is_new}");
        assert_eq!(ns.used("q").await, json!({"pods": ROOM.to_string()}));
        ns.delete_all().await;
    }
}
