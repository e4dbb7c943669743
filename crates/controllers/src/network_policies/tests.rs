use std::time::Duration;

use http::Request;
use rhumb_client::testing::{Answer, connect};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::testing::{context, is_watch, list, ok, refused};

const REPORTS: &str = "/apis/networking.rhumb.dev/v1alpha1/networkpolicynodes";
const POLICIES: &str = "/apis/networking.k8s.io/v1/networkpolicies";
const STATUS: &str = "/apis/networking.k8s.io/v1/namespaces/ns/networkpolicies/p/status";

fn policy() -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": 1, "resourceVersion": "5"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "minVersion": "1.3"},
    })
}

fn report(node: &str) -> Value {
    json!({
        "metadata": {"name": node, "uid": "r", "resourceVersion": "9"},
        "versions": ["1.3"],
        "applied": [{"namespace": "ns", "name": "p", "uid": "u", "generation": 1}],
    })
}

/// What is in a cluster with a node and an agent, a namespace and a pod.
fn show(path: &str, policies: &[Value]) -> Answer {
    match path {
        REPORTS => list(&[report("a")]),
        POLICIES => list(policies),
        "/api/v1/nodes" => list(&[json!({"metadata": {"name": "a"}})]),
        "/api/v1/namespaces" => list(&[json!({"metadata": {"name": "ns"}})]),
        "/api/v1/pods" => list(&[json!({
            "metadata": {"name": "x", "namespace": "ns"},
            "spec": {"nodeName": "a"},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
        })]),
        _ => refused(404),
    }
}

/// A request in a line, and what it says.
type Asked = Vec<(String, Value)>;

/// Runs for ten minutes of the paused clock. Watches tell nothing.
async fn asked(answer: impl FnMut(&str, &str, &Value) -> Answer + Send + 'static) -> Asked {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let requests = asked.clone();
    let answer = Mutex::new(answer);
    let client = connect(move |request: &Request<Vec<u8>>| {
        let (method, path) = (request.method().as_str(), request.uri().path());
        let body = serde_json::from_slice(request.body()).unwrap_or_default();
        if is_watch(request) {
            return None;
        }
        let answer = (answer.lock().unwrap())(method, path, &body);
        requests
            .lock()
            .unwrap()
            .push((format!("{method} {path}"), body));
        answer
    });
    let ran = timeout(Duration::from_secs(600), run(context(client))).await;
    assert!(ran.is_err(), "{ran:?}");
    let asked = asked.lock().unwrap();
    asked.clone()
}

fn written(asked: &Asked) -> Vec<&Value> {
    let patches = asked.iter().filter(|(line, _)| line.starts_with("PATCH"));
    patches.map(|(_, body)| body).collect()
}

/// The policy with the status of a patch.
fn patched(patch: &Value) -> Value {
    let mut policy = policy();
    policy["metadata"]["resourceVersion"] = json!("6");
    policy["status"] = patch["status"].clone();
    policy
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_written_once_and_not_again_after_a_restart() {
    let first = asked(|method, path, body| match (method, path) {
        ("PATCH", STATUS) => ok(patched(body)),
        _ => show(path, &[policy()]),
    })
    .await;
    let patches = written(&first);
    assert_eq!(patches.len(), 1, "{patches:?}");
    let patch = patches[0].clone();
    assert_eq!(
        patch["metadata"],
        json!({"uid": "u", "resourceVersion": "5"})
    );
    let conditions = patch["status"]["conditions"].as_array().unwrap();
    let said: Vec<String> = conditions
        .iter()
        .map(|said| {
            let text = |field: &str| said[field].as_str().unwrap().to_owned();
            assert_eq!(said["observedGeneration"], 1);
            let time: Timestamp = text("lastTransitionTime").parse().unwrap();
            assert!(time <= Timestamp::now());
            [text("type"), text("status"), text("reason")].join(" ")
        })
        .collect();
    assert_eq!(
        said,
        [
            "Supported True Supported",
            "Problem False NoProblem",
            "TargetMatch True PodsSelected",
            "TrafficMatch False NoRules",
            "Programmed True Applied",
        ]
    );
    let again = asked(move |_, path, _| show(path, &[patched(&patch)])).await;
    assert_eq!(written(&again), [&Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn where_reports_are_not_served_nothing_else_is_read() {
    let asked = asked(|_, _, _| refused(404)).await;
    assert!(!asked.is_empty());
    assert!(
        asked
            .iter()
            .all(|(line, _)| line == &format!("GET {REPORTS}"))
    );
}

#[tokio::test(start_paused = true)]
async fn where_there_are_no_policies_pods_are_not_read() {
    let asked = asked(|_, path, _| show(path, &[])).await;
    let mut lines: Vec<&str> = asked.iter().map(|(line, _)| line.as_str()).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "GET /api/v1/nodes",
            &format!("GET {POLICIES}"),
            &format!("GET {REPORTS}"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_that_the_server_drops_is_tried_once_a_minute() {
    let asked = asked(|method, path, _| match method {
        "PATCH" => ok(policy()),
        _ => show(path, &[policy()]),
    })
    .await;
    let tried = written(&asked).len();
    assert!((9..=10).contains(&tried), "{tried}");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_is_tried_ever_later() {
    let mut failures = 5;
    let asked_until_done = asked(move |method, path, body| match method {
        "PATCH" if failures > 0 => {
            failures -= 1;
            refused([409, 500][failures % 2])
        }
        "PATCH" => ok(patched(body)),
        _ => show(path, &[policy()]),
    })
    .await;
    assert_eq!(written(&asked_until_done).len(), 6);
    let asked = asked(|method, path, _| match method {
        "PATCH" => refused(500),
        _ => show(path, &[policy()]),
    })
    .await;
    let tried = written(&asked).len();
    assert!((10..40).contains(&tried), "{tried}");
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_gone_is_not_tried_again() {
    let asked = asked(|method, path, _| match method {
        "PATCH" => refused(404),
        _ => show(path, &[policy()]),
    })
    .await;
    assert_eq!(written(&asked).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_report_of_a_node_that_does_not_come_is_deleted() {
    let asked = asked(|method, path, _| match (method, path) {
        ("GET", REPORTS) => list(&[report("a"), report("gone")]),
        ("DELETE", _) => ok(report("gone")),
        _ => show(path, &[]),
    })
    .await;
    let deleted: Vec<&(String, Value)> = asked
        .iter()
        .filter(|(line, _)| line.starts_with("DELETE"))
        .collect();
    assert_eq!(deleted.len(), 1, "{deleted:?}");
    let (line, body) = deleted[0];
    assert_eq!(*line, format!("DELETE {REPORTS}/gone"));
    assert_eq!(
        body["preconditions"],
        json!({"uid": "r", "resourceVersion": "9"})
    );
}

#[tokio::test(start_paused = true)]
async fn the_report_of_a_node_that_the_watch_has_not_shown_yet_stays() {
    let asked = asked(|_, path, _| match path {
        "/api/v1/nodes" => list(&[]),
        "/api/v1/nodes/a" => ok(json!({"metadata": {"name": "a"}})),
        _ => show(path, &[]),
    })
    .await;
    let lines: Vec<&str> = asked.iter().map(|(line, _)| line.as_str()).collect();
    assert!(lines.contains(&"GET /api/v1/nodes/a"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with("DELETE")));
}
