mod agents;
mod fixtures;
mod foreign_conditions;

use serde_json::json;

use super::write_planner::{
    FIRST_PENDING_DELAY, IGNORED_PAUSE, IGNORED_PAUSE_EACH, REVOCATION_DELAY, SETTLE_TIME,
    SWEEP_PAUSE, SWEEP_PAUSE_EACH,
};
use super::*;
use crate::network_policy_status::condition_diff::StatusWrite;
use crate::network_policy_status::conditions::ConditionType;
use fixtures::*;

#[test]
fn a_status_is_written_after_the_settle_time_and_then_once_a_second() {
    let started = Instant::now();
    let mut state = cluster(started);
    let name = NamespacedName::new("ns", "p");
    assert_eq!(
        writes(&mut state, started),
        [
            "Supported=True/Supported",
            "Problem=False/NoProblem",
            "TargetMatch=True/PodsSelected",
            "TrafficMatch=True/PeersMatched",
            "Programmed=Unknown/Pending",
        ]
    );
    let once = write(&mut state, &policy("p", 1), started);
    let due = apply_report(&mut state, report("a", &[("p", 1)]), started);
    assert_eq!(keys(due), [key("p")].into());
    let soon = started + Duration::from_millis(300);
    let rest = Duration::from_millis(700);
    assert_eq!(state.plan_write(&name, soon), PlannedWrite::Later(rest));
    assert_eq!(
        writes(&mut state, started + SECOND),
        ["Programmed=True/Applied"]
    );
    write(&mut state, &once, started + SECOND);
    assert_eq!(
        state.plan_write(&name, started + 2 * SECOND),
        PlannedWrite::Nothing
    );
}

#[test]
fn transition_times_are_written_when_a_status_changes() {
    let started = Instant::now();
    let mut state = cluster(started);
    let times = |write: &StatusWrite| -> Vec<String> {
        let patch = write.patch("now");
        let conditions = patch["status"]["conditions"].as_array().unwrap();
        let timed = conditions
            .iter()
            .filter(|condition| condition.get("lastTransitionTime").is_some());
        timed
            .map(|condition| condition["type"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = written(&mut state, started);
    assert_eq!(times(&first), ConditionType::ALL.map(ConditionType::name));
    write(&mut state, &policy("p", 1), started);
    // A new generation changes observedGeneration only: no transition.
    let mut second = policy("p", 2);
    second.status = patched(&policy("p", 1), &first).status;
    state.handle_policy_event(Event::Apply(second), started);
    let write = written(&mut state, started + SECOND);
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
fn an_unchanged_status_is_not_written_again_after_a_restart() {
    let started = Instant::now();
    let mut state = cluster(started);
    let current = write(&mut state, &policy("p", 1), started);
    let lists = InitialLists {
        policies: vec![current],
        pods: vec![pod("x", "ns", "a")],
        nodes: vec![node("a"), node("b")],
        reports: vec![report("a", &[]), report("b", &[])],
    };
    let mut state = read(lists, started);
    assert_eq!(
        state.plan_write(&NamespacedName::new("ns", "p"), started),
        PlannedWrite::Nothing
    );
}

#[test]
fn an_empty_target_is_reported_after_the_settle_time() {
    let started = Instant::now();
    let lists = InitialLists {
        policies: vec![policy("p", 1)],
        nodes: vec![node("a")],
        reports: vec![report("a", &[])],
        ..InitialLists::default()
    };
    let mut state = read(lists, started);
    let name = NamespacedName::new("ns", "p");
    assert_eq!(
        state.plan_write(&name, started),
        PlannedWrite::Later(SETTLE_TIME)
    );
    let written_conditions = writes(&mut state, started + SETTLE_TIME);
    assert_eq!(
        written_conditions.last().unwrap(),
        "Programmed=True/NothingToApply"
    );
    // A new generation must settle again, and then there is a pod.
    write(&mut state, &policy("p", 1), started + SETTLE_TIME);
    let later = started + 10 * SECOND;
    state.handle_policy_event(Event::Apply(policy("p", 2)), later);
    assert_eq!(
        state.plan_write(&name, later),
        PlannedWrite::Later(SETTLE_TIME)
    );
    let due = state.handle_pod_event(Event::Apply(pod("x", "ns", "a")), seen(started));
    assert_eq!(keys(due), [key("p")].into());
    let written_conditions = writes(&mut state, later + SETTLE_TIME);
    assert_eq!(
        written_conditions.last().unwrap(),
        "Programmed=Unknown/Pending"
    );
}

#[test]
fn a_change_queues_the_affected_policies() {
    let started = Instant::now();
    let mut state = cluster(started);
    let mut other = policy("q", 1);
    other.metadata.namespace = Some("other".to_owned());
    let of_other = WorkKey::Policy(NamespacedName::new("other", "q"));
    let due = state.handle_policy_event(Event::Apply(other), started);
    assert_eq!(keys(due), [of_other.clone()].into());

    let due = state.handle_pod_event(Event::Apply(pod("y", "other", "b")), seen(started));
    assert_eq!(keys(due), [of_other.clone()].into());
    let due = state.handle_pod_event(Event::Delete(pod("x", "ns", "a")), seen(started));
    assert_eq!(keys(due), [key("p")].into());
    let due = apply_report(
        &mut state,
        report("a", &[("p", 1), ("unknown", 1)]),
        started,
    );
    assert_eq!(keys(due), [key("p")].into());
    // A change of a whole node may affect any policy.
    let due = state.handle_report_event(Event::Delete(report("b", &[])), seen(started));
    assert_eq!(keys(due), [WorkKey::Policies].into());
    let due = state.handle_node_event(Event::Apply(node("c")));
    assert_eq!(keys(due), [WorkKey::Policies].into());
    let due = state.handle_node_event(Event::Apply(node("c")));
    assert_eq!(keys(due), BTreeSet::new());
}

#[test]
fn objects_missing_from_a_relist_are_removed() {
    let started = Instant::now();
    let mut state = cluster(started);
    let mut due = KeysToQueue::new();
    for event in relist(vec![pod("y", "other", "b")]) {
        due.extend(state.handle_pod_event(event, seen(started)));
    }
    assert_eq!(keys(due), [key("p")].into());
    let written_conditions = |state: &mut PolicyStatusState| writes(state, started + SECOND);
    assert!(written_conditions(&mut state).contains(&"TargetMatch=False/NoPods".to_owned()));
    let mut due = KeysToQueue::new();
    for event in relist(vec![node("b")]) {
        due.extend(state.handle_node_event(event));
    }
    assert_eq!(
        keys(due),
        [WorkKey::Policies, WorkKey::StaleReport("a".to_owned())].into()
    );
    for event in relist(vec![]) {
        state.handle_report_event(event, seen(started));
    }
    assert!(state.stale_report("a").is_none());
    let written_conditions = written_conditions(&mut state);
    assert!(
        !written_conditions
            .iter()
            .any(|written_conditions| written_conditions.starts_with("Programmed"))
    );
    for event in relist(vec![]) {
        state.handle_policy_event(event, started);
    }
    assert_eq!(
        state.plan_write(&NamespacedName::new("ns", "p"), started + SECOND),
        PlannedWrite::Nothing
    );
}

#[test]
fn a_status_dropped_by_the_server_is_retried_after_a_long_pause() {
    let started = Instant::now();
    let mut state = cluster(started);
    let name = NamespacedName::new("ns", "p");
    let write = written(&mut state, started);
    let mut answer = policy("p", 1);
    let pause = state.record_write(&name, &write, &answer, started);
    assert_eq!(pause, Some(IGNORED_PAUSE));
    let due = state.handle_pod_event(Event::Apply(pod("y", "ns", "b")), seen(started));
    assert_eq!(keys(due), [key("p")].into());
    assert_eq!(
        state.plan_write(&name, started + SECOND),
        PlannedWrite::Later(Duration::from_secs(59))
    );
    // A new generation does not shorten the delay.
    answer.metadata.generation = Some(2);
    state.handle_policy_event(Event::Apply(answer), started);
    assert_eq!(
        state.plan_write(&name, started + SECOND),
        PlannedWrite::Later(Duration::from_secs(59))
    );
    let write = written(&mut state, started + IGNORED_PAUSE);
    for number in 0..10_000 {
        state
            .ignored
            .insert(NamespacedName::new("many", number.to_string()));
    }
    let pause = state.record_write(&name, &write, &policy("p", 2), started + IGNORED_PAUSE);
    assert_eq!(pause, Some(10_001 * IGNORED_PAUSE_EACH));
}

#[test]
fn a_recreated_policy_does_not_wait_for_its_predecessor() {
    let started = Instant::now();
    let mut state = cluster(started);
    write(&mut state, &policy("p", 1), started);
    let mut other = policy("p", 1);
    other.metadata.uid = Some("another".to_owned());
    state.handle_policy_event(Event::Apply(other), started);
    let write = written(&mut state, started + SETTLE_TIME);
    assert_eq!(write.uid, "another");
    // Reports about the old uid do not affect the new policy.
    let due = apply_report(&mut state, report("a", &[("p", 1)]), started);
    assert_eq!(keys(due), BTreeSet::new());
    let due = apply_report(&mut state, report("a", &[("another", 1)]), started);
    assert_eq!(keys(due), [key("p")].into());
}

#[test]
fn all_policies_are_swept_periodically() {
    let started = Instant::now();
    let mut state = cluster(started + SETTLE_TIME);
    let pause = SWEEP_PAUSE + SWEEP_PAUSE_EACH;
    assert_eq!(state.sweep(started), Err(pause));
    let half = started + Duration::from_millis(500);
    assert_eq!(state.sweep(half), Err(pause - Duration::from_millis(500)));
    assert_eq!(
        state.sweep(started + pause),
        Ok(vec![NamespacedName::new("ns", "p")])
    );
}

#[test]
fn reports_of_missing_nodes_are_checked_after_the_quarantine() {
    let started = Instant::now();
    let stale_report = |node: &str, pause| vec![(WorkKey::StaleReport(node.to_owned()), pause)];
    let mut state = PolicyStatusState::new(QUARANTINE, HEARTBEAT_GRACE);
    let without_heartbeats = |due: KeysToQueue| -> KeysToQueue {
        let is_other = |(key, _): &(WorkKey, Duration)| !matches!(key, WorkKey::Heartbeat(_));
        due.into_iter().filter(is_other).collect()
    };
    for event in relist(vec![report("a", &[]), report("b", &[])]) {
        let due = state.handle_report_event(event, seen(started));
        assert_eq!(without_heartbeats(due), [], "nodes are not known yet");
    }
    let mut due = KeysToQueue::new();
    for event in relist(vec![node("a")]) {
        due.extend(state.handle_node_event(event));
    }
    assert_eq!(due, stale_report("b", QUARANTINE));
    let due = apply_report(&mut state, report("c", &[]), started);
    assert_eq!(without_heartbeats(due), stale_report("c", QUARANTINE));
    let due = state.handle_node_event(Event::Delete(node("a")));
    assert_eq!(due, stale_report("a", Duration::ZERO));
    assert!(state.stale_report("a").is_some());
    state.handle_node_event(Event::Apply(node("a")));
    assert!(state.stale_report("a").is_none());
    assert_eq!(
        state.plan_write(&NamespacedName::new("ns", "p"), started),
        PlannedWrite::Nothing
    );
}

#[test]
fn a_pod_on_a_node_with_selected_pods_queues_no_policy() {
    let at = Instant::now();
    let pods = (0..10_000).map(|number| {
        let node = format!("node-{}", number % 100);
        pod(&format!("pod-{number}"), "ns", &node)
    });
    let mut state = read(
        InitialLists {
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
    let mut queued = |event| keys(state.handle_pod_event(event, seen(at))).len();
    assert_eq!(queued(come("pod-new", "")), 0);
    assert_eq!(queued(come("pod-new", "node-0")), 0);
    assert_eq!(queued(come("pod-new", "")), 0);
    let gone = Event::Delete(pod("pod-new", "ns", ""));
    assert_eq!(queued(gone), 0);
    assert_eq!(queued(come("pod-new", "node-new")), 1000);
}

/// The cluster of `cluster`, with the policy applied and written as such.
fn programmed_cluster(at: Instant) -> (PolicyStatusState, NetworkPolicy) {
    let mut state = cluster(at);
    apply_report(&mut state, report("a", &[("p", 1)]), at);
    let policy = write(&mut state, &policy("p", 1), at);
    (state, policy)
}

/// The policy with a condition of another implementation.
fn with_condition(mut policy: NetworkPolicy, condition: serde_json::Value) -> NetworkPolicy {
    let condition: rhumb_netpol::objects::StatusCondition = object(condition);
    let conditions = policy.status.conditions.get_or_insert_default();
    conditions.retain(|known| known.type_ != condition.type_);
    conditions.push(condition);
    policy
}

#[test]
fn conditions_versions_and_heartbeats_are_counted() {
    let started = Instant::now();
    let (mut state, _) = programmed_cluster(started);
    let now = ObservationTime {
        at: started + Duration::from_secs(90),
        time_of_day: "2030-01-01T00:01:00Z".parse().unwrap(),
    };
    let counts = state.counts(now);
    assert_eq!(counts.conditions[&("Programmed", "True")], 1);
    assert_eq!(counts.conditions[&("Problem", "False")], 1);
    assert_eq!(counts.min_versions, [("1.3".to_owned(), 1)].into());
    assert_eq!(counts.nodes, [("alive", 2)].into());
    assert_eq!(counts.oldest_unprogrammed_seconds, 0);
    let pending = json!({
        "type": "Programmed", "status": "Unknown", "reason": "Pending", "message": "m",
        "observedGeneration": 1, "lastTransitionTime": "2030-01-01T00:00:00Z",
    });
    let other = with_condition(policy("other", 1), pending);
    state.handle_policy_event(Event::Apply(other), started);
    state.check_heartbeat("b", started + HEARTBEAT_GRACE);
    let counts = state.counts(now);
    assert_eq!(counts.conditions[&("Programmed", "Unknown")], 1);
    assert_eq!(counts.nodes, [("alive", 1), ("stale", 1)].into());
    assert_eq!(counts.oldest_unprogrammed_seconds, 60);
    // The status of this one cannot be written.
    state.handle_policy_event(Event::Apply(policy("unwritten", 1)), started);
    assert_eq!(state.counts(now).oldest_unprogrammed_seconds, 90);
    state.ignored.insert(NamespacedName::new("ns", "unwritten"));
    assert_eq!(state.counts(now).oldest_unprogrammed_seconds, 60);
}
