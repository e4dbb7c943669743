use serde_json::json;

use super::super::testing::{after_transition, pod, time_text};
use super::*;

fn conditions_of(pod: &Value) -> Vec<String> {
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    conditions
        .iter()
        .map(|own| {
            let text = |field: &str| own[field].as_str().unwrap_or_default().to_owned();
            format!("{}={} {}", text("type"), text("status"), text("reason"))
        })
        .collect()
}

const START: PodTransition = PodTransition::Start { restarts: 0 };

#[test]
fn status_of_a_running_pod() {
    let running = after_transition(&pod("Always", &[]), START, 100);
    let status = &running["status"];
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["startTime"], time_text(100));
    assert_eq!(status["podIP"], "10.16.0.2");
    assert_eq!(status["podIPs"], json!([{"ip": "10.16.0.2"}]));
    assert_eq!(status["hostIP"], "172.16.0.1");
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(
        status["containerStatuses"],
        json!([{
            "name": "main", "image": "i", "imageID": "simulated", "containerID": "simulated://u/main/0",
            "ready": true, "started": true, "restartCount": 0,
            "state": {"running": {"startedAt": time_text(100)}}, "lastState": {},
        }])
    );
    assert_eq!(
        conditions_of(&running),
        [
            "PodReadyToStartContainers=True ",
            "Initialized=True ",
            "Ready=True ",
            "ContainersReady=True ",
            "PodScheduled=True ",
        ]
    );
}

#[test]
fn status_of_an_unready_pod() {
    let mut slow = pod("Always", &[("start-after", "5s"), ("ready-after", "5s")]);
    slow["spec"]["initContainers"] = json!([
        {"name": "first", "image": "i"},
        {"name": "sidecar", "image": "i", "restartPolicy": "Always"},
    ]);
    let accepted = after_transition(&slow, PodTransition::Accept, 100);
    assert_eq!(accepted["status"]["phase"], "Pending");
    assert_eq!(accepted["status"].get("podIP"), None);
    let state =
        |pod: &Value, list: &str, number: usize| pod["status"][list][number]["state"].clone();
    let waiting = json!({"waiting": {"reason": "PodInitializing"}});
    assert_eq!(state(&accepted, "containerStatuses", 0), waiting);
    assert_eq!(
        conditions_of(&accepted),
        [
            "PodReadyToStartContainers=False ",
            "Initialized=False ContainersNotInitialized",
            "Ready=False ContainersNotReady",
            "ContainersReady=False ContainersNotReady",
            "PodScheduled=True ",
        ]
    );
    let running = after_transition(&accepted, START, 105);
    assert_eq!(running["status"]["startTime"], time_text(100));
    let init = "initContainerStatuses";
    assert_eq!(state(&running, init, 0)["terminated"]["exitCode"], 0);
    assert_eq!(
        state(&running, init, 1)["running"]["startedAt"],
        time_text(100)
    );
    assert_eq!(running["status"]["containerStatuses"][0]["ready"], false);
    let ready = after_transition(&running, PodTransition::Ready, 110);
    let own = &ready["status"]["containerStatuses"][0];
    assert_eq!(
        (&own["ready"], &own["state"]["running"]["startedAt"]),
        (&json!(true), &json!(time_text(105)))
    );
    let since = |pod: &Value, number: usize| {
        pod["status"]["conditions"][number]["lastTransitionTime"].clone()
    };
    assert_eq!(
        since(&ready, 1),
        time_text(105),
        "the Initialized condition must keep its transition time"
    );
    assert_eq!(
        since(&ready, 2),
        time_text(110),
        "the Ready condition must have a new transition time"
    );
}

#[test]
fn status_of_a_terminated_pod() {
    let pod = pod("Never", &[("run-for", "5s"), ("exit-code", "3")]);
    let running = after_transition(&pod, START, 100);
    for (ending, phase, code, reason) in [
        (TerminationCause::Exit, "Failed", 3, None),
        (TerminationCause::Stop, "Failed", 3, None),
        (TerminationCause::Kill, "Failed", 137, None),
        (
            TerminationCause::Deadline,
            "Failed",
            137,
            Some("DeadlineExceeded"),
        ),
    ] {
        let ended = after_transition(&running, PodTransition::Finish(ending), 105);
        let status = &ended["status"];
        assert_eq!(status["phase"], phase);
        assert_eq!(status["reason"].as_str(), reason);
        assert_eq!(
            status["containerStatuses"][0]["state"],
            json!({"terminated": {
                "exitCode": code, "reason": "Error", "startedAt": time_text(100), "finishedAt": time_text(105),
                "containerID": "simulated://u/main/0",
            }})
        );
        assert_eq!(conditions_of(&ended)[2], "Ready=False PodFailed");
    }
    let never_started = after_transition(&pod, PodTransition::Finish(TerminationCause::Stop), 105);
    let state = &never_started["status"]["containerStatuses"][0]["state"];
    assert_eq!(never_started["status"]["phase"], "Failed");
    assert_eq!(state["terminated"]["reason"], "ContainerStatusUnknown");
    assert_eq!(never_started["status"].get("podIP"), None);
}

#[test]
fn status_of_a_succeeded_pod() {
    let pod = pod("Never", &[("run-for", "5s")]);
    let ended = after_transition(
        &after_transition(&pod, START, 100),
        PodTransition::Finish(TerminationCause::Exit),
        105,
    );
    assert_eq!(ended["status"]["phase"], "Succeeded");
    let state = &ended["status"]["containerStatuses"][0]["state"];
    assert_eq!(state["terminated"]["reason"], "Completed");
    assert_eq!(
        conditions_of(&ended),
        [
            "PodReadyToStartContainers=False ",
            "Initialized=True ",
            "Ready=False PodCompleted",
            "ContainersReady=False PodCompleted",
            "PodScheduled=True ",
        ]
    );
}

#[test]
fn restart_records_the_last_state() {
    let pod = pod("Always", &[("run-for", "5s"), ("exit-code", "2")]);
    let again = after_transition(
        &after_transition(&pod, START, 100),
        PodTransition::Start { restarts: 1 },
        105,
    );
    let own = &again["status"]["containerStatuses"][0];
    assert_eq!(own["restartCount"], 1);
    let run_before = json!({"terminated": {
        "exitCode": 2, "reason": "Error", "startedAt": time_text(100), "finishedAt": time_text(105),
        "containerID": "simulated://u/main/0",
    }});
    assert_eq!(own["lastState"], run_before);
    let waiting = after_transition(&again, PodTransition::BackOff { restarts: 1 }, 110);
    let own = &waiting["status"]["containerStatuses"][0];
    assert_eq!(own["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(own["lastState"]["terminated"]["finishedAt"], time_text(110));
    assert_eq!(waiting["status"]["phase"], "Running");
    let third = after_transition(&waiting, PodTransition::Start { restarts: 2 }, 120);
    let own = &third["status"]["containerStatuses"][0];
    assert_eq!(own["restartCount"], 2);
    assert_eq!(own["lastState"]["terminated"]["finishedAt"], time_text(110));
    let stopped = after_transition(&waiting, PodTransition::Finish(TerminationCause::Stop), 115);
    let own = &stopped["status"]["containerStatuses"][0];
    assert_eq!(own["state"]["terminated"]["finishedAt"], time_text(110));
}

#[test]
fn extreme_restart_counts_do_not_overflow() {
    let mut odd = after_transition(&pod("Always", &[]), START, 100);
    for restarts in [i32::MIN, i32::MAX] {
        odd["status"]["containerStatuses"][0]["restartCount"] = json!(restarts);
        odd["status"]["containerStatuses"][0]["lastState"] = json!({"terminated": {"exitCode": 1, "startedAt": time_text(50), "finishedAt": time_text(60)}});
        let ready = after_transition(&odd, PodTransition::Ready, 110);
        let own = &ready["status"]["containerStatuses"][0];
        assert_eq!(own["restartCount"], restarts);
        assert_eq!(own["lastState"]["terminated"]["exitCode"], 1);
    }
}
