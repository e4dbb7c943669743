use std::time::Duration;

use parking_lot::Mutex;
use rhumb_client::testing::fake_client_with;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::testing::{context, discovery, is_watch, list_response, ok_response, status_response};

const DEVICE_CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";

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

/// A claim for two devices of the class `gpu`.
fn claim(name: &str) -> Value {
    let request = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2});
    json!({
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": request}]}},
    })
}

fn device_class(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": "2"}, "spec": spec})
}

fn api_groups() -> Value {
    let mut groups = discovery("example.com", "Current", ["widgets"]);
    let mut devices = discovery("resource.k8s.io", "Current", ["resourceclaims"]);
    let items = groups["items"].as_array_mut().expect("groups");
    items.push(devices["items"][0].take());
    groups
}

/// Method and path, and body, of each request that is not a watch.
type RecordedRequests = Vec<(String, Value)>;

/// Runs the controller with these quotas. Watches deliver no events; writes of a status fail `failures` times.
async fn run_controller(quotas: Vec<Value>, failures: usize) -> RecordedRequests {
    run_with_class_event(quotas, failures, None).await
}

/// As [`run_controller`]. The list of device classes fails twice. If there is an event, the watch of device classes
/// fails once and then delivers it.
async fn run_with_class_event(
    quotas: Vec<Value>,
    failures: usize,
    class_event: Option<Value>,
) -> RecordedRequests {
    let class_watches = Mutex::new(0);
    let recorded = Arc::new(Mutex::new(RecordedRequests::new()));
    let requests = recorded.clone();
    let client = fake_client_with(move |request| {
        let path = request.uri().path();
        if is_watch(request) {
            if path != DEVICE_CLASSES {
                return None;
            }
            let mut watches = class_watches.lock();
            *watches += 1;
            return match (*watches, &class_event) {
                (1, Some(_)) => status_response(500),
                (2, Some(event)) => ok_response(event.clone()),
                _ => None,
            };
        }
        let line = format!("{} {path}", request.method());
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let mut requests = requests.lock();
        let attempts = requests.iter().filter(|(known, _)| *known == line).count();
        requests.push((line, body.clone()));
        match path {
            "/api" => ok_response(discovery("", "Current", ["pods", "secrets", "services"])),
            "/apis" => ok_response(api_groups()),
            "/api/v1/resourcequotas" => list_response(&quotas),
            "/api/v1/namespaces/ns/pods" => {
                list_response(&[pod("a", "Running"), pod("b", "Running"), pod("c", "Failed")])
            }
            "/apis/example.com/v1/namespaces/ns/widgets" => {
                list_response(&[json!({"metadata": {"name": "w", "namespace": "ns"}})])
            }
            "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims" => list_response(&[claim("c")]),
            DEVICE_CLASSES if attempts < 2 => status_response(500),
            DEVICE_CLASSES => {
                let spec = json!({"extendedResourceName": "example.com/gpu"});
                list_response(&[device_class("gpu", spec), device_class("none", json!({}))])
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
    let is_unneeded = |line: &str| line.contains("secrets") || line.contains("deviceclasses");
    assert!(
        !requests.iter().any(|(line, _)| is_unneeded(line)),
        "only what quotas count is read: {requests:?}"
    );
}

/// Nothing is written before device classes are listed.
#[tokio::test(start_paused = true)]
async fn devices_of_claims_count_for_the_extended_resource_of_their_class() {
    let hard = json!({"requests.example.com/gpu": "9"});
    let requests = run_controller(vec![quota("q", hard.clone(), json!({}))], 0).await;
    let [write] = &written(&requests)[..] else {
        panic!("{requests:?}");
    };
    let used = json!({"requests.example.com/gpu": "2"});
    assert_eq!(write["status"], json!({"hard": hard, "used": used}));
}

#[tokio::test(start_paused = true)]
async fn the_usage_follows_changes_of_device_classes() {
    fn usage(gpu: &str, other: &str) -> Value {
        json!({"requests.example.com/gpu": gpu, "requests.example.com/other": other})
    }
    let quotas = vec![quota("q", usage("9", "9"), json!({}))];
    let other = json!({"extendedResourceName": "example.com/other"});
    let event = json!({"type": "MODIFIED", "object": device_class("gpu", other)});
    let requests = run_with_class_event(quotas, 0, Some(event)).await;
    let writes = written(&requests).into_iter();
    let used: Vec<&Value> = writes.map(|write| &write["status"]["used"]).collect();
    assert_eq!(used, [&usage("2", "0"), &usage("0", "2")]);
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
