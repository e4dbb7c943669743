use serde_json::json;

use super::*;

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
    let mut state = State::new(0);
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
    let mut state = State::new(0);
    for name in ["n", "m"] {
        state.note_node(Event::Apply(node(name, "True", &[])));
    }
    assert_eq!(state.note_node(Event::Init), []);
    state.note_node(Event::InitApply(node("m", "True", &[])));
    assert_eq!(state.note_node(Event::InitDone), pods_of("n", QUARANTINE));
}

#[test]
fn pods_that_end_on_a_node_out_of_service_are_looked_at() {
    let mut state = State::new(0);
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
    let patch = failed(&orphan, Some("PodGC: node no longer exists"));
    assert_eq!(patch["metadata"], json!({"uid": "1"}));
    assert_eq!(patch["status"]["phase"], "Failed");
    assert_eq!(patch["status"]["observedGeneration"], 3);
    let condition = &patch["status"]["conditions"][0];
    assert_eq!(condition["type"], "DisruptionTarget");
    assert_eq!(condition["reason"], "DeletionByPodGC");
    assert_eq!(condition["message"], "PodGC: node no longer exists");
    assert_eq!(failed(&orphan, None)["status"]["conditions"], Value::Null);
}
