use std::sync::Mutex;

use kube::Client;
use rhumb_client::testing::{
    fake_client_with, ok_response, recording_fake_client, status_response,
};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::super::run;
use super::super::simulated_pods::SimulatedPods;
use super::*;

const NODE: &str = "simulated-00001";

fn silent() -> Client {
    recording_fake_client(|_, _, _| None).0
}

/// A node that is about to register, and its registration task.
fn new_simulation(client: Client) -> (SimulatedNodes, WorkQueues, NodeWork) {
    let mut nodes = SimulatedNodes::new(NodePools::new(1).expect("node pools"));
    let mut queues = WorkQueues::new(client);
    nodes.note(Event::Replaced(HashSet::new()), &mut queues);
    let work = queues.node_work.pop_front().expect("work");
    assert_eq!(work.task, NodeRequest::Register);
    (nodes, queues, work)
}

/// A registered node with empty queues.
fn registered(client: Client) -> (SimulatedNodes, WorkQueues) {
    let (mut nodes, mut queues, work) = new_simulation(client);
    nodes.on_task_done(
        work,
        Ok(NodeRequestOutcome::Registered("u1".to_owned())),
        &mut queues,
    );
    assert!(nodes.is_there(0));
    queues.node_work.clear();
    (nodes, queues)
}

/// The stored node, without conditions.
fn node(uid: &str) -> partial_objects::Node {
    serde_json::from_value(json!({"metadata": {"name": NODE, "uid": uid}})).expect("a node")
}

fn pod(uid: &str) -> partial_objects::Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": uid, "resourceVersion": "1"},
        "spec": {"nodeName": NODE, "containers": [{"name": "c", "image": "i"}]},
    }))
    .expect("a pod")
}

#[tokio::test]
async fn node_deleted_before_its_creation_is_acknowledged_is_removed() {
    for (deleted, made, is_there) in [("u1", "u1", false), ("u0", "u1", true)] {
        let (mut nodes, mut queues, work) = new_simulation(silent());
        nodes.note(Event::Deleted(NodeKey::of(&node(deleted))), &mut queues);
        nodes.on_task_done(
            work,
            Ok(NodeRequestOutcome::Registered(made.to_owned())),
            &mut queues,
        );
        assert_eq!(nodes.is_there(0), is_there, "{deleted}");
        // A new node of the same name is simulated again.
        nodes.note(Event::Applied(node("u2")), &mut queues);
        let again = queues.node_work.pop_back().expect("work");
        assert_eq!(again.task, NodeRequest::Register);
        nodes.on_task_done(
            again,
            Ok(NodeRequestOutcome::Registered("u2".to_owned())),
            &mut queues,
        );
        assert!(nodes.is_there(0));
    }
}

#[tokio::test]
async fn node_unknown_to_the_server_is_removed() {
    let client = recording_fake_client(|_, _, _| status_response(404)).0;
    let (mut nodes, mut queues) = registered(client);
    let report = nodes.nodes[0].new_work(0, NodeRequest::Report);
    let result = nodes.job(report, &queues.server).expect("a job").await;
    nodes.on_task_done(report, result, &mut queues);
    assert!(!nodes.is_there(0));
}

#[tokio::test]
async fn deleted_pods_do_not_wait_for_their_node() {
    let (mut nodes, mut queues, _) = new_simulation(silent());
    let mut pods = SimulatedPods::default();
    pods.note(Event::Replaced(HashSet::new()), &mut nodes, &mut queues);
    for uid in ["a", "b"] {
        pods.note(Event::Applied(pod(uid)), &mut nodes, &mut queues);
    }
    assert_eq!(nodes.nodes[0].waiting_pods.len(), 2);
    pods.note(Event::Deleted("a".into()), &mut nodes, &mut queues);
    let waiting_pods: Vec<&str> = nodes.nodes[0]
        .waiting_pods
        .iter()
        .map(|uid| &**uid)
        .collect();
    assert_eq!(waiting_pods, ["b"]);
}

#[tokio::test]
async fn failed_readiness_correction_is_retried() {
    let bodies = Arc::new(Mutex::new(Vec::<Value>::new()));
    let asked = bodies.clone();
    let client = fake_client_with(move |request| {
        let mut asked = asked.lock().unwrap();
        asked.push(serde_json::from_slice(request.body()).unwrap());
        if asked.len() == 1 {
            status_response(500)
        } else {
            ok_response(json!({}))
        }
    });
    let (mut nodes, mut queues) = registered(client);
    nodes.note(Event::Applied(node("u1")), &mut queues);
    let work = queues.node_work.pop_front().expect("work");
    assert_eq!(work.task, NodeRequest::CorrectStatus);
    for _ in 0..3 {
        let result = nodes.job(work, &queues.server).expect("a job").await;
        nodes.on_task_done(work, result, &mut queues);
    }
    let changes = |body: &Value| !body["status"]["conditions"][0]["lastTransitionTime"].is_null();
    let changes: Vec<bool> = bodies.lock().unwrap().iter().map(changes).collect();
    assert_eq!(changes, [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn surplus_node_deletion_is_retried() {
    const DELETE: &str = "DELETE /api/v1/nodes/simulated-00001";
    let mut deletions = 0;
    let (client, requests) =
        recording_fake_client(move |method, path, query| match (method, path) {
            _ if query.contains("watch=true") => None,
            ("GET", "/api/v1/nodes") => ok_response(json!({
                "metadata": {"resourceVersion": "1"},
                "items": [{"metadata": {"name": NODE, "uid": "u1", "resourceVersion": "1"}}],
            })),
            ("GET", _) => ok_response(json!({"metadata": {"resourceVersion": "1"}, "items": []})),
            ("DELETE", "/api/v1/nodes/simulated-00001") => {
                deletions += 1;
                if deletions < 3 {
                    status_response(500)
                } else {
                    ok_response(json!({}))
                }
            }
            _ => ok_response(json!({})),
        });
    let stop = CancellationToken::new();
    let node_pools = NodePools::new(0).expect("node pools");
    let running = tokio::spawn(run(client, node_pools, stop.clone()));
    sleep(Duration::from_secs(60)).await;
    stop.cancel();
    running.await.expect("it ends");
    let requests = requests.lock().unwrap();
    let writes: Vec<&String> = requests
        .iter()
        .filter(|one| !one.starts_with("GET"))
        .collect();
    let lease =
        "DELETE /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/simulated-00001";
    assert_eq!(writes, [DELETE, DELETE, DELETE, lease]);
}
