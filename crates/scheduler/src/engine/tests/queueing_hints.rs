//! Which events requeue an unschedulable pod, and which do not.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{SchedulerHarness, labelled_pod, pod, pod_in};
use crate::engine::{Event, SchedulerEvent};

type HarnessStep = fn(&mut SchedulerHarness);

/// A pod `p` is unschedulable. Some events that are irrelevant to it happen, and then a relevant one.
struct WakeupCase {
    name: &'static str,
    setup: HarnessStep,
    irrelevant: &'static [HarnessStep],
    relevant: HarnessStep,
}

fn affinity(kind: &str, mut term: Value) -> Value {
    term["topologyKey"] = json!("zone");
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn required_affinity(term: Value) -> Value {
    affinity("podAffinity", term)
}

fn required_anti_affinity(term: Value) -> Value {
    affinity("podAntiAffinity", term)
}

fn app_selector(app: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": app}}})
}

/// Matches pods with the label in the namespaces of team `x`.
fn app_in_team_selector(app: &str) -> Value {
    json!({
        "labelSelector": {"matchLabels": {"app": app}},
        "namespaceSelector": {"matchLabels": {"team": "x"}},
    })
}

fn add_node_in_zone(run: &mut SchedulerHarness, node: &str, zone: &str) {
    run.set_node_with(node, 8, json!({"labels": {"zone": zone}}));
}

fn pod_on_n(name: &str, app: &str, cpu: u32) -> crate::model::Pod {
    labelled_pod(name, json!({"app": app}), cpu, json!({"nodeName": "n"}))
}

const WAKEUP_CASES: &[WakeupCase] = &[
    WakeupCase {
        name: "a pod is deleted",
        setup: |run| {
            run.set_node("n", 8);
            run.set_pod(pod_on_n("big", "x", 6));
            run.set_pod(pod_on_n("nothing", "x", 0));
            run.set_pod(pod("p", 4, json!({})));
        },
        irrelevant: &[
            |run| run.set_pod(pod("q", 1, json!({"nodeName": "n"}))),
            |run| run.delete_pod("nothing"),
            |run| run.set_namespace("default", &[("a", "b")]),
            |run| run.set_node("small", 2),
        ],
        relevant: |run| run.delete_pod("big"),
    },
    WakeupCase {
        name: "a pod is deleted from a node that is large enough",
        setup: |run| {
            run.set_node("n", 8);
            run.set_node("small", 2);
            run.set_pod(pod_on_n("big", "x", 6));
            let small = |name: &str| pod(name, 1, json!({"nodeName": "small"}));
            run.set_pod(small("leaves"));
            run.set_pod(small("shrinks"));
            run.set_pod(pod("p", 4, json!({})));
        },
        irrelevant: &[
            |run| run.delete_pod("leaves"),
            |run| run.set_pod(pod("shrinks", 0, json!({"nodeName": "small"}))),
        ],
        relevant: |run| run.delete_pod("big"),
    },
    WakeupCase {
        name: "a pod terminates",
        setup: |run| {
            run.set_node("n", 8);
            run.set_pod(pod_on_n("big", "x", 6));
            run.set_pod(pod("p", 4, json!({})));
        },
        irrelevant: &[],
        relevant: |run| {
            let mut ended = pod_on_n("big", "x", 6);
            ended.is_terminal = true;
            run.set_pod(ended);
        },
    },
    WakeupCase {
        name: "the requests of a running pod decrease",
        setup: |run| {
            run.set_node("n", 8);
            run.set_pod(pod_on_n("big", "x", 6));
            run.set_pod(pod("p", 4, json!({})));
        },
        irrelevant: &[|run| run.set_pod(pod_on_n("big", "y", 6))],
        relevant: |run| run.set_pod(pod_on_n("big", "y", 4)),
    },
    WakeupCase {
        name: "a node is added",
        setup: |run| {
            run.set_node("n", 2);
            run.set_pod(pod("p", 4, json!({})));
        },
        irrelevant: &[|run| run.set_node("small", 3)],
        relevant: |run| run.set_node("large", 4),
    },
    WakeupCase {
        name: "the allocatable resources of a node increase",
        setup: |run| {
            run.set_node("n", 2);
            run.set_pod(pod("p", 4, json!({})));
        },
        irrelevant: &[
            |run| run.set_node("n", 3),
            |run| {
                run.set_node_with("n", 3, json!({"labels": {"a": "b"}}));
            },
        ],
        relevant: |run| run.set_node("n", 4),
    },
    WakeupCase {
        name: "a taint is removed from a node",
        setup: |run| {
            let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
            run.set_node_with("n", 8, json!({"spec": {"taints": taint}}));
            run.set_pod(pod("p", 4, json!({})));
        },
        irrelevant: &[|run| {
            let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
            run.set_node_with("n", 16, json!({"spec": {"taints": taint}}));
        }],
        relevant: |run| run.set_node("n", 16),
    },
    WakeupCase {
        name: "a node is uncordoned",
        setup: |run| {
            run.set_node_with("n", 8, json!({"spec": {"unschedulable": true}}));
            run.set_pod(pod("p", 4, json!({})));
        },
        irrelevant: &[|run| run.set_node_with("n", 16, json!({"spec": {"unschedulable": true}}))],
        relevant: |run| run.set_node("n", 16),
    },
    WakeupCase {
        name: "a node gets the label that the node selector requires",
        setup: |run| {
            run.set_node("n", 8);
            run.set_pod(pod("p", 4, json!({"nodeSelector": {"disk": "fast"}})));
        },
        irrelevant: &[|run| {
            run.set_node_with("n", 8, json!({"labels": {"disk": "slow"}}));
        }],
        relevant: |run| run.set_node_with("n", 8, json!({"labels": {"disk": "fast"}})),
    },
    WakeupCase {
        name: "a pod that the affinity matches is added",
        setup: |run| {
            add_node_in_zone(run, "n", "z");
            run.set_pod(pod("p", 1, required_affinity(app_selector("x"))));
        },
        irrelevant: &[|run| run.set_pod(pod_on_n("y", "y", 1))],
        relevant: |run| run.set_pod(pod_on_n("x", "x", 1)),
    },
    WakeupCase {
        name: "a pod that the affinity matches is scheduled",
        setup: |run| {
            add_node_in_zone(run, "n", "z");
            run.set_pod(pod("p", 1, required_affinity(app_selector("x"))));
        },
        irrelevant: &[],
        relevant: |run| {
            run.set_pod(labelled_pod("x", json!({"app": "x"}), 1, json!({})));
            assert_eq!(run.engine.pending_pods().active, 1);
            assert!(matches!(
                run.engine.next_outcome(run.now),
                Some(crate::engine::SchedulingOutcome::Bind { .. })
            ));
        },
    },
    WakeupCase {
        name: "a running pod gets the label that the affinity matches",
        setup: |run| {
            add_node_in_zone(run, "n", "z");
            run.set_pod(pod_on_n("x", "y", 1));
            run.set_pod(pod("p", 1, required_affinity(app_selector("x"))));
        },
        irrelevant: &[|run| run.set_pod(pod_on_n("x", "z", 1))],
        relevant: |run| run.set_pod(pod_on_n("x", "x", 1)),
    },
    WakeupCase {
        name: "the namespace of a running pod gets the label that the affinity matches",
        setup: |run| {
            add_node_in_zone(run, "n", "z");
            run.set_namespace("default", &[]);
            run.set_namespace("other", &[]);
            let there = json!({"nodeName": "n"});
            run.set_pod(pod_in("other", "x", json!({"app": "x"}), 1, there));
            run.set_pod(pod("p", 1, required_affinity(app_in_team_selector("x"))));
        },
        irrelevant: &[
            |run| run.set_namespace("other", &[("color", "red")]),
            |run| run.set_namespace("other", &[("team", "y")]),
        ],
        relevant: |run| run.set_namespace("other", &[("team", "x")]),
    },
    WakeupCase {
        name: "the namespace of a running pod loses the label that the anti-affinity matches",
        setup: |run| {
            add_node_in_zone(run, "n", "z");
            run.set_namespace("other", &[("team", "x")]);
            let there = json!({"nodeName": "n"});
            run.set_pod(pod_in("other", "x", json!({"app": "x"}), 1, there));
            run.set_pod(pod(
                "p",
                1,
                required_anti_affinity(app_in_team_selector("x")),
            ));
        },
        irrelevant: &[|run| run.set_namespace("other", &[("team", "x"), ("color", "red")])],
        relevant: |run| run.set_namespace("other", &[]),
    },
    WakeupCase {
        name: "the pod's own namespace loses the label that the anti-affinity of a running pod matches",
        setup: |run| {
            add_node_in_zone(run, "n", "z");
            run.set_namespace("default", &[("team", "x")]);
            let mut there = required_anti_affinity(app_in_team_selector("p"));
            there["nodeName"] = json!("n");
            run.set_pod(pod_in("other", "x", json!({"app": "x"}), 1, there));
            run.set_pod(pod("p", 1, json!({})));
        },
        irrelevant: &[|run| run.set_namespace("default", &[("team", "x"), ("color", "red")])],
        relevant: |run| {
            run.apply(SchedulerEvent::Namespace(Event::Deleted("default".into())));
        },
    },
    WakeupCase {
        name: "a pod that the anti-affinity matches is deleted",
        setup: |run| {
            add_node_in_zone(run, "n", "z");
            run.set_pod(pod_on_n("x", "x", 1));
            run.set_pod(pod_on_n("y", "y", 1));
            run.set_pod(pod("p", 1, required_anti_affinity(app_selector("x"))));
        },
        irrelevant: &[|run| run.delete_pod("y")],
        relevant: |run| run.delete_pod("x"),
    },
    WakeupCase {
        name: "a running pod loses the label that the anti-affinity matches",
        setup: |run| {
            add_node_in_zone(run, "n", "z");
            run.set_pod(pod_on_n("x", "x", 1));
            run.set_pod(pod("p", 1, required_anti_affinity(app_selector("x"))));
        },
        irrelevant: &[],
        relevant: |run| run.set_pod(pod_on_n("x", "y", 1)),
    },
    WakeupCase {
        name: "a pod with anti-affinity to the pending pod is deleted",
        setup: |run| {
            add_node_in_zone(run, "n", "z");
            let mut there = required_anti_affinity(app_selector("p"));
            there["nodeName"] = json!("n");
            run.set_pod(labelled_pod("x", json!({"app": "x"}), 1, there));
            run.set_pod(pod("p", 1, json!({})));
        },
        irrelevant: &[],
        relevant: |run| run.delete_pod("x"),
    },
    WakeupCase {
        name: "a pod with affinity to its own labels becomes the first of its group",
        setup: |run| {
            add_node_in_zone(run, "n", "z");
            run.set_node_with("full", 1, json!({"labels": {"zone": "other"}}));
            let on = |node: &str| json!({"nodeName": node});
            run.set_pod(labelled_pod("x", json!({"app": "p"}), 1, on("full")));
            run.set_pod(pod("p", 1, required_affinity(app_selector("p"))));
        },
        irrelevant: &[|run| {
            run.set_pod(pod("q", 0, json!({"nodeName": "n"})));
            run.delete_pod("q");
        }],
        relevant: |run| run.delete_pod("x"),
    },
    WakeupCase {
        name: "a node moves into the zone of a pod that the affinity matches",
        setup: |run| {
            add_node_in_zone(run, "full", "z");
            run.set_node("n", 8);
            run.set_pod(labelled_pod(
                "x",
                json!({"app": "x"}),
                8,
                json!({"nodeName": "full"}),
            ));
            run.set_pod(pod("p", 4, required_affinity(app_selector("x"))));
        },
        irrelevant: &[],
        relevant: |run| add_node_in_zone(run, "n", "z"),
    },
    WakeupCase {
        name: "the node of a pod that the anti-affinity matches is deleted",
        setup: |run| {
            add_node_in_zone(run, "n", "z");
            add_node_in_zone(run, "m", "z");
            run.set_pod(pod_on_n("x", "x", 1));
            run.set_pod(pod("p", 1, required_anti_affinity(app_selector("x"))));
        },
        irrelevant: &[],
        relevant: |run| run.apply(SchedulerEvent::Node(Event::Deleted("n".into()))),
    },
    WakeupCase {
        name: "the requests of the pending pod decrease",
        setup: |run| {
            run.set_node("n", 2);
            run.set_pod(pod("p", 4, json!({})));
        },
        irrelevant: &[|run| run.set_pod(labelled_pod("p", json!({"app": "else"}), 4, json!({})))],
        relevant: |run| run.set_pod(pod("p", 1, json!({}))),
    },
    WakeupCase {
        name: "the pending pod gets a toleration",
        setup: |run| {
            let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
            run.set_node_with("n", 8, json!({"spec": {"taints": taint}}));
            run.set_pod(pod("p", 4, json!({})));
        },
        irrelevant: &[],
        relevant: |run| {
            let tolerations = json!([{"key": "k", "operator": "Exists"}]);
            run.set_pod(pod("p", 4, json!({"tolerations": tolerations})));
        },
    },
];

#[test]
fn a_pod_is_requeued_only_by_events_that_may_make_it_schedulable() {
    for case in WAKEUP_CASES {
        let mut run = SchedulerHarness::new();
        (case.setup)(&mut run);
        assert_eq!(run.attempted_pods(), ["p"], "{}", case.name);
        run.advance_clock(Duration::from_secs(10));
        for (index, step) in case.irrelevant.iter().enumerate() {
            step(&mut run);
            assert_eq!(
                run.run_until_idle(),
                [""; 0],
                "{}: irrelevant {index}",
                case.name
            );
        }
        (case.relevant)(&mut run);
        assert_eq!(run.attempted_pods(), ["p+"], "{}", case.name);
    }
}

#[test]
fn hints_are_not_called_for_irrelevant_events() {
    let taint = |value: &str| json!({"spec": {"taints": [{"key": "k", "value": value, "effect": "NoSchedule"}]}});
    let mut run = SchedulerHarness::new();
    run.set_node_with("tainted", 8, taint("v"));
    run.set_node_with("cordoned", 8, json!({"spec": {"unschedulable": true}}));
    run.set_node("n", 8);
    run.set_pod(pod_on_n("full", "x", 8));
    // All pods are in different equivalence classes.
    for index in 0..100 {
        let selector = json!({"nodeSelector": {"kubernetes.io/os": "linux"}});
        run.set_pod(pod(&format!("p{index}"), 4, selector));
        run.set_pod(pod(&format!("q{index}"), 4, json!({})));
    }
    assert_eq!(run.attempted_pods().len(), 200);
    run.hint_calls.take();
    let steps: &[(&str, HarnessStep, bool)] = &[
        (
            "a pod is added",
            |run| run.set_pod(pod("new", 0, json!({"nodeName": "n"}))),
            false,
        ),
        (
            "a pod is scheduled",
            |run| {
                run.set_pod(pod("small", 0, json!({})));
                assert!(run.engine.next_outcome(run.now).is_some());
                assert!(run.node_of("small").is_some());
            },
            false,
        ),
        (
            "a pod gets a label",
            |run| {
                let labels = json!({"app": "new", "more": "labels"});
                run.set_pod(labelled_pod("new", labels, 0, json!({"nodeName": "n"})));
            },
            false,
        ),
        (
            "a namespace gets a label",
            |run| run.set_namespace("default", &[("a", "b")]),
            false,
        ),
        ("a pod is deleted", |run| run.delete_pod("full"), true),
        ("a node is added", |run| run.set_node("large", 64), true),
    ];
    for (what, step, is_called) in steps {
        run.hint_calls.take();
        step(&mut run);
        let calls = run.hint_calls.take();
        assert_eq!(calls > 0, *is_called, "{what}: {calls}");
    }
}

#[test]
fn only_the_affected_unschedulable_pods_are_requeued() {
    let mut run = SchedulerHarness::new();
    add_node_in_zone(&mut run, "n", "z");
    for index in 0..20 {
        let name = format!("p{index}");
        run.set_pod(pod(
            &name,
            1,
            required_affinity(app_selector(&format!("x{index}"))),
        ));
    }
    run.set_pod(pod("big", 100, json!({})));
    assert_eq!(run.attempted_pods().len(), 21);
    run.advance_clock(Duration::from_secs(10));
    run.set_pod(pod_on_n("x", "x7", 1));
    assert_eq!(run.attempted_pods(), ["p7+"]);
    assert_eq!(run.engine.pending_pods().unschedulable, 20);
}
