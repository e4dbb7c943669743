//! Table tests: sequences of events and the actions that result.

use super::*;

/// Applies steps, each with its expected actions; `left` is the final number of nodes.
///
/// `see d <a <!b @n +fg`: object `d` in namespace `n` (default `default`, none with `@-`) with the owners `a` and,
/// blocking, `b`; `<a:Other` names another kind. `+del`, `+fg`, `+orphan`: deletion in the background, in the
/// foreground, orphaning. `gone a`: delete event; `absent a`, `found a`: lookup result (`absent a @n`: in that
/// namespace); `list`, `listed`: start and end of a relist; `dropped`: the kind is no longer served.
fn check(steps: &[(&str, &[&str])], left: usize) -> OwnershipGraph {
    let mut graph = OwnershipGraph::new();
    for (step, expected) in steps {
        let mut actions = Vec::new();
        apply_step(&mut graph, step, &mut actions);
        let mut said: Vec<String> = actions.iter().map(format_action).collect();
        said.sort();
        said.dedup();
        assert_eq!(said, *expected, "after {step:?} of {steps:?}");
    }
    assert_eq!(graph.len(), left, "after {steps:?}");
    assert_eq!(graph.nodes.iter().flatten().count(), left);
    graph
}

fn format_action(actions: &GraphAction) -> String {
    match actions {
        GraphAction::Check(uid) => format!("check {uid}"),
        GraphAction::Orphan(uid) => format!("orphan {uid}"),
        GraphAction::Report(dependent, owner) => format!("report {} {}", dependent.uid, owner),
    }
}

fn apply_step(graph: &mut OwnershipGraph, step: &str, actions: &mut Vec<GraphAction>) {
    let kind = ApiVersionKind::new("v1", "Kind");
    let mut words = step.split_whitespace();
    let verb = words.next().unwrap();
    let name = words.next().unwrap_or_default();
    let mut object = ObservedObject {
        namespace: "default",
        name,
        uid: name,
        ..ObservedObject::default()
    };
    for word in words {
        match word.split_at(1) {
            ("@", "-") => object.namespace = "",
            ("@", namespace) => object.namespace = namespace,
            ("<", owner) => object.owners.push(parse_owner(owner)),
            ("+", how) => {
                object.is_deleting = true;
                object.has_foreground = how == "fg";
                object.has_orphan = how == "orphan";
            }
            _ => panic!("{word}"),
        }
    }
    let identity = || ObjectIdentity {
        kind: Arc::new(kind.clone()),
        namespace: object.namespace.into(),
        name: name.into(),
        uid: ObjectUid::new(name),
    };
    match verb {
        "see" => graph.observe(&kind, &object, actions),
        "gone" => graph.observe_deletion(&kind, &object, actions),
        "found" => graph.confirm(&identity(), actions),
        "absent" => {
            let absence = graph.observe_absence(&identity(), actions);
            if absence == AbsenceOutcome::LookUpAgain {
                actions.push(GraphAction::Check(ObjectUid::new("elsewhere")));
            }
        }
        "list" => graph.begin_relist(&kind),
        "listed" => graph.finish_relist(&kind, actions),
        "dropped" => graph.remove_kind(&kind, actions),
        _ => panic!("{verb}"),
    }
}

fn parse_owner(text: &str) -> ObservedOwner<'_> {
    let blocks = text.starts_with('!');
    let text = text.trim_start_matches('!');
    let (name, kind) = text.split_once(':').unwrap_or((text, "Kind"));
    ObservedOwner {
        api_version: "v1",
        kind,
        name,
        uid: name,
        blocks,
    }
}

#[test]
fn objects_without_references_take_no_memory() {
    check(
        &[
            ("see a", &[]),
            ("see a +del", &[]),
            ("gone a", &[]),
            ("list", &[]),
            ("see b", &[]),
            ("listed", &[]),
        ],
        0,
    );
}

#[test]
fn an_owner_is_checked_once_and_kept_while_referenced() {
    check(
        &[
            ("see a", &[]),
            ("see d <a", &["check a"]),
            ("see e <a", &[]),
            ("found a", &[]),
            ("see a", &[]),
            ("see d", &[]),
        ],
        2,
    );
    check(
        &[("see d <a", &["check a"]), ("found a", &[]), ("see d", &[])],
        0,
    );
}

#[test]
fn dependents_of_a_removed_owner_are_checked_in_any_order() {
    let ends: &[&str] = &["check d"];
    for end in ["gone a", "absent a"] {
        check(&[("see d <a", &["check a"]), (end, ends)], 2);
        check(
            &[
                ("see d <a", &["check a"]),
                ("found a", &[]),
                (end, ends),
                (end, if end == "gone a" { ends } else { &[] }),
                ("see e <a", &["check e"]),
                ("gone d", &[]),
                ("gone e", &[]),
            ],
            0,
        );
    }
    check(
        &[
            ("gone a", &[]),
            ("see d <a", &["check a"]),
            ("absent a", ends),
            ("gone d", &[]),
        ],
        0,
    );
}

#[test]
fn foreground_deletion_checks_dependents_and_then_the_owner() {
    check(
        &[
            ("see d <!a", &["check a"]),
            ("see e <!a", &[]),
            ("see f <a", &[]),
            ("see a +fg", &["check a", "check d", "check e", "check f"]),
            ("see a +fg", &[]),
            ("gone d", &[]),
            ("see g <!a", &["check g"]),
            ("gone e", &[]),
            ("gone g", &["check a"]),
            ("gone a", &["check f"]),
            ("gone f", &[]),
        ],
        0,
    );
    let changes: [(&str, &[&str], usize); 3] = [
        ("see d <a", &["check a", "check d"], 2),
        ("see d", &["check a"], 1),
        ("see d <b", &["check a", "check b"], 3),
    ];
    for (change, expected, left) in changes {
        check(
            &[
                ("see a +fg", &["check a"]),
                ("see d <!a", &["check d"]),
                (change, expected),
            ],
            left,
        );
    }
}

#[test]
fn dependents_of_a_deleting_owner_are_checked_on_every_update() {
    check(
        &[
            ("see d <a", &["check a"]),
            ("see d <a", &[]),
            ("gone a", &["check d"]),
            ("see d <a", &["check d"]),
            ("see d <a +del", &[]),
            ("see b +fg", &["check b"]),
            ("see e <b", &["check e"]),
            ("see e <b", &["check e"]),
        ],
        4,
    );
}

#[test]
fn an_orphaning_owner_is_reported_once() {
    check(
        &[
            ("see d <a", &["check a"]),
            ("see a +orphan", &["orphan a"]),
            ("see a +orphan", &[]),
            ("list", &[]),
            ("see a +orphan", &["orphan a"]),
            ("see d", &[]),
            ("listed", &[]),
            ("gone a", &[]),
        ],
        0,
    );
    // Orphaning takes precedence over foreground deletion.
    check(
        &[
            ("see a +fg", &["check a"]),
            ("see a +orphan", &["orphan a"]),
        ],
        1,
    );
}

#[test]
fn objects_missing_from_a_relist_are_checked() {
    let graph = check(
        &[
            ("see d <a", &["check a"]),
            ("see e <a", &[]),
            ("found a", &[]),
            ("list", &[]),
            ("see d <a", &[]),
            ("listed", &["check a", "check e"]),
            ("absent e", &[]),
            ("found a", &[]),
        ],
        2,
    );
    assert!(graph.snapshot(&ObjectUid::new("a")).unwrap().is_confirmed);
    // Objects that became known during the list may not be in it.
    check(
        &[
            ("list", &[]),
            ("see d <a", &["check a"]),
            ("found a", &[]),
            ("listed", &["check a"]),
        ],
        2,
    );
}

#[test]
fn a_removed_resource_drops_objects_that_own_nothing() {
    check(
        &[
            ("see d <!a", &["check a"]),
            ("see a +fg", &["check a", "check d"]),
            ("dropped", &["check a"]),
        ],
        0,
    );
}

#[test]
fn owners_in_other_namespaces_are_reported_and_the_dependent_checked() {
    let report = "report d [v1/Kind, namespace: n, name: a, uid: a]";
    check(
        &[
            ("see e <a", &["check a"]),
            ("found a", &[]),
            ("see d <a @n", &["check d", report]),
        ],
        3,
    );
    check(
        &[
            ("see d <a @n", &["check a"]),
            ("see a +fg", &["check a", "check d", report]),
        ],
        2,
    );
    check(
        &[
            ("see d <a @n", &["check a"]),
            ("gone a", &["check d", report]),
        ],
        2,
    );
    let of_cluster = "report d [v1/Kind, namespace: , name: a, uid: a]";
    check(
        &[
            ("see d <a @-", &["check a"]),
            ("gone a", &["check d", of_cluster]),
        ],
        2,
    );
    // A lookup in the wrong namespace says nothing about the right one.
    check(
        &[
            ("see d <a @n", &["check a"]),
            ("see e <a", &["check e"]),
            ("absent a @n", &["check d", "check elsewhere"]),
            ("absent a", &["check d", "check e"]),
        ],
        3,
    );
}

#[test]
fn references_with_different_coordinates_are_checked() {
    check(
        &[
            ("see e <a", &["check a"]),
            ("found a", &[]),
            ("see d <a:Other", &["check d"]),
            ("gone a", &["check d", "check e"]),
        ],
        3,
    );
    // A deletion says nothing about other coordinates with the same uid.
    let ends: [(&str, &str, &str); 3] = [
        ("see d <a:Other", "Other", "default"),
        ("see d <a @n", "Kind", "n"),
        ("see d <a @-", "Kind", ""),
    ];
    for (see, kind, namespace) in ends {
        let mut graph = check(&[(see, &["check a"])], 2);
        apply_step(&mut graph, "gone a", &mut Vec::new());
        let identity = |kind: &str, namespace: &str| ObjectIdentity {
            kind: Arc::new(ApiVersionKind::new("v1", kind)),
            namespace: namespace.into(),
            name: "a".into(),
            uid: ObjectUid::new("a"),
        };
        assert!(!graph.is_absent(&identity(kind, namespace)), "{see}");
        assert!(graph.is_absent(&identity("Kind", "default")), "{see}");
        assert!(graph.snapshot(&ObjectUid::new("a")).is_none(), "{see}");
    }
    // A reference to the same uid with other coordinates is a different one.
    check(
        &[
            ("see d <a", &["check a"]),
            ("see d <a:Other", &["check d"]),
            ("see d <a", &[]),
        ],
        2,
    );
    // A lookup result from before the deletion does not revive the object.
    let graph = check(
        &[
            ("see d <a", &["check a"]),
            ("gone a", &["check d"]),
            ("found a", &[]),
            ("see e <a", &["check e"]),
        ],
        3,
    );
    assert!(graph.snapshot(&ObjectUid::new("a")).is_none());
    // An owner that was absent at wrong coordinates is found at the right ones.
    let graph = check(
        &[
            ("see d <a @n", &["check a"]),
            ("absent a @n", &["check d"]),
            ("see e <a", &["check a", "check e"]),
            ("found a", &[]),
        ],
        3,
    );
    assert!(graph.snapshot(&ObjectUid::new("a")).unwrap().is_confirmed);
    // A cluster-scoped owner can have dependents in any namespace.
    check(
        &[
            ("see d <a @n", &["check a"]),
            ("found a @-", &[]),
            ("see e <a @m", &[]),
            ("see f <a @-", &[]),
        ],
        4,
    );
}

#[test]
fn an_object_that_owns_itself_is_deleted_normally() {
    check(
        &[
            ("see a <!a", &[]),
            ("see a <!a +fg", &["check a"]),
            ("see a <a +fg", &["check a"]),
            ("gone a", &["check a"]),
        ],
        0,
    );
}

#[test]
fn ownership_cycles_are_detected() {
    let graph = check(
        &[
            ("see a <!b", &["check b"]),
            ("see b <!a", &[]),
            ("see a <!b +fg", &["check a", "check b"]),
        ],
        2,
    );
    let item = graph.snapshot(&ObjectUid::new("b")).unwrap();
    assert!(item.dependent_awaits && !item.awaits_dependents);
}

#[test]
fn graph_nodes_are_small() {
    assert!(size_of::<GraphNode>() <= 112, "{}", size_of::<GraphNode>());
    assert!(size_of::<OwnerEdge>() <= 32, "{}", size_of::<OwnerEdge>());
}
