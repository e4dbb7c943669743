//! What is to be written to a policy, and when.

use std::time::Duration;

use kube::ResourceExt;
use rhumb_netpol::{Name, NetworkPolicy};
use tokio::time::Instant;

use super::State;
use crate::network_policies::conditions::{Facts, Type, decide};
use crate::network_policies::standing::{Standing, Write};

/// Between two writes to one policy.
const WRITE_PAUSE: Duration = Duration::from_secs(1);
/// Between two looks at one policy that found nothing to write.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// How long a generation is known before it is said whether it is in force. Kinds are watched apart: pods that were there
/// before the policy may be seen after it. And most agents are done by then, so that one write says all.
pub(super) const SETTLE: Duration = Duration::from_millis(500);
/// Between two looks at all policies: this, and something for each.
pub(super) const SWEEP_PAUSE: Duration = Duration::from_secs(1);
pub(super) const SWEEP_PAUSE_EACH: Duration = Duration::from_micros(100);
/// Until a policy whose status the server did not keep is tried again: this, or if they are many, something for each.
pub(super) const IGNORED_PAUSE: Duration = Duration::from_secs(60);
pub(super) const IGNORED_PAUSE_EACH: Duration = Duration::from_millis(50);

/// What came of a look at a policy.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::network_policies) enum Look {
    Nothing,
    /// It is too early.
    Later(Duration),
    Write(Write),
}

impl State {
    /// All policies, or how long they are left alone yet.
    pub(in crate::network_policies) fn sweep(
        &mut self,
        at: Instant,
    ) -> Result<Vec<Name>, Duration> {
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

    /// What is to be written to a policy, if anything, and if it is time to.
    pub(in crate::network_policies) fn look(&mut self, name: &Name, at: Instant) -> Look {
        if !self.is_ready() {
            return Look::Nothing;
        }
        let Some(known) = self.policies.get_mut(name) else {
            return Look::Nothing;
        };
        if let Some(until) = known.rests_until.filter(|until| at < *until) {
            return Look::Later(until - at);
        }
        let Some(summary) = self.engine.summary(name) else {
            return Look::Nothing;
        };
        let wanted = decide(&Facts {
            summary: &summary,
            features: known.features,
            agents: &self.agents,
            was_programmed: known.standing.has_own(Type::Programmed),
        });
        let write = Write {
            uid: known.uid.clone(),
            version: known.version.clone(),
            generation: summary.generation,
            missing: known.standing.without(wanted, summary.generation),
        };
        if write.missing.is_empty() {
            known.rests_until = Some(at + LOOK_PAUSE);
            return Look::Nothing;
        }
        let settled = known.since + SETTLE;
        if write.speaks_of(Type::Programmed) && at < settled {
            return Look::Later(settled - at);
        }
        Look::Write(write)
    }

    /// What the server made of a write. If it did not keep it, how long it is not to be tried again.
    pub(in crate::network_policies) fn wrote(
        &mut self,
        name: &Name,
        write: &Write,
        answer: &NetworkPolicy,
        at: Instant,
    ) -> Option<Duration> {
        let standing = Standing::of(&answer.status);
        let ignored = if write.is_in(&standing) {
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
            known.rests_until = Some(at + ignored.unwrap_or(WRITE_PAUSE));
            // Unless the watch has shown this write, or a later one, already.
            if known.version == write.version {
                known.version = answer.resource_version().unwrap_or_default();
                known.standing = standing;
            }
        }
        ignored
    }
}
