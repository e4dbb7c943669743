//! `rhumb netpol` with a running server.

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
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
    make_pod_on(client, name, address, None).await;
}

async fn make_pod_on(client: &Client, name: &str, address: &str, node: Option<&str>) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = object(json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]}]},
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

fn netpol_on_server(server: &TestServer, arguments: &str) -> CommandOutput {
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
    let allowed = netpol_on_server(&server, "check --from default/web --to default/db:http");
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    assert!(allowed.out.contains("default/only-web"), "{}", allowed.out);
    let denied = netpol_on_server(&server, "check --from 10.0.0.3 --to default/db:http");
    assert_eq!(denied.code, Some(1), "{denied:?}");
    let matrix = netpol_on_server(&server, "matrix -n default -o json");
    let rows = matrix.rows();
    let denied = rows.iter().filter(|row| row["combined"] == "denied");
    let denied: Vec<String> = denied
        .map(|row| format!("{} {}", row["from"], row["to"]))
        .collect();
    assert_eq!(denied, ["\"default/other\" \"default/db\""]);
    assert_eq!((rows.len(), &*matrix.errors), (9, ""));
}

/// Replaces the report of node `a`, which has applied the policy `only-web` and supports these versions.
async fn report(client: &Client, versions: Value, change: Value) {
    let policies: Api<NetworkPolicy> = Api::default_namespaced(client.clone());
    let policy = policies.get("only-web").await.expect("a policy").metadata;
    let kind = GroupVersionKind::gvk("networking.rhumb.dev", "v1alpha1", "NetworkPolicyNode");
    let kind = ApiResource::from_gvk_with_plural(&kind, "networkpolicynodes");
    let reports: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let mut report = json!({
        "apiVersion": "networking.rhumb.dev/v1alpha1", "kind": "NetworkPolicyNode", "metadata": {"name": "a"},
        "versions": versions, "heartbeatSeconds": 3600, "lastHeartbeatTime": Time(Timestamp::now()),
        "bootID": "first", "podsResourceVersion": u64::MAX.to_string(),
        "applied": [{
            "namespace": "default", "name": "only-web", "uid": policy.uid, "generation": policy.generation,
        }],
    });
    for (field, value) in change.as_object().expect("an object") {
        report[field] = value.clone();
    }
    let report = object(report);
    let written = reports.replace("a", &PostParams::default(), &report).await;
    written.expect("a report");
}

/// Node `a`, after its first boot.
async fn make_node(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = object(json!({"metadata": {"name": "a"}}));
    let created = nodes.create(&PostParams::default(), &node).await;
    created.expect("a node");
    let patch = Patch::Merge(json!({"status": {"nodeInfo": {"bootID": "first"}}}));
    let params = PatchParams::default();
    let patched = nodes.patch_status("a", &params, &patch).await;
    patched.expect("a status");
}

/// A server with node `a`, three pods on it, and a policy that selects one of them.
async fn server_with_a_node() -> (TestServer, Client) {
    let server = TestServer::start_with(&[FEW_CONTROLLERS]);
    let client = server.client_for_pods().await;
    make_node(&client).await;
    for (name, address) in [
        ("web", "10.0.0.1"),
        ("db", "10.0.0.2"),
        ("other", "10.0.0.3"),
    ] {
        make_pod_on(&client, name, address, Some("a")).await;
    }
    make_policy(&client).await;
    (server, client)
}

#[tokio::test]
async fn policies_that_nodes_do_not_enforce_are_shown() {
    let (server, client) = server_with_a_node().await;
    let denied = "check --from default/other --to default/db:http";
    let allowed = "check --from default/web --to default/db:http";
    let known = json!(["1.3", "1.8"]);

    // No node reports anything: another plugin enforces policies.
    assert_eq!(netpol_on_server(&server, denied).code, Some(1));
    report(&client, known.clone(), json!({})).await;
    assert_eq!(netpol_on_server(&server, denied).code, Some(1));
    assert_eq!(netpol_on_server(&server, allowed).code, Some(0));
    assert_eq!(netpol_on_server(&server, "matrix -n default").code, Some(0));

    for (versions, change, reason) in [
        (
            json!(["1.1"]),
            json!({}),
            "version 1.3 is not supported there (newest supported: 1.1), so the policy is ignored",
        ),
        (
            known.clone(),
            json!({"problem": "nft: busy"}),
            "the rules there are not up to date: nft: busy",
        ),
        (
            known.clone(),
            json!({"applied": []}),
            "this generation is not applied there",
        ),
        (
            known.clone(),
            json!({"bootID": "second"}),
            "its agent has not reported since the node was rebooted",
        ),
        (
            known.clone(),
            json!({"podsResourceVersion": "1"}),
            "its agent has not observed the current state of the pod",
        ),
        (
            known.clone(),
            json!({"lastHeartbeatTime": "2020-01-01T00:00:00Z"}),
            "its agent has sent no heartbeat since 2020-01-01T00:00:00Z",
        ),
    ] {
        report(&client, versions, change).await;
        let line = format!("not enforced: default/only-web on a: {reason}\n");
        for question in [denied, allowed, &format!("{denied} --expect denied")] {
            let output = netpol_on_server(&server, question);
            assert_eq!(output.code, Some(3), "{output:?}");
            assert!(output.out.contains(&line), "{}", output.out);
            assert!(
                output.out.contains("ed, but not enforced: default/"),
                "{}",
                output.out
            );
        }
        let output = netpol_on_server(&server, &format!("{denied} -o json"));
        let shown: Value = serde_json::from_str(&output.out).expect("JSON");
        assert_eq!(shown["combined"], "denied");
        assert_eq!(shown["enforced"], false);
        assert_eq!(
            shown["notEnforced"],
            json!([{"policy": "default/only-web", "node": "a", "reason": reason}])
        );
        // Neither endpoint is selected by the policy.
        let output = netpol_on_server(&server, "check --from default/other --to default/web:http");
        assert_eq!(output.code, Some(0), "{output:?}");
        let output = netpol_on_server(&server, "matrix -n default");
        assert_eq!(output.code, Some(3), "{output:?}");
        assert!(output.out.ends_with(&line), "{}", output.out);
        let output = netpol_on_server(&server, "matrix -n default -o json");
        assert_eq!(
            (output.code, output.errors.as_str()),
            (Some(3), line.as_str())
        );
    }
}

/// As the status controller: a status that says `Programmed` counts until the next report of the node is due.
#[tokio::test]
async fn unobserved_pods_of_a_programmed_policy_count_when_the_next_report_is_due() {
    let (server, client) = server_with_a_node().await;
    let policies: Api<NetworkPolicy> = Api::default_namespaced(client.clone());
    let generation = policies.get("only-web").await.expect("a policy");
    let programmed = json!({"status": {"conditions": [{
        "type": "Programmed", "status": "True", "reason": "Applied", "message": "",
        "observedGeneration": generation.metadata.generation, "lastTransitionTime": Time(Timestamp::now()),
    }]}});
    let params = PatchParams::default();
    let patch = Patch::Merge(programmed);
    let patched = policies.patch_status("only-web", &params, &patch).await;
    patched.expect("a status");
    let denied = "check --from default/other --to default/db:http";
    let ago = |seconds: i64| {
        let now = Timestamp::now();
        Time(now - SignedDuration::from_secs(seconds))
    };
    for (heartbeat_seconds, age, code) in [(3600, 0, 1), (10, 30, 3)] {
        let change = json!({
            "podsResourceVersion": "1", "heartbeatSeconds": heartbeat_seconds, "lastHeartbeatTime": ago(age),
        });
        report(&client, json!(["1.3", "1.8"]), change).await;
        let output = netpol_on_server(&server, denied);
        assert_eq!(output.code, Some(code), "{output:?}");
    }
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
