//! The scheduling thread: applies queued events, then runs one scheduling cycle, and repeats (upstream: `ScheduleOne`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::health::SchedulerHealth;
use super::in_flight::InFlightWrites;
use super::inbox::{LoopAction, SchedulerInbox};
use super::outcome_writer::FinishedCycle;
use crate::engine::{PodScheduledReason, SchedulerCore, SchedulingOutcome};
use crate::metrics::{AttemptResult, Metrics};

/// Queue metrics are updated when idle, and at the latest after this many cycles.
const CYCLES_PER_METRICS_UPDATE_MAX: u32 = 256;
/// Minimum wait after a cycle in which no pod was due.
const IDLE_WAIT_MIN: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct SchedulingLoop {
    pub(super) engine: SchedulerCore,
    pub(super) inbox: Arc<SchedulerInbox>,
    pub(super) outcomes: mpsc::UnboundedSender<FinishedCycle>,
    pub(super) in_flight: Arc<InFlightWrites>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<SchedulerHealth>,
}

impl SchedulingLoop {
    /// Runs until the inbox is closed.
    pub(super) fn run(mut self) {
        let mut events = Vec::new();
        let mut is_idle = true;
        let mut action = LoopAction::ApplyEventsOnly;
        let mut cycles = 0;
        loop {
            let until = match action {
                LoopAction::Schedule if self.in_flight.has_capacity() => {
                    self.wait_deadline(is_idle)
                }
                // The inbox is woken when writes finish or scheduling is allowed.
                _ => None,
            };
            action = self.inbox.take(&mut events, until);
            if action == LoopAction::Schedule {
                self.health.finish_startup();
            }
            let now = Instant::now();
            for event in events.drain(..) {
                self.engine.apply(event, now);
            }
            is_idle = match action {
                LoopAction::Stop => return,
                LoopAction::ApplyEventsOnly => true,
                LoopAction::Schedule if !self.in_flight.has_capacity() => false,
                LoopAction::Schedule => !self.schedule_one(),
            };
            cycles += 1;
            if is_idle || cycles >= CYCLES_PER_METRICS_UPDATE_MAX {
                self.metrics.note_pending(&self.engine.pending_pods());
                self.metrics
                    .note_incoming(&self.engine.take_incoming_counts());
                cycles = 0;
            }
        }
    }

    /// When to stop waiting for events; `None` waits indefinitely.
    fn wait_deadline(&self, is_idle: bool) -> Option<Instant> {
        let now = Instant::now();
        if !is_idle {
            return Some(now);
        }
        // A pod that is due but was not taken must not make this thread spin.
        let due = self.engine.next_deadline()?;
        Some(due.max(now + IDLE_WAIT_MIN))
    }

    /// Runs one scheduling cycle; false if no pod is due.
    fn schedule_one(&mut self) -> bool {
        let started = Instant::now();
        let preemptions = self.engine.preemption_attempts();
        let Some(outcome) = self.engine.next_outcome(started) else {
            return false;
        };
        let preemptions = self.engine.preemption_attempts() - preemptions;
        self.metrics.note_preemptions(preemptions);
        self.record_metrics(&outcome, started);
        match &outcome {
            SchedulingOutcome::Bind { .. } => self.in_flight.begin_binding(),
            SchedulingOutcome::Unscheduled { .. } | SchedulingOutcome::NominationCleared { .. } => {
                self.in_flight.begin_write();
            }
        }
        // A closed channel means shutdown: the inbox is closed next.
        let _ = self.outcomes.send(FinishedCycle { outcome, started });
        true
    }

    fn record_metrics(&self, outcome: &SchedulingOutcome, started: Instant) {
        let took = started.elapsed();
        match outcome {
            SchedulingOutcome::Bind { .. } => self.metrics.note_decision(took),
            SchedulingOutcome::Unscheduled {
                pod,
                reason,
                victims,
                ..
            } => {
                let attempt = match reason {
                    PodScheduledReason::Unschedulable => AttemptResult::Unschedulable,
                    PodScheduledReason::SchedulerError => AttemptResult::Error,
                };
                self.metrics.note_decision(took);
                self.metrics
                    .note_attempt(&pod.scheduler_name, attempt, took);
                if !victims.is_empty() {
                    self.metrics.note_victims(victims.len());
                }
            }
            SchedulingOutcome::NominationCleared { .. } => {}
        }
    }
}
