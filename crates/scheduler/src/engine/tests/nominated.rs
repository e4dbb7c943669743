//! Places that are kept for pods.

use std::time::Duration;

use serde_json::json;

use super::run::{Run, pod};
use crate::engine::Change;
use crate::model::Pod;

fn nominated(name: &str, cpu: u32, priority: i32, node: &str) -> Pod {
    let mut pod = pod(name, cpu, json!({"priority": priority}));
    pod.nominated_node_name = Some(node.into());
    pod
}

/// A node of 4 processors that one pod fills, and a pod of priority 10 that has it leave.
fn preempting() -> Run {
    let mut run = Run::new();
    run.node("n", 4);
    run.pod(pod("x", 4, json!({"nodeName": "n", "priority": 1})));
    run.pod(pod("p", 3, json!({"priority": 10})));
    let lines = run.go();
    assert!(lines[0].ends_with("nominated n victims x"), "{lines:?}");
    run
}

#[test]
fn others_that_are_not_more_important_stand_back() {
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
        let mut run = Run::new();
        run.node("n", 4);
        // It is not tried yet: it waits for its gate, and its place is kept.
        let mut waiting = nominated("p", 3, 10, "n");
        waiting.scheduling_gates = Box::new(["g".into()]);
        run.pod(waiting);
        run.go();
        run.pod(pod("q", cpu, json!({"priority": priority})));
        let lines = run.go();
        assert!(
            lines[0].starts_with(expected),
            "{priority} {cpu}: {lines:?}"
        );
    }
}

#[test]
fn what_the_server_says_after_a_restart_counts() {
    let mut run = Run::new();
    run.node("n", 4);
    run.node("m", 4);
    run.pod(nominated("p", 3, 10, "n"));
    assert_eq!(run.go(), ["p → n"]);
}

#[test]
fn a_place_that_cannot_be_is_not_waited_for() {
    let mut run = Run::new();
    run.node("m", 4);
    run.pod(nominated("p", 3, 10, "gone"));
    assert_eq!(run.go(), ["p → m"]);
}

#[test]
fn a_place_is_free_when_the_pod_is_gone_or_went_elsewhere() {
    for what in ["deleted", "elsewhere", "terminating", "taken back"] {
        let mut run = preempting();
        run.node("m", 1);
        // A gate keeps it from being tried.
        let mut waiting = pod("p", 3, json!({"priority": 10}));
        waiting.scheduling_gates = Box::new(["g".into()]);
        run.pod(waiting.clone());
        run.gone("x");
        run.go();
        run.pod(pod("q", 2, json!({})));
        assert_eq!(run.tried(), ["q"], "{what}");
        match what {
            "deleted" => run.gone("p"),
            "elsewhere" => run.pod(pod("p", 3, json!({"priority": 10, "nodeName": "m"}))),
            "terminating" => {
                waiting.is_terminating = true;
                run.pod(waiting);
            }
            _ => {
                waiting.nominated_node_name = Some("n".into());
                run.pod(waiting.clone());
                waiting.nominated_node_name = None;
                run.pod(waiting);
            }
        }
        assert_eq!(run.go(), ["q → n"], "{what}");
    }
}

#[test]
fn a_more_important_pod_takes_the_place() {
    let mut run = preempting();
    run.pod(pod("top", 4, json!({"priority": 100})));
    let lines = run.go();
    assert!(lines[0].contains("top Unschedulable"), "{lines:?}");
    assert!(lines[0].ends_with("nominated n victims x"), "{lines:?}");
    assert_eq!(lines[1], "p displaced");
    assert!(
        lines[2].ends_with("preemption: 0/1 nodes are available: 1 Insufficient cpu."),
        "{lines:?}"
    );
    run.gone("x");
    run.after(Duration::from_secs(20));
    assert_eq!(run.tried(), ["top+", "p"]);
}

/// Of a pod that was sent from `a` to `b` at once, the server first says that it has no place, and then that it has one
/// on `b`. In between nobody else has to leave for it.
#[test]
fn what_the_server_says_late_takes_no_place_back() {
    let mut run = Run::new();
    run.node("a", 4);
    run.pod(pod("weak", 4, json!({"nodeName": "a", "priority": 1})));
    let says = |node: Option<&str>| {
        let mut pod = pod("p", 4, json!({"priority": 10}));
        pod.nominated_node_name = node.map(Box::from);
        pod
    };
    run.pod(says(None));
    let lines = run.go();
    assert!(lines[0].ends_with("nominated a victims weak"), "{lines:?}");
    run.pod(says(Some("a")));
    run.node("b", 4);
    run.pod(pod("other", 4, json!({"nodeName": "b", "priority": 2})));
    run.go();
    run.pod(pod("top", 4, json!({"priority": 100})));
    run.after(Duration::from_secs(20));
    let lines = run.go();
    assert!(lines[0].ends_with("nominated a victims weak"), "{lines:?}");
    assert_eq!(lines[1], "p displaced");
    assert!(lines[2].ends_with("nominated b victims other"), "{lines:?}");
    run.node("c", 4);
    run.pod(pod("third", 4, json!({"nodeName": "c", "priority": 3})));
    run.go();
    for late in [None, Some("b")] {
        run.pod(says(late));
        run.after(Duration::from_secs(20));
        assert_eq!(run.go(), [""; 0], "{late:?}");
        // It still knows who was told to leave, and where.
        let pod = run.engine.cluster().pods().find("default/p").unwrap();
        let nomination = run.engine.nominations().get(pod).unwrap();
        assert_eq!((&*nomination.node, nomination.victims.len()), ("b", 1));
    }
    // What somebody else says counts.
    run.pod(says(Some("c")));
    assert_eq!(run.engine.nominations().on("c").len(), 1);
    run.pod(says(None));
    assert!(run.engine.nominations().on("c").is_empty());
}

#[test]
fn a_nomination_is_taken_back_when_the_binding_fails() {
    for does_server_know in [true, false] {
        let mut run = preempting();
        if does_server_know {
            run.pod(nominated("p", 3, 10, "n"));
        }
        run.gone("x");
        run.after(Duration::from_secs(20));
        assert_eq!(run.go(), ["p → n"]);
        let uid = Box::from("default/p");
        run.apply(Change::NotBound { uid });
        assert_eq!(run.go(), ["p displaced"], "{does_server_know}");
        // It is like others again: one tries for both.
        run.pod(pod("y", 4, json!({"nodeName": "n", "priority": 50})));
        run.pod(pod("p", 3, json!({"priority": 10})));
        let mut like = pod("like", 3, json!({"priority": 10}));
        like.labels = [("app", "p")].into_iter().collect();
        run.pod(like);
        run.after(Duration::from_secs(20));
        assert_eq!(run.tried(), ["p", "like"]);
        run.node("m", 3);
        run.pod(pod("z", 3, json!({"nodeName": "m", "priority": 50})));
        run.after(Duration::from_secs(20));
        assert_eq!(run.tried(), ["p"]);
    }
}

#[test]
fn who_is_refused_by_the_server_is_told_so() {
    let refused = || Change::BindingRefused {
        uid: "default/p".into(),
        problem: "a webhook minds".to_owned(),
    };
    let mut run = preempting();
    run.gone("x");
    for _ in 0..2 {
        run.after(Duration::from_secs(20));
        assert_eq!(run.go(), ["p → n"]);
        run.apply(refused());
        let said = "p SchedulerError: a webhook minds nominated nowhere";
        assert_eq!(run.go(), [said]);
    }
    // Not of one that is about to end.
    let mut ending = pod("p", 3, json!({"priority": 10}));
    ending.is_terminating = true;
    run.after(Duration::from_secs(20));
    assert_eq!(run.go(), ["p → n"]);
    run.pod(ending);
    run.apply(refused());
    assert_eq!(run.go(), [""; 0]);
}

#[test]
fn who_waits_in_vain_for_others_to_leave_asks_again() {
    let mut run = preempting();
    let began = run.now;
    let minute = Duration::from_secs(60);
    for minutes in 1..4 {
        assert_eq!(run.engine.wakes_at(), Some(began + minutes * minute));
        run.after(minute - Duration::from_millis(1));
        assert_eq!(run.go(), [""; 0]);
        run.after(Duration::from_millis(1));
        let lines = run.go();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].ends_with("nominated n victims x"), "{lines:?}");
    }
    // Who has what it waited for does not.
    run.gone("x");
    run.after(Duration::from_secs(20));
    assert_eq!(run.go(), ["p → n"]);
    run.after(10 * minute);
    assert_eq!(run.go(), [""; 0]);
}

#[test]
fn whoever_has_begun_to_leave_is_waited_for() {
    let mut run = preempting();
    let mut leaving = pod("x", 4, json!({"nodeName": "n", "priority": 1}));
    leaving.is_terminating = true;
    leaving.is_preempted = true;
    run.pod(leaving);
    for _ in 0..3 {
        run.after(Duration::from_secs(90));
        for line in run.go() {
            assert!(line.contains("a terminating pod"), "{line}");
        }
    }
    run.gone("x");
    assert_eq!(run.go(), ["p → n"]);
}

#[test]
fn a_place_that_nobody_can_make_any_more_is_given_up() {
    let mut run = preempting();
    let strong = pod("x", 4, json!({"nodeName": "n", "priority": 50}));
    run.pod(strong);
    run.after(Duration::from_secs(400));
    let lines = run.go();
    assert!(lines[0].ends_with("nominated nowhere"), "{lines:?}");
}
