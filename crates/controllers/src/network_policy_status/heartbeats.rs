//! Heartbeats of agents: whether the agent of a node still runs. As for nodes, what counts is when this process observed
//! that a heartbeat was renewed, so clocks need not agree. No I/O and no clock: time is an argument.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use rhumb_netpol::node_enforcement::{
    AgentLiveness, heartbeat_age, heartbeat_timeout, time_to_next_report,
};
use rhumb_netpol::node_report::NetworkPolicyNode;
use tokio::time::Instant;

/// The liveness of an agent as a label of a metric.
pub(super) fn liveness_label(liveness: AgentLiveness) -> &'static str {
    match liveness {
        AgentLiveness::Alive => "alive",
        AgentLiveness::Unconfirmed => "unconfirmed",
        AgentLiveness::Stale => "stale",
    }
}

/// When something was observed: on the monotonic clock, and the time of day that a heartbeat is compared with.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObservationTime {
    pub(super) at: Instant,
    pub(super) time_of_day: Timestamp,
}

impl ObservationTime {
    pub(super) fn now() -> ObservationTime {
        ObservationTime {
            at: Instant::now(),
            time_of_day: Timestamp::now(),
        }
    }
}

#[derive(Debug)]
struct Heartbeat {
    /// `lastHeartbeatTime` of the report.
    time: Option<Time>,
    /// When a new `time` was last observed.
    renewed_at: Instant,
    /// How often the agent renews it, as far as it says so.
    interval_seconds: Option<u32>,
    timeout: Duration,
    liveness: AgentLiveness,
}

#[derive(Debug)]
pub(super) struct AgentHeartbeats {
    grace_period: Duration,
    nodes: HashMap<String, Heartbeat>,
}

impl AgentHeartbeats {
    pub(super) fn new(grace_period: Duration) -> AgentHeartbeats {
        AgentHeartbeats {
            grace_period,
            nodes: HashMap::new(),
        }
    }

    /// The liveness of the agent of a node with a report.
    pub(super) fn liveness(&self, node: &str) -> AgentLiveness {
        let heartbeat = self.nodes.get(node);
        heartbeat.map_or(AgentLiveness::Stale, |heartbeat| heartbeat.liveness)
    }

    /// The last heartbeat that the node's report has.
    pub(super) fn last_time(&self, node: &str) -> Option<&Time> {
        self.nodes.get(node)?.time.as_ref()
    }

    /// How long the next report of a node may take.
    pub(super) fn time_to_next_report(&self, node: &str, now: ObservationTime) -> Duration {
        let known = self.nodes.get(node);
        time_to_next_report(
            known.and_then(|known| known.time.as_ref()),
            known.and_then(|known| known.interval_seconds),
            self.grace_period,
            now.time_of_day,
        )
    }

    /// Records the heartbeat of a report. Returns whether the liveness changed.
    pub(super) fn observe(
        &mut self,
        node: &str,
        report: &NetworkPolicyNode,
        now: ObservationTime,
    ) -> bool {
        let interval_seconds = report.heartbeat_seconds;
        let timeout = heartbeat_timeout(self.grace_period, interval_seconds);
        let time = report.last_heartbeat_time.clone();
        let Some(known) = self.nodes.get_mut(node) else {
            let age = time
                .as_ref()
                .map(|time| heartbeat_age(time, now.time_of_day));
            let is_recent = age.is_some_and(|age| age <= timeout);
            let liveness = match is_recent {
                true => AgentLiveness::Alive,
                false => AgentLiveness::Unconfirmed,
            };
            let heartbeat = Heartbeat {
                time,
                renewed_at: now.at,
                interval_seconds,
                timeout,
                liveness,
            };
            self.nodes.insert(node.to_owned(), heartbeat);
            return true;
        };
        known.interval_seconds = interval_seconds;
        known.timeout = timeout;
        if known.time == time || time.is_none() {
            return false;
        }
        known.time = time;
        known.renewed_at = now.at;
        let before = std::mem::replace(&mut known.liveness, AgentLiveness::Alive);
        before != AgentLiveness::Alive
    }

    pub(super) fn remove(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// The time until the heartbeat of the node becomes stale, if it is not renewed. Zero if it just did; `None` if it
    /// was stale before, or the node has no report.
    pub(super) fn expire(&mut self, node: &str, at: Instant) -> Option<Duration> {
        let heartbeat = self.nodes.get_mut(node)?;
        if heartbeat.liveness == AgentLiveness::Stale {
            return None;
        }
        let remaining = (heartbeat.renewed_at + heartbeat.timeout).saturating_duration_since(at);
        if remaining.is_zero() {
            heartbeat.liveness = AgentLiveness::Stale;
        }
        Some(remaining)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const GRACE: Duration = Duration::from_secs(40);
    const SECOND: Duration = Duration::from_secs(1);

    fn report(fields: Value) -> NetworkPolicyNode {
        serde_json::from_value(fields).unwrap()
    }

    fn heartbeat(second: u32) -> NetworkPolicyNode {
        report(json!({"lastHeartbeatTime": format!("2030-01-01T00:00:{second:02}Z")}))
    }

    fn midnight(at: Instant) -> ObservationTime {
        ObservationTime {
            at,
            time_of_day: "2030-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn a_heartbeat_is_stale_if_it_is_not_renewed_within_the_grace_period() {
        let at = Instant::now();
        let mut heartbeats = AgentHeartbeats::new(GRACE);
        assert!(heartbeats.observe("a", &heartbeat(0), midnight(at)));
        assert_eq!(heartbeats.liveness("a"), AgentLiveness::Alive);
        assert_eq!(heartbeats.expire("a", at + 10 * SECOND), Some(30 * SECOND));
        assert!(!heartbeats.observe("a", &heartbeat(9), midnight(at + 10 * SECOND)));
        // A report with the same heartbeat, such as one that another client changed, renews nothing.
        assert!(!heartbeats.observe("a", &heartbeat(9), midnight(at + 20 * SECOND)));
        assert_eq!(heartbeats.expire("a", at + 49 * SECOND), Some(SECOND));
        assert_eq!(
            heartbeats.expire("a", at + 50 * SECOND),
            Some(Duration::ZERO)
        );
        assert_eq!(heartbeats.liveness("a"), AgentLiveness::Stale);
        assert_eq!(heartbeats.expire("a", at + 60 * SECOND), None);
        assert!(heartbeats.observe("a", &heartbeat(59), midnight(at + 60 * SECOND)));
        assert_eq!(heartbeats.liveness("a"), AgentLiveness::Alive);
        heartbeats.remove("a");
        assert_eq!(heartbeats.expire("a", at), None);
    }

    #[test]
    fn an_agent_with_a_longer_interval_has_more_time() {
        let at = Instant::now();
        let mut heartbeats = AgentHeartbeats::new(GRACE);
        let mut slow = heartbeat(0);
        slow.heartbeat_seconds = Some(60);
        heartbeats.observe("a", &slow, midnight(at));
        assert_eq!(heartbeats.expire("a", at), Some(240 * SECOND));
    }

    #[test]
    fn an_agent_that_is_listed_with_an_old_heartbeat_must_renew_it() {
        let at = Instant::now();
        let mut heartbeats = AgentHeartbeats::new(GRACE);
        let old = report(json!({"lastHeartbeatTime": "2029-12-31T23:59:19Z"}));
        let ahead = report(json!({"lastHeartbeatTime": "2030-01-01T01:00:00Z"}));
        heartbeats.observe("old", &old, midnight(at));
        heartbeats.observe("ahead", &ahead, midnight(at));
        heartbeats.observe("none", &report(json!({})), midnight(at));
        assert_eq!(heartbeats.liveness("old"), AgentLiveness::Unconfirmed);
        assert_eq!(heartbeats.liveness("ahead"), AgentLiveness::Alive);
        assert_eq!(heartbeats.liveness("none"), AgentLiveness::Unconfirmed);
        assert!(heartbeats.observe("old", &heartbeat(0), midnight(at)));
        assert_eq!(heartbeats.liveness("old"), AgentLiveness::Alive);
        assert!(!heartbeats.observe("none", &report(json!({})), midnight(at + SECOND)));
        assert_eq!(heartbeats.expire("none", at + GRACE), Some(Duration::ZERO));
    }
}
