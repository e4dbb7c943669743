//! Held pods, and pods in unknown namespaces.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;

use super::harness::{SchedulerHarness, pod, pod_in};
use crate::engine::{Event, PendingPodCounts, SchedulerEvent, SchedulingOutcome};

/// A node with a pod that has anti-affinity to pods in the namespaces of a team.
fn harness_with_anti_affinity() -> SchedulerHarness {
    let mut run = SchedulerHarness::new();
    run.set_node_with("n", 8, json!({"labels": {"zone": "z"}}));
    let term = json!({
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "namespaceSelector": {"matchLabels": {"team": "x"}},
    });
    let affinity =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    run.set_namespace("default", &[]);
    run.set_pod(pod(
        "wary",
        1,
        json!({"nodeName": "n", "affinity": affinity}),
    ));
    run
}

fn sync_namespaces(run: &mut SchedulerHarness) {
    run.apply(SchedulerEvent::Namespace(Event::Replaced(HashSet::from([
        "default".into(),
    ]))));
}

fn add_pod_in_unknown_namespace(run: &mut SchedulerHarness) {
    run.set_pod(pod_in("b", "p", json!({"app": "x"}), 1, json!({})));
}

#[test]
fn a_pod_waits_for_its_namespace() {
    type HarnessStep = fn(&mut SchedulerHarness);
    let orders: [[HarnessStep; 2]; 2] = [
        [sync_namespaces, add_pod_in_unknown_namespace],
        [add_pod_in_unknown_namespace, sync_namespaces],
    ];
    for order in orders {
        let mut run = harness_with_anti_affinity();
        for step in order {
            step(&mut run);
        }
        assert!(run.run_until_idle().is_empty());
        let gated = PendingPodCounts {
            gated: 1,
            ..PendingPodCounts::default()
        };
        assert_eq!(run.engine.pending_pods(), gated);
        run.set_namespace("b", &[("team", "x")]);
        let lines = run.run_until_idle();
        assert!(
            lines[0].starts_with("p Unschedulable: 0/1 nodes"),
            "{lines:?}"
        );
        // Relabelling the namespace requeues the pod.
        run.advance_clock(Duration::from_secs(60))
            .set_namespace("b", &[]);
        assert_eq!(run.run_until_idle(), ["p → n"]);
    }
}

#[test]
fn a_missing_namespace_is_reported_once() {
    let mut run = harness_with_anti_affinity();
    sync_namespaces(&mut run);
    add_pod_in_unknown_namespace(&mut run);
    assert!(run.run_until_idle().is_empty());
    assert_eq!(
        run.engine.next_deadline(),
        Some(run.now + Duration::from_secs(10))
    );
    run.advance_clock(Duration::from_secs(10));
    assert_eq!(
        run.run_until_idle(),
        ["p SchedulerError: namespace \"b\" is not known"]
    );
    run.advance_clock(Duration::from_secs(3600));
    add_pod_in_unknown_namespace(&mut run);
    assert!(run.run_until_idle().is_empty());
    run.set_namespace("b", &[]);
    assert_eq!(run.run_until_idle(), ["p → n"]);
}

/// The scheduling duration is measured from the first attempt.
#[test]
fn the_scheduling_duration_excludes_gated_time() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 8);
    run.set_pod(pod("a", 1, json!({"schedulingGates": [{"name": "g"}]})));
    run.advance_clock(Duration::from_secs(100));
    run.set_pod(pod("a", 9, json!({})));
    run.run_until_idle();
    run.advance_clock(Duration::from_secs(5));
    run.set_node("m", 16);
    let outcome = run.engine.next_outcome(run.now);
    let Some(SchedulingOutcome::Bind {
        since_enqueued: waited,
        since_first_attempt,
        ..
    }) = outcome
    else {
        panic!("{outcome:?}");
    };
    assert_eq!(waited, Duration::from_secs(105));
    assert_eq!(since_first_attempt, Duration::from_secs(5));
    // Preemption was evaluated, although there were no victims.
    assert_eq!(run.engine.preemption_attempts(), 1);
}

#[test]
fn a_held_pod_waits_until_it_is_released() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 8);
    run.set_pod(pod("here", 1, json!({})));
    let uids = ["default/here", "default/later"].map(Box::from);
    run.apply(SchedulerEvent::HoldPods(HashSet::from(uids)));
    run.set_pod(pod("later", 1, json!({})));
    run.set_pod(pod("free", 1, json!({})));
    assert_eq!(run.run_until_idle(), ["free → n"]);
    for name in ["later", "here"] {
        // An update of the pod does not release it.
        run.set_pod(pod(name, 2, json!({})));
        assert!(run.run_until_idle().is_empty());
        let uid = format!("default/{name}").into();
        run.apply(SchedulerEvent::ReleasePod { uid });
        assert_eq!(run.run_until_idle(), [format!("{name} → n")]);
    }
}
