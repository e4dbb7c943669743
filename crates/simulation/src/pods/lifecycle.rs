//! State machine of a simulated pod: the next transition, and when it is due.
//!
//! ```text
//!   New ──► Starting ──► Running ──► Finished
//!    └────────────────────►│  ▲
//!                          ▼  │ back-off
//!                       BackingOff           any of them, once deleted: Stopping ──► Stopped ──► removed
//! ```

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::observed_pod::{ObservedPod, PodStage, StageObservation};

/// The kubelet's crash loop back-off: the first restart is immediate, then the delay doubles.
const BACK_OFF: Duration = Duration::from_secs(10);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);
/// A run of this length resets the back-off.
const RAN_LONG: Duration = Duration::from_secs(600);

/// What to do with a pod now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PodAction {
    /// Nothing until the pod changes.
    Rest,
    /// Nothing until this time.
    Wait(Timestamp),
    Write(PodTransition),
    /// It has stopped: delete the object.
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodTransition {
    /// The node accepts the pod.
    Accept,
    /// Its containers start, for the first time or again.
    Start {
        restarts: u32,
    },
    /// Its containers become ready; the pod's readiness also depends on its readiness gates.
    Ready,
    /// Its containers have exited and wait for a restart.
    BackOff {
        restarts: u32,
    },
    Finish(TerminationCause),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminationCause {
    /// Its containers exited.
    Exit,
    /// `activeDeadlineSeconds` has passed.
    Deadline,
    /// It was deleted, and its containers exited within the grace period.
    Stop,
    /// It was deleted, and the grace period ended first.
    Kill,
}

pub(crate) fn next(pod: &ObservedPod, sight: &StageObservation, now: Timestamp) -> PodAction {
    let started = sight.stage_started_at();
    let script = &pod.script;
    let (due, change) = match *sight.stage() {
        PodStage::Finished => return PodAction::Rest,
        PodStage::Stopped { is_confirmed: true } => return PodAction::Rest,
        PodStage::Stopped {
            is_confirmed: false,
        } => return PodAction::Delete,
        PodStage::Stopping { grace, .. } => {
            let ending = match script.stop_after > grace {
                true => TerminationCause::Kill,
                false => TerminationCause::Stop,
            };
            let due = after(started, script.stop_after.min(grace));
            return at(due, PodTransition::Finish(ending), now);
        }
        PodStage::New if script.start_after.is_zero() => {
            (now, PodTransition::Start { restarts: 0 })
        }
        PodStage::New => (now, PodTransition::Accept),
        PodStage::Starting { .. } => (
            after(started, script.start_after),
            PodTransition::Start { restarts: 0 },
        ),
        PodStage::Running {
            restarts, is_ready, ..
        } => match while_running(pod, started, restarts, is_ready) {
            Some(next) => next,
            None => match deadline(pod) {
                Some(due) => {
                    return at(due, PodTransition::Finish(TerminationCause::Deadline), now);
                }
                None => return PodAction::Rest,
            },
        },
        PodStage::BackingOff { restarts, .. } => (
            after(started, back_off(restarts, last_run(pod))),
            PodTransition::Start {
                restarts: restarts.saturating_add(1),
            },
        ),
    };
    match deadline(pod) {
        Some(deadline) if deadline <= due => at(
            deadline,
            PodTransition::Finish(TerminationCause::Deadline),
            now,
        ),
        _ => at(due, change, now),
    }
}

fn while_running(
    pod: &ObservedPod,
    started: Timestamp,
    restarts: u32,
    is_ready: bool,
) -> Option<(Timestamp, PodTransition)> {
    let script = &pod.script;
    let ready = match is_ready {
        // A readiness gate may have changed, or the node lifecycle controller has marked the pod not ready.
        true if pod.gates_are_open() != pod.is_true("Ready") => Some(started),
        true => None,
        false if script.never_ready => None,
        false => Some(after(started, script.ready_after)),
    };
    let end = script
        .run_for
        .map(|time| (after(started, time), end(pod, restarts)));
    match (ready, end) {
        (Some(ready), Some((end, _))) if ready < end => Some((ready, PodTransition::Ready)),
        (_, Some(end)) => Some(end),
        (Some(ready), None) => Some((ready, PodTransition::Ready)),
        (None, None) => None,
    }
}

/// Transition of a pod whose containers exit by themselves, by its restart policy.
fn end(pod: &ObservedPod, restarts: u32) -> PodTransition {
    let has_failed = pod.script.exit_code != 0;
    let runs_again = match pod.spec.restart_policy.as_str() {
        "Never" => false,
        "OnFailure" => has_failed,
        _ => true,
    };
    let ran = pod.script.run_for.unwrap_or_default();
    match runs_again {
        false => PodTransition::Finish(TerminationCause::Exit),
        true if back_off(restarts, ran).is_zero() => PodTransition::Start {
            restarts: restarts.saturating_add(1),
        },
        true => PodTransition::BackOff { restarts },
    }
}

fn back_off(restarts: u32, ran: Duration) -> Duration {
    if restarts == 0 || ran >= RAN_LONG {
        return Duration::ZERO;
    }
    let factor = 2_u32.saturating_pow(restarts - 1);
    BACK_OFF.saturating_mul(factor).min(BACK_OFF_MAX)
}

fn last_run(pod: &ObservedPod) -> Duration {
    let times = pod
        .last_end()
        .and_then(|end| Some((end.started_at.as_ref()?.0, end.finished_at.as_ref()?.0)));
    times.map_or(Duration::ZERO, |(from, to)| {
        Duration::try_from(to.duration_since(from)).unwrap_or_default()
    })
}

fn deadline(pod: &ObservedPod) -> Option<Timestamp> {
    let seconds = u64::try_from(pod.spec.active_deadline_seconds?).ok()?;
    let started = pod.status.start_time.as_ref()?.0;
    Some(after(started, Duration::from_secs(seconds)))
}

fn at(due: Timestamp, change: PodTransition, now: Timestamp) -> PodAction {
    match due <= now {
        true => PodAction::Write(change),
        false => PodAction::Wait(due),
    }
}

fn after(started: Timestamp, time: Duration) -> Timestamp {
    started.checked_add(time).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
