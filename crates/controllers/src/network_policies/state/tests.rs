use serde_json::{Value, json};

use super::look::{IGNORED_PAUSE, IGNORED_PAUSE_EACH, SETTLE, SWEEP_PAUSE, SWEEP_PAUSE_EACH};
use super::*;
use crate::network_policies::conditions::Type;
use crate::network_policies::standing::Write;

const QUARANTINE: Duration = Duration::from_secs(40);

fn object<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

/// A policy for all pods of its namespace.
fn policy(name: &str, generation: i64) -> NetworkPolicy {
    object(json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": name, "generation": generation,
            "resourceVersion": generation.to_string(),
        },
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}], "minVersion": "1.3"},
    }))
}

fn pod(name: &str, namespace: &str, node: &str) -> Pod {
    object(json!({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
    }))
}

fn namespace(name: &str) -> Namespace {
    object(json!({"metadata": {"name": name}}))
}

fn node(name: &str) -> Node {
    object(json!({"metadata": {"name": name}}))
}

fn report(node: &str, applied: &[(&str, i64)]) -> NetworkPolicyNode {
    let applied = applied.iter();
    let applied = applied.map(|(uid, generation)| json!({"uid": uid, "generation": generation}));
    object(json!({
        "metadata": {"name": node},
        "versions": ["1.3"],
        "applied": applied.collect::<Value>(),
    }))
}

fn key(policy: &str) -> Key {
    Key::Policy(Name::new("ns", policy))
}

fn keys(due: Due) -> BTreeSet<Key> {
    let now = due.into_iter().filter(|(_, pause)| pause.is_zero());
    now.map(|(key, _)| key).collect()
}

/// What all lists show.
#[derive(Default)]
struct Lists {
    policies: Vec<NetworkPolicy>,
    pods: Vec<Pod>,
    nodes: Vec<Node>,
    reports: Vec<NetworkPolicyNode>,
}

fn relist<K>(objects: Vec<K>) -> impl Iterator<Item = Event<K>> {
    let objects = objects.into_iter().map(Event::InitApply);
    [Event::Init]
        .into_iter()
        .chain(objects)
        .chain([Event::InitDone])
}

/// A state that has read all lists, and has had all policies looked at.
fn read(lists: Lists, at: Instant) -> State {
    let mut state = State::new(QUARANTINE);
    let mut due = Due::new();
    for event in relist(lists.reports) {
        due.extend(state.note_report(event));
    }
    for event in relist(lists.nodes) {
        due.extend(state.note_node(event));
    }
    for event in relist(lists.policies) {
        due.extend(state.note_policy(event, at));
    }
    for event in relist(vec![namespace("ns"), namespace("other")]) {
        due.extend(state.note_namespace(event));
    }
    assert_eq!(keys(due), BTreeSet::new(), "it is too early");
    let mut due = Due::new();
    for event in relist(lists.pods) {
        due.extend(state.note_pod(event));
    }
    assert_eq!(keys(due), [Key::Policies].into());
    state.sweep(at).unwrap();
    state
}

/// Two nodes with agents, and a pod on one of them, known for long enough to speak of them.
fn cluster(at: Instant) -> State {
    let lists = Lists {
        policies: vec![policy("p", 1)],
        pods: vec![pod("x", "ns", "a")],
        nodes: vec![node("a"), node("b")],
        reports: vec![report("a", &[]), report("b", &[])],
    };
    read(lists, at - SETTLE)
}

/// What is to be written now, each condition in a line.
fn writes(state: &mut State, at: Instant) -> Vec<String> {
    let write = written(state, at);
    let said = write.missing.iter().map(|missing| &missing.condition);
    said.map(|said| {
        format!(
            "{}={}/{}",
            said.type_.name(),
            said.status.name(),
            said.reason
        )
    })
    .collect()
}

fn written(state: &mut State, at: Instant) -> Write {
    match state.look(&Name::new("ns", "p"), at) {
        Look::Write(write) => write,
        other => panic!("nothing is written: {other:?}"),
    }
}

/// The policy as it is after a write.
fn patched(policy: &NetworkPolicy, write: &Write) -> NetworkPolicy {
    let patch = write.patch("2030-01-01T00:00:00Z");
    let mut patched = policy.clone();
    let mut version: u64 = write.version.parse().unwrap();
    version += 1000;
    patched.metadata.resource_version = Some(version.to_string());
    let conditions = patched.status.conditions.get_or_insert_default();
    for new in patch["status"]["conditions"].as_array().unwrap() {
        let mut new: rhumb_netpol::objects::Condition = object(new.clone());
        let old = conditions.iter().position(|old| old.type_ == new.type_);
        if let Some(old) = old.map(|old| conditions.remove(old)) {
            let time = new.last_transition_time.take();
            new.last_transition_time = time.or(old.last_transition_time);
        }
        conditions.push(new);
    }
    patched
}

/// Has what is to be written kept; the policy afterwards.
fn write(state: &mut State, policy: &NetworkPolicy, at: Instant) -> NetworkPolicy {
    let write = written(state, at);
    let patched = patched(policy, &write);
    let name = Name::new("ns", "p");
    assert_eq!(state.wrote(&name, &write, &patched, at), None);
    patched
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_policy_is_written_when_agents_had_a_moment_and_then_once_a_second() {
    let begun = Instant::now();
    let mut state = cluster(begun);
    let name = Name::new("ns", "p");
    assert_eq!(
        writes(&mut state, begun),
        [
            "Supported=True/Supported",
            "Problem=False/NoProblem",
            "TargetMatch=True/PodsSelected",
            "TrafficMatch=True/PeersMatched",
            "Programmed=Unknown/Pending",
        ]
    );
    let once = write(&mut state, &policy("p", 1), begun);
    let due = state.note_report(Event::Apply(report("a", &[("p", 1)])));
    assert_eq!(keys(due), [key("p")].into());
    let soon = begun + Duration::from_millis(300);
    let rest = Duration::from_millis(700);
    assert_eq!(state.look(&name, soon), Look::Later(rest));
    assert_eq!(
        writes(&mut state, begun + SECOND),
        ["Programmed=True/Applied"]
    );
    write(&mut state, &once, begun + SECOND);
    assert_eq!(state.look(&name, begun + 2 * SECOND), Look::Nothing);
}

#[test]
fn times_of_transitions_are_written_when_a_status_turns() {
    let begun = Instant::now();
    let mut state = cluster(begun);
    let times = |write: &Write| -> Vec<String> {
        let patch = write.patch("now");
        let conditions = patch["status"]["conditions"].as_array().unwrap();
        let timed = conditions
            .iter()
            .filter(|condition| condition.get("lastTransitionTime").is_some());
        timed
            .map(|condition| condition["type"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = written(&mut state, begun);
    assert_eq!(times(&first), Type::ALL.map(Type::name));
    write(&mut state, &policy("p", 1), begun);
    // Another generation is another observedGeneration, and nothing turns.
    let mut second = policy("p", 2);
    second.status = patched(&policy("p", 1), &first).status;
    state.note_policy(Event::Apply(second), begun);
    let write = written(&mut state, begun + SECOND);
    assert_eq!(write.missing.len(), 5);
    assert_eq!(times(&write), [""; 0]);
    let patch = write.patch("now");
    assert_eq!(
        patch["metadata"],
        json!({"uid": "p", "resourceVersion": "2"})
    );
    for condition in patch["status"]["conditions"].as_array().unwrap() {
        assert_eq!(condition["observedGeneration"], 2);
    }
}

#[test]
fn after_a_restart_what_stands_is_not_written_again() {
    let begun = Instant::now();
    let mut state = cluster(begun);
    let standing = write(&mut state, &policy("p", 1), begun);
    let lists = Lists {
        policies: vec![standing],
        pods: vec![pod("x", "ns", "a")],
        nodes: vec![node("a"), node("b")],
        reports: vec![report("a", &[]), report("b", &[])],
    };
    let mut state = read(lists, begun);
    assert_eq!(state.look(&Name::new("ns", "p"), begun), Look::Nothing);
}

#[test]
fn that_nothing_is_to_be_applied_is_said_once_watches_had_time_to_show_pods() {
    let begun = Instant::now();
    let lists = Lists {
        policies: vec![policy("p", 1)],
        nodes: vec![node("a")],
        reports: vec![report("a", &[])],
        ..Lists::default()
    };
    let mut state = read(lists, begun);
    let name = Name::new("ns", "p");
    assert_eq!(state.look(&name, begun), Look::Later(SETTLE));
    let said = writes(&mut state, begun + SETTLE);
    assert_eq!(said.last().unwrap(), "Programmed=True/NothingToApply");
    // It is too early again for another generation, and then there is a pod.
    write(&mut state, &policy("p", 1), begun + SETTLE);
    let later = begun + 10 * SECOND;
    state.note_policy(Event::Apply(policy("p", 2)), later);
    assert_eq!(state.look(&name, later), Look::Later(SETTLE));
    let due = state.note_pod(Event::Apply(pod("x", "ns", "a")));
    assert_eq!(keys(due), [key("p")].into());
    let said = writes(&mut state, later + SETTLE);
    assert_eq!(said.last().unwrap(), "Programmed=Unknown/Pending");
}

#[test]
fn a_change_wakes_the_policies_that_it_is_about() {
    let begun = Instant::now();
    let mut state = cluster(begun);
    let mut other = policy("q", 1);
    other.metadata.namespace = Some("other".to_owned());
    let of_other = Key::Policy(Name::new("other", "q"));
    let due = state.note_policy(Event::Apply(other), begun);
    assert_eq!(keys(due), [of_other.clone()].into());

    let due = state.note_pod(Event::Apply(pod("y", "other", "b")));
    assert_eq!(keys(due), [of_other.clone()].into());
    let due = state.note_pod(Event::Delete(pod("x", "ns", "a")));
    assert_eq!(keys(due), [key("p")].into());
    let due = state.note_report(Event::Apply(report("a", &[("p", 1), ("unknown", 1)])));
    assert_eq!(keys(due), [key("p")].into());
    // What is different for a node as a whole may be about any policy.
    let due = state.note_report(Event::Delete(report("b", &[])));
    assert_eq!(keys(due), [Key::Policies].into());
    let due = state.note_node(Event::Apply(node("c")));
    assert_eq!(keys(due), [Key::Policies].into());
    let due = state.note_node(Event::Apply(node("c")));
    assert_eq!(keys(due), BTreeSet::new());
}

#[test]
fn a_new_list_shows_what_is_gone() {
    let begun = Instant::now();
    let mut state = cluster(begun);
    let mut due = Due::new();
    for event in relist(vec![pod("y", "other", "b")]) {
        due.extend(state.note_pod(event));
    }
    assert_eq!(keys(due), [key("p")].into());
    let said = |state: &mut State| writes(state, begun + SECOND);
    assert!(said(&mut state).contains(&"TargetMatch=False/NoPods".to_owned()));
    let mut due = Due::new();
    for event in relist(vec![node("b")]) {
        due.extend(state.note_node(event));
    }
    assert_eq!(
        keys(due),
        [Key::Policies, Key::Stray("a".to_owned())].into()
    );
    for event in relist(vec![]) {
        state.note_report(event);
    }
    assert!(state.stray("a").is_none());
    let said = said(&mut state);
    assert!(!said.iter().any(|said| said.starts_with("Programmed")));
    for event in relist(vec![]) {
        state.note_policy(event, begun);
    }
    assert_eq!(
        state.look(&Name::new("ns", "p"), begun + SECOND),
        Look::Nothing
    );
}

#[test]
fn what_somebody_else_made_of_a_condition_is_put_right() {
    let begun = Instant::now();
    let mut state = cluster(begun);
    let mut policy = write(&mut state, &policy("p", 1), begun);
    let name = Name::new("ns", "p");
    let own = policy.clone();
    let due = state.note_policy(Event::Apply(own), begun);
    assert_eq!(keys(due), [key("p")].into());
    assert_eq!(state.look(&name, begun + SECOND), Look::Nothing);
    let conditions = policy.status.conditions.as_mut().unwrap();
    conditions.retain(|condition| condition.type_ != "Problem");
    conditions[0].message = Some("mine".to_owned());
    conditions.push(object(json!({"type": "Theirs", "status": "True"})));
    policy.metadata.resource_version = Some("7".to_owned());
    state.note_policy(Event::Apply(policy), begun);
    let right = written(&mut state, begun + 2 * SECOND);
    assert_eq!(right.version, "7");
    let types: Vec<Type> = right
        .missing
        .iter()
        .map(|missing| missing.condition.type_)
        .collect();
    assert_eq!(types, [Type::Supported, Type::Problem]);
}

#[test]
fn a_status_that_is_not_kept_is_left_alone_for_a_long_time() {
    let begun = Instant::now();
    let mut state = cluster(begun);
    let name = Name::new("ns", "p");
    let write = written(&mut state, begun);
    let mut answer = policy("p", 1);
    let pause = state.wrote(&name, &write, &answer, begun);
    assert_eq!(pause, Some(IGNORED_PAUSE));
    let due = state.note_pod(Event::Apply(pod("y", "ns", "b")));
    assert_eq!(keys(due), [key("p")].into());
    assert_eq!(
        state.look(&name, begun + SECOND),
        Look::Later(Duration::from_secs(59))
    );
    // A new generation does not help either.
    answer.metadata.generation = Some(2);
    state.note_policy(Event::Apply(answer), begun);
    assert_eq!(
        state.look(&name, begun + SECOND),
        Look::Later(Duration::from_secs(59))
    );
    let write = written(&mut state, begun + IGNORED_PAUSE);
    for number in 0..10_000 {
        state.ignored.insert(Name::new("many", number.to_string()));
    }
    let pause = state.wrote(&name, &write, &policy("p", 2), begun + IGNORED_PAUSE);
    assert_eq!(pause, Some(10_001 * IGNORED_PAUSE_EACH));
}

#[test]
fn another_policy_of_the_same_name_does_not_wait_for_its_predecessor() {
    let begun = Instant::now();
    let mut state = cluster(begun);
    write(&mut state, &policy("p", 1), begun);
    let mut other = policy("p", 1);
    other.metadata.uid = Some("another".to_owned());
    state.note_policy(Event::Apply(other), begun);
    let write = written(&mut state, begun + SETTLE);
    assert_eq!(write.uid, "another");
    // What is said of the old one is not about it.
    let due = state.note_report(Event::Apply(report("a", &[("p", 1)])));
    assert_eq!(keys(due), BTreeSet::new());
    let due = state.note_report(Event::Apply(report("a", &[("another", 1)])));
    assert_eq!(keys(due), [key("p")].into());
}

#[test]
fn all_policies_are_looked_at_now_and_then_however_often_they_should_be() {
    let begun = Instant::now();
    let mut state = cluster(begun + SETTLE);
    let pause = SWEEP_PAUSE + SWEEP_PAUSE_EACH;
    assert_eq!(state.sweep(begun), Err(pause));
    let half = begun + Duration::from_millis(500);
    assert_eq!(state.sweep(half), Err(pause - Duration::from_millis(500)));
    assert_eq!(state.sweep(begun + pause), Ok(vec![Name::new("ns", "p")]));
}

#[test]
fn reports_of_nodes_that_are_not_there_are_looked_at_in_time() {
    let begun = Instant::now();
    let stray = |node: &str, pause| vec![(Key::Stray(node.to_owned()), pause)];
    let mut state = State::new(QUARANTINE);
    for event in relist(vec![report("a", &[]), report("b", &[])]) {
        assert_eq!(
            state.note_report(event),
            Due::new(),
            "nodes are not known yet"
        );
    }
    let mut due = Due::new();
    for event in relist(vec![node("a")]) {
        due.extend(state.note_node(event));
    }
    assert_eq!(due, stray("b", QUARANTINE));
    let due = state.note_report(Event::Apply(report("c", &[])));
    assert_eq!(due, stray("c", QUARANTINE));
    let due = state.note_node(Event::Delete(node("a")));
    assert_eq!(due, stray("a", Duration::ZERO));
    assert!(state.stray("a").is_some());
    state.note_node(Event::Apply(node("a")));
    assert!(state.stray("a").is_none());
    assert_eq!(state.look(&Name::new("ns", "p"), begun), Look::Nothing);
}

#[test]
fn what_others_say_of_being_programmed_is_left_alone_where_no_agent_reports() {
    let begun = Instant::now();
    let said = |reason: &str| {
        let mut policy = policy("p", 1);
        policy.status = serde_json::from_value(json!({"conditions": [{
            "type": "Programmed",
            "status": "True",
            "reason": reason,
            "message": "by whoever enforces it",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}))
        .unwrap();
        let lists = Lists {
            policies: vec![policy],
            nodes: vec![node("a")],
            ..Lists::default()
        };
        let mut state = read(lists, begun);
        writes(&mut state, begun + SETTLE)
    };
    let is_about = |writes: &[String]| writes.iter().any(|it| it.starts_with("Programmed"));
    assert!(!is_about(&said("Enforced")));
    assert!(is_about(&said("Applied")), "of an agent that is gone");
}

#[test]
fn a_pod_where_others_are_concerns_no_policy_however_many_select_it() {
    let at = Instant::now();
    let pods = (0..10_000).map(|number| {
        let node = format!("node-{}", number % 100);
        pod(&format!("pod-{number}"), "ns", &node)
    });
    let mut state = read(
        Lists {
            policies: (0..1000)
                .map(|number| policy(&format!("policy-{number}"), 1))
                .collect(),
            pods: pods.collect(),
            nodes: vec![node("node-0")],
            reports: vec![report("node-0", &[])],
        },
        at,
    );
    let come = |name: &str, node: &str| Event::Apply(pod(name, "ns", node));
    assert_eq!(state.note_pod(come("pod-new", "")), []);
    assert_eq!(state.note_pod(come("pod-new", "node-7")), []);
    assert_eq!(state.note_pod(come("pod-new", "node-8")), []);
    let gone = Event::Delete(pod("pod-new", "ns", "node-8"));
    assert_eq!(state.note_pod(gone), []);
    assert_eq!(state.note_pod(come("pod-new", "node-new")).len(), 1000);
}
