//! `rhumb netpol` with a running server.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::command::{CommandOutput, netpol};
use crate::program::FEW_CONTROLLERS;
use crate::support::TestServer;

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

async fn make_pod(client: &Client, name: &str, address: &str) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = object(json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]}]},
    }));
    pods.create(&PostParams::default(), &pod)
        .await
        .expect("a pod");
    let status = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}});
    let patch = Patch::Merge(&status);
    pods.patch_status(name, &PatchParams::default(), &patch)
        .await
        .expect("a status");
}

async fn make_policy(client: &Client) {
    let policies: Api<NetworkPolicy> = Api::default_namespaced(client.clone());
    let policy = object(json!({
        "metadata": {"name": "only-web"},
        "spec": {"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [
            {"from": [{"podSelector": {"matchLabels": {"app": "web"}}}], "ports": [{"port": "http"}]},
        ]},
    }));
    policies
        .create(&PostParams::default(), &policy)
        .await
        .expect("a policy");
}

fn ask(server: &TestServer, arguments: &str) -> CommandOutput {
    let directory = tempfile::tempdir().expect("a directory");
    let kubeconfig = server.kubeconfig();
    netpol(
        directory.path(),
        &format!("{arguments} --kubeconfig {}", kubeconfig.display()),
    )
}

#[tokio::test]
async fn objects_are_read_from_a_running_server() {
    let server = TestServer::start_with(&[FEW_CONTROLLERS]);
    let client = server.client_for_pods().await;
    for (name, address) in [
        ("web", "10.0.0.1"),
        ("db", "10.0.0.2"),
        ("other", "10.0.0.3"),
    ] {
        make_pod(&client, name, address).await;
    }
    make_policy(&client).await;
    let allowed = ask(&server, "check --from default/web --to default/db:http");
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    assert!(allowed.out.contains("default/only-web"), "{}", allowed.out);
    let denied = ask(&server, "check --from 10.0.0.3 --to default/db:http");
    assert_eq!(denied.code, Some(1), "{denied:?}");
    let matrix = ask(&server, "matrix -n default -o json");
    let rows = matrix.rows();
    let denied = rows.iter().filter(|row| row["combined"] == "denied");
    let denied: Vec<String> = denied
        .map(|row| format!("{} {}", row["from"], row["to"]))
        .collect();
    assert_eq!(denied, ["\"default/other\" \"default/db\""]);
    assert_eq!((rows.len(), &*matrix.errors), (9, ""));
}

/// A verdict from an incomplete set of policies would be wrong.
#[tokio::test]
async fn missing_permission_to_read_policies_is_reported() {
    let server = TestServer::start_with(&[FEW_CONTROLLERS]);
    let scheduler = server.kubeconfig().with_file_name("scheduler.kubeconfig");
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = format!("matrix --kubeconfig {}", scheduler.display());
    let output = netpol(directory.path(), &arguments);
    assert_eq!(output.code, Some(2), "{output:?}");
    let want = "failed to list /apis/networking.k8s.io/v1/networkpolicies: networkpolicies.networking.k8s.io is forbidden: \
                User \"system:kube-scheduler\" cannot list resource \"networkpolicies\"";
    assert!(output.errors.contains(want), "{}", output.errors);
    assert_eq!(output.errors.lines().count(), 1, "{}", output.errors);
}
