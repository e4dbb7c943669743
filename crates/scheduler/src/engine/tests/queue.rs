//! Who is tried, and when.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;

use super::run::{Run, labelled, pod};
use crate::engine::{Change, Pending};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn higher_priorities_go_first_and_then_who_came_first() {
    let mut run = Run::new();
    run.node("n", 32);
    run.pod(pod("late", 1, json!({"priority": 5})));
    run.after(SECOND);
    run.pod(pod("later", 1, json!({"priority": 5})));
    run.pod(pod("high", 1, json!({"priority": 9})));
    run.pod(pod("low", 1, json!({"priority": -1})));
    assert_eq!(run.tried(), ["high+", "late+", "later+", "low+"]);
}

#[test]
fn without_nodes_pods_wait_for_the_first() {
    let mut run = Run::new();
    run.pod(pod("a", 1, json!({})));
    assert_eq!(
        run.go(),
        ["a Unschedulable: no nodes available to schedule pods"]
    );
    run.namespace("default", &[("a", "b")]);
    assert!(run.go().is_empty());
    run.node("n", 1);
    assert_eq!(run.go(), ["a → n"]);
}

#[test]
fn gated_pods_wait_for_their_gates_and_for_nothing_else() {
    let mut run = Run::new();
    run.pod(pod("a", 1, json!({"schedulingGates": [{"name": "g"}]})));
    // Whoever took it has said so already.
    assert!(run.go().is_empty());
    run.node("n", 1);
    run.after(Duration::from_secs(3600));
    assert!(run.go().is_empty());
    assert_eq!(
        run.engine.pending(),
        Pending {
            gated: 1,
            ..Pending::default()
        }
    );
    run.pod(pod("a", 1, json!({})));
    assert_eq!(run.go(), ["a → n"]);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let mut run = Run::new();
    run.node("n", 8);
    let mut other = pod("other", 1, json!({}));
    other.scheduler_name = "another".into();
    run.pod(other);
    let mut terminating = pod("terminating", 1, json!({}));
    terminating.is_terminating = true;
    run.pod(terminating);
    let mut ended = pod("ended", 1, json!({}));
    ended.is_terminal = true;
    run.pod(ended);
    run.pod(pod("bound", 1, json!({"nodeName": "n"})));
    assert!(run.go().is_empty());
    assert_eq!(run.engine.pending(), Pending::default());
}

#[test]
fn pods_that_leave_while_they_wait_are_not_tried() {
    let mut run = Run::new();
    for name in ["deleted", "terminating", "bound", "listed away", "stays"] {
        run.pod(pod(name, 1, json!({})));
    }
    run.node("n", 8);
    run.gone("deleted");
    let mut terminating = pod("terminating", 1, json!({}));
    terminating.is_terminating = true;
    run.pod(terminating);
    run.pod(pod("bound", 1, json!({"nodeName": "n"})));
    let kept = ["terminating", "bound", "stays"];
    let uids = kept.iter().map(|name| format!("default/{name}").into());
    run.apply(Change::PodsAre(uids.collect()));
    assert_eq!(run.go(), ["stays → n"]);
}

#[test]
fn the_number_of_a_pod_that_is_gone_can_be_used_again() {
    let mut run = Run::new();
    run.pod(pod("old", 9, json!({"priority": 100})));
    run.go();
    run.gone("old");
    run.pod(pod("new", 1, json!({})));
    run.node("n", 1);
    assert_eq!(run.go(), ["new → n"]);
}

#[test]
fn nodes_and_namespaces_that_a_list_does_not_name_are_gone() {
    let mut run = Run::new();
    run.node("a", 8);
    run.node("b", 8);
    run.namespace("x", &[]);
    run.apply(Change::NodesAre(HashSet::from(["b".into()])));
    run.namespace("default", &[]);
    run.apply(Change::NamespacesAre(HashSet::from(["default".into()])));
    run.pod(pod("p", 1, json!({})));
    assert_eq!(run.go(), ["p → b"]);
    let known: Vec<&str> = run.engine.cluster().namespace_names().collect();
    assert_eq!(known, ["default"]);
}

#[test]
fn a_binding_that_fails_is_tried_again_after_a_back_off_that_grows() {
    let mut run = Run::new();
    run.node("n", 1);
    run.pod(pod("a", 1, json!({})));
    for wait in [1, 2, 4, 8, 10, 10] {
        assert_eq!(run.go(), ["a → n"]);
        assert_eq!(run.engine.pending().binding, 1);
        let uid = "default/a".into();
        run.apply(Change::NotBound { uid });
        assert_eq!(
            run.engine.wakes_at(),
            Some(run.now + Duration::from_secs(wait))
        );
        run.after(Duration::from_secs(wait) - Duration::from_millis(1));
        assert!(run.go().is_empty(), "{wait}");
        run.after(Duration::from_millis(1));
    }
}

#[test]
fn room_of_a_binding_that_failed_is_there_for_others() {
    let mut run = Run::new();
    run.node("n", 1);
    run.pod(pod("a", 1, json!({})));
    assert_eq!(run.go(), ["a → n"]);
    run.pod(pod("b", 1, json!({})));
    assert_eq!(run.tried(), ["b"]);
    let uid = "default/a".into();
    run.apply(Change::NotBound { uid });
    assert_eq!(run.go(), ["b → n"]);
}

#[test]
fn what_the_server_says_of_a_binding_counts() {
    let mut run = Run::new();
    run.node("n", 1);
    run.pod(pod("a", 1, json!({})));
    assert_eq!(run.go(), ["a → n"]);
    // Something that was on its way before the server knew.
    run.pod(labelled(
        "a",
        json!({"app": "a", "more": "labels"}),
        1,
        json!({}),
    ));
    assert!(run.go().is_empty());
    run.pod(pod("a", 1, json!({"nodeName": "n"})));
    assert_eq!(run.engine.pending(), Pending::default());
    // That it is bound is certain, whatever becomes of the request.
    let uid = "default/a".into();
    run.apply(Change::NotBound { uid });
    run.after(Duration::from_secs(60));
    assert!(run.go().is_empty());
    assert_eq!(run.node_of("a").as_deref(), Some("n"));
}

#[test]
fn a_pod_that_rests_is_tried_when_nobody_else_waits_and_never_before_others() {
    let mut run = Run::new();
    run.node("n", 1);
    run.pod(pod("big", 2, json!({"priority": 1})));
    assert_eq!(run.tried(), ["big"]);
    // What makes room comes at once, and there is another who is tried first though it is less important.
    run.node("m", 2);
    run.pod(pod("small", 1, json!({})));
    assert_eq!(run.engine.pending().backoff, 1);
    let tried = run.tried();
    assert_eq!(tried[0], "small+");
    assert_eq!(tried.len(), 2);
}

#[test]
fn whoever_waits_for_long_is_tried_anyway() {
    let mut run = Run::new();
    run.node("n", 1);
    run.pod(pod("a", 2, json!({})));
    assert_eq!(run.tried(), ["a"]);
    for _ in 0..3 {
        let due = run.now + Duration::from_secs(300);
        assert_eq!(run.engine.wakes_at(), Some(due));
        run.after(Duration::from_millis(299_999));
        assert!(run.go().is_empty());
        run.after(Duration::from_millis(1));
        assert_eq!(run.tried(), ["a"]);
    }
}

#[test]
fn pods_that_are_alike_share_an_answer() {
    let mut run = Run::new();
    run.node("n", 2);
    let alike = |index: usize| labelled(&format!("p{index:02}"), json!({"app": "a"}), 1, json!({}));
    for index in 0..50 {
        run.pod(alike(index));
    }
    // All are told, and two find a place.
    let tried = run.tried();
    assert_eq!(tried.len(), 50);
    assert_eq!(tried[..3], ["p00+", "p01+", "p02"]);
    // Room for one: the second that tries finds none, and the others need not.
    run.after(SECOND * 20);
    run.gone("p00");
    assert_eq!(run.tried(), ["p02+", "p03"]);
    // The one that was to try is gone: another does.
    run.after(SECOND * 20);
    run.gone("p01");
    run.gone("p04");
    assert_eq!(run.tried(), ["p05+", "p06"]);
    // Room for all.
    run.after(SECOND * 20);
    run.node("big", 100);
    assert_eq!(run.tried().len(), 45);
    assert_eq!(run.engine.pending().unschedulable, 0);
}

/// Whatever becomes of it says nothing about those that it was like before.
#[test]
fn a_pod_that_changed_while_it_was_being_bound_is_like_others_now() {
    let mut run = Run::new();
    run.node_with("n", 8, json!({"labels": {"zone": "z"}}));
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "b"}}});
    let away = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    run.pod(pod(
        "x",
        1,
        json!({"nodeName": "n", "affinity": {"podAntiAffinity": away}}),
    ));
    let one = |name: &str, app: &str| labelled(name, json!({"app": app}), 1, json!({}));
    run.pod(one("first", "a"));
    assert_eq!(run.go(), ["first → n"]);
    run.pod(one("first", "b"));
    let uid = "default/first".into();
    run.apply(Change::NotBound { uid });
    run.after(SECOND);
    assert_eq!(run.tried(), ["first"]);
    run.pod(one("second", "a"));
    assert_eq!(run.tried(), ["second+"]);
    // And the other way round: who is like it now is told the same.
    run.pod(one("third", "b"));
    assert_eq!(run.tried(), ["third"]);
}

#[test]
fn a_pod_that_became_more_important_while_it_was_being_bound_is_tried_first() {
    let mut run = Run::new();
    run.node("n", 8);
    run.pod(pod("first", 1, json!({})));
    run.pod(pod("second", 1, json!({"priority": 1})));
    assert_eq!(run.tried(), ["second+", "first+"]);
    run.pod(pod("first", 1, json!({"priority": 2})));
    for name in ["second", "first"] {
        let uid = format!("default/{name}").into();
        run.apply(Change::NotBound { uid });
    }
    run.after(SECOND);
    assert_eq!(run.tried(), ["first+", "second+"]);
}

#[test]
fn pods_with_claims_say_why_they_wait() {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "data"}});
    let device = json!({"name": "gpu", "resourceClaimName": "fast"});
    for (claims, reason) in [
        (
            json!({"volumes": [volume]}),
            "volumes are not scheduled by this scheduler yet: claim data",
        ),
        (
            json!({"resourceClaims": [device]}),
            "devices are not scheduled by this scheduler yet: claim gpu",
        ),
    ] {
        let mut run = Run::new();
        run.node("n", 2);
        run.pod(pod("a", 1, claims));
        let expected = format!(
            "a Unschedulable: 0/1 nodes are available: {reason}. \
             preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        );
        assert_eq!(run.go(), [expected]);
        run.node("m", 2);
        assert!(run.go().is_empty());
    }
}

#[test]
fn what_comes_into_a_queue_is_counted_by_what_brought_it() {
    let mut run = Run::new();
    run.pod(pod("a", 9, json!({})));
    run.pod(pod("g", 1, json!({"schedulingGates": [{"name": "g"}]})));
    run.go();
    run.node("n", 8);
    run.go();
    run.pod(pod("g", 1, json!({})));
    run.go();
    run.after(Duration::from_secs(60)).node("m", 16);
    run.go();
    let incoming = run.engine.take_incoming();
    let mut counts: Vec<String> = incoming
        .counts()
        .map(|(queue, event, pods)| format!("{queue} {event} {pods}"))
        .collect();
    counts.sort();
    assert_eq!(
        counts,
        [
            // The second time it has no need to rest any more.
            "active NodeAdd 1",
            "active UnschedulablePodAdd 1",
            "active UnschedulablePodUpdate 1",
            "backoff NodeAdd 1",
            "gated UnschedulablePodAdd 1",
            "unschedulable ScheduleAttemptFailure 2",
        ]
    );
    assert_eq!(run.engine.take_incoming().counts().count(), 0);
}
