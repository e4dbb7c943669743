//! Diff between the stored and the desired conditions of a policy, and the resulting status patch. No I/O.

use std::hash::{DefaultHasher, Hash, Hasher};

use rhumb_netpol::objects::{self, NetworkPolicyStatus};
use serde_json::{Value, json};

use super::conditions::{ConditionStatus, ConditionType, PolicyCondition, StoredProgrammedStatus};

/// Digests of the stored conditions of this controller. Kept for every policy, so it must be small.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StatusDigest([Option<ConditionDigest>; ConditionType::ALL.len()]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConditionDigest {
    status: ConditionStatus,
    /// Whether it is of this controller. Other implementations write conditions of the same types.
    is_ours: bool,
    generation: i64,
    /// Hash of everything except type and time.
    digest: u64,
}

impl StatusDigest {
    pub(super) fn of(status: &NetworkPolicyStatus) -> StatusDigest {
        let conditions = || status.conditions.iter().flatten();
        StatusDigest(ConditionType::ALL.map(|type_| {
            let stored = conditions().find(|condition| condition.type_ == type_.name());
            stored.and_then(|stored| ConditionDigest::of(type_, stored))
        }))
    }

    fn of_type(&self, type_: ConditionType) -> Option<ConditionDigest> {
        self.0[type_ as usize]
    }

    /// The stored conditions about a generation of the policy, of whichever implementation, with their status.
    pub(super) fn statuses(
        &self,
        generation: i64,
    ) -> impl Iterator<Item = (ConditionType, ConditionStatus)> {
        let types = ConditionType::ALL.into_iter();
        types.filter_map(move |type_| {
            let stored = self.of_type(type_)?;
            (stored.generation == generation).then_some((type_, stored.status))
        })
    }

    /// The stored `Programmed` condition, for a generation of the policy.
    pub(super) fn programmed(&self, generation: i64) -> StoredProgrammedStatus {
        match self.of_type(ConditionType::Programmed) {
            Some(stored) if stored.is_ours => {
                let is_true = stored.status == ConditionStatus::True;
                match is_true && stored.generation == generation {
                    true => StoredProgrammedStatus::True,
                    false => StoredProgrammedStatus::NotTrue,
                }
            }
            _ => StoredProgrammedStatus::NotOurs,
        }
    }

    /// The desired conditions that differ from the stored ones. Conditions of other implementations are kept.
    pub(super) fn without(
        &self,
        wanted: Vec<PolicyCondition>,
        generation: i64,
        repeats: &RepeatedWrites,
    ) -> Vec<ConditionUpdate> {
        let missing = wanted.into_iter().filter_map(|condition| {
            let stored = self.of_type(condition.type_);
            let wanted = ConditionDigest::from(&condition, generation);
            let is_foreign = stored.is_some_and(|stored| !stored.is_ours);
            if is_foreign || stored == Some(wanted) || repeats.are_futile(&condition, generation) {
                return None;
            }
            Some(ConditionUpdate {
                is_turn: stored.is_none_or(|stored| stored.status != wanted.status),
                condition,
            })
        });
        missing.collect()
    }
}

/// How often the same condition has been written in succession, by type: another writer overwrites it each time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RepeatedWrites([(u64, u8); ConditionType::ALL.len()]);

/// Afterwards the condition is left to the other writer, until a different one is to be written.
const REPEATED_WRITES_MAX: u8 = 3;

impl RepeatedWrites {
    pub(super) fn record(&mut self, write: &StatusWrite) {
        for ConditionUpdate { condition, .. } in &write.missing {
            let wanted = ConditionDigest::from(condition, write.generation);
            let (written, count) = &mut self.0[condition.type_ as usize];
            *count = match *written == wanted.digest {
                true => count.saturating_add(1),
                false => 1,
            };
            *written = wanted.digest;
        }
    }

    fn are_futile(&self, condition: &PolicyCondition, generation: i64) -> bool {
        let (written, count) = self.0[condition.type_ as usize];
        let wanted = ConditionDigest::from(condition, generation);
        written == wanted.digest && count >= REPEATED_WRITES_MAX
    }
}

impl ConditionDigest {
    /// `None` for an incomplete condition of this controller, so that it is written again.
    fn of(type_: ConditionType, condition: &objects::StatusCondition) -> Option<ConditionDigest> {
        let reason = condition.reason.as_deref().unwrap_or_default();
        let is_ours = type_.has_reason(reason);
        let is_complete = condition.last_transition_time.is_some()
            && condition.message.is_some()
            && condition.observed_generation.is_some();
        if is_ours && !is_complete {
            return None;
        }
        let statuses = [ConditionStatus::True, ConditionStatus::False];
        let mut statuses = statuses.into_iter();
        let status = statuses.find(|status| status.name() == condition.status);
        let status = status.unwrap_or(ConditionStatus::Unknown);
        let message = condition.message.as_deref().unwrap_or_default();
        let generation = condition.observed_generation.unwrap_or_default();
        Some(ConditionDigest {
            status,
            is_ours,
            generation,
            digest: digest(status, reason, message, generation),
        })
    }

    fn from(condition: &PolicyCondition, generation: i64) -> ConditionDigest {
        let PolicyCondition {
            status,
            reason,
            message,
            ..
        } = condition;
        ConditionDigest {
            status: *status,
            is_ours: true,
            generation,
            digest: digest(*status, reason, message, generation),
        }
    }
}

fn digest(status: ConditionStatus, reason: &str, message: &str, generation: i64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (status.name(), reason, message, generation).hash(&mut hasher);
    hasher.finish()
}

/// A condition to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConditionUpdate {
    pub(super) condition: PolicyCondition,
    /// Whether the status changes, so that `lastTransitionTime` is set.
    is_turn: bool,
}

/// A status write for one resourceVersion of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatusWrite {
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) generation: i64,
    pub(super) missing: Vec<ConditionUpdate>,
}

impl StatusWrite {
    /// Strategic merge patch: keeps conditions of others and unchanged transition times. The resourceVersion
    /// precondition prevents that conditions computed for one generation are written to another.
    pub(super) fn patch(&self, now: &str) -> Value {
        let conditions = self.missing.iter().map(|missing| {
            let condition = &missing.condition;
            let mut value = json!({
                "type": condition.type_.name(),
                "status": condition.status.name(),
                "reason": condition.reason,
                "message": condition.message,
                "observedGeneration": self.generation,
            });
            if missing.is_turn {
                value["lastTransitionTime"] = json!(now);
            }
            value
        });
        json!({
            "metadata": {"uid": self.uid, "resourceVersion": self.version},
            "status": {"conditions": conditions.collect::<Vec<_>>()},
        })
    }

    /// Whether the stored conditions contain all of this write.
    pub(super) fn is_in(&self, current: &StatusDigest) -> bool {
        let mut missing = self.missing.iter().map(|missing| &missing.condition);
        missing.all(|condition| {
            let wanted = ConditionDigest::from(condition, self.generation);
            current.of_type(condition.type_) == Some(wanted)
        })
    }

    /// The condition of this type, if it is written.
    pub(super) fn condition(&self, type_: ConditionType) -> Option<&PolicyCondition> {
        let mut missing = self.missing.iter().map(|missing| &missing.condition);
        missing.find(|condition| condition.type_ == type_)
    }
}
