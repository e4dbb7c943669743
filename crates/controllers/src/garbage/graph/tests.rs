//! Orders of events, and the work that they ask for.

use super::*;

/// Plays events, each with the work that it asks for, and tells how many objects the graph has at the end.
///
/// `see d <a <!b @n +fg` is the object `d` in the namespace `n` (or `default`, or none with `@-`) that names the
/// owners `a` and, blocking, `b`; `<a:Other` names another kind. `+del`, `+fg` and `+orphan` are deleted: plainly,
/// or waiting for dependents. `gone a`: the watch says so; `absent a`, `found a`: a lookup does (`absent a @n`
/// where it was looked up); `list` and `listed`: the watch begins anew; `dropped`: the kind is not served.
fn check(steps: &[(&str, &[&str])], left: usize) -> Graph {
    let mut graph = Graph::new();
    for (step, expected) in steps {
        let mut work = Vec::new();
        play(&mut graph, step, &mut work);
        let mut said: Vec<String> = work.iter().map(say).collect();
        said.sort();
        said.dedup();
        assert_eq!(said, *expected, "after {step:?} of {steps:?}");
    }
    assert_eq!(graph.len(), left, "after {steps:?}");
    assert_eq!(graph.nodes.iter().flatten().count(), left);
    graph
}

fn say(work: &Work) -> String {
    match work {
        Work::Check(uid) => format!("check {uid}"),
        Work::Orphan(uid) => format!("orphan {uid}"),
        Work::Report(dependent, owner) => format!("report {} {}", dependent.uid, owner),
    }
}

fn play(graph: &mut Graph, step: &str, work: &mut Vec<Work>) {
    let kind = KindName::new("v1", "Kind");
    let mut words = step.split_whitespace();
    let verb = words.next().unwrap();
    let name = words.next().unwrap_or_default();
    let mut object = Object {
        namespace: "default",
        name,
        uid: name,
        ..Object::default()
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
    let identity = || Identity {
        kind: Arc::new(kind.clone()),
        namespace: object.namespace.into(),
        name: name.into(),
        uid: Uid::new(name),
    };
    match verb {
        "see" => graph.observe(&kind, &object, work),
        "gone" => graph.gone(&kind, &object, work),
        "found" => graph.confirm(&identity(), work),
        "absent" => {
            let absence = graph.absent(&identity(), work);
            if absence == Absence::LookElsewhere {
                work.push(Work::Check(Uid::new("elsewhere")));
            }
        }
        "list" => graph.list_begins(&kind),
        "listed" => graph.list_ends(&kind, work),
        "dropped" => graph.kind_gone(&kind, work),
        _ => panic!("{verb}"),
    }
}

fn parse_owner(text: &str) -> Owner<'_> {
    let blocks = text.starts_with('!');
    let text = text.trim_start_matches('!');
    let (name, kind) = text.split_once(':').unwrap_or((text, "Kind"));
    Owner {
        api_version: "v1",
        kind,
        name,
        uid: name,
        blocks,
    }
}

#[test]
fn what_nobody_refers_to_takes_no_memory() {
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
fn an_owner_is_looked_up_once_and_stays_while_it_is_named() {
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
fn what_goes_takes_its_dependents_along_in_any_order() {
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
fn an_owner_that_waits_has_its_dependents_looked_at_and_is_looked_at_when_nothing_blocks_it() {
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
fn what_names_an_owner_on_its_way_out_is_looked_at_whenever_it_is_shown() {
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
fn an_owner_to_be_orphaned_is_told_once() {
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
    // One that is orphaned while it waits is orphaned.
    check(
        &[
            ("see a +fg", &["check a"]),
            ("see a +orphan", &["orphan a"]),
        ],
        1,
    );
}

#[test]
fn what_a_new_list_does_not_have_is_looked_up() {
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
    assert!(graph.item(&Uid::new("a")).unwrap().is_confirmed);
    // What came to be known while the list went on was perhaps not in it.
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
fn a_kind_that_goes_takes_what_owns_nothing() {
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
fn owners_in_other_namespaces_are_told_and_looked_at() {
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
    // The lookup in the wrong namespace is no word about the right one.
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
fn references_with_other_coordinates_are_looked_at() {
    check(
        &[
            ("see e <a", &["check a"]),
            ("found a", &[]),
            ("see d <a:Other", &["check d"]),
            ("gone a", &["check d", "check e"]),
        ],
        3,
    );
    // The end of an object is no word about what others name by its uid.
    let ends: [(&str, &str, &str); 3] = [
        ("see d <a:Other", "Other", "default"),
        ("see d <a @n", "Kind", "n"),
        ("see d <a @-", "Kind", ""),
    ];
    for (see, kind, namespace) in ends {
        let mut graph = check(&[(see, &["check a"])], 2);
        play(&mut graph, "gone a", &mut Vec::new());
        let identity = |kind: &str, namespace: &str| Identity {
            kind: Arc::new(KindName::new("v1", kind)),
            namespace: namespace.into(),
            name: "a".into(),
            uid: Uid::new("a"),
        };
        assert!(!graph.is_absent(&identity(kind, namespace)), "{see}");
        assert!(graph.is_absent(&identity("Kind", "default")), "{see}");
        assert!(graph.item(&Uid::new("a")).is_none(), "{see}");
    }
    // A reference to the same uid by other coordinates is another.
    check(
        &[
            ("see d <a", &["check a"]),
            ("see d <a:Other", &["check d"]),
            ("see d <a", &[]),
        ],
        2,
    );
    // What was found before it went does not come back.
    let graph = check(
        &[
            ("see d <a", &["check a"]),
            ("gone a", &["check d"]),
            ("found a", &[]),
            ("see e <a", &["check e"]),
        ],
        3,
    );
    assert!(graph.item(&Uid::new("a")).is_none());
    // What was found to be gone by wrong coordinates comes back by the right ones.
    let graph = check(
        &[
            ("see d <a @n", &["check a"]),
            ("absent a @n", &["check d"]),
            ("see e <a", &["check a", "check e"]),
            ("found a", &[]),
        ],
        3,
    );
    assert!(graph.item(&Uid::new("a")).unwrap().is_confirmed);
    // One in no namespace can be owned from any.
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
fn an_object_that_owns_itself_goes_like_any_other() {
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
fn cycles_are_seen() {
    let graph = check(
        &[
            ("see a <!b", &["check b"]),
            ("see b <!a", &[]),
            ("see a <!b +fg", &["check a", "check b"]),
        ],
        2,
    );
    let item = graph.item(&Uid::new("b")).unwrap();
    assert!(item.dependent_awaits && !item.awaits_dependents);
}

#[test]
fn a_node_is_small() {
    assert!(size_of::<Node>() <= 112, "{}", size_of::<Node>());
    assert!(size_of::<Reference>() <= 32, "{}", size_of::<Reference>());
}
