use serde_json::{Value, json};

use super::super::testing::{
    after_transition, at, observed_pod, pod, stage_observation, time_text,
};
use super::*;

const START: PodAction = PodAction::Write(PodTransition::Start { restarts: 0 });

/// Checks the next action for a pod that is observed for the first time.
#[track_caller]
fn check(pod: &Value, now: i64, step: PodAction) {
    let facts = observed_pod(pod);
    assert_eq!(
        next(&facts, &stage_observation(&facts, now), at(now)),
        step,
        "{pod}"
    );
}

fn started(policy: &str, annotations: &[(&str, &str)], now: i64) -> Value {
    after_transition(
        &pod(policy, annotations),
        PodTransition::Start { restarts: 0 },
        now,
    )
}

fn deleted(mut pod: Value, now: i64, grace: i64) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!(time_text(now + grace));
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    pod
}

#[test]
fn pod_starts_immediately_or_after_its_delay() {
    check(&pod("Always", &[]), 100, START);
    let slow = pod("Always", &[("start-after", "5s")]);
    check(&slow, 100, PodAction::Write(PodTransition::Accept));
    let accepted = after_transition(&slow, PodTransition::Accept, 100);
    check(&accepted, 104, PodAction::Wait(at(105)));
    check(&accepted, 105, START);
    check(&accepted, 1000, START);
}

#[test]
fn pod_becomes_ready_immediately_later_or_never() {
    check(&started("Always", &[], 100), 110, PodAction::Rest);
    let later = started("Always", &[("ready-after", "5s")], 100);
    check(&later, 104, PodAction::Wait(at(105)));
    check(&later, 105, PodAction::Write(PodTransition::Ready));
    let ready = after_transition(&later, PodTransition::Ready, 105);
    check(&ready, 106, PodAction::Rest);
    let never = started("Always", &[("never-ready", "true")], 100);
    check(&never, 500, PodAction::Rest);
}

#[test]
fn readiness_gates_and_foreign_conditions_are_respected() {
    let mut gated = pod("Always", &[]);
    gated["spec"]["readinessGates"] = json!([{"conditionType": "example.com/ok"}]);
    let mut gated = after_transition(&gated, PodTransition::Start { restarts: 0 }, 100);
    check(&gated, 110, PodAction::Rest);
    let conditions = gated["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "example.com/ok", "status": "True"}));
    check(&gated, 110, PodAction::Write(PodTransition::Ready));

    let mut lost = started("Always", &[], 100);
    let conditions = lost["status"]["conditions"].as_array_mut().unwrap();
    let ready = conditions.iter_mut().find(|own| own["type"] == "Ready");
    ready.unwrap()["status"] = json!("False");
    check(&lost, 110, PodAction::Write(PodTransition::Ready));
}

#[test]
fn pod_terminates_after_its_run_time() {
    let finish = PodAction::Write(PodTransition::Finish(TerminationCause::Exit));
    let again = PodAction::Write(PodTransition::Start { restarts: 1 });
    for (policy, code, step) in [
        ("Never", "0", &finish),
        ("Never", "1", &finish),
        ("OnFailure", "0", &finish),
        ("OnFailure", "1", &again),
        ("Always", "0", &again),
        ("Always", "1", &again),
    ] {
        let running = started(policy, &[("run-for", "10s"), ("exit-code", code)], 100);
        check(&running, 109, PodAction::Wait(at(110)));
        check(&running, 110, step.clone());
        check(&running, 900, step.clone());
    }
    let finished = after_transition(
        &started("Never", &[("run-for", "10s")], 100),
        PodTransition::Finish(TerminationCause::Exit),
        110,
    );
    check(&finished, 111, PodAction::Rest);
}

#[test]
fn pod_that_terminates_first_never_becomes_ready() {
    let both = [("run-for", "10s"), ("ready-after", "6s")];
    let running = started("Never", &both, 100);
    check(&running, 104, PodAction::Wait(at(106)));
    check(&running, 106, PodAction::Write(PodTransition::Ready));
    let late = [("run-for", "10s"), ("ready-after", "30s")];
    check(&started("Never", &late, 100), 105, PodAction::Wait(at(110)));
}

#[test]
fn restart_backoff_grows() {
    for (restarts, ran_seconds, back_off_seconds) in [
        (0, 1, 0),
        (1, 1, 10),
        (2, 1, 20),
        (5, 1, 160),
        (6, 1, 300),
        (1000, 1, 300),
        (6, 600, 0),
    ] {
        let got = back_off(restarts, Duration::from_secs(ran_seconds));
        assert_eq!(got.as_secs(), back_off_seconds, "{restarts}");
    }
    let annotations = [("run-for", "5s"), ("exit-code", "1")];
    let again = after_transition(
        &started("Always", &annotations, 100),
        PodTransition::Start { restarts: 1 },
        105,
    );
    check(
        &again,
        110,
        PodAction::Write(PodTransition::BackOff { restarts: 1 }),
    );
    let waiting = after_transition(&again, PodTransition::BackOff { restarts: 1 }, 110);
    check(&waiting, 113, PodAction::Wait(at(120)));
    check(
        &waiting,
        120,
        PodAction::Write(PodTransition::Start { restarts: 2 }),
    );
}

#[test]
fn active_deadline_terminates_the_pod() {
    let with_deadline = |mut pod: Value| {
        pod["spec"]["activeDeadlineSeconds"] = json!(20);
        pod
    };
    let over = PodAction::Write(PodTransition::Finish(TerminationCause::Deadline));
    let resting = with_deadline(started("Always", &[], 100));
    check(&resting, 110, PodAction::Wait(at(120)));
    check(&resting, 120, over.clone());
    let slow = with_deadline(after_transition(
        &pod("Always", &[("start-after", "1h")]),
        PodTransition::Accept,
        100,
    ));
    check(&slow, 110, PodAction::Wait(at(120)));
    check(&slow, 120, over);
    let short = with_deadline(started("Never", &[("run-for", "10s")], 100));
    check(
        &short,
        110,
        PodAction::Write(PodTransition::Finish(TerminationCause::Exit)),
    );
}

#[test]
fn deleted_pod_stops_within_its_grace_period() {
    let stop = PodAction::Write(PodTransition::Finish(TerminationCause::Stop));
    let running = started("Always", &[], 100);
    check(&deleted(running, 200, 30), 200, stop.clone());
    let slow = started("Always", &[("stop-after", "10s")], 100);
    check(
        &deleted(slow.clone(), 200, 30),
        205,
        PodAction::Wait(at(210)),
    );
    check(&deleted(slow.clone(), 200, 30), 210, stop.clone());
    let kill = PodAction::Write(PodTransition::Finish(TerminationCause::Kill));
    check(
        &deleted(slow.clone(), 200, 4),
        203,
        PodAction::Wait(at(204)),
    );
    check(&deleted(slow, 200, 4), 204, kill);
    check(&deleted(pod("Always", &[]), 200, 30), 200, stop);
}

#[test]
fn stopped_pod_is_deleted_once() {
    let stopped = after_transition(
        &deleted(started("Always", &[], 100), 200, 30),
        PodTransition::Finish(TerminationCause::Stop),
        200,
    );
    check(&stopped, 200, PodAction::Delete);
    let mut confirmed = stopped;
    confirmed["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    check(&confirmed, 200, PodAction::Rest);
}

#[test]
fn observed_times_are_more_precise_than_status_times() {
    let facts = observed_pod(&started("Never", &[("run-for", "10s")], 100));
    let seen_at =
        |ms: i64| StageObservation::new(facts.stage(), Timestamp::from_millisecond(ms).unwrap());
    for (seen_ms, due_ms) in [
        (100_900, 110_900),
        (101_900, 111_900),
        (103_000, 110_000),
        (99_500, 109_500),
    ] {
        let step = next(&facts, &seen_at(seen_ms), at(101));
        let due = Timestamp::from_millisecond(due_ms).unwrap();
        assert_eq!(step, PodAction::Wait(due), "{seen_ms}");
    }
    // Becoming ready does not restart the stage's time.
    let mut sight = seen_at(100_900);
    sight.update(
        PodStage::Running {
            since: at(100),
            restarts: 0,
            is_ready: false,
        },
        at(105),
    );
    assert_eq!(
        sight.stage_started_at(),
        Timestamp::from_millisecond(100_900).unwrap()
    );
    sight.update(
        PodStage::Running {
            since: at(105),
            restarts: 1,
            is_ready: false,
        },
        at(105),
    );
    assert_eq!(sight.stage_started_at(), at(105));
}
