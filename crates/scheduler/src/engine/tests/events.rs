//! What wakes a pod that waits, and what does not.

use std::time::Duration;

use serde_json::{Value, json};

use super::run::{Run, labelled, pod, pod_in};

type Step = fn(&mut Run);

/// A pod `p` waits. Some things happen that cannot help, and then one that does.
struct Case {
    what: &'static str,
    before: Step,
    in_vain: &'static [Step],
    helps: Step,
}

fn affinity(kind: &str, mut term: Value) -> Value {
    term["topologyKey"] = json!("zone");
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn near(term: Value) -> Value {
    affinity("podAffinity", term)
}

fn away(term: Value) -> Value {
    affinity("podAntiAffinity", term)
}

fn app(app: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": app}}})
}

/// Pods with the label in namespaces of a team.
fn app_of_team(app: &str) -> Value {
    json!({
        "labelSelector": {"matchLabels": {"app": app}},
        "namespaceSelector": {"matchLabels": {"team": "x"}},
    })
}

fn zone(run: &mut Run, node: &str, zone: &str) {
    run.node_with(node, 8, json!({"labels": {"zone": zone}}));
}

fn there(name: &str, app: &str, cpu: u32) -> crate::model::Pod {
    labelled(name, json!({"app": app}), cpu, json!({"nodeName": "n"}))
}

const CASES: &[Case] = &[
    Case {
        what: "room is made by a pod that leaves",
        before: |run| {
            run.node("n", 8);
            run.pod(there("big", "x", 6));
            run.pod(there("nothing", "x", 0));
            run.pod(pod("p", 4, json!({})));
        },
        in_vain: &[
            |run| run.pod(pod("q", 1, json!({"nodeName": "n"}))),
            |run| run.gone("nothing"),
            |run| run.namespace("default", &[("a", "b")]),
            |run| run.node("small", 2),
        ],
        helps: |run| run.gone("big"),
    },
    Case {
        what: "room is made where there can be enough of it",
        before: |run| {
            run.node("n", 8);
            run.node("small", 2);
            run.pod(there("big", "x", 6));
            let small = |name: &str| pod(name, 1, json!({"nodeName": "small"}));
            run.pod(small("leaves"));
            run.pod(small("shrinks"));
            run.pod(pod("p", 4, json!({})));
        },
        in_vain: &[
            |run| run.gone("leaves"),
            |run| run.pod(pod("shrinks", 0, json!({"nodeName": "small"}))),
        ],
        helps: |run| run.gone("big"),
    },
    Case {
        what: "room is made by a pod that comes to its end",
        before: |run| {
            run.node("n", 8);
            run.pod(there("big", "x", 6));
            run.pod(pod("p", 4, json!({})));
        },
        in_vain: &[],
        helps: |run| {
            let mut ended = there("big", "x", 6);
            ended.is_terminal = true;
            run.pod(ended);
        },
    },
    Case {
        what: "room is made by a pod that asks for less",
        before: |run| {
            run.node("n", 8);
            run.pod(there("big", "x", 6));
            run.pod(pod("p", 4, json!({})));
        },
        in_vain: &[|run| run.pod(there("big", "y", 6))],
        helps: |run| run.pod(there("big", "y", 4)),
    },
    Case {
        what: "a node comes, grows, loses its taint or is uncordoned: a node that comes",
        before: |run| {
            run.node("n", 2);
            run.pod(pod("p", 4, json!({})));
        },
        in_vain: &[|run| run.node("small", 3)],
        helps: |run| run.node("large", 4),
    },
    Case {
        what: "a node that grows",
        before: |run| {
            run.node("n", 2);
            run.pod(pod("p", 4, json!({})));
        },
        in_vain: &[
            |run| run.node("n", 3),
            |run| {
                run.node_with("n", 3, json!({"labels": {"a": "b"}}));
            },
        ],
        helps: |run| run.node("n", 4),
    },
    Case {
        what: "a node that loses its taint",
        before: |run| {
            let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
            run.node_with("n", 8, json!({"spec": {"taints": taint}}));
            run.pod(pod("p", 4, json!({})));
        },
        in_vain: &[|run| {
            let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
            run.node_with("n", 16, json!({"spec": {"taints": taint}}));
        }],
        helps: |run| run.node("n", 16),
    },
    Case {
        what: "a node that is uncordoned",
        before: |run| {
            run.node_with("n", 8, json!({"spec": {"unschedulable": true}}));
            run.pod(pod("p", 4, json!({})));
        },
        in_vain: &[|run| run.node_with("n", 16, json!({"spec": {"unschedulable": true}}))],
        helps: |run| run.node("n", 16),
    },
    Case {
        what: "a node gets the label that is asked for",
        before: |run| {
            run.node("n", 8);
            run.pod(pod("p", 4, json!({"nodeSelector": {"disk": "fast"}})));
        },
        in_vain: &[|run| {
            run.node_with("n", 8, json!({"labels": {"disk": "slow"}}));
        }],
        helps: |run| run.node_with("n", 8, json!({"labels": {"disk": "fast"}})),
    },
    Case {
        what: "somebody comes whom the pod wants to be near to",
        before: |run| {
            zone(run, "n", "z");
            run.pod(pod("p", 1, near(app("x"))));
        },
        in_vain: &[|run| run.pod(there("y", "y", 1))],
        helps: |run| run.pod(there("x", "x", 1)),
    },
    Case {
        what: "the scheduler itself places somebody whom the pod wants to be near to",
        before: |run| {
            zone(run, "n", "z");
            run.pod(pod("p", 1, near(app("x"))));
        },
        in_vain: &[],
        helps: |run| {
            run.pod(labelled("x", json!({"app": "x"}), 1, json!({})));
            assert_eq!(run.engine.pending().active, 1);
            assert!(matches!(
                run.engine.next(run.now),
                Some(crate::engine::Outcome::Bind { .. })
            ));
        },
    },
    Case {
        what: "somebody gets the label",
        before: |run| {
            zone(run, "n", "z");
            run.pod(there("x", "y", 1));
            run.pod(pod("p", 1, near(app("x"))));
        },
        in_vain: &[|run| run.pod(there("x", "z", 1))],
        helps: |run| run.pod(there("x", "x", 1)),
    },
    Case {
        what: "the namespace of somebody gets the label",
        before: |run| {
            zone(run, "n", "z");
            run.namespace("default", &[]);
            run.namespace("other", &[]);
            let there = json!({"nodeName": "n"});
            run.pod(pod_in("other", "x", json!({"app": "x"}), 1, there));
            run.pod(pod("p", 1, near(app_of_team("x"))));
        },
        in_vain: &[
            |run| run.namespace("other", &[("color", "red")]),
            |run| run.namespace("other", &[("team", "y")]),
        ],
        helps: |run| run.namespace("other", &[("team", "x")]),
    },
    Case {
        what: "the namespace of somebody who is not wanted loses the label",
        before: |run| {
            zone(run, "n", "z");
            run.namespace("other", &[("team", "x")]);
            let there = json!({"nodeName": "n"});
            run.pod(pod_in("other", "x", json!({"app": "x"}), 1, there));
            run.pod(pod("p", 1, away(app_of_team("x"))));
        },
        in_vain: &[|run| run.namespace("other", &[("team", "x"), ("color", "red")])],
        helps: |run| run.namespace("other", &[]),
    },
    Case {
        what: "the pod's own namespace loses the label by which another repels it",
        before: |run| {
            zone(run, "n", "z");
            run.namespace("default", &[("team", "x")]);
            let mut there = away(app_of_team("p"));
            there["nodeName"] = json!("n");
            run.pod(pod_in("other", "x", json!({"app": "x"}), 1, there));
            run.pod(pod("p", 1, json!({})));
        },
        in_vain: &[|run| run.namespace("default", &[("team", "x"), ("color", "red")])],
        helps: |run| {
            run.apply(crate::engine::Change::NamespaceGone {
                name: "default".into(),
            });
        },
    },
    Case {
        what: "somebody who is not wanted leaves",
        before: |run| {
            zone(run, "n", "z");
            run.pod(there("x", "x", 1));
            run.pod(there("y", "y", 1));
            run.pod(pod("p", 1, away(app("x"))));
        },
        in_vain: &[|run| run.gone("y")],
        helps: |run| run.gone("x"),
    },
    Case {
        what: "somebody who is not wanted loses the label",
        before: |run| {
            zone(run, "n", "z");
            run.pod(there("x", "x", 1));
            run.pod(pod("p", 1, away(app("x"))));
        },
        in_vain: &[],
        helps: |run| run.pod(there("x", "y", 1)),
    },
    Case {
        what: "somebody who repels the pod leaves",
        before: |run| {
            zone(run, "n", "z");
            let mut there = away(app("p"));
            there["nodeName"] = json!("n");
            run.pod(labelled("x", json!({"app": "x"}), 1, there));
            run.pod(pod("p", 1, json!({})));
        },
        in_vain: &[],
        helps: |run| run.gone("x"),
    },
    Case {
        what: "a pod that wants to be with its like can be the first when the last of them is gone",
        before: |run| {
            zone(run, "n", "z");
            run.node_with("full", 1, json!({"labels": {"zone": "other"}}));
            let on = |node: &str| json!({"nodeName": node});
            run.pod(labelled("x", json!({"app": "p"}), 1, on("full")));
            run.pod(pod("p", 1, near(app("p"))));
        },
        in_vain: &[|run| {
            run.pod(pod("q", 0, json!({"nodeName": "n"})));
            run.gone("q");
        }],
        helps: |run| run.gone("x"),
    },
    Case {
        what: "a node gets into the zone where somebody is",
        before: |run| {
            zone(run, "full", "z");
            run.node("n", 8);
            run.pod(labelled(
                "x",
                json!({"app": "x"}),
                8,
                json!({"nodeName": "full"}),
            ));
            run.pod(pod("p", 4, near(app("x"))));
        },
        in_vain: &[],
        helps: |run| zone(run, "n", "z"),
    },
    Case {
        what: "with a node, whoever was there is gone",
        before: |run| {
            zone(run, "n", "z");
            zone(run, "m", "z");
            run.pod(there("x", "x", 1));
            run.pod(pod("p", 1, away(app("x"))));
        },
        in_vain: &[],
        helps: |run| run.apply(crate::engine::Change::NodeGone { name: "n".into() }),
    },
    Case {
        what: "the pod itself asks for less",
        before: |run| {
            run.node("n", 2);
            run.pod(pod("p", 4, json!({})));
        },
        in_vain: &[|run| run.pod(labelled("p", json!({"app": "else"}), 4, json!({})))],
        helps: |run| run.pod(pod("p", 1, json!({}))),
    },
    Case {
        what: "the pod itself tolerates more",
        before: |run| {
            let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
            run.node_with("n", 8, json!({"spec": {"taints": taint}}));
            run.pod(pod("p", 4, json!({})));
        },
        in_vain: &[],
        helps: |run| {
            let tolerations = json!([{"key": "k", "operator": "Exists"}]);
            run.pod(pod("p", 4, json!({"tolerations": tolerations})));
        },
    },
];

#[test]
fn a_pod_is_woken_by_what_helps_and_by_nothing_else() {
    for case in CASES {
        let mut run = Run::new();
        (case.before)(&mut run);
        assert_eq!(run.tried(), ["p"], "{}", case.what);
        run.after(Duration::from_secs(10));
        for (index, step) in case.in_vain.iter().enumerate() {
            step(&mut run);
            assert_eq!(run.go(), [""; 0], "{}: in vain {index}", case.what);
        }
        (case.helps)(&mut run);
        assert_eq!(run.tried(), ["p+"], "{}", case.what);
    }
}

#[test]
fn what_concerns_nobody_is_asked_of_nobody() {
    let taint = |value: &str| json!({"spec": {"taints": [{"key": "k", "value": value, "effect": "NoSchedule"}]}});
    let mut run = Run::new();
    run.node_with("tainted", 8, taint("v"));
    run.node_with("cordoned", 8, json!({"spec": {"unschedulable": true}}));
    run.node("n", 8);
    run.pod(there("full", "x", 8));
    // No two are alike.
    for index in 0..100 {
        let selector = json!({"nodeSelector": {"kubernetes.io/os": "linux"}});
        run.pod(pod(&format!("p{index}"), 4, selector));
        run.pod(pod(&format!("q{index}"), 4, json!({})));
    }
    assert_eq!(run.tried().len(), 200);
    run.asked.take();
    let steps: &[(&str, Step, bool)] = &[
        (
            "a pod comes",
            |run| run.pod(pod("new", 0, json!({"nodeName": "n"}))),
            false,
        ),
        (
            "the scheduler places a pod",
            |run| {
                run.pod(pod("small", 0, json!({})));
                assert!(run.engine.next(run.now).is_some());
                assert!(run.node_of("small").is_some());
            },
            false,
        ),
        (
            "a pod gets a label",
            |run| {
                let labels = json!({"app": "new", "more": "labels"});
                run.pod(labelled("new", labels, 0, json!({"nodeName": "n"})));
            },
            false,
        ),
        (
            "a namespace gets a label",
            |run| run.namespace("default", &[("a", "b")]),
            false,
        ),
        ("a pod leaves", |run| run.gone("full"), true),
        ("a node comes", |run| run.node("large", 64), true),
    ];
    for (what, step, is_asked) in steps {
        run.asked.take();
        step(&mut run);
        let asked = run.asked.take();
        assert_eq!(asked > 0, *is_asked, "{what}: {asked}");
    }
}

#[test]
fn of_many_that_wait_only_those_are_woken_whom_it_helps() {
    let mut run = Run::new();
    zone(&mut run, "n", "z");
    for index in 0..20 {
        let name = format!("p{index}");
        run.pod(pod(&name, 1, near(app(&format!("x{index}")))));
    }
    run.pod(pod("big", 100, json!({})));
    assert_eq!(run.tried().len(), 21);
    run.after(Duration::from_secs(10));
    run.pod(there("x", "x7", 1));
    assert_eq!(run.tried(), ["p7+"]);
    assert_eq!(run.engine.pending().unschedulable, 20);
}
