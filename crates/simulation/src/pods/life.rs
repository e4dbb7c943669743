//! What a pod's next state is, and when it comes.
//!
//! ```text
//!   New ──► Starting ──► Running ──► Finished
//!    └────────────────────►│  ▲
//!                          ▼  │ back-off
//!                       BackingOff           any of them, once deleted: Stopping ──► Stopped ──► gone
//! ```

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::facts::{Facts, Sight, Stage};

/// As long as a kubelet waits between restarts: the first comes at once, and each further one takes twice as long.
const BACK_OFF: Duration = Duration::from_secs(10);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);
/// Who ran that long begins anew.
const RAN_LONG: Duration = Duration::from_secs(600);

/// What is to be done about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing, until it changes.
    Rest,
    /// Nothing before this time.
    Wait(Timestamp),
    Write(Change),
    /// It has stopped: its object can go.
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The node has it.
    Accept,
    /// Its containers run, for the first time or again.
    Start {
        restarts: u32,
    },
    /// Its containers are ready. Whether it is depends on its gates too.
    Ready,
    /// Its containers have ended, and run again after a while.
    BackOff {
        restarts: u32,
    },
    Finish(Ending),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its containers came to their end.
    Exit,
    /// `activeDeadlineSeconds` are over.
    Deadline,
    /// It was deleted, and its containers ended in time.
    Stop,
    /// It was deleted, and its grace was over first.
    Kill,
}

pub(crate) fn next(pod: &Facts, sight: &Sight, now: Timestamp) -> Step {
    let begun = sight.begun();
    let script = &pod.script;
    let (due, change) = match *sight.stage() {
        Stage::Finished => return Step::Rest,
        Stage::Stopped { is_confirmed: true } => return Step::Rest,
        Stage::Stopped {
            is_confirmed: false,
        } => return Step::Delete,
        Stage::Stopping { grace, .. } => {
            let ending = match script.stop_after > grace {
                true => Ending::Kill,
                false => Ending::Stop,
            };
            let due = after(begun, script.stop_after.min(grace));
            return at(due, Change::Finish(ending), now);
        }
        Stage::New if script.start_after.is_zero() => (now, Change::Start { restarts: 0 }),
        Stage::New => (now, Change::Accept),
        Stage::Starting { .. } => (
            after(begun, script.start_after),
            Change::Start { restarts: 0 },
        ),
        Stage::Running {
            restarts, is_ready, ..
        } => match while_running(pod, begun, restarts, is_ready) {
            Some(next) => next,
            None => match deadline(pod) {
                Some(due) => return at(due, Change::Finish(Ending::Deadline), now),
                None => return Step::Rest,
            },
        },
        Stage::BackingOff { restarts, .. } => (
            after(begun, back_off(restarts, last_run(pod))),
            Change::Start {
                restarts: restarts.saturating_add(1),
            },
        ),
    };
    match deadline(pod) {
        Some(deadline) if deadline <= due => at(deadline, Change::Finish(Ending::Deadline), now),
        _ => at(due, change, now),
    }
}

fn while_running(
    pod: &Facts,
    begun: Timestamp,
    restarts: u32,
    is_ready: bool,
) -> Option<(Timestamp, Change)> {
    let script = &pod.script;
    let ready = match is_ready {
        // Somebody may have opened a gate, or said that the node was lost.
        true if pod.gates_are_open() != pod.is_true("Ready") => Some(begun),
        true => None,
        false if script.never_ready => None,
        false => Some(after(begun, script.ready_after)),
    };
    let end = script
        .run_for
        .map(|time| (after(begun, time), end(pod, restarts)));
    match (ready, end) {
        (Some(ready), Some((end, _))) if ready < end => Some((ready, Change::Ready)),
        (_, Some(end)) => Some(end),
        (Some(ready), None) => Some((ready, Change::Ready)),
        (None, None) => None,
    }
}

/// What becomes of a pod whose containers end by themselves.
fn end(pod: &Facts, restarts: u32) -> Change {
    let has_failed = pod.script.exit_code != 0;
    let runs_again = match pod.spec.restart_policy.as_str() {
        "Never" => false,
        "OnFailure" => has_failed,
        _ => true,
    };
    let ran = pod.script.run_for.unwrap_or_default();
    match runs_again {
        false => Change::Finish(Ending::Exit),
        true if back_off(restarts, ran).is_zero() => Change::Start {
            restarts: restarts.saturating_add(1),
        },
        true => Change::BackOff { restarts },
    }
}

fn back_off(restarts: u32, ran: Duration) -> Duration {
    if restarts == 0 || ran >= RAN_LONG {
        return Duration::ZERO;
    }
    let factor = 2_u32.saturating_pow(restarts - 1);
    BACK_OFF.saturating_mul(factor).min(BACK_OFF_MAX)
}

fn last_run(pod: &Facts) -> Duration {
    let times = pod
        .last_end()
        .and_then(|end| Some((end.started_at.as_ref()?.0, end.finished_at.as_ref()?.0)));
    times.map_or(Duration::ZERO, |(from, to)| {
        Duration::try_from(to.duration_since(from)).unwrap_or_default()
    })
}

fn deadline(pod: &Facts) -> Option<Timestamp> {
    let seconds = u64::try_from(pod.spec.active_deadline_seconds?).ok()?;
    let begun = pod.status.start_time.as_ref()?.0;
    Some(after(begun, Duration::from_secs(seconds)))
}

fn at(due: Timestamp, change: Change, now: Timestamp) -> Step {
    match due <= now {
        true => Step::Write(change),
        false => Step::Wait(due),
    }
}

fn after(begun: Timestamp, time: Duration) -> Timestamp {
    begun.checked_add(time).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
