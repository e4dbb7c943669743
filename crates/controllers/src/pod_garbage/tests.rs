use serde_json::json;

use super::*;
use crate::testing::{list_response, ok_response, recording_fake_client, status_response};

const QUARANTINE: Duration = Duration::from_secs(40);

fn node(name: &str, ready: &str, taints: &[&str]) -> Node {
    let taint = |key: &&str| json!({"key": key, "effect": "NoExecute"});
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"taints": taints.iter().map(taint).collect::<Vec<_>>()},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }))
    .unwrap()
}

fn pod(name: &str, node: &str, is_terminating: bool) -> Pod {
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": "1"},
        "spec": {"nodeName": node},
        "status": {"phase": "Running"},
    }))
    .unwrap();
    if is_terminating {
        pod.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2030-01-01T00:00:00Z")).unwrap());
    }
    pod
}

fn due_now(name: &str) -> Vec<(GarbageCandidate, Duration)> {
    let key = PodKey {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
    };
    vec![(GarbageCandidate::Pod(key), Duration::ZERO)]
}

fn pods_of(node: &str, pause: Duration) -> Vec<(GarbageCandidate, Duration)> {
    vec![(GarbageCandidate::PodsOf(node.to_owned()), pause)]
}

#[test]
fn terminating_unscheduled_pods_and_missing_nodes_are_checked() {
    let mut state = PodGarbageState::new(QUARANTINE, 0);
    assert_eq!(
        state.handle_node_event(Event::Applied(node("n", "True", &[]))),
        []
    );
    assert_eq!(
        state.handle_pod_event(Event::Applied(pod("a", "n", true))),
        []
    );
    assert_eq!(
        state.handle_pod_event(Event::Applied(pod("a", "", false))),
        []
    );
    assert_eq!(
        state.handle_pod_event(Event::Applied(pod("a", "", true))),
        due_now("a")
    );
    // A missing node is queued once, however many pods name it.
    let unknown = pods_of("m", QUARANTINE);
    assert_eq!(
        state.handle_pod_event(Event::Applied(pod("b", "m", false))),
        unknown
    );
    assert_eq!(
        state.handle_pod_event(Event::Applied(pod("c", "m", true))),
        []
    );
    assert_eq!(
        state.handle_node_event(Event::Deleted("n".to_owned())),
        pods_of("n", QUARANTINE)
    );
}

#[test]
fn nodes_missing_from_a_relist_are_checked() {
    let mut state = PodGarbageState::new(QUARANTINE, 0);
    for name in ["n", "m"] {
        state.handle_node_event(Event::Applied(node(name, "True", &[])));
    }
    assert_eq!(
        state.handle_node_event(Event::Replaced(["m".to_owned()].into())),
        pods_of("n", QUARANTINE)
    );
}

#[test]
fn terminating_pods_on_an_out_of_service_node_are_checked() {
    let mut state = PodGarbageState::new(QUARANTINE, 0);
    let out = |ready| node("n", ready, &[OUT_OF_SERVICE]);
    assert_eq!(state.handle_node_event(Event::Applied(out("True"))), []);
    assert_eq!(
        state.handle_node_event(Event::Applied(out("Unknown"))),
        pods_of("n", Duration::ZERO)
    );
    assert_eq!(state.handle_node_event(Event::Applied(out("False"))), []);
    assert_eq!(
        state.handle_pod_event(Event::Applied(pod("a", "n", true))),
        due_now("a")
    );
    assert_eq!(
        state.handle_pod_event(Event::Applied(pod("a", "n", false))),
        []
    );
}

#[test]
fn a_pod_of_a_missing_node_is_marked_failed() {
    let mut orphan = pod("a", "m", false);
    orphan.metadata.generation = Some(3);
    let status = failed_status(&orphan, Some("PodGC: node no longer exists"));
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["observedGeneration"], 3);
    let condition = &status["conditions"][0];
    assert_eq!(condition["type"], "DisruptionTarget");
    assert_eq!(condition["reason"], "DeletionByPodGC");
    assert_eq!(condition["message"], "PodGC: node no longer exists");
    assert_eq!(failed_status(&orphan, None)["conditions"], Value::Null);
}

fn shared(client: Client) -> PodGarbageCollector {
    PodGarbageCollector {
        client,
        state: Mutex::new(PodGarbageState::new(QUARANTINE, 0)),
    }
}

#[tokio::test]
async fn a_pod_added_while_its_node_is_checked_is_not_missed() {
    let late = Arc::new(std::sync::OnceLock::<Arc<PodGarbageCollector>>::new());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (answering, candidates) = (late.clone(), seen.clone());
    let (client, requests) = recording_fake_client(move |_, path, _| match path {
        "/api/v1/pods" => {
            let shared = answering.get().unwrap();
            let came = Event::Applied(pod("late", "m", false));
            *candidates.lock() = shared.state().handle_pod_event(came);
            list_response(&[])
        }
        _ => status_response(404),
    });
    let shared = late.get_or_init(|| Arc::new(shared(client)));
    let first = shared
        .state()
        .handle_pod_event(Event::Applied(pod("first", "m", false)));
    assert_eq!(first, pods_of("m", QUARANTINE));
    let checked = check_node(shared, "m").await;
    assert_eq!(checked.unwrap(), ReconcileAction::AwaitChange);
    assert_eq!(
        *requests.lock().unwrap(),
        ["GET /api/v1/nodes/m", "GET /api/v1/pods"]
    );
    assert_eq!(*seen.lock(), first);
}

/// Neither the controller's service account nor the control plane's identity may get pods.
#[tokio::test]
async fn a_terminating_pod_is_read_by_a_list_request() {
    let (client, requests) = recording_fake_client(|method, path, query| match (method, path) {
        ("GET", "/api/v1/namespaces/ns/pods") => {
            assert_eq!(query, "&fieldSelector=metadata.name%3Da");
            list_response(&[json!({
                "metadata": {
                    "name": "a", "namespace": "ns", "uid": "1",
                    "deletionTimestamp": "2030-01-01T00:00:00Z",
                },
            })])
        }
        ("GET", _) => status_response(403),
        _ => ok_response(json!({"metadata": {"name": "a"}})),
    });
    let key = pod("a", "", true).key();
    let checked = check_pod(&shared(client), &key).await;
    assert_eq!(checked.unwrap(), ReconcileAction::AwaitChange);
    assert_eq!(
        *requests.lock().unwrap(),
        [
            "GET /api/v1/namespaces/ns/pods",
            "PATCH /api/v1/namespaces/ns/pods/a/status",
            "DELETE /api/v1/namespaces/ns/pods/a",
        ]
    );
}
