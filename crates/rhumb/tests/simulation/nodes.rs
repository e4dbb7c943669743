//! Simulated nodes: registration, leases, and deletion of surplus nodes.

use std::process::{Child, Command, Stdio};

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::make::object;
use crate::program::{NO_CONTROLLERS, poll_until};
use crate::support::TestServer;
use crate::waiting::{wait_for, wait_until_deleted};

fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|own| own.type_ == "Ready" && own.status == "True")
}

async fn names(client: &Client) -> Vec<String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let list = nodes.list(&ListParams::default()).await.expect("a list");
    list.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test]
async fn nodes_register_as_a_kubelet_would() {
    let server = TestServer::start_with(&["--nodes", "3"]);
    let client = server.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    // The controller removes the first taint when the node is ready.
    let node = wait_for(&nodes, "simulated-00002", |node| {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        is_ready(node) && taints.is_none_or(Vec::is_empty)
    })
    .await;
    let labels = node.labels();
    assert_eq!(labels["simulation.rhumb/simulated"], "true");
    assert_eq!(labels["kubernetes.io/hostname"], "simulated-00002");
    assert_eq!(labels["topology.kubernetes.io/zone"], "zone-b");
    let spec = node.spec.as_ref().expect("a spec");
    assert_eq!(spec.pod_cidr.as_deref(), Some("10.16.4.0/22"));
    let status = node.status.as_ref().expect("a status");
    let allocatable = status.allocatable.as_ref().expect("resources");
    assert_eq!(allocatable["cpu"].0, "32");
    assert_eq!(allocatable["pods"].0, "110");
    assert_eq!(status.conditions.as_ref().map(Vec::len), Some(4));

    let leases: Api<Lease> = Api::namespaced(client, "kube-node-lease");
    let lease = wait_for(&leases, "simulated-00002", |_| true).await;
    let owner = lease.owner_references().first().expect("an owner");
    assert_eq!(Some(&owner.uid), node.metadata.uid.as_ref());
    let renewal = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    let first = renewal(&lease).expect("a renewal");
    wait_for(&leases, "simulated-00002", |lease| {
        renewal(lease).is_some_and(|time| time > first)
    })
    .await;
}

#[tokio::test]
async fn unreachable_node_recovers() {
    let server = TestServer::start_with(&[NO_CONTROLLERS, "--nodes", "1"]);
    let client = server.client().await;
    let nodes: Api<Node> = Api::all(client);
    wait_for(&nodes, "simulated-00001", is_ready).await;
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    let lost = Patch::Strategic(lost);
    let params = PatchParams::default();
    let told = nodes.patch_status("simulated-00001", &params, &lost).await;
    assert!(!is_ready(&told.expect("a status")));
    wait_for(&nodes, "simulated-00001", is_ready).await;
}

#[tokio::test]
async fn nodes_of_an_earlier_run_are_kept_and_surplus_deleted() {
    let mut server = TestServer::start_with(&[NO_CONTROLLERS, "--nodes", "3"]);
    let client = server.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    let before = wait_for(&nodes, "simulated-00001", is_ready).await;
    wait_for(&nodes, "simulated-00003", is_ready).await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    wait_for(&leases, "simulated-00003", |_| true).await;
    let real: Node = object(json!({"metadata": {"name": "real"}}));
    let params = PostParams::default();
    nodes.create(&params, &real).await.expect("a node");
    let foreign: Node = object(json!({"metadata": {"name": "simulated-00004"}}));
    nodes.create(&params, &foreign).await.expect("a node");

    server.restart_with(&[NO_CONTROLLERS, "--nodes", "2"]);
    let client = server.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    wait_until_deleted(&nodes, "simulated-00003").await;
    wait_until_deleted(&leases, "simulated-00003").await;
    let after = wait_for(&nodes, "simulated-00001", is_ready).await;
    assert_eq!(after.metadata.uid, before.metadata.uid);

    // A node with such a name that is not simulated is left alone.
    server.restart_with(&[NO_CONTROLLERS, "--nodes", "5"]);
    let client = server.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    wait_for(&nodes, "simulated-00005", is_ready).await;
    let foreign = nodes.get("simulated-00004").await.expect("a node");
    assert!(!is_ready(&foreign) && foreign.labels().is_empty());

    server.restart_with(&[NO_CONTROLLERS, "--nodes", "0"]);
    let client = server.client().await;
    poll_until("the end of all", async || {
        (names(&client).await == ["real", "simulated-00004"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn deleted_node_is_not_recreated_by_the_simulation() {
    let server = TestServer::start_with(&[NO_CONTROLLERS, "--nodes", "2"]);
    let client = server.client().await;
    let nodes: Api<Node> = Api::all(client);
    wait_for(&nodes, "simulated-00001", is_ready).await;
    let deleted = nodes
        .delete("simulated-00001", &DeleteParams::default())
        .await;
    deleted.expect("a deletion");
    let labels = json!({"simulation.rhumb/simulated": "true"});
    let again = object(json!({"metadata": {"name": "simulated-00001", "labels": labels}}));
    let created = nodes.create(&PostParams::default(), &again).await;
    assert!(!is_ready(&created.expect("nobody else has made it")));
    wait_for(&nodes, "simulated-00001", is_ready).await;
}

#[tokio::test]
async fn simulation_has_minimal_permissions() {
    let server = TestServer::start_with(&[NO_CONTROLLERS, "--nodes", "1"]);
    let client = server.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    wait_for(&nodes, "simulated-00001", is_ready).await;
    let reviews: Api<SubjectAccessReview> = Api::all(client);
    const LEASES: &str = "coordination.k8s.io";
    for (namespace, verb, group, resource, expected) in [
        ("default", "create", "", "nodes", true),
        ("default", "delete", "", "pods", true),
        ("default", "create", "", "pods", false),
        ("default", "get", "", "secrets", false),
        ("kube-node-lease", "patch", LEASES, "leases", true),
        ("kube-system", "patch", LEASES, "leases", false),
    ] {
        let review = object(json!({"metadata": {}, "spec": {
            "user": "system:serviceaccount:kube-system:simulated-nodes",
            "resourceAttributes": {
                "namespace": namespace, "verb": verb, "group": group, "resource": resource,
            },
        }}));
        let response = reviews.create(&PostParams::default(), &review).await;
        let status = response.expect("a review").status.expect("a status");
        assert_eq!(status.allowed, expected, "{namespace} {verb} {resource}");
    }
}

/// A process that is killed on drop.
struct SimulateNodesProcess(Child);

impl Drop for SimulateNodesProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn separate_process_simulates_nodes_for_any_server() {
    let server = TestServer::start_with(&[NO_CONTROLLERS]);
    let client = server.client().await;
    assert_eq!(names(&client).await, Vec::<String>::new());
    let process = Command::new(env!("CARGO_BIN_EXE_rhumb"))
        .args(["simulate-nodes", "--nodes", "2", "--kubeconfig"])
        .arg(server.kubeconfig())
        .stdin(Stdio::null())
        .spawn();
    let _apart = SimulateNodesProcess(process.expect("the program starts"));
    let nodes: Api<Node> = Api::all(client);
    wait_for(&nodes, "simulated-00002", is_ready).await;
}
