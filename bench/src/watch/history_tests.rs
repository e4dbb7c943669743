use std::time::Instant;

use super::Kind::{Added, Bookmark, Deleted, Modified};
use super::*;

fn seen(kind: Kind, pod: u32, app: Option<u32>, version: u64) -> Seen {
    Seen {
        kind,
        pod,
        app,
        version,
        at: Instant::now(),
    }
}

fn stream(seen: &[Seen]) -> Stream {
    Stream {
        seen: seen.to_vec(),
        ..Stream::default()
    }
}

/// A pod comes, changes, moves to another application, loses its label, gets it again, and goes.
fn life() -> Vec<Seen> {
    vec![
        seen(Added, 7, Some(0), 10),
        seen(Modified, 7, Some(0), 11),
        seen(Modified, 7, Some(1), 12),
        seen(Modified, 7, None, 13),
        seen(Modified, 7, Some(0), 14),
        seen(Deleted, 7, Some(0), 15),
    ]
}

fn right_for_0() -> Vec<Seen> {
    vec![
        seen(Added, 7, Some(0), 10),
        seen(Modified, 7, Some(0), 11),
        seen(Bookmark, 0, None, 11),
        seen(Deleted, 7, Some(0), 12),
        seen(Bookmark, 0, None, 13),
        seen(Added, 7, Some(0), 14),
        seen(Deleted, 7, Some(0), 15),
    ]
}

fn check_0(told: &[Seen]) -> Option<String> {
    let due = History(life()).due(2);
    check(0, &stream(told), &due[0])
}

#[test]
fn right_streams_pass() {
    assert_eq!(check_0(&right_for_0()), None);
    let due = History(life()).due(2);
    let told = [seen(Added, 7, Some(1), 12), seen(Deleted, 7, Some(1), 13)];
    assert_eq!(check(1, &stream(&told), &due[1]), None);
}

fn assert_found(edit: impl FnOnce(&mut Vec<Seen>), expected: &str) {
    let mut told = right_for_0();
    edit(&mut told);
    let problem = check_0(&told).unwrap_or_default();
    assert!(problem.contains(expected), "{expected}: {problem:?}");
}

#[test]
fn each_kind_of_wrong_stream_is_found() {
    assert_found(
        |told| told.truncate(6),
        "not told: Deleted of pod 7 at version 15, and 0 more",
    );
    assert_found(Vec::clear, "and 4 more");
    assert_found(
        |told| _ = told.remove(1),
        "told Deleted of pod 7 at version 12, but due was Modified of pod 7 at version 11",
    );
    assert_found(
        |told| told.insert(2, told[1]),
        "told twice: Modified of pod 7 at version 11",
    );
    assert_found(
        |told| told.push(told[6]),
        "told twice: Deleted of pod 7 at version 15",
    );
    assert_found(
        |told| told.push(seen(Added, 8, Some(0), 16)),
        "nothing more was due",
    );
    assert_found(|told| told.swap(0, 1), "but due was Added of pod 7");
    assert_found(|told| told[3].kind = Modified, "told Modified of pod 7");
    // As upstream once did: the version from before the change.
    assert_found(|told| told[3].version = 11, "told twice: Deleted");
    assert_found(|told| told[2].version = 12, "after a bookmark of 12");
    assert_found(
        |told| told[4].version = 11,
        "a bookmark of 11 after version 12",
    );
    assert_found(
        |told| told[3].app = Some(1),
        "was shown with the label of Some(1)",
    );
}

#[test]
fn a_watch_that_ended_is_found() {
    let due = History(life()).due(1);
    let mut ended = stream(&right_for_0());
    ended.end = Some("the server ended it".into());
    let problem = check(0, &ended, &due[0]).expect("a problem");
    assert!(problem.contains("the server ended it"), "{problem}");
}

fn changes() -> Vec<Change> {
    let change = |app, version| Change {
        pod: 7,
        app,
        version,
    };
    vec![
        change(Some(0), Some(10)),
        change(Some(0), Some(11)),
        change(Some(1), Some(12)),
        change(None, Some(13)),
        change(Some(0), Some(14)),
        change(None, None),
    ]
}

#[test]
fn the_history_is_what_was_answered() {
    assert!(History(life()).problems(&changes()).is_empty());
    let find = |events: Vec<Seen>, changes: &[Change], expected: &str| {
        let problems = History(events).problems(changes).join("\n");
        assert!(problems.contains(expected), "{expected}: {problems:?}");
    };
    let without = |index: usize| {
        let mut events = life();
        events.remove(index);
        events
    };
    find(without(2), &changes(), "the history lacks Change");
    find(without(5), &changes(), "the history lacks Change");
    let mut swapped = life();
    swapped.swap(0, 1);
    find(swapped, &changes(), "after version 11");
    find(life(), &changes()[1..], "at version 10, which nobody did");
    find(life(), &changes()[..5], "at version 15, which nobody did");
    let mut again = life();
    again.push(seen(Deleted, 7, Some(0), 16));
    find(
        again,
        &changes(),
        "goes on after Deleted of pod 7 at version 15",
    );
}

#[test]
fn a_pod_may_be_marked_before_it_is_removed() {
    let mut marked = life();
    marked.insert(5, seen(Modified, 7, Some(0), 15));
    marked[6].version = 16;
    assert!(History(marked).problems(&changes()).is_empty());
}
