//! Nominated nodes: reservation, removal, late watch events, timeouts.

use std::time::Duration;

use serde_json::json;

use super::harness::{SchedulerHarness, pod};
use crate::engine::SchedulerEvent;
use crate::model::Pod;

fn nominated_pod(name: &str, cpu: u32, priority: i32, node: &str) -> Pod {
    let mut pod = pod(name, cpu, json!({"priority": priority}));
    pod.nominated_node_name = Some(node.into());
    pod
}

/// A node with 4 CPUs that pod `x` fills, and pod `p` of priority 10 that preempts it.
fn preempting_harness() -> SchedulerHarness {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 4);
    run.set_pod(pod("x", 4, json!({"nodeName": "n", "priority": 1})));
    run.set_pod(pod("p", 3, json!({"priority": 10})));
    let lines = run.run_until_idle();
    assert!(lines[0].ends_with("nominated n victims x"), "{lines:?}");
    run
}

#[test]
fn nominated_resources_are_reserved_from_lower_and_equal_priorities() {
    for (priority, cpu, expected) in [
        (9, 1, "q → n"),
        (
            9,
            2,
            "q Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.",
        ),
        (
            10,
            2,
            "q Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.",
        ),
        (11, 2, "q → n"),
    ] {
        let mut run = SchedulerHarness::new();
        run.set_node("n", 4);
        // The nominated pod is gated, so it is not scheduled itself.
        let mut waiting = nominated_pod("p", 3, 10, "n");
        waiting.scheduling_gates = Box::new(["g".into()]);
        run.set_pod(waiting);
        run.run_until_idle();
        run.set_pod(pod("q", cpu, json!({"priority": priority})));
        let lines = run.run_until_idle();
        assert!(
            lines[0].starts_with(expected),
            "{priority} {cpu}: {lines:?}"
        );
    }
}

#[test]
fn a_nomination_on_the_server_is_honoured_after_a_restart() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 4);
    run.set_node("m", 4);
    run.set_pod(nominated_pod("p", 3, 10, "n"));
    assert_eq!(run.run_until_idle(), ["p → n"]);
}

#[test]
fn a_nomination_of_a_missing_node_is_ignored() {
    let mut run = SchedulerHarness::new();
    run.set_node("m", 4);
    run.set_pod(nominated_pod("p", 3, 10, "gone"));
    assert_eq!(run.run_until_idle(), ["p → m"]);
}

#[test]
fn a_nomination_ends_when_the_pod_is_removed_or_moved() {
    for what in ["deleted", "elsewhere", "terminating", "taken back"] {
        let mut run = preempting_harness();
        run.set_node("m", 1);
        // Gated, so that it is not scheduled.
        let mut waiting = pod("p", 3, json!({"priority": 10}));
        waiting.scheduling_gates = Box::new(["g".into()]);
        run.set_pod(waiting.clone());
        run.delete_pod("x");
        run.run_until_idle();
        run.set_pod(pod("q", 2, json!({})));
        assert_eq!(run.attempted_pods(), ["q"], "{what}");
        match what {
            "deleted" => run.delete_pod("p"),
            "elsewhere" => run.set_pod(pod("p", 3, json!({"priority": 10, "nodeName": "m"}))),
            "terminating" => {
                waiting.is_terminating = true;
                run.set_pod(waiting);
            }
            _ => {
                waiting.nominated_node_name = Some("n".into());
                run.set_pod(waiting.clone());
                waiting.nominated_node_name = None;
                run.set_pod(waiting);
            }
        }
        assert_eq!(run.run_until_idle(), ["q → n"], "{what}");
    }
}

#[test]
fn a_pod_of_higher_priority_displaces_a_nomination() {
    let mut run = preempting_harness();
    run.set_pod(pod("top", 4, json!({"priority": 100})));
    let lines = run.run_until_idle();
    assert!(lines[0].contains("top Unschedulable"), "{lines:?}");
    assert!(lines[0].ends_with("nominated n victims x"), "{lines:?}");
    assert_eq!(lines[1], "p displaced");
    assert!(
        lines[2].ends_with("preemption: 0/1 nodes are available: 1 Insufficient cpu."),
        "{lines:?}"
    );
    run.delete_pod("x");
    run.advance_clock(Duration::from_secs(20));
    assert_eq!(run.attempted_pods(), ["top+", "p"]);
}

/// The nomination of a pod moves from `a` to `b`: the watch first reports no nomination, then `b`. In between, the pod
/// must not preempt on a third node.
#[test]
fn a_stale_watch_event_does_not_remove_a_nomination() {
    let mut run = SchedulerHarness::new();
    run.set_node("a", 4);
    run.set_pod(pod("weak", 4, json!({"nodeName": "a", "priority": 1})));
    let pod_nominated = |node: Option<&str>| {
        let mut pod = pod("p", 4, json!({"priority": 10}));
        pod.nominated_node_name = node.map(Box::from);
        pod
    };
    run.set_pod(pod_nominated(None));
    let lines = run.run_until_idle();
    assert!(lines[0].ends_with("nominated a victims weak"), "{lines:?}");
    run.set_pod(pod_nominated(Some("a")));
    run.set_node("b", 4);
    run.set_pod(pod("other", 4, json!({"nodeName": "b", "priority": 2})));
    run.run_until_idle();
    run.set_pod(pod("top", 4, json!({"priority": 100})));
    run.advance_clock(Duration::from_secs(20));
    let lines = run.run_until_idle();
    assert!(lines[0].ends_with("nominated a victims weak"), "{lines:?}");
    assert_eq!(lines[1], "p displaced");
    assert!(lines[2].ends_with("nominated b victims other"), "{lines:?}");
    run.set_node("c", 4);
    run.set_pod(pod("third", 4, json!({"nodeName": "c", "priority": 3})));
    run.run_until_idle();
    for late in [None, Some("b")] {
        run.set_pod(pod_nominated(late));
        run.advance_clock(Duration::from_secs(20));
        assert_eq!(run.run_until_idle(), [""; 0], "{late:?}");
        // The nomination and its victims are kept.
        let pod = run.engine.cluster().pods().find("default/p").unwrap();
        let nomination = run.engine.nominator().get(pod).unwrap();
        assert_eq!((&*nomination.node, nomination.victims.len()), ("b", 1));
    }
    // A nomination that another client wrote is adopted.
    run.set_pod(pod_nominated(Some("c")));
    assert_eq!(run.engine.nominator().pods_on("c").len(), 1);
    run.set_pod(pod_nominated(None));
    assert!(run.engine.nominator().pods_on("c").is_empty());
}

#[test]
fn a_nomination_is_cleared_when_the_binding_fails() {
    for does_server_know in [true, false] {
        let mut run = preempting_harness();
        if does_server_know {
            run.set_pod(nominated_pod("p", 3, 10, "n"));
        }
        run.delete_pod("x");
        run.advance_clock(Duration::from_secs(20));
        assert_eq!(run.run_until_idle(), ["p → n"]);
        let uid = Box::from("default/p");
        run.apply(SchedulerEvent::BindingConflict { uid });
        assert_eq!(run.run_until_idle(), ["p displaced"], "{does_server_know}");
        // The pod is in a shared equivalence class again: one pod is retried for both.
        run.set_pod(pod("y", 4, json!({"nodeName": "n", "priority": 50})));
        run.set_pod(pod("p", 3, json!({"priority": 10})));
        let mut like = pod("like", 3, json!({"priority": 10}));
        like.labels = [("app", "p")].into_iter().collect();
        run.set_pod(like);
        run.advance_clock(Duration::from_secs(20));
        assert_eq!(run.attempted_pods(), ["p", "like"]);
        run.set_node("m", 3);
        run.set_pod(pod("z", 3, json!({"nodeName": "m", "priority": 50})));
        run.advance_clock(Duration::from_secs(20));
        assert_eq!(run.attempted_pods(), ["p"]);
    }
}

#[test]
fn a_rejected_binding_is_reported() {
    let refused = || SchedulerEvent::BindingRejected {
        uid: "default/p".into(),
        problem: "webhook denied the request".to_owned(),
    };
    let mut run = preempting_harness();
    run.delete_pod("x");
    for _ in 0..2 {
        run.advance_clock(Duration::from_secs(20));
        assert_eq!(run.run_until_idle(), ["p → n"]);
        run.apply(refused());
        let expected = "p SchedulerError: webhook denied the request nominated nowhere";
        assert_eq!(run.run_until_idle(), [expected]);
    }
    // Nothing is reported for a terminating pod.
    let mut ending = pod("p", 3, json!({"priority": 10}));
    ending.is_terminating = true;
    run.advance_clock(Duration::from_secs(20));
    assert_eq!(run.run_until_idle(), ["p → n"]);
    run.set_pod(ending);
    run.apply(refused());
    assert_eq!(run.run_until_idle(), [""; 0]);
}

#[test]
fn preemption_is_retried_when_victims_do_not_terminate_in_time() {
    let mut run = preempting_harness();
    let began = run.now;
    let minute = Duration::from_secs(60);
    for minutes in 1..4 {
        assert_eq!(run.engine.next_deadline(), Some(began + minutes * minute));
        run.advance_clock(minute - Duration::from_millis(1));
        assert_eq!(run.run_until_idle(), [""; 0]);
        run.advance_clock(Duration::from_millis(1));
        let lines = run.run_until_idle();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].ends_with("nominated n victims x"), "{lines:?}");
    }
    // A pod that was scheduled is not retried.
    run.delete_pod("x");
    run.advance_clock(Duration::from_secs(20));
    assert_eq!(run.run_until_idle(), ["p → n"]);
    run.advance_clock(10 * minute);
    assert_eq!(run.run_until_idle(), [""; 0]);
}

#[test]
fn terminating_victims_are_waited_for() {
    let mut run = preempting_harness();
    let mut leaving = pod("x", 4, json!({"nodeName": "n", "priority": 1}));
    leaving.is_terminating = true;
    leaving.is_preempted = true;
    run.set_pod(leaving);
    for _ in 0..3 {
        run.advance_clock(Duration::from_secs(90));
        for line in run.run_until_idle() {
            assert!(line.contains("a terminating pod"), "{line}");
        }
    }
    run.delete_pod("x");
    assert_eq!(run.run_until_idle(), ["p → n"]);
}

#[test]
fn a_nomination_is_cleared_when_preemption_can_no_longer_help() {
    let mut run = preempting_harness();
    let strong = pod("x", 4, json!({"nodeName": "n", "priority": 50}));
    run.set_pod(strong);
    run.advance_clock(Duration::from_secs(400));
    let lines = run.run_until_idle();
    assert!(lines[0].ends_with("nominated nowhere"), "{lines:?}");
}
