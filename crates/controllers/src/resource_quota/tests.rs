use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rhumb_client::testing::fake_client_with;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::testing::{context, discovery, is_watch, list_response, ok_response, status_response};

fn quota(name: &str, hard: Value, status: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": "5"},
        "spec": {"hard": hard},
        "status": status,
    })
}

fn pod(name: &str, phase: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}]},
        "status": {"phase": phase},
    })
}

/// Method and path, and body, of each request that is not a watch.
type RecordedRequests = Vec<(String, Value)>;

/// Runs the controller with these quotas. Watches deliver no events; writes of a status fail `failures` times.
async fn run_controller(quotas: Vec<Value>, failures: usize) -> RecordedRequests {
    let recorded = Arc::new(Mutex::new(RecordedRequests::new()));
    let requests = recorded.clone();
    let client = fake_client_with(move |request| {
        if is_watch(request) {
            return None;
        }
        let path = request.uri().path();
        let line = format!("{} {path}", request.method());
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let mut requests = requests.lock();
        let attempts = requests.iter().filter(|(known, _)| *known == line).count();
        requests.push((line, body.clone()));
        match path {
            "/api" => ok_response(discovery("", "Current", ["pods", "secrets", "services"])),
            "/apis" => ok_response(discovery("example.com", "Current", ["widgets"])),
            "/api/v1/resourcequotas" => list_response(&quotas),
            "/api/v1/namespaces/ns/pods" => {
                list_response(&[pod("a", "Running"), pod("b", "Running"), pod("c", "Failed")])
            }
            "/apis/example.com/v1/namespaces/ns/widgets" => {
                list_response(&[json!({"metadata": {"name": "w", "namespace": "ns"}})])
            }
            path if path.ends_with("/status") && attempts < failures => status_response(409),
            path if path.ends_with("/status") => ok_response(body),
            _ => status_response(404),
        }
    });
    let ran = timeout(Duration::from_secs(60), run(context(client))).await;
    assert!(ran.is_err(), "{ran:?}");
    let recorded = recorded.lock();
    recorded.clone()
}

fn written(requests: &RecordedRequests) -> Vec<&Value> {
    let writes = requests.iter().filter(|(line, _)| line.starts_with("PUT"));
    writes.map(|(_, body)| body).collect()
}

#[tokio::test(start_paused = true)]
async fn status_shows_what_is_used() {
    let hard = json!({"requests.cpu": "2", "pods": "9", "count/widgets.example.com": "3"});
    let requests = run_controller(vec![quota("q", hard.clone(), json!({}))], 0).await;
    let [write] = &written(&requests)[..] else {
        panic!("{requests:?}");
    };
    assert_eq!(write["metadata"]["resourceVersion"], "5");
    let used = json!({"requests.cpu": "500m", "pods": "2", "count/widgets.example.com": "1"});
    assert_eq!(write["status"], json!({"hard": hard, "used": used}));
    assert!(
        !requests.iter().any(|(line, _)| line.contains("secrets")),
        "only what quotas count is read: {requests:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_correct_status_is_not_written() {
    let hard = json!({"pods": "9"});
    let status = json!({"hard": hard, "used": {"pods": "2"}});
    let requests = run_controller(vec![quota("q", hard, status)], 0).await;
    assert_eq!(written(&requests), Vec::<&Value>::new());
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_retried() {
    let requests = run_controller(vec![quota("q", json!({"pods": "9"}), json!({}))], 3).await;
    assert_eq!(written(&requests).len(), 4);
}

/// The usage is tracked for the quotas that exist when the namespace is first seen, and anew when they change.
#[test]
fn a_worker_runs_as_long_as_a_namespace_has_quotas() {
    let quota = |name: &str| -> ResourceQuota {
        serde_json::from_value(quota(name, json!({"pods": "1"}), json!({}))).expect("a quota")
    };
    let mut namespaces = Namespaces::default();
    let started = namespaces.handle_event(Event::Applied(quota("a")));
    let (namespace, receiver) = started.expect("a worker");
    assert_eq!(namespace, "ns");
    assert!(
        namespaces
            .handle_event(Event::Applied(quota("b")))
            .is_none()
    );
    let names = || receiver.borrow().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(), ["a", "b"]);
    let key = |name: &str| ("ns".to_owned(), name.to_owned());
    namespaces.handle_event(Event::Replaced([key("b")].into()));
    assert_eq!(names(), ["b"]);
    assert!(receiver.has_changed().is_ok());
    namespaces.handle_event(Event::Deleted(key("b")));
    assert!(receiver.has_changed().is_err(), "the worker ends");
    assert!(
        namespaces
            .handle_event(Event::Applied(quota("a")))
            .is_some()
    );
}
