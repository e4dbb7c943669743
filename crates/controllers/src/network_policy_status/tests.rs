use std::time::Duration;

use http::Request;
use rhumb_client::testing::{FakeResponse, fake_client_with};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::testing::{context, is_watch, list_response, ok_response, status_response};

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
        "podsResourceVersion": "5",
        "lastHeartbeatTime": "2030-01-01T00:00:00Z",
        "heartbeatSeconds": 3600,
        "applied": [{"namespace": "ns", "name": "p", "uid": "u", "generation": 1}],
    })
}

/// Lists of a cluster with a node, its agent's report, a namespace and a pod.
fn list_objects(path: &str, policies: &[Value]) -> FakeResponse {
    match path {
        REPORTS => list_response(&[report("a")]),
        POLICIES => list_response(policies),
        "/api/v1/nodes" => list_response(&[json!({"metadata": {"name": "a"}})]),
        "/api/v1/namespaces" => list_response(&[json!({"metadata": {"name": "ns"}})]),
        "/api/v1/pods" => list_response(&[json!({
            "metadata": {"name": "x", "namespace": "ns"},
            "spec": {"nodeName": "a"},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
        })]),
        _ => status_response(404),
    }
}

/// Method and path, and body, of each request.
type RecordedRequests = Vec<(String, Value)>;

/// Runs the controller for ten minutes of paused time and records its requests. Watches deliver no events.
async fn run_controller(
    respond: impl FnMut(&str, &str, &Value) -> FakeResponse + Send + 'static,
) -> RecordedRequests {
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let requests = recorded.clone();
    let respond = Mutex::new(respond);
    let client = fake_client_with(move |request: &Request<Vec<u8>>| {
        let (method, path) = (request.method().as_str(), request.uri().path());
        let body = serde_json::from_slice(request.body()).unwrap_or_default();
        if is_watch(request) {
            return None;
        }
        let response = (respond.lock())(method, path, &body);
        requests.lock().push((format!("{method} {path}"), body));
        response
    });
    let ran = timeout(Duration::from_secs(600), run(context(client))).await;
    assert!(ran.is_err(), "{ran:?}");
    let recorded = recorded.lock();
    recorded.clone()
}

fn written(requests: &RecordedRequests) -> Vec<&Value> {
    let patches = requests
        .iter()
        .filter(|(line, _)| line.starts_with("PATCH"));
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
async fn a_policy_status_is_written_once_and_not_again_after_a_restart() {
    let first = run_controller(|method, path, body| match (method, path) {
        ("PATCH", STATUS) => ok_response(patched(body)),
        _ => list_objects(path, &[policy()]),
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
    let again = run_controller(move |_, path, _| list_objects(path, &[patched(&patch)])).await;
    assert_eq!(written(&again), [&Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn nothing_else_is_listed_if_reports_are_not_served() {
    let requests = run_controller(|_, _, _| status_response(404)).await;
    assert!(!requests.is_empty());
    assert!(
        requests
            .iter()
            .all(|(line, _)| line == &format!("GET {REPORTS}"))
    );
}

#[tokio::test(start_paused = true)]
async fn pods_are_not_listed_without_policies() {
    let requests = run_controller(|_, path, _| list_objects(path, &[])).await;
    let mut lines: Vec<&str> = requests.iter().map(|(line, _)| line.as_str()).collect();
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
async fn a_status_dropped_by_the_server_is_retried_once_a_minute() {
    let requests = run_controller(|method, path, _| match method {
        "PATCH" => ok_response(policy()),
        _ => list_objects(path, &[policy()]),
    })
    .await;
    let tried = written(&requests).len();
    assert!((9..=10).contains(&tried), "{tried}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_retried_with_growing_delay() {
    let mut failures = 5;
    let asked_until_done = run_controller(move |method, path, body| match method {
        "PATCH" if failures > 0 => {
            failures -= 1;
            status_response([409, 500][failures % 2])
        }
        "PATCH" => ok_response(patched(body)),
        _ => list_objects(path, &[policy()]),
    })
    .await;
    assert_eq!(written(&asked_until_done).len(), 6);
    let requests = run_controller(|method, path, _| match method {
        "PATCH" => status_response(500),
        _ => list_objects(path, &[policy()]),
    })
    .await;
    let tried = written(&requests).len();
    assert!((10..40).contains(&tried), "{tried}");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_policy_is_not_retried() {
    let requests = run_controller(|method, path, _| match method {
        "PATCH" => status_response(404),
        _ => list_objects(path, &[policy()]),
    })
    .await;
    assert_eq!(written(&requests).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_report_of_a_missing_node_is_deleted() {
    let requests = run_controller(|method, path, _| match (method, path) {
        ("GET", REPORTS) => list_response(&[report("a"), report("gone")]),
        ("DELETE", _) => ok_response(report("gone")),
        _ => list_objects(path, &[]),
    })
    .await;
    let deleted: Vec<&(String, Value)> = requests
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
async fn the_report_of_a_node_not_yet_seen_by_the_watch_is_kept() {
    let requests = run_controller(|_, path, _| match path {
        "/api/v1/nodes" => list_response(&[]),
        "/api/v1/nodes/a" => ok_response(json!({"metadata": {"name": "a"}})),
        _ => list_objects(path, &[]),
    })
    .await;
    let lines: Vec<&str> = requests.iter().map(|(line, _)| line.as_str()).collect();
    assert!(lines.contains(&"GET /api/v1/nodes/a"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with("DELETE")));
}
