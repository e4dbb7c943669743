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
        state.handle_pod_event(Event::Apply(second.clone()), seen(later)),
        std::slice::from_ref(&coverage)
    );
    assert_eq!(keys(state.check_coverage("a", later)), [key("p")].into());
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
    assert_eq!(keys(state.check_coverage("a", later)), [].into());

    // Other changes of the pod, and pods without an address or of another policy, need no report.
    second.metadata.resource_version = Some("10".to_owned());
    assert_eq!(
        state.handle_pod_event(Event::Apply(second.clone()), seen(later)),
        []
    );
    let mut unaddressed = pod("z", "ns", "a");
    unaddressed.status = Default::default();
    unaddressed.metadata.resource_version = Some("11".to_owned());
    assert_eq!(
        state.handle_pod_event(Event::Apply(unaddressed), seen(later)),
        []
    );
    let mut other = pod("other", "other", "a");
    other.metadata.resource_version = Some("12".to_owned());
    assert_eq!(
        state.handle_pod_event(Event::Apply(other), seen(later)),
        std::slice::from_ref(&coverage)
    );
    assert_eq!(keys(state.check_coverage("a", later)), [].into());
    assert_eq!(
        state.plan_write(&name, later + SECOND),
        PlannedWrite::Nothing
    );

    // A relabelled pod, and one that goes away before its agent observes it.
    second.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    second.metadata.resource_version = Some("13".to_owned());
    let gone = second.clone();
    assert_eq!(
        state.handle_pod_event(Event::Apply(second), seen(later)),
        [coverage]
    );
    assert_eq!(keys(state.check_coverage("a", later)), [key("p")].into());
    let due = state.handle_pod_event(Event::Delete(gone), seen(later));
    assert_eq!(keys(due), [key("p")].into());
    let at = later + 2 * SECOND;
    assert_eq!(state.plan_write(&name, at), PlannedWrite::Nothing);
    assert!(programmed.status.conditions.is_some());
}

/// A pod on node `a` that the agents of `report` have not observed.
fn new_pod() -> Pod {
    let mut pod = pod("x", "ns", "a");
    pod.metadata.resource_version = Some("9".to_owned());
    pod
}

/// The report of node `a`, whose agent has applied the policy and observed pods up to a version.
fn report_up_to(pods_version: &str) -> NetworkPolicyNode {
    let mut report = report("a", &[("p", 1)]);
    report.pods_resource_version = Some(pods_version.to_owned());
    report
}

/// The lists at a restart: a policy, a pod with a new version, and a report that does not cover it.
fn restart_lists(policy: NetworkPolicy, report: NetworkPolicyNode) -> InitialLists {
    InitialLists {
        policies: vec![policy],
        pods: vec![new_pod()],
        nodes: vec![node("a")],
        reports: vec![report],
    }
}

#[test]
fn a_restart_keeps_programmed_until_the_next_report_is_due() {
    let started = Instant::now();
    let (_, programmed) = programmed_cluster(started);
    let name = NamespacedName::new("ns", "p");
    let mut renewed = report("a", &[("p", 1)]);
    renewed.heartbeat_seconds = Some(10);
    let due = 13 * SECOND;
    let mut state = read(restart_lists(programmed, renewed), started);
    let at = started + SECOND;
    assert_eq!(state.plan_write(&name, at), PlannedWrite::Nothing);
    assert_eq!(
        state.check_coverage("a", at),
        [
            (key("p"), Duration::ZERO),
            (WorkKey::Coverage("a".to_owned()), due - SECOND)
        ]
    );
    assert_eq!(
        state.plan_write(&name, started + 2 * SECOND),
        PlannedWrite::Nothing
    );
    // The agent has not observed the pod by then.
    let late = started + due;
    assert_eq!(state.check_coverage("a", late), now([key("p")]));
    assert_eq!(
        state.plan_write(&name, late),
        PlannedWrite::Later(REVOCATION_DELAY)
    );
    let conditions = writes(&mut state, late + REVOCATION_DELAY);
    assert_eq!(conditions, ["Programmed=Unknown/Pending"]);
    let due = apply_report(&mut state, report_up_to("9"), late);
    assert_eq!(keys(due), [key("p")].into());
    assert_eq!(
        state.plan_write(&name, late + SECOND),
        PlannedWrite::Nothing
    );
}

#[test]
fn a_restart_revokes_programmed_if_the_next_report_is_overdue() {
    let started = Instant::now();
    let (_, programmed) = programmed_cluster(started);
    let mut overdue = report("a", &[("p", 1)]);
    overdue.heartbeat_seconds = Some(10);
    overdue.last_heartbeat_time = Some(object(json!("2029-12-31T23:59:45Z")));
    let mut state = read(restart_lists(programmed, overdue), started);
    let name = NamespacedName::new("ns", "p");
    assert_eq!(
        state.plan_write(&name, started),
        PlannedWrite::Later(REVOCATION_DELAY)
    );
    let conditions = writes(&mut state, started + REVOCATION_DELAY);
    assert_eq!(conditions, ["Programmed=Unknown/Pending"]);
}

/// Pods may be listed before their node or its report.
#[test]
fn a_restart_checks_pods_that_are_listed_before_the_report_of_their_node_is_valid() {
    let started = Instant::now();
    let (_, programmed) = programmed_cluster(started);
    let name = NamespacedName::new("ns", "p");
    let list_reports = |state: &mut PolicyStatusState| -> KeysToQueue {
        relist(vec![report("a", &[("p", 1)])])
            .flat_map(|event| state.handle_report_event(event, seen(started)))
            .collect()
    };
    let list_nodes = |state: &mut PolicyStatusState| -> KeysToQueue {
        relist(vec![node("a")])
            .flat_map(|event| state.handle_node_event(event))
            .collect()
    };
    for is_report_last in [true, false] {
        let mut state = PolicyStatusState::new(QUARANTINE, HEARTBEAT_GRACE);
        for event in relist(vec![programmed.clone()]) {
            state.handle_policy_event(event, started);
        }
        for event in relist(vec![namespace("ns"), namespace("other")]) {
            state.handle_namespace_event(event);
        }
        for event in relist(vec![new_pod()]) {
            assert_eq!(state.handle_pod_event(event, seen(started)), []);
        }
        let due = match is_report_last {
            true => [list_nodes(&mut state), list_reports(&mut state)].concat(),
            false => [list_reports(&mut state), list_nodes(&mut state)].concat(),
        };
        let coverage = WorkKey::Coverage("a".to_owned());
        assert!(due.contains(&(coverage.clone(), COVERAGE_DELAY)), "{due:?}");
        state.sweep(started).unwrap();
        let at = started + SECOND;
        assert_eq!(state.plan_write(&name, at), PlannedWrite::Nothing);
        let next_report = (coverage, HEARTBEAT_GRACE - SECOND);
        assert_eq!(
            state.check_coverage("a", at),
            [(key("p"), Duration::ZERO), next_report]
        );
        // The agent has not observed the pod by then.
        let late = started + HEARTBEAT_GRACE;
        assert_eq!(state.check_coverage("a", late), now([key("p")]));
        let conditions = writes(&mut state, late + REVOCATION_DELAY);
        assert_eq!(conditions, ["Programmed=Unknown/Pending"]);
    }
}

/// A report that covers only some pods of a node.
#[test]
fn pods_that_a_report_does_not_cover_are_checked_later() {
    let started = Instant::now();
    let lists = InitialLists {
        policies: vec![policy("p", 1)],
        pods: vec![new_pod()],
        nodes: vec![node("a")],
        reports: Vec::new(),
    };
    let mut state = read(lists, started);
    let coverage = (WorkKey::Coverage("a".to_owned()), COVERAGE_DELAY);
    let due = apply_report(&mut state, report_up_to("8"), started);
    assert!(due.contains(&coverage), "{due:?}");
    let due = apply_report(&mut state, report_up_to("9"), started);
    assert!(!due.contains(&coverage), "{due:?}");
}

#[test]
fn a_policy_that_was_not_programmed_waits_for_pods_of_the_first_list() {
    let started = Instant::now();
    let reported = report("a", &[("p", 1)]);
    let mut state = read(restart_lists(policy("p", 1), reported), started);
    let name = NamespacedName::new("ns", "p");
    state.plan_write(&name, started);
    let conditions = writes(&mut state, started + FIRST_PENDING_DELAY);
    assert_eq!(conditions.last().unwrap(), "Programmed=Unknown/Pending");
}

/// Pods that existed before any valid report are covered only by one that observed them.
#[test]
fn pods_that_exist_before_the_first_report_must_be_observed() {
    let started = Instant::now();
    let rebooted: PartialNode =
        object(json!({"metadata": {"name": "a"}, "status": {"nodeInfo": {"bootID": "2"}}}));
    let of_boot = |boot: &str, pods_version: &str| {
        let mut report = report_up_to(pods_version);
        report.boot_id = Some(boot.to_owned());
        report
    };
    let old_report = vec![of_boot("1", "5")];
    for (reports, other_nodes) in [
        (Vec::new(), Vec::new()),
        // Another node reports.
        (vec![report("b", &[])], vec![node("b")]),
        (old_report, Vec::new()),
    ] {
        let lists = InitialLists {
            policies: vec![policy("p", 1)],
            pods: vec![new_pod()],
            nodes: [vec![rebooted.clone()], other_nodes].concat(),
            reports,
        };
        let mut state = read(lists, started - SECOND);
        apply_report(&mut state, of_boot("2", "8"), started);
        let name = NamespacedName::new("ns", "p");
        state.plan_write(&name, started);
        let at = started + FIRST_PENDING_DELAY;
        let conditions = writes(&mut state, at);
        assert_eq!(conditions.last().unwrap(), "Programmed=Unknown/Pending");
        let due = apply_report(&mut state, of_boot("2", "9"), at);
        assert_eq!(keys(due), [key("p")].into());
        let conditions = writes(&mut state, at);
        assert_eq!(conditions.last().unwrap(), "Programmed=True/Applied");
    }
}

#[test]
fn a_report_covers_pods_when_its_node_gets_the_same_boot_id() {
    let started = Instant::now();
    let boot = |id: &str| -> PartialNode {
        object(json!({"metadata": {"name": "a"}, "status": {"nodeInfo": {"bootID": id}}}))
    };
    let mut report = report_up_to("9");
    report.boot_id = Some("2".to_owned());
    let lists = InitialLists {
        policies: vec![policy("p", 1)],
        pods: vec![new_pod()],
        nodes: vec![boot("1")],
        reports: vec![report],
    };
    let mut state = read(lists, started - SECOND);
    state.handle_node_event(Event::Apply(boot("2")));
    let conditions = writes(&mut state, started);
    assert_eq!(conditions.last().unwrap(), "Programmed=True/Applied");
}
