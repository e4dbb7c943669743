//! Tests of the ServiceAccount plugin on a whole server.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::CORE;
use crate::testing::{TestServer, TestServerOptions};

const VOLUME: &str = "kube-api-access-00000";

fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            ]}},
        ],
    }})
}

fn token_mount() -> Value {
    json!({"name": VOLUME, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"})
}

/// Replaces the random suffix of the volume name by a fixed one.
fn with_fixed_name(spec: &Value) -> Value {
    let text = spec.to_string();
    let random = text
        .split('"')
        .find(|word| word.starts_with("kube-api-access-"));
    let Some(random) = random else {
        return spec.clone();
    };
    assert_eq!(random.len(), VOLUME.len(), "{random}");
    serde_json::from_str(&text.replace(random, VOLUME)).expect("valid JSON")
}

fn with_env_from(secret: &str) -> Value {
    json!([{"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}, {"secretRef": {"name": secret}}]}])
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    for (field, value) in crate::testing::object(spec) {
        pod["spec"][field] = value;
    }
    pod
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
}

async fn server() -> (TestServer, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    (
        TestServer::open(directory.path(), TestServerOptions::default()).await,
        directory,
    )
}

/// Creates a namespace and returns the paths of its pods and service accounts.
async fn new_namespace(server: &TestServer, name: &str) -> (String, String) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    assert_eq!(server.create("/api/v1/namespaces", namespace).await.0, 201);
    let path = |plural: &str| format!("/api/v1/namespaces/{name}/{plural}");
    (path("pods"), path("serviceaccounts"))
}

#[tokio::test]
async fn a_pods_service_account_must_exist() {
    let (server, _directory) = server().await;
    let (pods, accounts) = (format!("{CORE}/pods"), format!("{CORE}/serviceaccounts"));

    let (code, status) = server
        .create(&pods, pod("p", json!({"serviceAccountName": "bot"})))
        .await;
    assert_eq!(code, 403, "{status}");
    assert_eq!(
        status["message"],
        "pods \"p\" is forbidden: error looking up service account default/bot: serviceaccount \"bot\" not found"
    );
    assert_eq!(status["details"], json!({"name": "p", "kind": "pods"}));

    let mut bot = account("bot");
    bot["imagePullSecrets"] = json!([{"name": "pull"}]);
    assert_eq!(server.create(&accounts, bot).await.0, 201);
    let (code, created) = server
        .create(&pods, pod("p", json!({"serviceAccount": "bot"})))
        .await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"]["serviceAccountName"], "bot");
    assert_eq!(
        created["spec"]["imagePullSecrets"],
        json!([{"name": "pull"}])
    );
    let spec = with_fixed_name(&created["spec"]);
    assert_eq!(spec["volumes"], json!([token_volume(VOLUME)]));
    assert_eq!(
        spec["containers"][0]["volumeMounts"],
        json!([token_mount()])
    );

    // Defaulted fields are accepted unchanged by an update.
    let (code, response) = server
        .request(Method::PUT, &format!("{pods}/p"), created)
        .await;
    assert_eq!(code, 200, "{response}");
}

#[tokio::test]
async fn a_pod_waits_for_the_default_account_of_a_new_namespace() {
    let (server, _directory) = server().await;
    let (pods, accounts) = new_namespace(&server, "young").await;
    let create_account_later = async {
        sleep(Duration::from_millis(200)).await;
        server.create(&accounts, account("default")).await
    };
    let (created, account) = tokio::join!(
        server.create(&pods, pod("p", json!({}))),
        create_account_later
    );
    assert_eq!(account.0, 201);
    let (code, created) = created;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"]["serviceAccountName"], "default");
    assert_eq!(created["spec"]["serviceAccount"], "default");
}

#[tokio::test]
async fn pods_are_rejected_without_a_default_account() {
    let (server, _directory) = server().await;
    let (pods, _) = new_namespace(&server, "bare").await;
    let (code, status) = server.create(&pods, pod("p", json!({}))).await;
    assert_eq!(code, 403, "{status}");
    assert_eq!(
        status["message"],
        "pods \"p\" is forbidden: error looking up service account bare/default: serviceaccount \"default\" not found"
    );

    let mut mirror = pod("mirror", json!({"nodeName": "n"}));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let (code, created) = server.create(&pods, mirror).await;
    assert_eq!((code, &created["spec"]["volumes"]), (201, &Value::Null));
}

#[tokio::test]
async fn ephemeral_containers_may_use_only_mountable_secrets() {
    let (server, _directory) = server().await;
    let (pods, accounts) = (format!("{CORE}/pods"), format!("{CORE}/serviceaccounts"));
    let mut bot = account("bot");
    bot["metadata"]["annotations"] = json!({"kubernetes.io/enforce-mountable-secrets": "true"});
    bot["secrets"] = json!([{"name": "mine"}]);
    assert_eq!(server.create(&accounts, bot).await.0, 201);
    let created = server.create(&pods, pod("p", json!({"serviceAccountName": "bot"})));
    assert_eq!(created.await.0, 201);

    let path = format!("{pods}/p/ephemeralcontainers");
    let debug = |secret: &str| {
        let mut containers = with_env_from(secret);
        containers[0]["name"] = json!("debug");
        containers[0]["image"] = json!("i");
        json!({"spec": {"ephemeralContainers": containers}})
    };
    let (code, status) = server.request(Method::PATCH, &path, debug("other")).await;
    assert_eq!(code, 500, "{status}");
    assert_eq!(
        status["message"],
        "ephemeral container debug with envFrom referencing secret.secretName=\"other\" is not allowed because service account bot does not reference that secret"
    );
    let (code, response) = server.request(Method::PATCH, &path, debug("mine")).await;
    assert_eq!(code, 200, "{response}");
}
