//! Scheduling profiles: the enabled plugins with their weights, under one scheduler name.

use std::fmt;

use super::node_search::FilterChain;
use crate::cluster::{ClusterState, PodInfo};
use crate::plugins::Plugin;

/// The profile of the pods with this `spec.schedulerName`.
pub struct Profile {
    pub scheduler_name: Box<str>,
    /// The search stops after this percentage of nodes was found feasible; 0 adapts to the size of the cluster.
    pub percentage_of_nodes_to_score: u8,
    /// In the order in which they run.
    pub plugins: Vec<EnabledPlugin>,
}

/// A plugin in a profile.
pub struct EnabledPlugin {
    pub plugin: Box<dyn Plugin>,
    pub filters: bool,
    /// 0 if the plugin does not score.
    pub weight: i64,
}

impl EnabledPlugin {
    /// Adds the plugin's weighted score of each node to `sums`.
    pub(super) fn add_weighted(&self, scores: &[i64], sums: &mut [i64]) {
        for (sum, score) in sums.iter_mut().zip(scores) {
            *sum += score * self.weight;
        }
    }
}

impl Profile {
    /// Registers the topology keys that the plugins use. Must be called once, before the first scheduling cycle.
    pub fn register_topologies(&self, cluster: &mut ClusterState) {
        for enabled in &self.plugins {
            for key in enabled.plugin.topology_keys() {
                cluster.register_topology(key);
            }
        }
    }

    /// Runs PreFilter of all plugins for a pod. Fails with the plugin's index and the reason if a plugin rejects the
    /// pod on all nodes.
    pub fn build_filters<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
    ) -> Result<FilterChain<'c>, (usize, String)> {
        let mut checks = FilterChain::default();
        let filtering = self.plugins.iter().enumerate();
        for (index, enabled) in filtering.filter(|(_, enabled)| enabled.filters) {
            match enabled.plugin.pre_filter(pod, cluster) {
                Ok(filtering) => checks.add(index, filtering),
                Err(unschedulable) => return Err((index, unschedulable.reason)),
            }
        }
        Ok(checks)
    }

    /// The name of a plugin by its index.
    pub fn plugin_name(&self, index: usize) -> &'static str {
        let enabled = self.plugins.get(index);
        enabled.map_or("", |enabled| enabled.plugin.name())
    }
}

impl fmt::Debug for EnabledPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.plugin.name(), self.weight)
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.scheduler_name, self.plugins)
    }
}
