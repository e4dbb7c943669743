//! Status of a pod after a transition, as a strategic merge patch.

use std::net::Ipv4Addr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::lifecycle::{PodTransition, TerminationCause};
use super::observed_pod::ObservedPod;
use crate::partial_objects::Container;

/// Exit code of a killed container (128 + SIGKILL).
const KILLED_EXIT_CODE: i32 = 137;

/// Addresses of a pod and its node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodAddresses {
    pub(crate) host: Ipv4Addr,
    pub(crate) pod: Ipv4Addr,
}

/// The whole patch, with uid and resourceVersion preconditions: if the pod has changed or was recreated, the server
/// rejects it, and the transition is computed again.
pub(crate) fn patch(
    pod: &ObservedPod,
    change: PodTransition,
    addresses: PodAddresses,
    now: Timestamp,
) -> Value {
    json!({
        "metadata": {"uid": pod.uid, "resourceVersion": pod.version},
        "status": status(pod, change, addresses, now),
    })
}

fn status(
    pod: &ObservedPod,
    change: PodTransition,
    addresses: PodAddresses,
    now: Timestamp,
) -> Value {
    let is_ready = becomes_ready(pod, change);
    let stage_started_at = pod.status.start_time.as_ref().map_or(now, |time| time.0);
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
        "startTime": time(stage_started_at),
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
    let has_address = !matches!(change, PodTransition::Accept) && !never_ran(pod, change);
    if has_address {
        status["podIP"] = json!(addresses.pod);
        status["podIPs"] = json!([{"ip": addresses.pod}]);
    }
    if change == PodTransition::Finish(TerminationCause::Deadline) {
        status["reason"] = json!("DeadlineExceeded");
        status["message"] = json!("Pod was active on the node longer than the specified deadline");
    }
    status
}

fn phase(pod: &ObservedPod, change: PodTransition) -> &'static str {
    match change {
        PodTransition::Accept => "Pending",
        PodTransition::Start { .. } | PodTransition::Ready | PodTransition::BackOff { .. } => {
            "Running"
        }
        PodTransition::Finish(TerminationCause::Deadline) => "Failed",
        PodTransition::Finish(_) if exit_code(pod, change) == 0 => "Succeeded",
        PodTransition::Finish(_) => "Failed",
    }
}

fn becomes_ready(pod: &ObservedPod, change: PodTransition) -> bool {
    let script = &pod.script;
    match change {
        PodTransition::Start { .. } => !script.never_ready && script.ready_after.is_zero(),
        PodTransition::Ready => true,
        _ => false,
    }
}

fn never_ran(pod: &ObservedPod, change: PodTransition) -> bool {
    matches!(change, PodTransition::Finish(_))
        && pod.running_since().is_none()
        && pod.last_end().is_none()
}

fn exit_code(pod: &ObservedPod, change: PodTransition) -> i32 {
    match change {
        PodTransition::Finish(TerminationCause::Kill | TerminationCause::Deadline) => {
            KILLED_EXIT_CODE
        }
        _ if never_ran(pod, change) => KILLED_EXIT_CODE,
        _ => pod.script.exit_code.into(),
    }
}

fn container_status(
    pod: &ObservedPod,
    container: &Container,
    change: PodTransition,
    is_ready: bool,
    now: Timestamp,
) -> Value {
    let before = pod.status.container_statuses.iter();
    let mut before = before.filter(|own| own.name == container.name);
    let before = before.next().cloned().unwrap_or_default();
    let restarts = match change {
        PodTransition::Start { restarts } => i32::try_from(restarts).unwrap_or(i32::MAX),
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
        PodTransition::Accept => (waiting_to_start(pod), json!({})),
        PodTransition::Start { .. } if was_running => (running(now), ended(before.restart_count)),
        PodTransition::Start { .. } => (running(now), earlier),
        PodTransition::Ready => (
            running(started.as_ref().map_or(now, |time| time.0)),
            earlier,
        ),
        PodTransition::BackOff { .. } => (
            json!({"waiting": {
                "reason": "CrashLoopBackOff",
                "message": format!("back-off restarting container {} of a simulated pod", container.name),
            }}),
            ended(before.restart_count),
        ),
        PodTransition::Finish(_) if was_running => (ended(restarts), earlier),
        // It had exited before and was not restarted.
        PodTransition::Finish(_) if earlier != json!({}) => (earlier, json!({})),
        PodTransition::Finish(_) => (ended(restarts), json!({})),
    };
    let runs = matches!(change, PodTransition::Start { .. } | PodTransition::Ready);
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": image_id(change),
        "containerID": match change {
            PodTransition::Accept => String::new(),
            _ => container_id(pod, container, restarts),
        },
        "ready": is_ready,
        "started": runs,
        "restartCount": restarts,
        "state": state,
        "lastState": last,
    })
}

/// Init containers have completed when the main containers start; sidecars run as long as those.
fn init_status(
    pod: &ObservedPod,
    container: &Container,
    change: PodTransition,
    now: Timestamp,
) -> Value {
    let is_sidecar = container.restart_policy == "Always";
    let stage_started_at = pod.status.start_time.as_ref().map_or(now, |time| time.0);
    let done = || {
        json!({"terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": time(stage_started_at),
            "finishedAt": time(now),
            "containerID": container_id(pod, container, 0),
        }})
    };
    let (state, is_ready, runs) = match change {
        PodTransition::Accept => (
            json!({"waiting": {"reason": "PodInitializing"}}),
            false,
            false,
        ),
        PodTransition::Finish(_) => (done(), !is_sidecar, false),
        _ if is_sidecar => (running(stage_started_at), true, true),
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

fn conditions(
    pod: &ObservedPod,
    change: PodTransition,
    is_ready: bool,
    now: Timestamp,
) -> Vec<Value> {
    let is_accepted = change == PodTransition::Accept;
    let is_over = matches!(change, PodTransition::Finish(_));
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

/// `why_not`: reason and message if the condition is false.
fn condition(
    pod: &ObservedPod,
    type_: &str,
    why_not: Option<(&str, &str)>,
    now: Timestamp,
) -> Value {
    let status = if why_not.is_none() { "True" } else { "False" };
    let before = pod.condition(type_).filter(|own| own.status == status);
    let since = before.and_then(|own| own.last_transition_time.as_ref());
    let optional_text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    // Null removes the previous reason and message in the merge.
    json!({
        "type": type_,
        "status": status,
        "observedGeneration": pod.generation,
        "lastProbeTime": null,
        "lastTransitionTime": time(since.map_or(now, |time| time.0)),
        "reason": why_not.and_then(|(reason, _)| optional_text(reason)),
        "message": why_not.and_then(|(_, message)| optional_text(message)),
    })
}

fn waiting_to_start(pod: &ObservedPod) -> Value {
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
    pod: &ObservedPod,
    container: &Container,
    change: PodTransition,
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

fn image_id(change: PodTransition) -> &'static str {
    match change {
        PodTransition::Accept => "",
        _ => "simulated",
    }
}

fn container_id(pod: &ObservedPod, container: &Container, run: i32) -> String {
    format!("simulated://{}/{}/{run}", pod.uid, container.name)
}

/// RFC 3339 in whole seconds, as Kubernetes writes times.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%FT%TZ").to_string()
}

#[cfg(test)]
mod tests;
