//! Preemption: selection of node and victims, messages, nominations.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{SchedulerHarness, labelled_pod, pod};
use crate::model::Pod;
use crate::preemption::PodPriorityCounts;

/// A pod that is assigned to a node, with CPU request, priority, start time and label `app`.
fn running_pod(name: &str, node: &str, cpu: u32, priority: i32, started: &str, app: &str) -> Pod {
    let spec = json!({"nodeName": node, "priority": priority});
    let mut pod = labelled_pod(name, json!({"app": app}), cpu, spec);
    pod.started = started.parse().ok();
    pod
}

const OLD: &str = "2026-01-01T00:00:00Z";
const NEW: &str = "2026-02-01T00:00:00Z";

/// Name of the case, running pods (name, node, CPUs, priority, start), budgets (`app`, allowed disruptions), and the
/// expected end of the outcome for a pod of priority 100 that requests all 4 CPUs of a node.
type VictimSelectionCase<'a> = (
    &'a str,
    &'a [(&'a str, &'a str, u32, i32, &'a str)],
    &'a [(&'a str, i32)],
    &'a str,
);

#[test]
fn the_candidate_with_the_lowest_victim_cost_is_selected() {
    let cases: &[VictimSelectionCase<'_>] = &[
        (
            "only pods that prevent scheduling are victims",
            &[
                ("a1", "a", 3, 1, OLD),
                ("b1", "b", 1, 200, OLD),
                ("b2", "b", 1, 1, OLD),
            ],
            &[],
            "nominated a victims a1",
        ),
        (
            "fewer budget violations",
            &[("a1", "a", 4, 1, OLD), ("b1", "b", 4, 50, OLD)],
            &[("a1", 0)],
            "nominated b victims b1",
        ),
        (
            "a budget that allows the eviction does not count",
            &[("a1", "a", 4, 1, OLD), ("b1", "b", 4, 50, OLD)],
            &[("a1", 1)],
            "nominated a victims a1",
        ),
        (
            "a budget is violated if there is no alternative",
            &[("a1", "a", 4, 1, OLD), ("b1", "b", 4, 100, OLD)],
            &[("a1", 0)],
            "nominated a victims a1",
        ),
        (
            "lowest maximum priority of the victims",
            &[
                ("a1", "a", 4, 7, OLD),
                ("b1", "b", 2, 6, OLD),
                ("b2", "b", 2, 6, OLD),
            ],
            &[],
            "nominated b victims b1,b2",
        ),
        (
            "smallest sum of priorities",
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
            "one victim of negative priority is better than two",
            &[
                ("a1", "a", 2, -5, OLD),
                ("a2", "a", 2, -5, OLD),
                ("b1", "b", 4, -5, OLD),
            ],
            &[],
            "nominated b victims b1",
        ),
        (
            "latest start of the most important victim",
            &[("a1", "a", 4, 7, OLD), ("b1", "b", 4, 7, NEW)],
            &[],
            "nominated b victims b1",
        ),
        (
            "a pod that has not started counts as the latest",
            &[("a1", "a", 4, 7, NEW), ("b1", "b", 4, 7, "")],
            &[],
            "nominated b victims b1",
        ),
    ];
    for (what, pods, budgets, expected) in cases {
        let mut run = SchedulerHarness::new();
        run.set_node("a", 4);
        run.set_node("b", 4);
        for (app, allowed) in *budgets {
            run.set_budget(app, app, *allowed);
        }
        for (name, node, cpu, priority, started) in *pods {
            run.set_pod(running_pod(name, node, *cpu, *priority, started, name));
        }
        run.set_pod(pod("p", 4, json!({"priority": 100})));
        let lines = run.run_until_idle();
        assert_eq!(lines.len(), 1, "{what}: {lines:?}");
        assert!(lines[0].ends_with(expected), "{what}: {lines:?}");
    }
}

#[test]
fn victims_are_minimal_and_budgets_are_respected_first() {
    // One node with 4 CPUs and these pods: name, CPUs, priority, start, app. The pod requests 2.
    for (what, pods, budgets, victims) in [
        (
            "the pod of lowest priority is the victim",
            [("x", 2, 5, OLD, "x"), ("y", 2, 4, OLD, "y")],
            &[][..],
            "y",
        ),
        (
            "the pod that started later is the victim",
            [("x", 2, 5, OLD, "x"), ("y", 2, 5, NEW, "y")],
            &[],
            "y",
        ),
        (
            "a pod whose eviction violates a budget stays, although the other has a higher priority",
            [("x", 2, 5, OLD, "x"), ("y", 2, 4, OLD, "y")],
            &[("y", 0)],
            "x",
        ),
        (
            "of two pods in a budget that allows one disruption, the second would violate it",
            [("x", 2, 5, OLD, "z"), ("y", 2, 4, OLD, "z")],
            &[("z", 1)],
            "x",
        ),
    ] {
        let mut run = SchedulerHarness::new();
        run.set_node("n", 4);
        for (app, allowed) in budgets {
            run.set_budget(app, app, *allowed);
        }
        for (name, cpu, priority, started, app) in pods {
            run.set_pod(running_pod(name, "n", cpu, priority, started, app));
        }
        run.set_pod(pod("p", 2, json!({"priority": 10})));
        let lines = run.run_until_idle();
        assert!(
            lines[0].ends_with(&format!("nominated n victims {victims}")),
            "{what}: {lines:?}"
        );
    }
}

#[test]
fn the_message_says_why_preemption_does_not_help() {
    let cases: [(&str, Value, &str); 4] = [
        (
            "running pods have the same priority",
            json!({"priority": 5}),
            "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: \
             2 No preemption victims found for incoming pod.",
        ),
        (
            "preemptionPolicy is Never",
            json!({"priority": 10, "preemptionPolicy": "Never"}),
            "0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
        ),
        (
            "rejections that evictions cannot resolve",
            json!({"priority": 10, "nodeSelector": {"no": "where"}}),
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. \
             preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
        (
            "one resolvable node without victims",
            json!({"priority": 5, "nodeSelector": {"name": "a"}}),
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector. \
             preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, \
             1 Preemption is not helpful for scheduling.",
        ),
    ];
    for (what, spec, message) in cases {
        let mut run = SchedulerHarness::new();
        for name in ["a", "b"] {
            run.set_node_with(name, 4, json!({"labels": {"name": name}}));
            run.set_pod(running_pod(&format!("on-{name}"), name, 4, 5, OLD, "x"));
        }
        run.set_pod(pod("p", 4, spec));
        assert_eq!(
            run.run_until_idle(),
            [format!("p Unschedulable: {message}")],
            "{what}"
        );
    }
}

#[test]
fn without_preemption_the_message_does_not_mention_it() {
    let mut run =
        SchedulerHarness::with_settings(|settings| settings.profiles[0].preemption = None);
    run.set_node("n", 4);
    run.set_pod(running_pod("x", "n", 4, 1, OLD, "x"));
    run.set_pod(pod("p", 4, json!({"priority": 10})));
    assert_eq!(
        run.run_until_idle(),
        ["p Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."]
    );
}

#[test]
fn pods_that_conflict_by_anti_affinity_can_be_victims() {
    let repels = |app: &str| {
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "host"}
        ]}})
    };
    let mut run = SchedulerHarness::new();
    run.set_node_with("n", 4, json!({"labels": {"host": "n"}}));
    let spec = json!({"nodeName": "n", "priority": 1, "affinity": repels("p")});
    run.set_pod(labelled_pod("x", json!({"app": "x"}), 1, spec));
    run.set_pod(running_pod("y", "n", 1, 1, OLD, "y"));
    run.set_pod(running_pod("z", "n", 1, 1, OLD, "z"));
    run.set_pod(pod(
        "p",
        1,
        json!({"priority": 10, "affinity": repels("y")}),
    ));
    let lines = run.run_until_idle();
    assert_eq!(
        lines,
        [
            "p Unschedulable: 0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules. \
          nominated n victims y,x"
        ]
    );
}

#[test]
fn a_preemptor_waits_for_its_victims_and_uses_their_resources() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 4);
    run.set_pod(running_pod("x", "n", 2, 1, OLD, "x"));
    run.set_pod(running_pod("y", "n", 2, 1, OLD, "y"));
    run.set_pod(pod("p", 4, json!({"priority": 10})));
    assert_eq!(run.run_until_idle().len(), 1);
    // The evictions are not confirmed by the server yet: no other pods are preempted meanwhile.
    run.advance_clock(Duration::from_secs(10));
    run.set_node("small", 1);
    run.set_pod(running_pod("z", "small", 1, 1, OLD, "z"));
    run.set_node("small", 2);
    assert!(run.run_until_idle().is_empty(), "the node is too small");
    let mut terminating = running_pod("x", "n", 2, 1, OLD, "x");
    terminating.is_terminating = true;
    terminating.is_preempted = true;
    run.set_pod(terminating);
    run.delete_pod("y");
    assert_eq!(
        run.run_until_idle(),
        [
            "p Unschedulable: 0/2 nodes are available: 2 Insufficient cpu. \
             preemption: not eligible due to a terminating pod on the nominated node."
        ]
    );
    run.delete_pod("x");
    assert_eq!(run.run_until_idle(), ["p → n"]);
}

#[test]
fn victims_are_selected_again_after_a_failed_eviction() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 4);
    run.set_pod(running_pod("x", "n", 4, 1, OLD, "x"));
    run.set_pod(pod("p", 4, json!({"priority": 10})));
    assert_eq!(run.attempted_pods(), ["p"]);
    let uid = "default/p".into();
    run.apply(crate::engine::SchedulerEvent::PreemptionFailed { uid });
    assert!(run.run_until_idle().is_empty());
    run.advance_clock(Duration::from_secs(1));
    let lines = run.run_until_idle();
    assert!(lines[0].ends_with("nominated n victims x"), "{lines:?}");
}

#[test]
fn equivalent_pods_preempt_separately() {
    let mut run = SchedulerHarness::new();
    for index in 0..3 {
        let node = format!("n{index}");
        run.set_node(&node, 4);
        run.set_pod(running_pod(&format!("x{index}"), &node, 4, 1, OLD, "x"));
    }
    for index in 0..4 {
        run.set_pod(labelled_pod(
            &format!("p{index}"),
            json!({"app": "p"}),
            4,
            json!({"priority": 9}),
        ));
    }
    let lines = run.run_until_idle();
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
        run.delete_pod(&format!("x{index}"));
    }
    run.advance_clock(Duration::from_secs(20));
    let mut tried = run.attempted_pods();
    tried.sort();
    assert_eq!(tried, ["p0+", "p1+", "p2+", "p3"]);
}

/// Sets wrong priority counts on purpose: only nodes where the counts show a lower priority are evaluated.
#[test]
fn nodes_without_pods_of_lower_priority_are_not_searched() {
    for (counted_on, expected) in [
        (None, "2 No preemption victims found for incoming pod."),
        (Some("a"), "nominated a victims x"),
        (Some("b"), "nominated b victims y"),
    ] {
        let mut run = SchedulerHarness::new();
        for (node, name) in [("a", "x"), ("b", "y")] {
            run.set_node(node, 4);
            run.set_pod(pod(name, 4, json!({"nodeName": node, "priority": 1})));
        }
        run.engine.priority_counts = PodPriorityCounts::default();
        if let Some(name) = counted_on {
            let node = run.engine.cluster().nodes().find(name).unwrap();
            run.engine.priority_counts.add_pod(node, 1);
        }
        run.set_pod(pod("p", 4, json!({"priority": 10})));
        let lines = run.run_until_idle();
        assert!(lines[0].ends_with(expected), "{counted_on:?}: {lines:?}");
    }
}
