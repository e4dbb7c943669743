//! What the status of a pod says after a change, as a strategic merge patch.

use std::net::Ipv4Addr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::facts::Facts;
use super::life::{Change, Ending};
use crate::wire::Container;

/// What a container that was killed exits with.
const KILLED: i32 = 137;

/// Where a pod is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) host: Ipv4Addr,
    pub(crate) pod: Ipv4Addr,
}

/// The whole patch. It is about the pod that was looked at: of another one of its name, or after any other change,
/// the server refuses it, and what comes next is decided anew.
pub(crate) fn patch(pod: &Facts, change: Change, addresses: Addresses, now: Timestamp) -> Value {
    json!({
        "metadata": {"uid": pod.uid, "resourceVersion": pod.version},
        "status": status(pod, change, addresses, now),
    })
}

fn status(pod: &Facts, change: Change, addresses: Addresses, now: Timestamp) -> Value {
    let is_ready = becomes_ready(pod, change);
    let begun = pod.status.start_time.as_ref().map_or(now, |time| time.0);
    let phase = phase(pod, change);
    let containers = pod.spec.containers.iter();
    let containers: Vec<Value> = containers
        .map(|container| container_status(pod, container, change, is_ready, now))
        .collect();
    let init = pod.spec.init_containers.iter();
    let init: Vec<Value> = init
        .map(|container| init_status(pod, container, change, now))
        .collect();
    let mut status = json!({
        "phase": phase,
        "startTime": time(begun),
        "hostIP": addresses.host,
        "hostIPs": [{"ip": addresses.host}],
        "conditions": conditions(pod, change, is_ready, now),
        "containerStatuses": containers,
    });
    if !init.is_empty() {
        status["initContainerStatuses"] = Value::Array(init);
    }
    if let Some(generation) = pod.generation {
        status["observedGeneration"] = json!(generation);
    }
    let has_address = !matches!(change, Change::Accept) && !never_ran(pod, change);
    if has_address {
        status["podIP"] = json!(addresses.pod);
        status["podIPs"] = json!([{"ip": addresses.pod}]);
    }
    if change == Change::Finish(Ending::Deadline) {
        status["reason"] = json!("DeadlineExceeded");
        status["message"] = json!("Pod was active on the node longer than the specified deadline");
    }
    status
}

fn phase(pod: &Facts, change: Change) -> &'static str {
    match change {
        Change::Accept => "Pending",
        Change::Start { .. } | Change::Ready | Change::BackOff { .. } => "Running",
        Change::Finish(Ending::Deadline) => "Failed",
        Change::Finish(_) if exit_code(pod, change) == 0 => "Succeeded",
        Change::Finish(_) => "Failed",
    }
}

fn becomes_ready(pod: &Facts, change: Change) -> bool {
    let script = &pod.script;
    match change {
        Change::Start { .. } => !script.never_ready && script.ready_after.is_zero(),
        Change::Ready => true,
        _ => false,
    }
}

fn never_ran(pod: &Facts, change: Change) -> bool {
    matches!(change, Change::Finish(_)) && pod.running_since().is_none() && pod.last_end().is_none()
}

fn exit_code(pod: &Facts, change: Change) -> i32 {
    match change {
        Change::Finish(Ending::Kill | Ending::Deadline) => KILLED,
        _ if never_ran(pod, change) => KILLED,
        _ => pod.script.exit_code.into(),
    }
}

fn container_status(
    pod: &Facts,
    container: &Container,
    change: Change,
    is_ready: bool,
    now: Timestamp,
) -> Value {
    let before = pod.status.container_statuses.iter();
    let mut before = before.filter(|own| own.name == container.name);
    let before = before.next().cloned().unwrap_or_default();
    let restarts = match change {
        Change::Start { restarts } => i32::try_from(restarts).unwrap_or(i32::MAX),
        _ => before.restart_count,
    };
    let started = before.state.running.and_then(|own| own.started_at);
    let ended = |id: i32| {
        let started = started.as_ref().map_or(now, |time| time.0);
        terminated(pod, container, change, started, now, id)
    };
    let earlier = before.last_state.terminated.map(|end| {
        let time_of = |own: Option<Time>| time(own.map_or(now, |own| own.0));
        let exit_code = end.exit_code;
        json!({"terminated": {
            "exitCode": exit_code,
            "reason": reason(exit_code),
            "startedAt": time_of(end.started_at),
            "finishedAt": time_of(end.finished_at),
            "containerID": container_id(pod, container, before.restart_count.saturating_sub(1)),
        }})
    });
    let earlier = earlier.unwrap_or_else(|| json!({}));
    let was_running = started.is_some();
    let (state, last) = match change {
        Change::Accept => (waiting_to_start(pod), json!({})),
        Change::Start { .. } if was_running => (running(now), ended(before.restart_count)),
        Change::Start { .. } => (running(now), earlier),
        Change::Ready => (
            running(started.as_ref().map_or(now, |time| time.0)),
            earlier,
        ),
        Change::BackOff { .. } => (
            json!({"waiting": {
                "reason": "CrashLoopBackOff",
                "message": format!("back-off restarting container {} of a simulated pod", container.name),
            }}),
            ended(before.restart_count),
        ),
        Change::Finish(_) if was_running => (ended(restarts), earlier),
        // It had ended before, and was not started again.
        Change::Finish(_) if earlier != json!({}) => (earlier, json!({})),
        Change::Finish(_) => (ended(restarts), json!({})),
    };
    let runs = matches!(change, Change::Start { .. } | Change::Ready);
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": image_id(change),
        "containerID": match change {
            Change::Accept => String::new(),
            _ => container_id(pod, container, restarts),
        },
        "ready": is_ready,
        "started": runs,
        "restartCount": restarts,
        "state": state,
        "lastState": last,
    })
}

/// Init containers have done their work when the others begin; sidecars run as long as those do.
fn init_status(pod: &Facts, container: &Container, change: Change, now: Timestamp) -> Value {
    let is_sidecar = container.restart_policy == "Always";
    let begun = pod.status.start_time.as_ref().map_or(now, |time| time.0);
    let done = || {
        json!({"terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": time(begun),
            "finishedAt": time(now),
            "containerID": container_id(pod, container, 0),
        }})
    };
    let (state, is_ready, runs) = match change {
        Change::Accept => (
            json!({"waiting": {"reason": "PodInitializing"}}),
            false,
            false,
        ),
        Change::Finish(_) => (done(), !is_sidecar, false),
        _ if is_sidecar => (running(begun), true, true),
        _ => (done(), true, false),
    };
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": image_id(change),
        "ready": is_ready,
        "started": runs,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    })
}

fn conditions(pod: &Facts, change: Change, is_ready: bool, now: Timestamp) -> Vec<Value> {
    let is_accepted = change == Change::Accept;
    let is_over = matches!(change, Change::Finish(_));
    let has_init = !pod.spec.init_containers.is_empty();
    let names = pod.spec.containers.iter().map(|own| own.name.as_str());
    let names: Vec<&str> = names.collect();
    let unready = format!("containers with unready status: [{}]", names.join(" "));
    let why_not = match (is_over, phase(pod, change)) {
        (true, "Succeeded") => ("PodCompleted", ""),
        (true, _) => ("PodFailed", ""),
        _ => ("ContainersNotReady", unready.as_str()),
    };
    let gates = match pod.gates_are_open() {
        true => None,
        false => Some((
            "ReadinessGatesNotReady",
            "corresponding condition of pod readiness gate is not true",
        )),
    };
    let not_ready = (!is_ready).then_some(why_not);
    let initialized = match is_accepted && has_init {
        true => Some((
            "ContainersNotInitialized",
            "containers with incomplete status",
        )),
        false => None,
    };
    [
        (
            "PodReadyToStartContainers",
            (is_accepted || is_over).then_some(("", "")),
        ),
        ("Initialized", initialized),
        ("Ready", not_ready.or(gates)),
        ("ContainersReady", not_ready),
        ("PodScheduled", None),
    ]
    .into_iter()
    .map(|(type_, why_not)| condition(pod, type_, why_not, now))
    .collect()
}

/// `why_not` is the reason and the message of a condition that is false.
fn condition(pod: &Facts, type_: &str, why_not: Option<(&str, &str)>, now: Timestamp) -> Value {
    let status = if why_not.is_none() { "True" } else { "False" };
    let before = pod.condition(type_).filter(|own| own.status == status);
    let since = before.and_then(|own| own.last_transition_time.as_ref());
    let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    // A merge takes away what is null: the words of the condition before.
    json!({
        "type": type_,
        "status": status,
        "observedGeneration": pod.generation,
        "lastProbeTime": null,
        "lastTransitionTime": time(since.map_or(now, |time| time.0)),
        "reason": why_not.and_then(|(reason, _)| said(reason)),
        "message": why_not.and_then(|(_, message)| said(message)),
    })
}

fn waiting_to_start(pod: &Facts) -> Value {
    let reason = match pod.spec.init_containers.is_empty() {
        true => "ContainerCreating",
        false => "PodInitializing",
    };
    json!({"waiting": {"reason": reason}})
}

fn running(since: Timestamp) -> Value {
    json!({"running": {"startedAt": time(since)}})
}

fn terminated(
    pod: &Facts,
    container: &Container,
    change: Change,
    started: Timestamp,
    now: Timestamp,
    run: i32,
) -> Value {
    let exit_code = exit_code(pod, change);
    let reason = match never_ran(pod, change) {
        true => "ContainerStatusUnknown",
        false => reason(exit_code),
    };
    json!({"terminated": {
        "exitCode": exit_code,
        "reason": reason,
        "startedAt": time(started),
        "finishedAt": time(now),
        "containerID": container_id(pod, container, run),
    }})
}

fn reason(exit_code: i32) -> &'static str {
    match exit_code {
        0 => "Completed",
        _ => "Error",
    }
}

fn image_id(change: Change) -> &'static str {
    match change {
        Change::Accept => "",
        _ => "simulated",
    }
}

fn container_id(pod: &Facts, container: &Container, run: i32) -> String {
    format!("simulated://{}/{}/{run}", pod.uid, container.name)
}

/// As Kubernetes writes times: in whole seconds.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%FT%TZ").to_string()
}

#[cfg(test)]
mod tests;
