use serde_json::{Value, json};

use super::super::testing::{at, changed, facts, pod, said, seen};
use super::*;

const START: Step = Step::Write(Change::Start { restarts: 0 });

/// What comes next for a pod that is seen for the first time.
#[track_caller]
fn check(pod: &Value, now: i64, step: Step) {
    let facts = facts(pod);
    assert_eq!(next(&facts, &seen(&facts, now), at(now)), step, "{pod}");
}

fn started(policy: &str, annotations: &[(&str, &str)], now: i64) -> Value {
    changed(
        &pod(policy, annotations),
        Change::Start { restarts: 0 },
        now,
    )
}

fn deleted(mut pod: Value, now: i64, grace: i64) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!(said(now + grace));
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    pod
}

#[test]
fn a_pod_starts_at_once_or_after_a_while() {
    check(&pod("Always", &[]), 100, START);
    let slow = pod("Always", &[("start-after", "5s")]);
    check(&slow, 100, Step::Write(Change::Accept));
    let accepted = changed(&slow, Change::Accept, 100);
    check(&accepted, 104, Step::Wait(at(105)));
    check(&accepted, 105, START);
    check(&accepted, 1000, START);
}

#[test]
fn a_pod_is_ready_at_once_later_or_never() {
    check(&started("Always", &[], 100), 110, Step::Rest);
    let later = started("Always", &[("ready-after", "5s")], 100);
    check(&later, 104, Step::Wait(at(105)));
    check(&later, 105, Step::Write(Change::Ready));
    let ready = changed(&later, Change::Ready, 105);
    check(&ready, 106, Step::Rest);
    let never = started("Always", &[("never-ready", "true")], 100);
    check(&never, 500, Step::Rest);
}

#[test]
fn what_others_say_about_readiness_is_heard() {
    let mut gated = pod("Always", &[]);
    gated["spec"]["readinessGates"] = json!([{"conditionType": "example.com/ok"}]);
    let mut gated = changed(&gated, Change::Start { restarts: 0 }, 100);
    check(&gated, 110, Step::Rest);
    let conditions = gated["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "example.com/ok", "status": "True"}));
    check(&gated, 110, Step::Write(Change::Ready));

    let mut lost = started("Always", &[], 100);
    let conditions = lost["status"]["conditions"].as_array_mut().unwrap();
    let ready = conditions.iter_mut().find(|own| own["type"] == "Ready");
    ready.unwrap()["status"] = json!("False");
    check(&lost, 110, Step::Write(Change::Ready));
}

#[test]
fn a_pod_ends_when_it_has_run_for_its_time() {
    let finish = Step::Write(Change::Finish(Ending::Exit));
    let again = Step::Write(Change::Start { restarts: 1 });
    for (policy, code, step) in [
        ("Never", "0", &finish),
        ("Never", "1", &finish),
        ("OnFailure", "0", &finish),
        ("OnFailure", "1", &again),
        ("Always", "0", &again),
        ("Always", "1", &again),
    ] {
        let running = started(policy, &[("run-for", "10s"), ("exit-code", code)], 100);
        check(&running, 109, Step::Wait(at(110)));
        check(&running, 110, step.clone());
        check(&running, 900, step.clone());
    }
    let finished = changed(
        &started("Never", &[("run-for", "10s")], 100),
        Change::Finish(Ending::Exit),
        110,
    );
    check(&finished, 111, Step::Rest);
}

#[test]
fn readiness_comes_before_the_end_or_not_at_all() {
    let both = [("run-for", "10s"), ("ready-after", "6s")];
    let running = started("Never", &both, 100);
    check(&running, 104, Step::Wait(at(106)));
    check(&running, 106, Step::Write(Change::Ready));
    let late = [("run-for", "10s"), ("ready-after", "30s")];
    check(&started("Never", &late, 100), 105, Step::Wait(at(110)));
}

#[test]
fn restarts_take_longer_and_longer() {
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
    let again = changed(
        &started("Always", &annotations, 100),
        Change::Start { restarts: 1 },
        105,
    );
    check(&again, 110, Step::Write(Change::BackOff { restarts: 1 }));
    let waiting = changed(&again, Change::BackOff { restarts: 1 }, 110);
    check(&waiting, 113, Step::Wait(at(120)));
    check(&waiting, 120, Step::Write(Change::Start { restarts: 2 }));
}

#[test]
fn a_deadline_ends_every_pod() {
    let with_deadline = |mut pod: Value| {
        pod["spec"]["activeDeadlineSeconds"] = json!(20);
        pod
    };
    let over = Step::Write(Change::Finish(Ending::Deadline));
    let resting = with_deadline(started("Always", &[], 100));
    check(&resting, 110, Step::Wait(at(120)));
    check(&resting, 120, over.clone());
    let slow = with_deadline(changed(
        &pod("Always", &[("start-after", "1h")]),
        Change::Accept,
        100,
    ));
    check(&slow, 110, Step::Wait(at(120)));
    check(&slow, 120, over);
    let short = with_deadline(started("Never", &[("run-for", "10s")], 100));
    check(&short, 110, Step::Write(Change::Finish(Ending::Exit)));
}

#[test]
fn a_deleted_pod_stops_within_its_grace() {
    let stop = Step::Write(Change::Finish(Ending::Stop));
    let running = started("Always", &[], 100);
    check(&deleted(running, 200, 30), 200, stop.clone());
    let slow = started("Always", &[("stop-after", "10s")], 100);
    check(&deleted(slow.clone(), 200, 30), 205, Step::Wait(at(210)));
    check(&deleted(slow.clone(), 200, 30), 210, stop.clone());
    let kill = Step::Write(Change::Finish(Ending::Kill));
    check(&deleted(slow.clone(), 200, 4), 203, Step::Wait(at(204)));
    check(&deleted(slow, 200, 4), 204, kill);
    check(&deleted(pod("Always", &[]), 200, 30), 200, stop);
}

#[test]
fn what_has_stopped_goes_once() {
    let stopped = changed(
        &deleted(started("Always", &[], 100), 200, 30),
        Change::Finish(Ending::Stop),
        200,
    );
    check(&stopped, 200, Step::Delete);
    let mut confirmed = stopped;
    confirmed["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    check(&confirmed, 200, Step::Rest);
}

#[test]
fn what_was_seen_is_more_exact_than_what_is_said() {
    let facts = facts(&started("Never", &[("run-for", "10s")], 100));
    let seen_at = |ms: i64| Sight::new(facts.stage(), Timestamp::from_millisecond(ms).unwrap());
    for (seen_ms, due_ms) in [
        (100_900, 110_900),
        (101_900, 111_900),
        (103_000, 110_000),
        (99_500, 109_500),
    ] {
        let step = next(&facts, &seen_at(seen_ms), at(101));
        let due = Timestamp::from_millisecond(due_ms).unwrap();
        assert_eq!(step, Step::Wait(due), "{seen_ms}");
    }
    // Becoming ready is no new run.
    let mut sight = seen_at(100_900);
    sight.update(
        Stage::Running {
            since: at(100),
            restarts: 0,
            is_ready: false,
        },
        at(105),
    );
    assert_eq!(sight.begun(), Timestamp::from_millisecond(100_900).unwrap());
    sight.update(
        Stage::Running {
            since: at(105),
            restarts: 1,
            is_ready: false,
        },
        at(105),
    );
    assert_eq!(sight.begun(), at(105));
}
