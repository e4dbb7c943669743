//! The scheduling queue: order, backoff, gates, timeouts, equivalence classes.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;

use super::harness::{SchedulerHarness, labelled_pod, pod};
use crate::engine::{Event, PendingPodCounts, SchedulerEvent};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn pods_are_ordered_by_priority_then_by_queue_time() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 32);
    run.set_pod(pod("late", 1, json!({"priority": 5})));
    run.advance_clock(SECOND);
    run.set_pod(pod("later", 1, json!({"priority": 5})));
    run.set_pod(pod("high", 1, json!({"priority": 9})));
    run.set_pod(pod("low", 1, json!({"priority": -1})));
    assert_eq!(run.attempted_pods(), ["high+", "late+", "later+", "low+"]);
}

#[test]
fn without_nodes_a_pod_waits_for_the_first_node() {
    let mut run = SchedulerHarness::new();
    run.set_pod(pod("a", 1, json!({})));
    assert_eq!(
        run.run_until_idle(),
        ["a Unschedulable: no nodes available to schedule pods"]
    );
    run.set_namespace("default", &[("a", "b")]);
    assert!(run.run_until_idle().is_empty());
    run.set_node("n", 1);
    assert_eq!(run.run_until_idle(), ["a → n"]);
}

#[test]
fn gated_pods_wait_only_for_the_removal_of_their_gates() {
    let mut run = SchedulerHarness::new();
    run.set_pod(pod("a", 1, json!({"schedulingGates": [{"name": "g"}]})));
    // The API server sets the condition of gated pods, not the scheduler.
    assert!(run.run_until_idle().is_empty());
    run.set_node("n", 1);
    run.advance_clock(Duration::from_secs(3600));
    assert!(run.run_until_idle().is_empty());
    assert_eq!(
        run.engine.pending_pods(),
        PendingPodCounts {
            gated: 1,
            ..PendingPodCounts::default()
        }
    );
    run.set_pod(pod("a", 1, json!({})));
    assert_eq!(run.run_until_idle(), ["a → n"]);
}

#[test]
fn pods_of_other_schedulers_and_ended_pods_are_ignored() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 8);
    let mut other = pod("other", 1, json!({}));
    other.scheduler_name = "another".into();
    run.set_pod(other);
    let mut terminating = pod("terminating", 1, json!({}));
    terminating.is_terminating = true;
    run.set_pod(terminating);
    let mut ended = pod("ended", 1, json!({}));
    ended.is_terminal = true;
    run.set_pod(ended);
    run.set_pod(pod("bound", 1, json!({"nodeName": "n"})));
    assert!(run.run_until_idle().is_empty());
    assert_eq!(run.engine.pending_pods(), PendingPodCounts::default());
}

#[test]
fn pods_removed_from_the_queue_are_not_attempted() {
    let mut run = SchedulerHarness::new();
    for name in ["deleted", "terminating", "bound", "listed away", "stays"] {
        run.set_pod(pod(name, 1, json!({})));
    }
    run.set_node("n", 8);
    run.delete_pod("deleted");
    let mut terminating = pod("terminating", 1, json!({}));
    terminating.is_terminating = true;
    run.set_pod(terminating);
    run.set_pod(pod("bound", 1, json!({"nodeName": "n"})));
    let kept = ["terminating", "bound", "stays"];
    let uids = kept.iter().map(|name| format!("default/{name}").into());
    run.apply(SchedulerEvent::Pod(Event::Replaced(uids.collect())));
    assert_eq!(run.run_until_idle(), ["stays → n"]);
}

#[test]
fn the_id_of_a_deleted_pod_can_be_reused() {
    let mut run = SchedulerHarness::new();
    run.set_pod(pod("old", 9, json!({"priority": 100})));
    run.run_until_idle();
    run.delete_pod("old");
    run.set_pod(pod("new", 1, json!({})));
    run.set_node("n", 1);
    assert_eq!(run.run_until_idle(), ["new → n"]);
}

#[test]
fn nodes_and_namespaces_missing_from_a_list_are_removed() {
    let mut run = SchedulerHarness::new();
    run.set_node("a", 8);
    run.set_node("b", 8);
    run.set_namespace("x", &[]);
    run.apply(SchedulerEvent::Node(Event::Replaced(HashSet::from([
        "b".into()
    ]))));
    run.set_namespace("default", &[]);
    run.apply(SchedulerEvent::Namespace(Event::Replaced(HashSet::from([
        "default".into(),
    ]))));
    run.set_pod(pod("p", 1, json!({})));
    assert_eq!(run.run_until_idle(), ["p → b"]);
    let known: Vec<&str> = run.engine.cluster().namespace_names().collect();
    assert_eq!(known, ["default"]);
}

#[test]
fn a_failed_binding_is_retried_with_growing_backoff() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 1);
    run.set_pod(pod("a", 1, json!({})));
    for wait in [1, 2, 4, 8, 10, 10] {
        assert_eq!(run.run_until_idle(), ["a → n"]);
        assert_eq!(run.engine.pending_pods().binding, 1);
        let uid = "default/a".into();
        run.apply(SchedulerEvent::BindingConflict { uid });
        assert_eq!(
            run.engine.next_deadline(),
            Some(run.now + Duration::from_secs(wait))
        );
        run.advance_clock(Duration::from_secs(wait) - Duration::from_millis(1));
        assert!(run.run_until_idle().is_empty(), "{wait}");
        run.advance_clock(Duration::from_millis(1));
    }
}

#[test]
fn a_failed_binding_releases_its_resources() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 1);
    run.set_pod(pod("a", 1, json!({})));
    assert_eq!(run.run_until_idle(), ["a → n"]);
    run.set_pod(pod("b", 1, json!({})));
    assert_eq!(run.attempted_pods(), ["b"]);
    let uid = "default/a".into();
    run.apply(SchedulerEvent::BindingConflict { uid });
    assert_eq!(run.run_until_idle(), ["b → n"]);
}

#[test]
fn the_servers_state_of_a_binding_takes_precedence() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 1);
    run.set_pod(pod("a", 1, json!({})));
    assert_eq!(run.run_until_idle(), ["a → n"]);
    // An update from before the binding, received late.
    run.set_pod(labelled_pod(
        "a",
        json!({"app": "a", "more": "labels"}),
        1,
        json!({}),
    ));
    assert!(run.run_until_idle().is_empty());
    run.set_pod(pod("a", 1, json!({"nodeName": "n"})));
    assert_eq!(run.engine.pending_pods(), PendingPodCounts::default());
    // The watch has confirmed the binding, so a failed request does not matter.
    let uid = "default/a".into();
    run.apply(SchedulerEvent::BindingConflict { uid });
    run.advance_clock(Duration::from_secs(60));
    assert!(run.run_until_idle().is_empty());
    assert_eq!(run.node_of("a").as_deref(), Some("n"));
}

#[test]
fn a_pod_in_backoff_is_attempted_only_when_no_pod_is_active() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 1);
    run.set_pod(pod("big", 2, json!({"priority": 1})));
    assert_eq!(run.attempted_pods(), ["big"]);
    // The pod is requeued during its backoff; an active pod is scheduled first despite its lower priority.
    run.set_node("m", 2);
    run.set_pod(pod("small", 1, json!({})));
    assert_eq!(run.engine.pending_pods().backoff, 1);
    let tried = run.attempted_pods();
    assert_eq!(tried[0], "small+");
    assert_eq!(tried.len(), 2);
}

#[test]
fn unschedulable_pods_are_retried_after_the_maximum_duration() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 1);
    run.set_pod(pod("a", 2, json!({})));
    assert_eq!(run.attempted_pods(), ["a"]);
    for _ in 0..3 {
        let due = run.now + Duration::from_secs(300);
        assert_eq!(run.engine.next_deadline(), Some(due));
        run.advance_clock(Duration::from_millis(299_999));
        assert!(run.run_until_idle().is_empty());
        run.advance_clock(Duration::from_millis(1));
        assert_eq!(run.attempted_pods(), ["a"]);
    }
}

#[test]
fn equivalent_pods_share_a_scheduling_failure() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 2);
    let alike =
        |index: usize| labelled_pod(&format!("p{index:02}"), json!({"app": "a"}), 1, json!({}));
    for index in 0..50 {
        run.set_pod(alike(index));
    }
    // All get an outcome, and two are scheduled.
    let tried = run.attempted_pods();
    assert_eq!(tried.len(), 50);
    assert_eq!(tried[..3], ["p00+", "p01+", "p02"]);
    // Resources for one pod: the second attempt fails, and the others are not attempted.
    run.advance_clock(SECOND * 20);
    run.delete_pod("p00");
    assert_eq!(run.attempted_pods(), ["p02+", "p03"]);
    // The probe is deleted: the next pod becomes it.
    run.advance_clock(SECOND * 20);
    run.delete_pod("p01");
    run.delete_pod("p04");
    assert_eq!(run.attempted_pods(), ["p05+", "p06"]);
    // Resources for all pods.
    run.advance_clock(SECOND * 20);
    run.set_node("big", 100);
    assert_eq!(run.attempted_pods().len(), 45);
    assert_eq!(run.engine.pending_pods().unschedulable, 0);
}

/// Its result does not apply to its previous equivalence class.
#[test]
fn a_pod_changed_during_binding_joins_its_new_equivalence_class() {
    let mut run = SchedulerHarness::new();
    run.set_node_with("n", 8, json!({"labels": {"zone": "z"}}));
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "b"}}});
    let away = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    run.set_pod(pod(
        "x",
        1,
        json!({"nodeName": "n", "affinity": {"podAntiAffinity": away}}),
    ));
    let one = |name: &str, app: &str| labelled_pod(name, json!({"app": app}), 1, json!({}));
    run.set_pod(one("first", "a"));
    assert_eq!(run.run_until_idle(), ["first → n"]);
    run.set_pod(one("first", "b"));
    let uid = "default/first".into();
    run.apply(SchedulerEvent::BindingConflict { uid });
    run.advance_clock(SECOND);
    assert_eq!(run.attempted_pods(), ["first"]);
    run.set_pod(one("second", "a"));
    assert_eq!(run.attempted_pods(), ["second+"]);
    // A pod that is equivalent now gets the same result.
    run.set_pod(one("third", "b"));
    assert_eq!(run.attempted_pods(), ["third"]);
}

#[test]
fn a_priority_raised_during_binding_reorders_the_queue() {
    let mut run = SchedulerHarness::new();
    run.set_node("n", 8);
    run.set_pod(pod("first", 1, json!({})));
    run.set_pod(pod("second", 1, json!({"priority": 1})));
    assert_eq!(run.attempted_pods(), ["second+", "first+"]);
    run.set_pod(pod("first", 1, json!({"priority": 2})));
    for name in ["second", "first"] {
        let uid = format!("default/{name}").into();
        run.apply(SchedulerEvent::BindingConflict { uid });
    }
    run.advance_clock(SECOND);
    assert_eq!(run.attempted_pods(), ["first+", "second+"]);
}

#[test]
fn pods_with_claims_are_unschedulable_with_a_reason() {
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
        let mut run = SchedulerHarness::new();
        run.set_node("n", 2);
        run.set_pod(pod("a", 1, claims));
        let expected = format!(
            "a Unschedulable: 0/1 nodes are available: {reason}. \
             preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        );
        assert_eq!(run.run_until_idle(), [expected]);
        run.set_node("m", 2);
        assert!(run.run_until_idle().is_empty());
    }
}

#[test]
fn incoming_pods_are_counted_by_event_and_queue() {
    let mut run = SchedulerHarness::new();
    run.set_pod(pod("a", 9, json!({})));
    run.set_pod(pod("g", 1, json!({"schedulingGates": [{"name": "g"}]})));
    run.run_until_idle();
    run.set_node("n", 8);
    run.run_until_idle();
    run.set_pod(pod("g", 1, json!({})));
    run.run_until_idle();
    run.advance_clock(Duration::from_secs(60)).set_node("m", 16);
    run.run_until_idle();
    let incoming = run.engine.take_incoming_counts();
    let mut counts: Vec<String> = incoming
        .counts()
        .map(|(queue, event, pods)| format!("{queue} {event} {pods}"))
        .collect();
    counts.sort();
    assert_eq!(
        counts,
        [
            // The backoff has expired by the second event.
            "active NodeAdd 1",
            "active UnschedulablePodAdd 1",
            "active UnschedulablePodUpdate 1",
            "backoff NodeAdd 1",
            "gated UnschedulablePodAdd 1",
            "unschedulable ScheduleAttemptFailure 2",
        ]
    );
    assert_eq!(run.engine.take_incoming_counts().counts().count(), 0);
}
