//! Who makes room for whom.

use std::time::Duration;

use serde_json::{Value, json};

use super::run::{Run, labelled, pod};
use crate::model::Pod;
use crate::preemption::Ranks;

/// A pod that is on a node: its name, node, processors, priority, when it began, and its label `app`.
fn there(name: &str, node: &str, cpu: u32, priority: i32, started: &str, app: &str) -> Pod {
    let spec = json!({"nodeName": node, "priority": priority});
    let mut pod = labelled(name, json!({"app": app}), cpu, spec);
    pod.started = started.parse().ok();
    pod
}

const OLD: &str = "2026-01-01T00:00:00Z";
const NEW: &str = "2026-02-01T00:00:00Z";

/// A name for what is checked, the pods that are there, the budgets by `app` with what they allow, and what comes of
/// a pod of priority 100 that wants all 4 processors of a node.
type Case<'a> = (
    &'a str,
    &'a [(&'a str, &'a str, u32, i32, &'a str)],
    &'a [(&'a str, i32)],
    &'a str,
);

#[test]
fn the_node_is_chosen_where_it_hurts_least() {
    let cases: &[Case<'_>] = &[
        (
            "only who is in the way goes",
            &[
                ("a1", "a", 3, 1, OLD),
                ("b1", "b", 1, 200, OLD),
                ("b2", "b", 1, 1, OLD),
            ],
            &[],
            "nominated a victims a1",
        ),
        (
            "fewer budgets are overdrawn",
            &[("a1", "a", 4, 1, OLD), ("b1", "b", 4, 50, OLD)],
            &[("a1", 0)],
            "nominated b victims b1",
        ),
        (
            "a budget that allows it does not matter",
            &[("a1", "a", 4, 1, OLD), ("b1", "b", 4, 50, OLD)],
            &[("a1", 1)],
            "nominated a victims a1",
        ),
        (
            "a budget is overdrawn where there is no other way",
            &[("a1", "a", 4, 1, OLD), ("b1", "b", 4, 100, OLD)],
            &[("a1", 0)],
            "nominated a victims a1",
        ),
        (
            "the highest priority of those who go is the lowest",
            &[
                ("a1", "a", 4, 7, OLD),
                ("b1", "b", 2, 6, OLD),
                ("b2", "b", 2, 6, OLD),
            ],
            &[],
            "nominated b victims b1,b2",
        ),
        (
            "the sum of priorities is the smallest",
            &[
                ("a1", "a", 2, 7, OLD),
                ("a2", "a", 2, 6, OLD),
                ("b1", "b", 2, 7, OLD),
                ("b2", "b", 2, 5, OLD),
            ],
            &[],
            "nominated b victims b1,b2",
        ),
        (
            "one with a negative priority is better than two",
            &[
                ("a1", "a", 2, -5, OLD),
                ("a2", "a", 2, -5, OLD),
                ("b1", "b", 4, -5, OLD),
            ],
            &[],
            "nominated b victims b1",
        ),
        (
            "the most important began latest",
            &[("a1", "a", 4, 7, OLD), ("b1", "b", 4, 7, NEW)],
            &[],
            "nominated b victims b1",
        ),
        (
            "who has not begun is the latest",
            &[("a1", "a", 4, 7, NEW), ("b1", "b", 4, 7, "")],
            &[],
            "nominated b victims b1",
        ),
    ];
    for (what, pods, budgets, expected) in cases {
        let mut run = Run::new();
        run.node("a", 4);
        run.node("b", 4);
        for (app, allowed) in *budgets {
            run.budget(app, app, *allowed);
        }
        for (name, node, cpu, priority, started) in *pods {
            run.pod(there(name, node, *cpu, *priority, started, name));
        }
        run.pod(pod("p", 4, json!({"priority": 100})));
        let lines = run.go();
        assert_eq!(lines.len(), 1, "{what}: {lines:?}");
        assert!(lines[0].ends_with(expected), "{what}: {lines:?}");
    }
}

#[test]
fn as_many_stay_as_can_and_budgets_first() {
    // One node of 4 processors with these: name, processors, priority, began, app. The pod wants 2.
    for (what, pods, budgets, victims) in [
        (
            "the least important goes",
            [("x", 2, 5, OLD, "x"), ("y", 2, 4, OLD, "y")],
            &[][..],
            "y",
        ),
        (
            "the younger goes",
            [("x", 2, 5, OLD, "x"), ("y", 2, 5, NEW, "y")],
            &[],
            "y",
        ),
        (
            "who would overdraw a budget stays, though the other is more important",
            [("x", 2, 5, OLD, "x"), ("y", 2, 4, OLD, "y")],
            &[("y", 0)],
            "x",
        ),
        (
            "of two in one budget that allows one, the second would overdraw it",
            [("x", 2, 5, OLD, "z"), ("y", 2, 4, OLD, "z")],
            &[("z", 1)],
            "x",
        ),
    ] {
        let mut run = Run::new();
        run.node("n", 4);
        for (app, allowed) in budgets {
            run.budget(app, app, *allowed);
        }
        for (name, cpu, priority, started, app) in pods {
            run.pod(there(name, "n", cpu, priority, started, app));
        }
        run.pod(pod("p", 2, json!({"priority": 10})));
        let lines = run.go();
        assert!(
            lines[0].ends_with(&format!("nominated n victims {victims}")),
            "{what}: {lines:?}"
        );
    }
}

#[test]
fn it_is_said_why_preemption_does_not_help() {
    let cases: [(&str, Value, &str); 4] = [
        (
            "those who are there are as important",
            json!({"priority": 5}),
            "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: \
             2 No preemption victims found for incoming pod.",
        ),
        (
            "it must not",
            json!({"priority": 10, "preemptionPolicy": "Never"}),
            "0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
        ),
        (
            "nodes that cannot be, whoever leaves",
            json!({"priority": 10, "nodeSelector": {"no": "where"}}),
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. \
             preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
        (
            "one is left to choose, and it does not help there",
            json!({"priority": 5, "nodeSelector": {"name": "a"}}),
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector. \
             preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, \
             1 Preemption is not helpful for scheduling.",
        ),
    ];
    for (what, spec, message) in cases {
        let mut run = Run::new();
        for name in ["a", "b"] {
            run.node_with(name, 4, json!({"labels": {"name": name}}));
            run.pod(there(&format!("on-{name}"), name, 4, 5, OLD, "x"));
        }
        run.pod(pod("p", 4, spec));
        assert_eq!(run.go(), [format!("p Unschedulable: {message}")], "{what}");
    }
}

#[test]
fn without_preemption_nobody_speaks_of_it() {
    let mut run = Run::with(|settings| settings.profiles[0].preemption = None);
    run.node("n", 4);
    run.pod(there("x", "n", 4, 1, OLD, "x"));
    run.pod(pod("p", 4, json!({"priority": 10})));
    assert_eq!(
        run.go(),
        ["p Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."]
    );
}

#[test]
fn what_stands_against_a_pod_beside_room_can_go_too() {
    let repels = |app: &str| {
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "host"}
        ]}})
    };
    let mut run = Run::new();
    run.node_with("n", 4, json!({"labels": {"host": "n"}}));
    let spec = json!({"nodeName": "n", "priority": 1, "affinity": repels("p")});
    run.pod(labelled("x", json!({"app": "x"}), 1, spec));
    run.pod(there("y", "n", 1, 1, OLD, "y"));
    run.pod(there("z", "n", 1, 1, OLD, "z"));
    run.pod(pod(
        "p",
        1,
        json!({"priority": 10, "affinity": repels("y")}),
    ));
    let lines = run.go();
    assert_eq!(
        lines,
        [
            "p Unschedulable: 0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules. \
          nominated n victims y,x"
        ]
    );
}

#[test]
fn a_pod_waits_for_those_who_leave_and_takes_their_place() {
    let mut run = Run::new();
    run.node("n", 4);
    run.pod(there("x", "n", 2, 1, OLD, "x"));
    run.pod(there("y", "n", 2, 1, OLD, "y"));
    run.pod(pod("p", 4, json!({"priority": 10})));
    assert_eq!(run.go().len(), 1);
    // They were told, and the server has not said so yet: nobody else is told meanwhile.
    run.after(Duration::from_secs(10));
    run.node("small", 1);
    run.pod(there("z", "small", 1, 1, OLD, "z"));
    run.node("small", 2);
    assert!(run.go().is_empty(), "too small to help");
    let mut leaving = there("x", "n", 2, 1, OLD, "x");
    leaving.is_terminating = true;
    leaving.is_preempted = true;
    run.pod(leaving);
    run.gone("y");
    assert_eq!(
        run.go(),
        [
            "p Unschedulable: 0/2 nodes are available: 2 Insufficient cpu. \
             preemption: not eligible due to a terminating pod on the nominated node."
        ]
    );
    run.gone("x");
    assert_eq!(run.go(), ["p → n"]);
}

#[test]
fn victims_that_cannot_be_evicted_are_chosen_again() {
    let mut run = Run::new();
    run.node("n", 4);
    run.pod(there("x", "n", 4, 1, OLD, "x"));
    run.pod(pod("p", 4, json!({"priority": 10})));
    assert_eq!(run.tried(), ["p"]);
    let uid = "default/p".into();
    run.apply(crate::engine::Change::NotEvicted { uid });
    assert!(run.go().is_empty());
    run.after(Duration::from_secs(1));
    let lines = run.go();
    assert!(lines[0].ends_with("nominated n victims x"), "{lines:?}");
}

#[test]
fn all_who_are_alike_preempt_each_for_itself() {
    let mut run = Run::new();
    for index in 0..3 {
        let node = format!("n{index}");
        run.node(&node, 4);
        run.pod(there(&format!("x{index}"), &node, 4, 1, OLD, "x"));
    }
    for index in 0..4 {
        run.pod(labelled(
            &format!("p{index}"),
            json!({"app": "p"}),
            4,
            json!({"priority": 9}),
        ));
    }
    let lines = run.go();
    let preempting: Vec<&str> = lines
        .iter()
        .filter(|line| line.contains("victims"))
        .filter_map(|line| line.split(" nominated ").last())
        .collect();
    assert_eq!(preempting.len(), 3, "{lines:?}");
    assert!(
        lines[3].contains("preemption: 0/3 nodes are available: 3 Insufficient cpu."),
        "{lines:?}"
    );
    for index in 0..3 {
        run.gone(&format!("x{index}"));
    }
    run.after(Duration::from_secs(20));
    let mut tried = run.tried();
    tried.sort();
    assert_eq!(tried, ["p0+", "p1+", "p2+", "p3"]);
}

/// With priorities counted wrongly on purpose, it shows who was looked at: those on nodes where somebody is less important
/// by that count.
#[test]
fn nodes_where_nobody_is_less_important_are_not_searched() {
    for (counted_on, expected) in [
        (None, "2 No preemption victims found for incoming pod."),
        (Some("a"), "nominated a victims x"),
        (Some("b"), "nominated b victims y"),
    ] {
        let mut run = Run::new();
        for (node, name) in [("a", "x"), ("b", "y")] {
            run.node(node, 4);
            run.pod(pod(name, 4, json!({"nodeName": node, "priority": 1})));
        }
        run.engine.ranks = Ranks::default();
        if let Some(name) = counted_on {
            let node = run.engine.cluster().nodes().find(name).unwrap();
            run.engine.ranks.put(node, 1);
        }
        run.pod(pod("p", 4, json!({"priority": 10})));
        let lines = run.go();
        assert!(lines[0].ends_with(expected), "{counted_on:?}: {lines:?}");
    }
}
