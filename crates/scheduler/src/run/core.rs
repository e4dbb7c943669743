//! The thread that decides: it takes in what has changed, decides about one pod, and so on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::health::Health;
use super::in_flight::InFlight;
use super::mailbox::{Mailbox, Permission};
use super::writer::Decided;
use crate::engine::{Engine, Outcome, Reason};
use crate::metrics::{Attempt, Metrics};

/// Decisions after which the length of the queues is told, at the latest.
const DECISIONS_UNTOLD_MAX: u32 = 256;
/// How long it waits at least when there was nothing to decide.
const IDLE_MIN: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Core {
    pub(super) engine: Engine,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) decided: mpsc::UnboundedSender<Decided>,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<Health>,
}

impl Core {
    /// Goes on until the mailbox is closed.
    pub(super) fn run(mut self) {
        let mut changes = Vec::new();
        let mut is_idle = true;
        let mut permission = Permission::Listen;
        let mut untold = 0;
        loop {
            let until = match permission {
                Permission::Decide if self.in_flight.has_room() => self.resumes_at(is_idle),
                // Whoever makes room, or lets it decide, says so.
                _ => None,
            };
            permission = self.mailbox.take(&mut changes, until);
            if permission == Permission::Decide {
                self.health.has_started();
            }
            let now = Instant::now();
            for change in changes.drain(..) {
                self.engine.apply(change, now);
            }
            is_idle = match permission {
                Permission::End => return,
                Permission::Listen => true,
                Permission::Decide if !self.in_flight.has_room() => false,
                Permission::Decide => !self.decide(),
            };
            untold += 1;
            if is_idle || untold >= DECISIONS_UNTOLD_MAX {
                self.metrics.note_pending(&self.engine.pending());
                self.metrics.note_incoming(&self.engine.take_incoming());
                untold = 0;
            }
        }
    }

    /// When to go on though nothing happens; `None` is never.
    fn resumes_at(&self, is_idle: bool) -> Option<Instant> {
        let now = Instant::now();
        if !is_idle {
            return Some(now);
        }
        // What is due and yet not decided must not keep this thread busy.
        let due = self.engine.wakes_at()?;
        Some(due.max(now + IDLE_MIN))
    }

    /// Whether there was something to decide.
    fn decide(&mut self) -> bool {
        let begun = Instant::now();
        let preemptions = self.engine.preemptions();
        let Some(outcome) = self.engine.next(begun) else {
            return false;
        };
        let preemptions = self.engine.preemptions() - preemptions;
        self.metrics.note_preemptions(preemptions);
        self.note(&outcome, begun);
        match &outcome {
            Outcome::Bind { .. } => self.in_flight.begin_binding(),
            Outcome::Pending { .. } | Outcome::Displaced { .. } => self.in_flight.begin_write(),
        }
        // If nobody listens any more, this thread is told to end next.
        let _ = self.decided.send(Decided { outcome, begun });
        true
    }

    fn note(&self, outcome: &Outcome, begun: Instant) {
        let took = begun.elapsed();
        match outcome {
            Outcome::Bind { .. } => self.metrics.note_decision(took),
            Outcome::Pending {
                pod,
                reason,
                victims,
                ..
            } => {
                let attempt = match reason {
                    Reason::Unschedulable => Attempt::Unschedulable,
                    Reason::SchedulerError => Attempt::Error,
                };
                self.metrics.note_decision(took);
                self.metrics
                    .note_attempt(&pod.scheduler_name, attempt, took);
                if !victims.is_empty() {
                    self.metrics.note_victims(victims.len());
                }
            }
            Outcome::Displaced { .. } => {}
        }
    }
}
