//! Diff between the stored and the desired conditions of a policy, and the resulting status patch. No I/O.

use std::hash::{DefaultHasher, Hash, Hasher};

use rhumb_netpol::objects::{self, NetworkPolicyStatus};
use serde_json::{Value, json};

use super::conditions::{ConditionStatus, ConditionType, PROGRAMMED_REASONS, PolicyCondition};

/// Digests of the stored conditions of this controller. Kept for every policy, so it must be small.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StatusDigest([Option<ConditionDigest>; ConditionType::ALL.len()]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConditionDigest {
    status: ConditionStatus,
    /// Hash of everything except type and time.
    digest: u64,
    /// Whether this controller uses its reason: other implementations may write the `Programmed` condition too.
    is_ours: bool,
}

impl StatusDigest {
    pub(super) fn of(status: &NetworkPolicyStatus) -> StatusDigest {
        let conditions = || status.conditions.iter().flatten();
        StatusDigest(ConditionType::ALL.map(|type_| {
            let own = conditions().find(|condition| condition.type_ == type_.name());
            own.and_then(ConditionDigest::of)
        }))
    }

    fn of_type(&self, type_: ConditionType) -> Option<ConditionDigest> {
        self.0[type_ as usize]
    }

    /// Whether the stored condition of this type was written by this controller.
    pub(super) fn has_own(&self, type_: ConditionType) -> bool {
        self.of_type(type_).is_some_and(|stands| stands.is_ours)
    }

    /// The desired conditions that differ from the stored ones.
    pub(super) fn without(
        &self,
        wanted: Vec<PolicyCondition>,
        generation: i64,
    ) -> Vec<ConditionUpdate> {
        let missing = wanted.into_iter().filter_map(|condition| {
            let stands = self.of_type(condition.type_);
            let wanted = ConditionDigest::from(&condition, generation);
            (stands != Some(wanted)).then(|| ConditionUpdate {
                is_turn: stands.is_none_or(|stands| stands.status != wanted.status),
                condition,
            })
        });
        missing.collect()
    }
}

impl ConditionDigest {
    /// `None` for an incomplete condition, so that it is written again.
    fn of(condition: &objects::StatusCondition) -> Option<ConditionDigest> {
        let statuses = [
            ConditionStatus::True,
            ConditionStatus::False,
            ConditionStatus::Unknown,
        ];
        let mut statuses = statuses.into_iter();
        let status = statuses.find(|status| status.name() == condition.status)?;
        condition.last_transition_time.as_ref()?;
        let reason = condition.reason.as_deref()?;
        let message = condition.message.as_deref()?;
        Some(ConditionDigest {
            status,
            digest: digest(status, reason, message, condition.observed_generation?),
            is_ours: PROGRAMMED_REASONS.contains(&reason),
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
            digest: digest(*status, reason, message, generation),
            is_ours: PROGRAMMED_REASONS.contains(reason),
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

    pub(super) fn contains(&self, type_: ConditionType) -> bool {
        let mut missing = self.missing.iter();
        missing.any(|missing| missing.condition.type_ == type_)
    }
}
