//! Whether a node enforces a policy on its pods, according to the report of its agent: the rules of the condition
//! `Programmed`. The status controller and `rhumb netpol` both use them, so that they agree. Pure: time is an argument.
//!
//! Entry point: [`enforcement_gap`].

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use crate::NetworkPolicy;
use crate::node_report::{UnimplementedFeature, longest_heartbeat_delay};
use crate::policy_summary::PolicySummary;

/// Reasons of the condition `Programmed` when it is true.
pub const APPLIED: &str = "Applied";
pub const NOTHING_TO_APPLY: &str = "NothingToApply";
/// How long an agent may go without a heartbeat by default, as nodes may.
pub const DEFAULT_HEARTBEAT_GRACE_PERIOD: Duration = Duration::from_secs(40);
/// A heartbeat may be this many of the agent's own intervals late, if that is more than the grace period.
const MISSED_HEARTBEATS_MAX: u32 = 4;
/// How long a report may take from the agent to a watch, including the retry of a failed write.
const REPORT_DELIVERY_MAX: Duration = Duration::from_secs(1);

/// Whether the agent of a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentLiveness {
    /// Its heartbeat was renewed within the grace period.
    Alive,
    /// It was listed with an old heartbeat, or none, and the grace period since then is not over. After an outage of the
    /// server all heartbeats are old.
    Unconfirmed,
    /// It was not renewed within the grace period.
    Stale,
}

/// What is known from the report of a node about one policy.
#[derive(Debug, Clone, Copy)]
pub enum NodeReport<'a> {
    /// There is none, or the node does not exist.
    Missing,
    /// It is from an earlier boot of the node. Rules do not survive a reboot.
    OfAnotherBoot,
    Valid(PolicyReport<'a>),
}

/// What a valid report says about one policy.
#[derive(Debug, Clone, Copy)]
pub struct PolicyReport<'a> {
    /// The policy versions that the agent supports, oldest first.
    pub versions: &'a [String],
    /// Why the rules of the node are not up to date.
    pub problem: Option<&'a str>,
    /// The generation of the policy that is in force.
    pub applied_generation: Option<i64>,
    pub liveness: AgentLiveness,
    /// Whether the policy waits for the agent to observe a pod: see [`waits_for_pod`].
    pub waits_for_pods: bool,
}

/// Why a policy does not count as enforced on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnforcementGap<'a> {
    NoReport,
    ReportOfAnotherBoot,
    /// The agent does not support the version of the policy, and ignores the policy.
    UnsupportedVersion {
        newest: Option<&'a str>,
    },
    /// The rules of the node are not up to date.
    NodeProblem(&'a str),
    NoHeartbeat,
    /// The current generation is not in force.
    NotApplied,
    /// The agent has not observed all selected pods.
    UnobservedPods,
    /// The heartbeat was old when it was first read, and may still be renewed in time.
    UnconfirmedHeartbeat,
}

/// Why a policy does not count as enforced on the selected pods of a node; `None` if it does. `was_programmed` if the
/// status of the policy says that it is, for its current generation.
pub fn enforcement_gap<'a>(
    policy: &PolicySummary,
    report: NodeReport<'a>,
    was_programmed: bool,
) -> Option<EnforcementGap<'a>> {
    let report = match report {
        NodeReport::Missing => return Some(EnforcementGap::NoReport),
        NodeReport::OfAnotherBoot => return Some(EnforcementGap::ReportOfAnotherBoot),
        NodeReport::Valid(report) => report,
    };
    if !report.versions.contains(&policy.min_version) {
        let newest = report.versions.last().map(String::as_str);
        return Some(EnforcementGap::UnsupportedVersion { newest });
    }
    if let Some(problem) = report.problem {
        return Some(EnforcementGap::NodeProblem(problem));
    }
    if report.liveness == AgentLiveness::Stale {
        return Some(EnforcementGap::NoHeartbeat);
    }
    if report.applied_generation != Some(policy.generation) {
        return Some(EnforcementGap::NotApplied);
    }
    if report.waits_for_pods {
        return Some(EnforcementGap::UnobservedPods);
    }
    let is_unconfirmed = report.liveness == AgentLiveness::Unconfirmed && !was_programmed;
    is_unconfirmed.then_some(EnforcementGap::UnconfirmedHeartbeat)
}

/// Whether the status controller has written to the status that the current generation of the policy is programmed.
pub fn is_programmed(policy: &NetworkPolicy) -> bool {
    let mut conditions = policy.status.conditions.iter().flatten();
    conditions.any(|own| {
        let reason = own.reason.as_deref().unwrap_or_default();
        own.type_ == "Programmed"
            && own.status == "True"
            && own.observed_generation.is_some()
            && own.observed_generation == policy.metadata.generation
            && [APPLIED, NOTHING_TO_APPLY].contains(&reason)
    })
}

/// Whether a report is about the current boot of its node, by the two boot ids. An empty one is unknown.
pub fn is_of_current_boot(report: &str, node: &str) -> bool {
    report.is_empty() || node.is_empty() || report == node
}

/// Whether a report covers a pod, by `podsResourceVersion` and the resourceVersion of the pod.
pub fn covers_pod(pods_version: u64, pod: u64) -> bool {
    pods_version >= pod
}

/// Whether a policy waits for the agent to observe a pod that its report does not cover. Agents report a new version of a
/// pod at once only if it changes the rules, else with the next heartbeat. A reader that does not know the earlier versions
/// of the pod cannot distinguish the two (`awaits_next_report`); then a policy that was programmed stays so until that
/// heartbeat.
pub fn waits_for_pod(was_programmed: bool, awaits_next_report: bool) -> bool {
    !(was_programmed && awaits_next_report)
}

/// How long the next report of an agent may take. It covers all pods that exist now, if the agent runs.
pub fn time_to_next_report(
    last: Option<&Time>,
    heartbeat_seconds: Option<u32>,
    grace_period: Duration,
    now: Timestamp,
) -> Duration {
    let Some((last, seconds)) = last.zip(heartbeat_seconds) else {
        return grace_period;
    };
    let interval = Duration::from_secs(u64::from(seconds));
    let due = longest_heartbeat_delay(interval) + REPORT_DELIVERY_MAX;
    due.saturating_sub(heartbeat_age(last, now))
        .min(grace_period)
}

/// When the heartbeat of an agent is stale, after it was written or renewed.
pub fn heartbeat_timeout(grace_period: Duration, heartbeat_seconds: Option<u32>) -> Duration {
    let interval = Duration::from_secs(u64::from(heartbeat_seconds.unwrap_or_default()));
    grace_period.max(interval * MISSED_HEARTBEATS_MAX)
}

/// Zero for a heartbeat of the future, from a clock that is ahead.
pub fn heartbeat_age(heartbeat: &Time, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(heartbeat.0)).unwrap_or_default()
}

/// The reason why a feature is not available on a node; `None` if it is.
pub fn unimplemented_reason<'a>(
    unimplemented: &'a [UnimplementedFeature],
    feature: &str,
) -> Option<&'a str> {
    let mut unimplemented = unimplemented.iter();
    let found = unimplemented.find(|own| own.feature == feature);
    found.map(|own| own.message.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = DEFAULT_HEARTBEAT_GRACE_PERIOD;

    fn policy() -> PolicySummary {
        PolicySummary {
            uid: "u".to_owned(),
            generation: 2,
            min_version: "1.8".to_owned(),
            pods_per_node: [("a".to_owned(), 1)].into(),
            unscheduled_pods: 0,
            has_matching_peers: None,
            lint_warnings: Vec::new(),
        }
    }

    #[test]
    fn the_first_reason_why_a_policy_is_not_enforced_is_given() {
        let versions = ["1.3".to_owned(), "1.8".to_owned()];
        let good = PolicyReport {
            versions: &versions,
            problem: None,
            applied_generation: Some(2),
            liveness: AgentLiveness::Alive,
            waits_for_pods: false,
        };
        let gap = |report| enforcement_gap(&policy(), NodeReport::Valid(report), false);
        assert_eq!(gap(good), None);
        let unconfirmed = PolicyReport {
            liveness: AgentLiveness::Unconfirmed,
            ..good
        };
        assert_eq!(gap(unconfirmed), Some(EnforcementGap::UnconfirmedHeartbeat));
        let kept = enforcement_gap(&policy(), NodeReport::Valid(unconfirmed), true);
        assert_eq!(kept, None);
        // Each of these has the faults of those before it.
        let unobserved = PolicyReport {
            waits_for_pods: true,
            ..unconfirmed
        };
        assert_eq!(gap(unobserved), Some(EnforcementGap::UnobservedPods));
        let old = PolicyReport {
            applied_generation: Some(1),
            ..unobserved
        };
        assert_eq!(gap(old), Some(EnforcementGap::NotApplied));
        let stale = PolicyReport {
            liveness: AgentLiveness::Stale,
            ..old
        };
        assert_eq!(gap(stale), Some(EnforcementGap::NoHeartbeat));
        let broken = PolicyReport {
            problem: Some("p"),
            ..stale
        };
        assert_eq!(gap(broken), Some(EnforcementGap::NodeProblem("p")));
        let older = PolicyReport {
            versions: &versions[..1],
            ..broken
        };
        let newest = Some("1.3");
        assert_eq!(
            gap(older),
            Some(EnforcementGap::UnsupportedVersion { newest })
        );
        for (report, expected) in [
            (NodeReport::Missing, EnforcementGap::NoReport),
            (
                NodeReport::OfAnotherBoot,
                EnforcementGap::ReportOfAnotherBoot,
            ),
        ] {
            assert_eq!(enforcement_gap(&policy(), report, true), Some(expected));
        }
    }

    #[test]
    fn only_the_condition_of_the_controller_for_the_current_generation_counts() {
        for (status, reason, generation, expected) in [
            ("True", "Applied", 2, true),
            ("True", "NothingToApply", 2, true),
            ("True", "Applied", 1, false),
            ("Unknown", "Pending", 2, false),
            ("True", "OfAnotherPlugin", 2, false),
        ] {
            let condition = serde_json::json!({
                "type": "Programmed", "status": status, "reason": reason, "observedGeneration": generation,
            });
            let policy = serde_json::json!({
                "metadata": {"name": "p", "generation": 2}, "status": {"conditions": [condition]},
            });
            let policy: NetworkPolicy = serde_json::from_value(policy).unwrap();
            assert_eq!(
                is_programmed(&policy),
                expected,
                "{status} {reason} {generation}"
            );
        }
    }

    #[test]
    fn reports_of_another_boot_are_recognized_if_both_ids_are_known() {
        assert!(is_of_current_boot("x", "x"));
        assert!(is_of_current_boot("", "x"));
        assert!(is_of_current_boot("x", ""));
        assert!(!is_of_current_boot("x", "y"));
    }

    #[test]
    fn the_next_report_is_due_after_the_longest_heartbeat_interval() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let seconds = Duration::from_secs;
        let last = Time(time("2030-01-01T00:00:10Z"));
        for (heartbeat_seconds, now, expected) in [
            (Some(10), "2030-01-01T00:00:10Z", seconds(13)),
            (Some(10), "2030-01-01T00:00:20Z", seconds(3)),
            (Some(10), "2030-01-01T00:00:30Z", seconds(0)),
            // The clock of the agent is ahead.
            (Some(10), "2030-01-01T00:00:00Z", seconds(13)),
            (Some(3600), "2030-01-01T00:00:10Z", GRACE),
            (None, "2030-01-01T00:00:10Z", GRACE),
        ] {
            let due = time_to_next_report(Some(&last), heartbeat_seconds, GRACE, time(now));
            assert_eq!(due, expected, "{heartbeat_seconds:?} {now}");
        }
        let never = time_to_next_report(None, Some(10), GRACE, last.0);
        assert_eq!(never, GRACE);
        assert_eq!(heartbeat_timeout(GRACE, Some(10)), seconds(40));
        assert_eq!(heartbeat_timeout(GRACE, Some(60)), seconds(240));
        assert_eq!(heartbeat_timeout(GRACE, None), seconds(40));
    }

    #[test]
    fn only_a_programmed_policy_waits_for_the_next_report() {
        assert!(!waits_for_pod(true, true));
        assert!(waits_for_pod(true, false));
        assert!(waits_for_pod(false, true));
        assert!(waits_for_pod(false, false));
    }
}
