mod fixtures;

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
    let due = state.handle_pod_event(Event::Apply(pod("x", "ns", "a")));
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

    let due = state.handle_pod_event(Event::Apply(pod("y", "other", "b")));
    assert_eq!(keys(due), [of_other.clone()].into());
    let due = state.handle_pod_event(Event::Delete(pod("x", "ns", "a")));
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
    let mut due = DelayedKeys::new();
    for event in relist(vec![pod("y", "other", "b")]) {
        due.extend(state.handle_pod_event(event));
    }
    assert_eq!(keys(due), [key("p")].into());
    let written_conditions = |state: &mut PolicyStatusState| writes(state, started + SECOND);
    assert!(written_conditions(&mut state).contains(&"TargetMatch=False/NoPods".to_owned()));
    let mut due = DelayedKeys::new();
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
fn foreign_changes_of_a_condition_are_reverted() {
    let started = Instant::now();
    let mut state = cluster(started);
    let mut policy = write(&mut state, &policy("p", 1), started);
    let name = NamespacedName::new("ns", "p");
    let own = policy.clone();
    let due = state.handle_policy_event(Event::Apply(own), started);
    assert_eq!(keys(due), [key("p")].into());
    assert_eq!(
        state.plan_write(&name, started + SECOND),
        PlannedWrite::Nothing
    );
    let conditions = policy.status.conditions.as_mut().unwrap();
    conditions.retain(|condition| condition.type_ != "Problem");
    conditions[0].message = Some("mine".to_owned());
    conditions.push(object(json!({"type": "Theirs", "status": "True"})));
    policy.metadata.resource_version = Some("7".to_owned());
    state.handle_policy_event(Event::Apply(policy), started);
    let right = written(&mut state, started + 2 * SECOND);
    assert_eq!(right.version, "7");
    let types: Vec<ConditionType> = right
        .missing
        .iter()
        .map(|missing| missing.condition.type_)
        .collect();
    assert_eq!(types, [ConditionType::Supported, ConditionType::Problem]);
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
    let due = state.handle_pod_event(Event::Apply(pod("y", "ns", "b")));
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
    let without_heartbeats = |due: DelayedKeys| -> DelayedKeys {
        let is_other = |(key, _): &(WorkKey, Duration)| !matches!(key, WorkKey::Heartbeat(_));
        due.into_iter().filter(is_other).collect()
    };
    for event in relist(vec![report("a", &[]), report("b", &[])]) {
        let due = state.handle_report_event(event, seen(started));
        assert_eq!(without_heartbeats(due), [], "nodes are not known yet");
    }
    let mut due = DelayedKeys::new();
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
fn a_foreign_programmed_condition_is_kept_without_agents() {
    let started = Instant::now();
    let written_conditions = |reason: &str| {
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
        let lists = InitialLists {
            policies: vec![policy],
            nodes: vec![node("a")],
            ..InitialLists::default()
        };
        let mut state = read(lists, started);
        writes(&mut state, started + SETTLE_TIME)
    };
    let is_about = |writes: &[String]| writes.iter().any(|it| it.starts_with("Programmed"));
    assert!(!is_about(&written_conditions("Enforced")));
    assert!(
        is_about(&written_conditions("Applied")),
        "a condition of this controller must be reset"
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
    let mut queued = |event| keys(state.handle_pod_event(event)).len();
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

#[test]
fn the_first_write_waits_for_agents() {
    let started = Instant::now();
    let mut state = cluster(started);
    let name = NamespacedName::new("ns", "p");
    assert_eq!(
        state.plan_write(&name, started),
        PlannedWrite::Later(FIRST_PENDING_DELAY)
    );
    // The agent reports in time: there is only one write.
    apply_report(&mut state, report("a", &[("p", 1)]), started + SECOND);
    let written_conditions = writes(&mut state, started + SECOND);
    assert_eq!(
        written_conditions.last().unwrap(),
        "Programmed=True/Applied"
    );
    // It does not.
    apply_report(&mut state, report("a", &[]), started + SECOND);
    let due = started + SECOND + FIRST_PENDING_DELAY;
    assert_eq!(
        state.plan_write(&name, started + SECOND),
        PlannedWrite::Later(FIRST_PENDING_DELAY)
    );
    let written_conditions = writes(&mut state, due);
    assert_eq!(
        written_conditions.last().unwrap(),
        "Programmed=Unknown/Pending"
    );
}

#[test]
fn a_stale_heartbeat_revokes_programmed() {
    let started = Instant::now();
    let (mut state, _) = programmed_cluster(started);
    let name = NamespacedName::new("ns", "p");
    let later = |seconds: u64| started + Duration::from_secs(seconds);
    let mut renewed = report("a", &[("p", 1)]);
    renewed.last_heartbeat_time = Some(object(json!("2030-01-01T00:00:20Z")));
    assert_eq!(apply_report(&mut state, renewed, later(20)), []);
    let again = (WorkKey::Heartbeat("a".to_owned()), 20 * SECOND);
    assert_eq!(state.check_heartbeat("a", later(40)), [again]);
    assert_eq!(state.plan_write(&name, later(59)), PlannedWrite::Nothing);
    let due = state.check_heartbeat("a", later(60));
    assert_eq!(keys(due), [key("p"), WorkKey::Policies].into());
    let conditions = writes(&mut state, later(61));
    assert_eq!(conditions, ["Programmed=Unknown/NoHeartbeat"]);
    assert_eq!(state.check_heartbeat("a", later(61)), []);
    let mut renewed = report("a", &[("p", 1)]);
    renewed.last_heartbeat_time = Some(object(json!("2030-01-01T00:01:01Z")));
    let due = apply_report(&mut state, renewed, later(61));
    assert!(due.contains(&(WorkKey::Heartbeat("a".to_owned()), 40 * SECOND)));
    assert!(keys(due).contains(&key("p")));
    assert_eq!(state.plan_write(&name, later(61)), PlannedWrite::Nothing);
}

#[test]
fn a_pod_that_the_agent_has_not_observed_revokes_programmed() {
    let started = Instant::now();
    let (mut state, programmed) = programmed_cluster(started);
    let name = NamespacedName::new("ns", "p");
    let later = started + 2 * SECOND;
    let mut second = pod("y", "ns", "a");
    second.metadata.resource_version = Some("9".to_owned());
    let coverage = (WorkKey::Coverage("a".to_owned()), COVERAGE_DELAY);
    assert_eq!(
        state.handle_pod_event(Event::Apply(second.clone())),
        std::slice::from_ref(&coverage)
    );
    assert_eq!(keys(state.check_coverage("a")), [key("p")].into());
    assert_eq!(
        state.plan_write(&name, later),
        PlannedWrite::Later(REVOCATION_DELAY)
    );
    let conditions = writes(&mut state, later + REVOCATION_DELAY);
    assert_eq!(conditions, ["Programmed=Unknown/Pending"]);
    let mut report = report("a", &[("p", 1)]);
    report.pods_resource_version = Some("9".to_owned());
    let due = apply_report(&mut state, report.clone(), later);
    assert_eq!(keys(due), [key("p")].into());
    assert_eq!(state.plan_write(&name, later), PlannedWrite::Nothing);
    assert_eq!(keys(state.check_coverage("a")), [].into());

    // Other changes of the pod, and pods without an address or of another policy, need no report.
    second.metadata.resource_version = Some("10".to_owned());
    assert_eq!(state.handle_pod_event(Event::Apply(second.clone())), []);
    let mut unaddressed = pod("z", "ns", "a");
    unaddressed.status = Default::default();
    unaddressed.metadata.resource_version = Some("11".to_owned());
    assert_eq!(state.handle_pod_event(Event::Apply(unaddressed)), []);
    let mut other = pod("other", "other", "a");
    other.metadata.resource_version = Some("12".to_owned());
    assert_eq!(
        state.handle_pod_event(Event::Apply(other)),
        std::slice::from_ref(&coverage)
    );
    assert_eq!(keys(state.check_coverage("a")), [].into());
    assert_eq!(
        state.plan_write(&name, later + SECOND),
        PlannedWrite::Nothing
    );

    // A relabelled pod, and one that goes away before its agent observes it.
    second.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    second.metadata.resource_version = Some("13".to_owned());
    let gone = second.clone();
    assert_eq!(state.handle_pod_event(Event::Apply(second)), [coverage]);
    assert_eq!(keys(state.check_coverage("a")), [key("p")].into());
    let due = state.handle_pod_event(Event::Delete(gone));
    assert_eq!(keys(due), [key("p")].into());
    let at = later + 2 * SECOND;
    assert_eq!(state.plan_write(&name, at), PlannedWrite::Nothing);
    assert!(programmed.status.conditions.is_some());
}

#[test]
fn a_restart_does_not_revoke_programmed_for_pods_with_a_new_version() {
    let started = Instant::now();
    let (_, programmed) = programmed_cluster(started);
    let mut pod = pod("x", "ns", "a");
    pod.metadata.resource_version = Some("9".to_owned());
    let lists = |policy: NetworkPolicy| InitialLists {
        policies: vec![policy],
        pods: vec![pod.clone()],
        nodes: vec![node("a"), node("b")],
        reports: vec![report("a", &[("p", 1)]), report("b", &[])],
    };
    let name = NamespacedName::new("ns", "p");
    let mut state = read(lists(programmed), started);
    assert_eq!(
        state.plan_write(&name, started + SECOND),
        PlannedWrite::Nothing
    );
    // A policy that was not programmed before must wait for the agent.
    let mut state = read(lists(policy("p", 1)), started);
    state.plan_write(&name, started);
    let conditions = writes(&mut state, started + FIRST_PENDING_DELAY);
    assert_eq!(conditions.last().unwrap(), "Programmed=Unknown/Pending");
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
fn conditions_of_other_implementations_are_kept() {
    let started = Instant::now();
    let name = NamespacedName::new("ns", "p");
    for foreign in [
        json!({"type": "Problem", "status": "True", "reason": "TooManyRules", "message": "m"}),
        json!({"type": "Problem", "status": "True"}),
        json!({"type": "Programmed", "status": "True", "reason": "Realized", "observedGeneration": 1}),
        json!({"type": "TargetMatch", "status": "False", "reason": "Nothing"}),
    ] {
        let (mut state, own) = programmed_cluster(started);
        let policy = with_condition(own, foreign.clone());
        state.handle_policy_event(Event::Apply(policy), started);
        let later = started + 10 * SECOND;
        assert_eq!(
            state.plan_write(&name, later),
            PlannedWrite::Nothing,
            "{foreign}"
        );
    }
    // The same without agents of ours.
    let foreign = json!({"type": "Problem", "status": "True", "reason": "TooManyRules"});
    let lists = InitialLists {
        policies: vec![with_condition(policy("p", 1), foreign)],
        nodes: vec![node("a")],
        ..InitialLists::default()
    };
    let mut state = read(lists, started);
    assert_eq!(
        writes(&mut state, started),
        ["TargetMatch=False/NoPods", "TrafficMatch=True/PeersMatched"]
    );
}

#[test]
fn a_condition_that_somebody_insists_on_is_left_to_them() {
    let started = Instant::now();
    let (mut state, own) = programmed_cluster(started);
    let name = NamespacedName::new("ns", "p");
    let theirs = |own: &NetworkPolicy| {
        let foreign = json!({
            "type": "Problem", "status": "True", "reason": "AmbiguousCIDR", "message": "theirs",
            "observedGeneration": 1, "lastTransitionTime": "2030-01-01T00:00:00Z",
        });
        with_condition(own.clone(), foreign)
    };
    let mut at = started;
    let mut repairs = 0;
    loop {
        at += 2 * SECOND;
        state.handle_policy_event(Event::Apply(theirs(&own)), at);
        match state.plan_write(&name, at) {
            PlannedWrite::Write(write) => {
                repairs += 1;
                assert_eq!(write.missing.len(), 1);
                let answer = patched(&own, &write);
                assert_eq!(state.record_write(&name, &write, &answer, at), None);
            }
            planned => {
                assert_eq!(planned, PlannedWrite::Nothing);
                break;
            }
        }
        assert!(repairs < 10, "the writes do not end");
    }
    assert_eq!(repairs, 2);
    // A new generation is another condition.
    let mut next = theirs(&own);
    next.metadata.generation = Some(2);
    state.handle_policy_event(Event::Apply(next), at);
    let conditions = {
        state.plan_write(&name, at + SECOND);
        writes(&mut state, at + 3 * SECOND)
    };
    assert!(
        conditions.contains(&"Problem=False/NoProblem".to_owned()),
        "{conditions:?}"
    );
}
