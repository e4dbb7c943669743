use serde_json::json;

use super::*;
use crate::testing::{list, ok, refused, server};

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

fn soon(name: &str) -> Vec<(Suspect, Duration)> {
    let key = PodKey {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
    };
    vec![(Suspect::Pod(key), Duration::ZERO)]
}

fn pods_of(node: &str, pause: Duration) -> Vec<(Suspect, Duration)> {
    vec![(Suspect::PodsOf(node.to_owned()), pause)]
}

#[test]
fn pods_without_a_node_and_nodes_without_an_object_are_looked_at() {
    let mut state = State::new(QUARANTINE, 0);
    assert_eq!(state.note_node(Event::Apply(node("n", "True", &[]))), []);
    assert_eq!(state.note_pod(Event::Apply(pod("a", "n", true))), []);
    assert_eq!(state.note_pod(Event::Apply(pod("a", "", false))), []);
    assert_eq!(state.note_pod(Event::Apply(pod("a", "", true))), soon("a"));
    // However many pods name a node that is not there, it waits once.
    let unknown = pods_of("m", QUARANTINE);
    assert_eq!(state.note_pod(Event::Apply(pod("b", "m", false))), unknown);
    assert_eq!(state.note_pod(Event::Apply(pod("c", "m", true))), []);
    assert_eq!(
        state.note_node(Event::Delete(node("n", "True", &[]))),
        pods_of("n", QUARANTINE)
    );
}

#[test]
fn a_list_shows_which_nodes_are_gone() {
    let mut state = State::new(QUARANTINE, 0);
    for name in ["n", "m"] {
        state.note_node(Event::Apply(node(name, "True", &[])));
    }
    assert_eq!(state.note_node(Event::Init), []);
    state.note_node(Event::InitApply(node("m", "True", &[])));
    assert_eq!(state.note_node(Event::InitDone), pods_of("n", QUARANTINE));
}

#[test]
fn pods_that_end_on_a_node_out_of_service_are_looked_at() {
    let mut state = State::new(QUARANTINE, 0);
    let out = |ready| node("n", ready, &[OUT_OF_SERVICE]);
    assert_eq!(state.note_node(Event::Apply(out("True"))), []);
    assert_eq!(
        state.note_node(Event::Apply(out("Unknown"))),
        pods_of("n", Duration::ZERO)
    );
    assert_eq!(state.note_node(Event::Apply(out("False"))), []);
    assert_eq!(state.note_pod(Event::Apply(pod("a", "n", true))), soon("a"));
    assert_eq!(state.note_pod(Event::Apply(pod("a", "n", false))), []);
}

#[test]
fn a_pod_whose_node_is_gone_has_failed() {
    let mut orphan = pod("a", "m", false);
    orphan.metadata.generation = Some(3);
    let status = failed(&orphan, Some("PodGC: node no longer exists"));
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["observedGeneration"], 3);
    let condition = &status["conditions"][0];
    assert_eq!(condition["type"], "DisruptionTarget");
    assert_eq!(condition["reason"], "DeletionByPodGC");
    assert_eq!(condition["message"], "PodGC: node no longer exists");
    assert_eq!(failed(&orphan, None)["conditions"], Value::Null);
}

fn shared(client: Client) -> Shared {
    Shared {
        client,
        state: Mutex::new(State::new(QUARANTINE, 0)),
    }
}

#[tokio::test]
async fn a_pod_that_comes_while_its_node_is_looked_at_is_not_forgotten() {
    let late = Arc::new(std::sync::OnceLock::<Arc<Shared>>::new());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (answering, suspects) = (late.clone(), seen.clone());
    let (client, requests) = server(move |_, path, _| match path {
        "/api/v1/pods" => {
            let shared = answering.get().unwrap();
            let came = Event::Apply(pod("late", "m", false));
            *suspects.lock().unwrap() = shared.state().note_pod(came);
            list(&[])
        }
        _ => refused(404),
    });
    let shared = late.get_or_init(|| Arc::new(shared(client)));
    let first = shared
        .state()
        .note_pod(Event::Apply(pod("first", "m", false)));
    assert_eq!(first, pods_of("m", QUARANTINE));
    let checked = check_node(shared, "m").await;
    assert_eq!(checked.unwrap(), Done::Yes);
    assert_eq!(
        *requests.lock().unwrap(),
        ["GET /api/v1/nodes/m", "GET /api/v1/pods"]
    );
    assert_eq!(*seen.lock().unwrap(), first);
}

/// Neither the controller's account nor the control plane's may get a pod.
#[tokio::test]
async fn a_pod_that_ends_is_read_by_a_list() {
    let (client, requests) = server(|method, path, query| match (method, path) {
        ("GET", "/api/v1/namespaces/ns/pods") => {
            assert_eq!(query, "&fieldSelector=metadata.name%3Da");
            list(&[json!({
                "metadata": {
                    "name": "a", "namespace": "ns", "uid": "1",
                    "deletionTimestamp": "2030-01-01T00:00:00Z",
                },
            })])
        }
        ("GET", _) => refused(403),
        _ => ok(json!({"metadata": {"name": "a"}})),
    });
    let key = pod("a", "", true).key();
    let checked = check_pod(&shared(client), &key).await;
    assert_eq!(checked.unwrap(), Done::Yes);
    assert_eq!(
        *requests.lock().unwrap(),
        [
            "GET /api/v1/namespaces/ns/pods",
            "PATCH /api/v1/namespaces/ns/pods/a/status",
            "DELETE /api/v1/namespaces/ns/pods/a",
        ]
    );
}
