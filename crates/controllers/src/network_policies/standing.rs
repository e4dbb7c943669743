//! What the status of a policy says, and what is to be written so that it says what it should. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};

use rhumb_netpol::objects::{self, PolicyStatus};
use serde_json::{Value, json};

use super::conditions::{Condition, PROGRAMMED_REASONS, Status, Type};

/// Our conditions as they stand, each as a digest: there is one of these for every policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Standing([Option<Stands>; Type::ALL.len()]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stands {
    status: Status,
    /// Of everything but the type and the time.
    digest: u64,
    /// Whether its reason is one of those that are given here: others may enforce policies, and say so.
    is_ours: bool,
}

impl Standing {
    pub(super) fn of(status: &PolicyStatus) -> Standing {
        let conditions = || status.conditions.iter().flatten();
        Standing(Type::ALL.map(|type_| {
            let own = conditions().find(|condition| condition.type_ == type_.name());
            own.and_then(Stands::of)
        }))
    }

    fn of_type(&self, type_: Type) -> Option<Stands> {
        self.0[type_ as usize]
    }

    /// Whether it says of a type what was written here.
    pub(super) fn has_own(&self, type_: Type) -> bool {
        self.of_type(type_).is_some_and(|stands| stands.is_ours)
    }

    /// Those conditions that do not stand as they should.
    pub(super) fn without(&self, wanted: Vec<Condition>, generation: i64) -> Vec<Missing> {
        let missing = wanted.into_iter().filter_map(|condition| {
            let stands = self.of_type(condition.type_);
            let wanted = Stands::from(&condition, generation);
            (stands != Some(wanted)).then(|| Missing {
                is_turn: stands.is_none_or(|stands| stands.status != wanted.status),
                condition,
            })
        });
        missing.collect()
    }
}

impl Stands {
    /// What is not whole does not stand, so that it is written anew.
    fn of(condition: &objects::Condition) -> Option<Stands> {
        let statuses = [Status::True, Status::False, Status::Unknown];
        let mut statuses = statuses.into_iter();
        let status = statuses.find(|status| status.name() == condition.status)?;
        condition.last_transition_time.as_ref()?;
        let reason = condition.reason.as_deref()?;
        let message = condition.message.as_deref()?;
        Some(Stands {
            status,
            digest: digest(status, reason, message, condition.observed_generation?),
            is_ours: PROGRAMMED_REASONS.contains(&reason),
        })
    }

    fn from(condition: &Condition, generation: i64) -> Stands {
        let Condition {
            status,
            reason,
            message,
            ..
        } = condition;
        Stands {
            status: *status,
            digest: digest(*status, reason, message, generation),
            is_ours: PROGRAMMED_REASONS.contains(reason),
        }
    }
}

fn digest(status: Status, reason: &str, message: &str, generation: i64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (status.name(), reason, message, generation).hash(&mut hasher);
    hasher.finish()
}

/// A condition that does not stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) condition: Condition,
    /// Whether another status stands, or none: only then the time of the last transition is now.
    is_turn: bool,
}

/// What is to be written about one version of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) generation: i64,
    pub(super) missing: Vec<Missing>,
}

impl Write {
    /// For a strategic merge, which leaves alone what is not named: conditions of others, and times of the last
    /// transition. It is refused if the policy has changed, so what was found out about one generation is never said of
    /// another.
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

    /// Whether all of it stands.
    pub(super) fn is_in(&self, standing: &Standing) -> bool {
        let mut missing = self.missing.iter().map(|missing| &missing.condition);
        missing.all(|condition| {
            let wanted = Stands::from(condition, self.generation);
            standing.of_type(condition.type_) == Some(wanted)
        })
    }

    pub(super) fn speaks_of(&self, type_: Type) -> bool {
        let mut missing = self.missing.iter();
        missing.any(|missing| missing.condition.type_ == type_)
    }
}
