//! What agents report in time, late, or not at all.

use super::*;

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
