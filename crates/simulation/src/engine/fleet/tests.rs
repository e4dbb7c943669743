use std::sync::Mutex;

use kube::Client;
use rhumb_client::testing::{connect, ok, refused, server};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::super::pods::Pods;
use super::super::run;
use super::*;

const NODE: &str = "simulated-00001";

fn silent() -> Client {
    server(|_, _, _| None).0
}

/// One node that is about to register, and the work of doing so.
fn beginning(client: Client) -> (Nodes, Desk, Work) {
    let mut nodes = Nodes::new(Fleet::new(1).expect("a fleet"));
    let mut desk = Desk::new(client);
    nodes.note(Event::InitDone, &mut desk);
    let work = desk.node_work.pop_front().expect("work");
    assert_eq!(work.task, Task::Register);
    (nodes, desk, work)
}

/// One node that is registered, with nothing to do.
fn registered(client: Client) -> (Nodes, Desk) {
    let (mut nodes, mut desk, work) = beginning(client);
    nodes.done(work, Ok(Registered::As("u1".to_owned())), &mut desk);
    assert!(nodes.is_there(0));
    desk.node_work.clear();
    (nodes, desk)
}

/// The node as the server has it, with nothing said about its conditions.
fn node(uid: &str) -> wire::Node {
    serde_json::from_value(json!({"metadata": {"name": NODE, "uid": uid}})).expect("a node")
}

fn pod(uid: &str) -> wire::Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": uid, "resourceVersion": "1"},
        "spec": {"nodeName": NODE, "containers": [{"name": "c", "image": "i"}]},
    }))
    .expect("a pod")
}

#[tokio::test]
async fn a_node_that_is_deleted_before_it_is_known_to_be_made_is_gone() {
    for (deleted, made, is_there) in [("u1", "u1", false), ("u0", "u1", true)] {
        let (mut nodes, mut desk, work) = beginning(silent());
        nodes.note(Event::Delete(node(deleted)), &mut desk);
        nodes.done(work, Ok(Registered::As(made.to_owned())), &mut desk);
        assert_eq!(nodes.is_there(0), is_there, "{deleted}");
        // Whoever makes one of its name has it simulated again.
        nodes.note(Event::Apply(node("u2")), &mut desk);
        let again = desk.node_work.pop_back().expect("work");
        assert_eq!(again.task, Task::Register);
        nodes.done(again, Ok(Registered::As("u2".to_owned())), &mut desk);
        assert!(nodes.is_there(0));
    }
}

#[tokio::test]
async fn a_node_that_the_server_does_not_know_is_gone() {
    let client = server(|_, _, _| refused(404)).0;
    let (mut nodes, mut desk) = registered(client);
    let report = nodes.nodes[0].work(0, Task::Report);
    let result = nodes.job(report, &desk.server).expect("a job").await;
    nodes.done(report, result, &mut desk);
    assert!(!nodes.is_there(0));
}

#[tokio::test]
async fn pods_that_are_gone_wait_for_no_node() {
    let (mut nodes, mut desk, _) = beginning(silent());
    let mut pods = Pods::default();
    pods.note(Event::InitDone, &mut nodes, &mut desk);
    for uid in ["a", "b"] {
        pods.note(Event::Apply(pod(uid)), &mut nodes, &mut desk);
    }
    assert_eq!(nodes.nodes[0].held.len(), 2);
    pods.note(Event::Delete(pod("a")), &mut nodes, &mut desk);
    let held: Vec<&str> = nodes.nodes[0].held.iter().map(|uid| &**uid).collect();
    assert_eq!(held, ["b"]);
}

#[tokio::test]
async fn what_could_not_be_contradicted_is_contradicted_again() {
    let bodies = Arc::new(Mutex::new(Vec::<Value>::new()));
    let asked = bodies.clone();
    let client = connect(move |request| {
        let mut asked = asked.lock().unwrap();
        asked.push(serde_json::from_slice(request.body()).unwrap());
        if asked.len() == 1 {
            refused(500)
        } else {
            ok(json!({}))
        }
    });
    let (mut nodes, mut desk) = registered(client);
    nodes.note(Event::Apply(node("u1")), &mut desk);
    let work = desk.node_work.pop_front().expect("work");
    assert_eq!(work.task, Task::Contradict);
    for _ in 0..3 {
        let result = nodes.job(work, &desk.server).expect("a job").await;
        nodes.done(work, result, &mut desk);
    }
    let changes = |body: &Value| !body["status"]["conditions"][0]["lastTransitionTime"].is_null();
    let changes: Vec<bool> = bodies.lock().unwrap().iter().map(changes).collect();
    assert_eq!(changes, [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_too_many_goes_though_the_server_fails_at_first() {
    const DELETE: &str = "DELETE /api/v1/nodes/simulated-00001";
    let mut deletions = 0;
    let (client, requests) = server(move |method, path, query| match (method, path) {
        _ if query.contains("watch=true") => None,
        ("GET", "/api/v1/nodes") => ok(json!({
            "metadata": {"resourceVersion": "1"},
            "items": [{"metadata": {"name": NODE, "uid": "u1", "resourceVersion": "1"}}],
        })),
        ("GET", _) => ok(json!({"metadata": {"resourceVersion": "1"}, "items": []})),
        ("DELETE", "/api/v1/nodes/simulated-00001") => {
            deletions += 1;
            if deletions < 3 {
                refused(500)
            } else {
                ok(json!({}))
            }
        }
        _ => ok(json!({})),
    });
    let stop = CancellationToken::new();
    let fleet = Fleet::new(0).expect("a fleet");
    let running = tokio::spawn(run(client, fleet, stop.clone()));
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
