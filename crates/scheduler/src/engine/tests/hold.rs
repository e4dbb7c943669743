//! Pods that nothing may be decided about yet.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;

use super::run::{Run, pod, pod_in};
use crate::engine::{Change, Outcome, Pending};

/// A node with a pod that wants none of a team's pods beside it.
fn wary() -> Run {
    let mut run = Run::new();
    run.node_with("n", 8, json!({"labels": {"zone": "z"}}));
    let term = json!({
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "namespaceSelector": {"matchLabels": {"team": "x"}},
    });
    let affinity =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    run.namespace("default", &[]);
    run.pod(pod(
        "wary",
        1,
        json!({"nodeName": "n", "affinity": affinity}),
    ));
    run
}

fn all_are_listed(run: &mut Run) {
    run.apply(Change::NamespacesAre(HashSet::from(["default".into()])));
}

fn newcomer(run: &mut Run) {
    run.pod(pod_in("b", "p", json!({"app": "x"}), 1, json!({})));
}

#[test]
fn a_pod_waits_for_its_namespace() {
    type Step = fn(&mut Run);
    let orders: [[Step; 2]; 2] = [[all_are_listed, newcomer], [newcomer, all_are_listed]];
    for order in orders {
        let mut run = wary();
        for step in order {
            step(&mut run);
        }
        assert!(run.go().is_empty());
        let gated = Pending {
            gated: 1,
            ..Pending::default()
        };
        assert_eq!(run.engine.pending(), gated);
        run.namespace("b", &[("team", "x")]);
        let said = run.go();
        assert!(
            said[0].starts_with("p Unschedulable: 0/1 nodes"),
            "{said:?}"
        );
        // It can be relabelled, and then it is tried again.
        run.after(Duration::from_secs(60)).namespace("b", &[]);
        assert_eq!(run.go(), ["p → n"]);
    }
}

#[test]
fn a_pod_whose_namespace_does_not_come_says_so_once() {
    let mut run = wary();
    all_are_listed(&mut run);
    newcomer(&mut run);
    assert!(run.go().is_empty());
    assert_eq!(
        run.engine.wakes_at(),
        Some(run.now + Duration::from_secs(10))
    );
    run.after(Duration::from_secs(10));
    assert_eq!(run.go(), ["p SchedulerError: namespace \"b\" is not known"]);
    run.after(Duration::from_secs(3600));
    newcomer(&mut run);
    assert!(run.go().is_empty());
    run.namespace("b", &[]);
    assert_eq!(run.go(), ["p → n"]);
}

/// How long scheduling took begins with the first attempt.
#[test]
fn the_time_for_which_a_pod_was_held_is_not_the_scheduler_s() {
    let mut run = Run::new();
    run.node("n", 8);
    run.pod(pod("a", 1, json!({"schedulingGates": [{"name": "g"}]})));
    run.after(Duration::from_secs(100));
    run.pod(pod("a", 9, json!({})));
    run.go();
    run.after(Duration::from_secs(5));
    run.node("m", 16);
    let outcome = run.engine.next(run.now);
    let Some(Outcome::Bind {
        waited, tried_for, ..
    }) = outcome
    else {
        panic!("{outcome:?}");
    };
    assert_eq!(waited, Duration::from_secs(105));
    assert_eq!(tried_for, Duration::from_secs(5));
    // Nobody could have made room, and yet it was asked for.
    assert_eq!(run.engine.preemptions(), 1);
}

#[test]
fn a_pod_that_is_held_waits_until_it_is_released() {
    let mut run = Run::new();
    run.node("n", 8);
    run.pod(pod("here", 1, json!({})));
    let uids = ["default/here", "default/later"].map(Box::from);
    run.apply(Change::Hold(HashSet::from(uids)));
    run.pod(pod("later", 1, json!({})));
    run.pod(pod("free", 1, json!({})));
    assert_eq!(run.go(), ["free → n"]);
    for name in ["later", "here"] {
        // What it is changes nothing.
        run.pod(pod(name, 2, json!({})));
        assert!(run.go().is_empty());
        let uid = format!("default/{name}").into();
        run.apply(Change::Release { uid });
        assert_eq!(run.go(), [format!("{name} → n")]);
    }
}
