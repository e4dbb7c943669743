use std::time::Instant;

use super::WatchEventType::{Added, Bookmark, Deleted, Modified};
use super::*;

fn seen(kind: WatchEventType, pod: u32, app: Option<u32>, version: u64) -> TimedWatchEvent {
    TimedWatchEvent {
        kind,
        pod,
        app,
        version,
        at: Instant::now(),
    }
}

fn stream(seen: &[TimedWatchEvent]) -> WatcherRecord {
    WatcherRecord {
        received: seen.to_vec(),
        ..WatcherRecord::default()
    }
}

/// A pod is created, updated, moved to another application, loses its label, gets it back, and is deleted.
fn life() -> Vec<TimedWatchEvent> {
    vec![
        seen(Added, 7, Some(0), 10),
        seen(Modified, 7, Some(0), 11),
        seen(Modified, 7, Some(1), 12),
        seen(Modified, 7, None, 13),
        seen(Modified, 7, Some(0), 14),
        seen(Deleted, 7, Some(0), 15),
    ]
}

fn right_for_0() -> Vec<TimedWatchEvent> {
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

fn check_0(received: &[TimedWatchEvent]) -> Option<String> {
    let due = EventHistory(life()).due(2);
    check(0, &stream(received), &due[0])
}

#[test]
fn correct_streams_pass() {
    assert_eq!(check_0(&right_for_0()), None);
    let due = EventHistory(life()).due(2);
    let received = [seen(Added, 7, Some(1), 12), seen(Deleted, 7, Some(1), 13)];
    assert_eq!(check(1, &stream(&received), &due[1]), None);
}

fn assert_found(edit: impl FnOnce(&mut Vec<TimedWatchEvent>), expected: &str) {
    let mut received = right_for_0();
    edit(&mut received);
    let problem = check_0(&received).unwrap_or_default();
    assert!(problem.contains(expected), "{expected}: {problem:?}");
}

#[test]
fn every_kind_of_incorrect_stream_is_detected() {
    assert_found(
        |received| received.truncate(6),
        "not received: Deleted of pod 7 at version 15, and 0 more",
    );
    assert_found(Vec::clear, "and 4 more");
    assert_found(
        |received| _ = received.remove(1),
        "received Deleted of pod 7 at version 12, but expected Modified of pod 7 at version 11",
    );
    assert_found(
        |received| received.insert(2, received[1]),
        "received twice: Modified of pod 7 at version 11",
    );
    assert_found(
        |received| received.push(received[6]),
        "received twice: Deleted of pod 7 at version 15",
    );
    assert_found(
        |received| received.push(seen(Added, 8, Some(0), 16)),
        "but expected nothing more",
    );
    assert_found(
        |received| received.swap(0, 1),
        "but expected Added of pod 7",
    );
    assert_found(
        |received| received[3].kind = Modified,
        "received Modified of pod 7",
    );
    // Regression known from upstream: the resourceVersion from before the change.
    assert_found(
        |received| received[3].version = 11,
        "received twice: Deleted",
    );
    assert_found(
        |received| received[2].version = 12,
        "after a bookmark of 12",
    );
    assert_found(
        |received| received[4].version = 11,
        "a bookmark of 11 after version 12",
    );
    assert_found(
        |received| received[3].app = Some(1),
        "was shown with the label of Some(1)",
    );
}

#[test]
fn ended_watch_is_detected() {
    let due = EventHistory(life()).due(1);
    let mut ended = stream(&right_for_0());
    ended.end = Some("the server ended it".into());
    let problem = check(0, &ended, &due[0]).expect("a problem");
    assert!(problem.contains("the server ended it"), "{problem}");
}

fn changes() -> Vec<AcknowledgedWrite> {
    let change = |app, version| AcknowledgedWrite {
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
fn history_contains_acknowledged_writes() {
    assert!(EventHistory(life()).problems(&changes()).is_empty());
    let find = |events: Vec<TimedWatchEvent>, changes: &[AcknowledgedWrite], expected: &str| {
        let problems = EventHistory(events).problems(changes).join("\n");
        assert!(problems.contains(expected), "{expected}: {problems:?}");
    };
    let without = |index: usize| {
        let mut events = life();
        events.remove(index);
        events
    };
    find(
        without(2),
        &changes(),
        "the history lacks AcknowledgedWrite",
    );
    find(
        without(5),
        &changes(),
        "the history lacks AcknowledgedWrite",
    );
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
fn pod_may_be_marked_deleted_before_it_is_removed() {
    let mut marked = life();
    marked.insert(5, seen(Modified, 7, Some(0), 15));
    marked[6].version = 16;
    assert!(EventHistory(marked).problems(&changes()).is_empty());
}
