//! Tracks when each node last sent a heartbeat (upstream's `nodeHealthData`). Times are by this process's clock,
//! because clocks of nodes may be wrong.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use tokio::time::Instant;

use super::taints::{self, NoExecuteTaintMode};
use super::zone_eviction_limiter::{DisruptionChange, ZoneEvictionLimiter};
use crate::partial_objects::{Node, NodeReadiness};

/// Nodes with this label are excluded when the disruption of a zone is computed.
const EXCLUDE_DISRUPTION_LABEL: &str = "node.kubernetes.io/exclude-disruption";
const REGION_LABELS: [&str; 2] = [
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/region",
];
const ZONE_LABELS: [&str; 2] = [
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/zone",
];

/// How long nodes may send no heartbeat.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeGracePeriods {
    pub(super) monitor: Duration,
    /// For a node that has never reported its status.
    pub(super) startup: Duration,
}

#[derive(Debug)]
pub(super) struct NodeHealthTracker {
    grace: NodeGracePeriods,
    nodes: HashMap<String, NodeHealthData>,
    /// Last renewal of each lease. A lease event may precede the event of its node.
    leases: HashMap<String, (Option<MicroTime>, Instant)>,
    zones: ZoneEvictionLimiter,
}

#[derive(Debug)]
struct NodeHealthData {
    last_heard_at: Instant,
    /// `lastHeartbeatTime` of the Ready condition, by the node's clock: only a change of it is meaningful.
    heartbeat: Option<Option<Time>>,
    ready: NodeReadiness,
    zone: Box<str>,
    is_counted: bool,
    /// Has the NoExecute taint that matches its Ready condition, or needs none.
    is_evicted: bool,
    /// Has the `not-ready` or the `unreachable` NoExecute taint.
    is_evicting: bool,
    /// The zone's rate limiter has permitted the eviction of its pods.
    may_evict: bool,
    /// Its pods have been marked not ready.
    are_pods_marked: bool,
}

impl NodeHealthTracker {
    pub(super) fn new(grace: NodeGracePeriods) -> NodeHealthTracker {
        NodeHealthTracker {
            grace,
            nodes: HashMap::new(),
            leases: HashMap::new(),
            zones: ZoneEvictionLimiter::default(),
        }
    }

    /// Handles a lease event. A renewal causes no other work.
    pub(super) fn record_lease_renewal(
        &mut self,
        node: &str,
        renewal: Option<MicroTime>,
        now: Instant,
    ) {
        match self.leases.get_mut(node) {
            Some((known, _)) if *known == renewal => {}
            Some(lease) => *lease = (renewal, now),
            None => {
                self.leases.insert(node.to_owned(), (renewal, now));
            }
        }
    }

    pub(super) fn remove_lease(&mut self, node: &str) {
        self.leases.remove(node);
    }

    /// Handles an added or updated node.
    pub(super) fn set_node(&mut self, node: &Node, now: Instant) {
        let name = node.metadata.name.clone().unwrap_or_default();
        let heartbeat = heartbeat(node);
        let ready = node.ready();
        let known = self.nodes.get(&name);
        let is_ready = ready == NodeReadiness::True;
        let fresh = NodeHealthData {
            last_heard_at: match known {
                Some(known) if known.heartbeat == heartbeat => known.last_heard_at,
                _ => now,
            },
            heartbeat,
            ready,
            zone: zone(node),
            is_counted: !has_label(node, EXCLUDE_DISRUPTION_LABEL),
            is_evicted: taints::eviction_taint_key(ready)
                .is_none_or(|key| node.has_taint(key, taints::NO_EXECUTE)),
            is_evicting: taints::is_evicting(node),
            may_evict: !is_ready && known.is_some_and(|known| known.may_evict),
            are_pods_marked: !is_ready && known.is_some_and(|known| known.are_pods_marked),
        };
        self.nodes.insert(name, fresh);
    }

    pub(super) fn remove_node(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// Removes all other nodes, and their leases.
    pub(super) fn retain_nodes(&mut self, names: &HashSet<String>) {
        self.nodes.retain(|name, _| names.contains(name));
        self.leases.retain(|name, _| names.contains(name));
    }

    /// Checks all nodes (upstream's `monitorNodeHealth`); returns those to reconcile.
    pub(super) fn monitor_health(&mut self, now: Instant) -> Vec<String> {
        let change = self.zones.count(self.nodes.values().map(|known| {
            let ready = known.is_counted.then_some(known.ready);
            (&*known.zone, ready)
        }));
        for known in self.nodes.values_mut() {
            match change {
                DisruptionChange::Unchanged => break,
                DisruptionChange::FullyDisrupted => known.may_evict = false,
                // Give every node its full grace period after a full disruption.
                DisruptionChange::Recovered => known.last_heard_at = now,
            }
        }
        let mut due = Vec::new();
        for (name, known) in &mut self.nodes {
            let is_unresponsive = is_unresponsive(known, self.leases.get(name), self.grace, now);
            if !known.is_evicted && !known.is_evicting && !known.may_evict {
                known.may_evict = self.zones.may_evict(&known.zone, now);
            }
            let is_lost = is_unresponsive && known.ready != NodeReadiness::Unknown;
            let must_evict =
                !known.is_evicted && known.may_evict && !self.zones.is_fully_disrupted();
            let must_stop_evicting =
                change == DisruptionChange::FullyDisrupted && known.is_evicting;
            if is_lost || must_evict || must_stop_evicting {
                due.push(name.clone());
            }
        }
        due
    }

    /// Whether the node, as just read, has exceeded its grace period. Not if it has a heartbeat that the watch has not
    /// delivered yet.
    pub(super) fn is_unresponsive(&self, node: &Node, now: Instant) -> bool {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        self.nodes.get(name).is_some_and(|known| {
            known.heartbeat == heartbeat(node)
                && is_unresponsive(known, self.leases.get(name), self.grace, now)
        })
    }

    pub(super) fn eviction_permission(&self, node: &str) -> NoExecuteTaintMode {
        match self.nodes.get(node) {
            _ if self.zones.is_fully_disrupted() => NoExecuteTaintMode::Never,
            Some(known) if known.may_evict => NoExecuteTaintMode::Now,
            _ => NoExecuteTaintMode::NotYet,
        }
    }

    pub(super) fn are_pods_marked(&self, node: &str) -> bool {
        let known = self.nodes.get(node);
        known.is_none_or(|known| known.are_pods_marked)
    }

    pub(super) fn set_pods_marked(&mut self, node: &str) {
        if let Some(known) = self.nodes.get_mut(node) {
            known.are_pods_marked = true;
        }
    }
}

fn is_unresponsive(
    known: &NodeHealthData,
    lease: Option<&(Option<MicroTime>, Instant)>,
    grace: NodeGracePeriods,
    now: Instant,
) -> bool {
    let last_heard_at = lease.map_or(known.last_heard_at, |(_, renewed)| {
        known.last_heard_at.max(*renewed)
    });
    let grace = match known.ready {
        NodeReadiness::Missing => grace.startup,
        _ => grace.monitor,
    };
    now.saturating_duration_since(last_heard_at) > grace
}

fn heartbeat(node: &Node) -> Option<Option<Time>> {
    let ready = node.condition("Ready");
    ready.map(|condition| condition.last_heartbeat_time.clone())
}

fn has_label(node: &Node, label: &str) -> bool {
    let labels = node.metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key(label))
}

/// Region and zone, since zones of different regions may have the same name.
fn zone(node: &Node) -> Box<str> {
    let label = |names: [&str; 2]| {
        let labels = node.metadata.labels.as_ref()?;
        names.iter().find_map(|&name| labels.get(name))
    };
    let text = |names| label(names).map_or("", String::as_str);
    format!("{}:{}", text(REGION_LABELS), text(ZONE_LABELS)).into()
}

#[cfg(test)]
mod tests;
