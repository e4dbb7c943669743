//! Plans the status write of a policy: what to write, and when.

use std::time::Duration;

use kube::ResourceExt;
use rhumb_netpol::{NamespacedName, NetworkPolicy};
use tokio::time::Instant;

use super::{PolicyRecord, PolicyStatusState, unprogrammed_since};
use crate::network_policy_status::condition_diff::{StatusDigest, StatusWrite};
use crate::network_policy_status::conditions::{
    ConditionType, PENDING, PolicyStatusInputs, StoredProgrammedStatus, compute_conditions,
};

/// Minimum time between writes to one policy.
const WRITE_PAUSE: Duration = Duration::from_secs(1);
/// Minimum time between checks of a policy that needed no write.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// How long a generation must be known before `Programmed` is written. Watches of different kinds are not ordered, so
/// pods older than the policy may be observed after it.
pub(super) const SETTLE_TIME: Duration = Duration::from_millis(200);
/// How long a policy must wait for agents before this is written. Most agents apply a policy within the second in which
/// they may write one report, which saves the write of `Pending` and the pause after it.
pub(super) const FIRST_PENDING_DELAY: Duration = Duration::from_millis(1200);
/// The same for a policy that is programmed according to its status, which must not stay so.
pub(super) const REVOCATION_DELAY: Duration = Duration::from_millis(200);
/// Minimum time between sweeps of all policies: a base, and an amount per policy.
pub(super) const SWEEP_PAUSE: Duration = Duration::from_secs(1);
pub(super) const SWEEP_PAUSE_EACH: Duration = Duration::from_micros(100);
/// Delay before a status that the server did not store is written again: at least the first, or the second per policy.
pub(super) const IGNORED_PAUSE: Duration = Duration::from_secs(60);
pub(super) const IGNORED_PAUSE_EACH: Duration = Duration::from_millis(50);

/// Result of checking a policy.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::network_policy_status) enum PlannedWrite {
    Nothing,
    /// Too early; check again after this delay.
    Later(Duration),
    Write(StatusWrite),
}

impl PolicyStatusState {
    /// All policies, or the delay until the next sweep is allowed.
    pub(in crate::network_policy_status) fn sweep(
        &mut self,
        at: Instant,
    ) -> Result<Vec<NamespacedName>, Duration> {
        let policies = u32::try_from(self.policies.len()).unwrap_or(u32::MAX);
        let pause = SWEEP_PAUSE + SWEEP_PAUSE_EACH * policies;
        if let Some(swept) = self.swept
            && at < swept + pause
        {
            return Err(swept + pause - at);
        }
        self.swept = Some(at);
        Ok(self.policies.keys().cloned().collect())
    }

    /// The write that the policy needs, if any and if it is due.
    pub(in crate::network_policy_status) fn plan_write(
        &mut self,
        name: &NamespacedName,
        at: Instant,
    ) -> PlannedWrite {
        if !self.is_ready() {
            return PlannedWrite::Nothing;
        }
        let Some(known) = self.policies.get_mut(name) else {
            return PlannedWrite::Nothing;
        };
        if let Some(until) = known.paused_until.filter(|until| at < *until) {
            return PlannedWrite::Later(until - at);
        }
        let Some(summary) = self.engine.summary(name) else {
            return PlannedWrite::Nothing;
        };
        let stored = known.current.programmed(summary.generation);
        let is_programmed = stored == StoredProgrammedStatus::True;
        let is_selected = |pod: &NamespacedName| self.engine.selects(name, pod);
        let nodes = summary.pods_per_node.keys();
        let reporting = nodes.filter(|node| self.agents.report(node).is_some());
        let uncovered_nodes = self
            .uncovered_pods
            .nodes(reporting, is_programmed, at, is_selected);
        let wanted = compute_conditions(&PolicyStatusInputs {
            summary: &summary,
            features: known.features,
            agents: &self.agents,
            heartbeats: &self.heartbeats,
            uncovered_nodes: &uncovered_nodes,
            stored,
        });
        let write = StatusWrite {
            uid: known.uid.clone(),
            version: known.version.clone(),
            generation: summary.generation,
            missing: known
                .current
                .without(wanted, summary.generation, &known.repeats),
        };
        if write.missing.is_empty() {
            known.paused_until = Some(at + LOOK_PAUSE);
            known.pending_since = None;
            return PlannedWrite::Nothing;
        }
        match known.delay(&write, is_programmed, at) {
            Duration::ZERO => PlannedWrite::Write(write),
            delay => PlannedWrite::Later(delay),
        }
    }

    /// Handles the server's response to a write. If the status was not stored, returns the delay before the retry.
    pub(in crate::network_policy_status) fn record_write(
        &mut self,
        name: &NamespacedName,
        write: &StatusWrite,
        answer: &NetworkPolicy,
        at: Instant,
    ) -> Option<Duration> {
        let current = StatusDigest::of(&answer.status);
        let is_stored = write.is_in(&current);
        let ignored = if is_stored {
            self.ignored.remove(name);
            None
        } else {
            self.ignored.insert(name.clone());
            let ignored = u32::try_from(self.ignored.len()).unwrap_or(u32::MAX);
            Some(IGNORED_PAUSE.max(IGNORED_PAUSE_EACH * ignored))
        };
        if let Some(known) = self.policies.get_mut(name)
            && known.uid == write.uid
        {
            known.paused_until = Some(at + ignored.unwrap_or(WRITE_PAUSE));
            if is_stored {
                known.repeats.record(write);
            }
            // Unless the watch has already delivered this write or a later one.
            if known.version == write.version {
                known.version = answer.resource_version().unwrap_or_default();
                known.current = current;
                known.unprogrammed_since = unprogrammed_since(answer);
            }
        }
        ignored
    }
}

impl PolicyRecord {
    /// How long to wait before a write.
    fn delay(&mut self, write: &StatusWrite, is_programmed: bool, at: Instant) -> Duration {
        let Some(programmed) = write.condition(ConditionType::Programmed) else {
            return Duration::ZERO;
        };
        let settled = (self.since + SETTLE_TIME).saturating_duration_since(at);
        if programmed.reason != PENDING {
            self.pending_since = None;
            return settled;
        }
        let since = *self.pending_since.get_or_insert(at);
        let pause = match is_programmed {
            true => REVOCATION_DELAY,
            false => FIRST_PENDING_DELAY,
        };
        settled.max((since + pause).saturating_duration_since(at))
    }
}
