//! Metrics of the conditions of network policies, computed when they are collected.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Weak;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::PolicyStatusController;
use super::conditions::{ConditionStatus, ConditionType};
use super::heartbeats::ObservationTime;

/// The metrics of the running controller; empty in processes that do not run it, as another one is the leader.
#[derive(Default)]
pub struct NetworkPolicyStatusCollector(Mutex<Weak<PolicyStatusController>>);

impl fmt::Debug for NetworkPolicyStatusCollector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("NetworkPolicyStatusCollector")
    }
}

/// The numbers of policies and nodes, by what their metrics are labelled with.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PolicyStatusCounts {
    /// By type and status of a condition that is about the current generation.
    pub(super) conditions: BTreeMap<(&'static str, &'static str), i64>,
    pub(super) min_versions: BTreeMap<String, i64>,
    /// Nodes with a report, by the liveness of their agents.
    pub(super) nodes: BTreeMap<&'static str, i64>,
    /// How long the oldest policy that agents have to apply has not been programmed.
    pub(super) oldest_unprogrammed_seconds: i64,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConditionLabels {
    condition: &'static str,
    status: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VersionLabels {
    min_version: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HeartbeatLabels {
    heartbeat: &'static str,
}

impl NetworkPolicyStatusCollector {
    pub(super) fn set_controller(&self, controller: Weak<PolicyStatusController>) {
        *self.0.lock() = controller;
    }

    /// Appends the metrics as OpenMetrics text, without the final `# EOF`.
    pub fn encode(&self, text: &mut String) -> fmt::Result {
        let controller = self.0.lock().upgrade();
        match controller {
            Some(controller) => {
                let counts = controller.state().counts(ObservationTime::now());
                counts.encode(text)
            }
            None => Ok(()),
        }
    }
}

impl PolicyStatusCounts {
    pub(super) fn encode(self, text: &mut String) -> fmt::Result {
        let conditions = Family::<ConditionLabels, Gauge>::default();
        for condition in ConditionType::ALL.map(ConditionType::name) {
            for status in ConditionStatus::ALL.map(ConditionStatus::name) {
                let labels = ConditionLabels { condition, status };
                let count = self.conditions.get(&(condition, status));
                let count = count.copied().unwrap_or_default();
                conditions.get_or_create(&labels).set(count);
            }
        }
        let versions = Family::<VersionLabels, Gauge>::default();
        for (min_version, count) in self.min_versions {
            versions
                .get_or_create(&VersionLabels { min_version })
                .set(count);
        }
        let nodes = Family::<HeartbeatLabels, Gauge>::default();
        for (heartbeat, count) in self.nodes {
            nodes
                .get_or_create(&HeartbeatLabels { heartbeat })
                .set(count);
        }
        let oldest = Gauge::<i64>::default();
        oldest.set(self.oldest_unprogrammed_seconds);
        let mut registry = Registry::with_prefix("rhumb_network_policy");
        registry.register(
            "conditions",
            "Network policies by the status of their conditions for the current generation",
            conditions,
        );
        registry.register(
            "min_versions",
            "Network policies by the version that they need",
            versions,
        );
        registry.register(
            "nodes",
            "Nodes that report which network policies they enforce, by the state of their heartbeat",
            nodes,
        );
        registry.register(
            "oldest_unprogrammed_seconds",
            "How long the oldest network policy that is not programmed has not been so",
            oldest,
        );
        encode_registry(text, &registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_rendered() {
        let counts = PolicyStatusCounts {
            conditions: [(("Supported", "False"), 2)].into(),
            min_versions: [("1.21".to_owned(), 3)].into(),
            nodes: [("stale", 4)].into(),
            oldest_unprogrammed_seconds: 5,
        };
        let mut text = String::new();
        counts.encode(&mut text).unwrap();
        for line in [
            "rhumb_network_policy_conditions{condition=\"Supported\",status=\"False\"} 2",
            "rhumb_network_policy_conditions{condition=\"Programmed\",status=\"Unknown\"} 0",
            "rhumb_network_policy_min_versions{min_version=\"1.21\"} 3",
            "rhumb_network_policy_nodes{heartbeat=\"stale\"} 4",
            "rhumb_network_policy_oldest_unprogrammed_seconds 5",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
        let mut nothing = String::new();
        let metrics = NetworkPolicyStatusCollector::default();
        metrics.encode(&mut nothing).unwrap();
        assert_eq!(nothing, "");
    }
}
