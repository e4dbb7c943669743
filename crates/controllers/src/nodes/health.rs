//! When each node was last heard of, by this process's own clock: clocks of nodes may be wrong.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use tokio::time::Instant;

use super::taints::{self, Eviction};
use super::zones::{Turn, Zones};
use crate::views::{Node, Ready};

/// Nodes with this label do not count when it is asked how many of a zone are lost.
const UNCOUNTED: &str = "node.kubernetes.io/exclude-disruption";
const REGIONS: [&str; 2] = [
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/region",
];
const ZONES: [&str; 2] = [
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/zone",
];

/// How long nodes may be silent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grace {
    pub(super) monitor: Duration,
    /// Of a node that has never said anything.
    pub(super) startup: Duration,
}

#[derive(Debug)]
pub(super) struct Health {
    grace: Grace,
    nodes: HashMap<String, Known>,
    /// Renewals may come before the node does.
    leases: HashMap<String, (Option<MicroTime>, Instant)>,
    zones: Zones,
    /// What a list that is being read has shown so far.
    listed: HashSet<String>,
}

#[derive(Debug)]
struct Known {
    heard: Instant,
    /// The time in the Ready condition, as the node's clock had it: only that it changes says anything.
    heartbeat: Option<Option<Time>>,
    ready: Ready,
    zone: Box<str>,
    is_counted: bool,
    /// Has the NoExecute taint that it should have.
    is_evicted: bool,
    /// Has a NoExecute taint of either kind.
    is_evicting: bool,
    /// Its turn to lose its pods has come.
    may_evict: bool,
    /// Its pods are known not to be ready.
    are_pods_marked: bool,
}

impl Health {
    pub(super) fn new(grace: Grace) -> Health {
        Health {
            grace,
            nodes: HashMap::new(),
            leases: HashMap::new(),
            zones: Zones::default(),
            listed: HashSet::new(),
        }
    }

    /// A lease as it is now. This is all that a renewal costs.
    pub(super) fn renewed(&mut self, node: &str, renewal: Option<MicroTime>, now: Instant) {
        match self.leases.get_mut(node) {
            Some((known, _)) if *known == renewal => {}
            Some(lease) => *lease = (renewal, now),
            None => {
                self.leases.insert(node.to_owned(), (renewal, now));
            }
        }
    }

    pub(super) fn lease_gone(&mut self, node: &str) {
        self.leases.remove(node);
    }

    /// A node as it is now.
    pub(super) fn seen(&mut self, node: &Node, now: Instant) {
        let name = node.metadata.name.clone().unwrap_or_default();
        let heartbeat = heartbeat(node);
        let ready = node.ready();
        let known = self.nodes.get(&name);
        let is_ready = ready == Ready::True;
        let fresh = Known {
            heard: match known {
                Some(known) if known.heartbeat == heartbeat => known.heard,
                _ => now,
            },
            heartbeat,
            ready,
            zone: zone(node),
            is_counted: !has_label(node, UNCOUNTED),
            is_evicted: taints::evicting(ready)
                .is_none_or(|key| node.has_taint(key, taints::NO_EXECUTE)),
            is_evicting: taints::is_evicting(node),
            may_evict: !is_ready && known.is_some_and(|known| known.may_evict),
            are_pods_marked: !is_ready && known.is_some_and(|known| known.are_pods_marked),
        };
        self.nodes.insert(name, fresh);
    }

    pub(super) fn gone(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    pub(super) fn list_begins(&mut self) {
        self.listed.clear();
    }

    pub(super) fn listed(&mut self, node: &str) {
        self.listed.insert(node.to_owned());
    }

    /// What a list did not show is gone.
    pub(super) fn list_ends(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        self.nodes.retain(|name, _| listed.contains(name));
        self.leases.retain(|name, _| listed.contains(name));
    }

    /// Looks at all nodes, and tells with which there is something to do.
    pub(super) fn look(&mut self, now: Instant) -> Vec<String> {
        let turn = self.zones.count(self.nodes.values().map(|known| {
            let ready = known.is_counted.then_some(known.ready);
            (&*known.zone, ready)
        }));
        for known in self.nodes.values_mut() {
            match turn {
                Turn::Same => break,
                Turn::Dark => known.may_evict = false,
                // Whoever could not be seen in the dark gets time to be seen.
                Turn::Light => known.heard = now,
            }
        }
        let mut due = Vec::new();
        for (name, known) in &mut self.nodes {
            let is_silent = is_silent(known, self.leases.get(name), self.grace, now);
            if !known.is_evicted && !known.is_evicting && !known.may_evict {
                known.may_evict = self.zones.may_evict(&known.zone, now);
            }
            let is_lost = is_silent && known.ready != Ready::Unknown;
            let is_to_be_evicted = !known.is_evicted && known.may_evict && !self.zones.is_dark();
            let is_to_be_spared = turn == Turn::Dark && known.is_evicting;
            if is_lost || is_to_be_evicted || is_to_be_spared {
                due.push(name.clone());
            }
        }
        due
    }

    /// Whether the node, as it was just read, has been silent for too long. One that has said something which this
    /// process has yet to hear of has not.
    pub(super) fn is_silent(&self, node: &Node, now: Instant) -> bool {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        self.nodes.get(name).is_some_and(|known| {
            known.heartbeat == heartbeat(node)
                && is_silent(known, self.leases.get(name), self.grace, now)
        })
    }

    pub(super) fn eviction(&self, node: &str) -> Eviction {
        match self.nodes.get(node) {
            _ if self.zones.is_dark() => Eviction::Never,
            Some(known) if known.may_evict => Eviction::Now,
            _ => Eviction::NotYet,
        }
    }

    pub(super) fn are_pods_marked(&self, node: &str) -> bool {
        let known = self.nodes.get(node);
        known.is_none_or(|known| known.are_pods_marked)
    }

    pub(super) fn pods_marked(&mut self, node: &str) {
        if let Some(known) = self.nodes.get_mut(node) {
            known.are_pods_marked = true;
        }
    }
}

fn is_silent(
    known: &Known,
    lease: Option<&(Option<MicroTime>, Instant)>,
    grace: Grace,
    now: Instant,
) -> bool {
    let heard = lease.map_or(known.heard, |(_, renewed)| known.heard.max(*renewed));
    let grace = match known.ready {
        Ready::Missing => grace.startup,
        _ => grace.monitor,
    };
    now.saturating_duration_since(heard) > grace
}

fn heartbeat(node: &Node) -> Option<Option<Time>> {
    let ready = node.condition("Ready");
    ready.map(|condition| condition.last_heartbeat_time.clone())
}

fn has_label(node: &Node, label: &str) -> bool {
    let labels = node.metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key(label))
}

/// Region and zone together: zones of different regions may have the same name.
fn zone(node: &Node) -> Box<str> {
    let label = |names: [&str; 2]| {
        let labels = node.metadata.labels.as_ref()?;
        names.iter().find_map(|&name| labels.get(name))
    };
    let text = |names| label(names).map_or("", String::as_str);
    format!("{}:{}", text(REGIONS), text(ZONES)).into()
}

#[cfg(test)]
mod tests;
