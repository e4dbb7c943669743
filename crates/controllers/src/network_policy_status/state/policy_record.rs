//! What the controller knows about one policy, besides what the engine holds.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rhumb_netpol::{NetworkPolicy, PolicyFeatureSet};
use tokio::time::Instant;

use crate::network_policy_status::condition_diff::{RepeatedWrites, StatusDigest};
use crate::network_policy_status::conditions::{ConditionStatus, ConditionType};
use crate::network_policy_status::heartbeats::ObservationTime;

/// State of a policy besides what the engine holds.
#[derive(Debug)]
pub(super) struct PolicyRecord {
    pub(super) uid: String,
    pub(super) generation: Option<i64>,
    /// When this generation was first observed.
    pub(super) since: Instant,
    /// The resourceVersion of the stored conditions below.
    pub(super) version: String,
    pub(super) current: StatusDigest,
    pub(super) features: PolicyFeatureSet,
    pub(super) repeats: RepeatedWrites,
    /// Not checked before this time.
    pub(super) paused_until: Option<Instant>,
    /// Since when `Pending` is to be written.
    pub(super) pending_since: Option<Instant>,
    /// Since when its `Programmed` condition is not true.
    pub(super) unprogrammed_since: Option<Timestamp>,
}

impl PolicyRecord {
    /// The stored conditions about the current generation.
    pub(super) fn statuses(&self) -> impl Iterator<Item = (ConditionType, ConditionStatus)> {
        self.current.statuses(self.generation.unwrap_or_default())
    }

    /// How long the policy has not been programmed; `None` if it is. If the status says nothing about the current
    /// generation, although it should, this process has observed the generation for that long.
    pub(super) fn unprogrammed_age(
        &self,
        now: ObservationTime,
        is_expected: bool,
    ) -> Option<Duration> {
        let mut statuses = self.statuses();
        let is_known = statuses.any(|(type_, _)| type_ == ConditionType::Programmed);
        let missing =
            (!is_known && is_expected).then(|| now.at.saturating_duration_since(self.since));
        let since = self.unprogrammed_since;
        let age = since.map(|since| now.time_of_day.duration_since(since));
        age.and_then(|age| Duration::try_from(age).ok())
            .max(missing)
    }
}

/// Since when the `Programmed` condition is not true; `None` if it is, or there is none.
pub(super) fn unprogrammed_since(policy: &NetworkPolicy) -> Option<Timestamp> {
    let mut conditions = policy.status.conditions.iter().flatten();
    let programmed = conditions.find(|own| own.type_ == ConditionType::Programmed.name())?;
    let is_true = programmed.status == ConditionStatus::True.name();
    let since = programmed.last_transition_time.as_deref();
    since.filter(|_| !is_true)?.parse().ok()
}
