//! Which plugins decide, and how much each counts.

use std::fmt;

use super::search::Checks;
use crate::cluster::{Cluster, PodSlot};
use crate::plugins::Plugin;

/// How pods are scheduled that name this profile.
pub struct Profile {
    pub scheduler_name: Box<str>,
    /// How many of all nodes are enough that could be; 0 is as many as the size of the cluster suggests.
    pub percentage_of_nodes_to_score: u8,
    /// In the order in which they are asked.
    pub plugins: Vec<Enabled>,
}

pub struct Enabled {
    pub plugin: Box<dyn Plugin>,
    pub filters: bool,
    /// 0 if it has no say in which node is better.
    pub weight: i64,
}

impl Enabled {
    /// Adds what the plugin says of each node to what others say, by its weight.
    pub(super) fn add(&self, scores: &[i64], sums: &mut [i64]) {
        for (sum, score) in sums.iter_mut().zip(scores) {
            *sum += score * self.weight;
        }
    }
}

impl Profile {
    /// Makes a cluster know what the plugins will ask for. To be called once, before the first decision.
    pub fn introduce(&self, cluster: &mut Cluster) {
        for enabled in &self.plugins {
            for key in enabled.plugin.topology_keys() {
                cluster.learn_topology(key);
            }
        }
    }

    /// What all plugins have to say about nodes, for one pod. If one of them has no node at all, which and why.
    pub fn checks<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
    ) -> Result<Checks<'c>, (usize, String)> {
        let mut checks = Checks::default();
        let filtering = self.plugins.iter().enumerate();
        for (index, enabled) in filtering.filter(|(_, enabled)| enabled.filters) {
            match enabled.plugin.filter(pod, cluster) {
                Ok(filtering) => checks.add(index, filtering),
                Err(unschedulable) => return Err((index, unschedulable.reason)),
            }
        }
        Ok(checks)
    }

    /// The name of a plugin by its place.
    pub fn plugin_name(&self, index: usize) -> &'static str {
        let enabled = self.plugins.get(index);
        enabled.map_or("", |enabled| enabled.plugin.name())
    }
}

impl fmt::Debug for Enabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.plugin.name(), self.weight)
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.scheduler_name, self.plugins)
    }
}
