//! Creations that come to nothing cost no room.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::etcd_server::EtcdServer;
use crate::make::{code, object};
use crate::rush::{crowd, rush};
use crate::space::{CONTROLLERS, Space, forbidden, pod, pod_with, start};
use crate::support::Server;
use crate::waiting::until;
use crate::webhook::{Webhook, allow, deny};

/// A namespace with room for so many pods.
async fn space(server: &Server, namespace: &str, room: usize) -> Space {
    let space = Space::make(&server.client().await, namespace).await;
    let spec = json!({"hard": {"pods": room.to_string()}});
    space.make_quota("q", spec).await;
    space
}

/// Exactly so many more pods find room.
async fn check_room(space: &Space, room: usize) {
    let rushed = rush(std::slice::from_ref(space), crowd(0)).await;
    assert_eq!(rushed.created.len(), room);
}

#[tokio::test]
async fn a_name_that_is_taken_costs_nothing() {
    let server = start();
    let space = space(&server, "a", 3).await;
    let mut creations = JoinSet::new();
    for _ in 0..60 {
        let space = space.clone();
        creations.spawn(async move { space.create(pod("same")).await });
    }
    let results = creations.join_all().await;
    let (made, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(made.len(), 1);
    for result in failed {
        assert_eq!(code(result), (409, "AlreadyExists".to_owned()));
    }
    assert_eq!(space.used("q").await, json!({"pods": "1"}));
    check_room(&space, 2).await;
}

/// A quota is asked about what is wrong in itself only after all that is wrong has been told.
#[tokio::test]
async fn what_is_invalid_costs_nothing() {
    let server = start();
    let space = space(&server, "a", 1).await;
    for place in 0..20 {
        let name = format!("p-{place}");
        let invalid = space.create(pod_with(&name, json!({"restartPolicy": "Maybe"})));
        assert_eq!(code(invalid.await), (422, "Invalid".to_owned()));
    }
    assert_eq!(space.used("q").await, json!({"pods": "0"}));
    check_room(&space, 1).await;
}

#[tokio::test]
async fn a_dry_run_is_told_and_takes_nothing() {
    let server = start();
    let space = space(&server, "a", 2).await;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let pods = space.pods();
    for place in 0..10 {
        let pod = object(pod(&format!("dry-{place}")));
        pods.create(&dry, &pod).await.expect("there is room");
    }
    assert_eq!(space.used("q").await, json!({"pods": "0"}));
    check_room(&space, 2).await;
    let told = forbidden(pods.create(&dry, &object(pod("late"))).await);
    assert_eq!(
        told,
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

async fn register(space: &Space, webhook: &Webhook) {
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(space.client.clone());
    let configuration = configuration(webhook.client_config("/gate"));
    let made = configurations
        .create(&PostParams::default(), &configuration)
        .await;
    made.expect("a configuration");
}

/// Half of a crowd is denied by a webhook, the other half competes for the room.
#[tokio::test]
async fn what_a_webhook_denies_costs_nothing() {
    let server = start();
    let space = space(&server, "a", 10).await;
    let webhook = Webhook::start().await;
    webhook.on("/gate", |request| {
        let name = request["name"].as_str().unwrap_or_default();
        if name.ends_with(['0', '2', '4', '6', '8']) {
            deny("even")
        } else {
            allow()
        }
    });
    register(&space, &webhook).await;
    let mut creations = JoinSet::new();
    for pod in crowd(0) {
        let space = space.clone();
        creations.spawn(async move { space.create(pod).await });
    }
    let [mut made, mut denied, mut full] = [0; 3];
    for result in creations.join_all().await {
        if result.is_ok() {
            made += 1;
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
    assert_eq!((made, denied, full), (10, 50, 40));
    assert_eq!(space.used("q").await, json!({"pods": "10"}));
}

#[tokio::test]
async fn what_a_policy_denies_costs_nothing() {
    let server = start();
    let space = space(&server, "a", 3).await;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(space.client.clone());
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
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(space.client.clone());
    let binding = json!({
        "metadata": {"name": "gate"},
        "spec": {"policyName": "gate", "validationActions": ["Deny"]},
    });
    bindings
        .create(&params, &object(binding))
        .await
        .expect("a binding");
    let is_denied = |message: &str| message.ends_with("denied request: bad");
    until("the policy", async || {
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        space
            .pods()
            .create(&dry, &object(pod("bad")))
            .await
            .is_err()
            .then_some(())
    })
    .await;
    for place in 0..20 {
        let message =
            crate::make::refusal(space.create(pod(&format!("bad-{place}"))).await).message;
        assert!(is_denied(&message), "{message}");
    }
    assert_eq!(space.used("q").await, json!({"pods": "0"}));
    check_room(&space, 3).await;
}

/// Clients that go away at any moment of a creation, some of a name that is taken by then. What was made is used, and
/// all else is free at once.
#[tokio::test]
async fn clients_that_hang_up_leave_nothing_behind() {
    const ROOM: usize = 12;
    let server = start();
    let space = space(&server, "a", ROOM).await;
    let mut creations = JoinSet::new();
    for place in 0..120_u64 {
        // A client of its own has a connection of its own, which ends with the creation.
        let name = format!("given-up-{}", place % 8);
        let mine = Space::of(&server.client().await, "a");
        creations.spawn(async move {
            let patience = Duration::from_micros(place * 100);
            timeout(patience, mine.create(pod(&name))).await.is_ok()
        });
    }
    let answered = creations.join_all().await;
    assert!(answered.contains(&false), "nobody hung up");
    let rushed = rush(std::slice::from_ref(&space), crowd(0)).await;
    let there = space.names().await.len();
    assert_eq!(there, ROOM, "{} of them after", rushed.created.len());
    let used = json!({"pods": ROOM.to_string()});
    assert_eq!(space.used("q").await, used);
}

/// The store stands still with creations on the way to it, and everybody gives up. Once it goes on, what was made is
/// used, and all else is free.
#[tokio::test]
async fn clients_that_hang_up_on_a_store_that_stands_still_leave_nothing_behind() {
    const ROOM: usize = 5;
    let etcd = EtcdServer::start().await;
    let endpoint = format!("--etcd-servers={}", etcd.endpoint());
    let server = Server::start_with(&[&endpoint, CONTROLLERS]);
    let space = space(&server, "a", ROOM).await;
    // The first crowd wants a name that is taken, and so comes to nothing; the second wants new ones.
    for is_new in [false, true] {
        space.must_create(pod("first")).await;
        etcd.freeze();
        let mut creations = JoinSet::new();
        for place in 0..20 {
            let mine = Space::of(&server.client().await, "a");
            let name = if is_new {
                format!("given-up-{place}")
            } else {
                "first".to_owned()
            };
            creations.spawn(async move {
                let patience = Duration::from_millis(300);
                timeout(patience, mine.create(pod(&name))).await.is_ok()
            });
        }
        let answered = creations.join_all().await;
        etcd.thaw();
        assert!(!answered.contains(&true), "the store does not stand still");
        rush(std::slice::from_ref(&space), crowd(0)).await;
        assert_eq!(space.names().await.len(), ROOM, "new: {is_new}");
        assert_eq!(space.used("q").await, json!({"pods": ROOM.to_string()}));
        space.delete_all().await;
    }
}
