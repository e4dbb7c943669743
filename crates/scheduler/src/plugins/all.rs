//! All plugins, in the order in which they are asked, and what they count for where nothing else is said.

use super::Plugin;
use super::image_locality::ImageLocality;
use super::inter_pod_affinity::InterPodAffinity;
use super::node_affinity::{AddedAffinity, NodeAffinity};
use super::node_name::NodeName;
use super::node_ports::NodePorts;
use super::node_resources_balanced_allocation::NodeResourcesBalancedAllocation;
use super::node_resources_fit::NodeResourcesFit;
use super::node_unschedulable::NodeUnschedulable;
use super::pod_topology_spread::{DefaultConstraints, PodTopologySpread};
use super::taint_toleration::TaintToleration;
use super::volumes::Volumes;
use crate::cycle::{Enabled, Profile};

/// What can be set of plugins. The default is upstream's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Args {
    pub node_affinity: AddedAffinity,
    pub node_resources_fit: NodeResourcesFit,
    pub node_resources_balanced_allocation: NodeResourcesBalancedAllocation,
    pub pod_topology_spread: DefaultConstraints,
    pub inter_pod_affinity: InterPodAffinity,
}

/// A plugin that a profile can name.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub name: &'static str,
    pub filters: bool,
    /// 0 if it has no say in which node is better.
    pub weight: i64,
    make: fn(&Args) -> Box<dyn Plugin>,
}

impl Known {
    pub fn make(&self, args: &Args) -> Box<dyn Plugin> {
        (self.make)(args)
    }

    /// With its usual part.
    pub fn enabled(&self, args: &Args) -> Enabled {
        Enabled {
            plugin: self.make(args),
            filters: self.filters,
            weight: self.weight,
        }
    }
}

/// All, in upstream's order of asking.
pub fn known() -> &'static [Known] {
    const fn one(
        name: &'static str,
        filters: bool,
        weight: i64,
        make: fn(&Args) -> Box<dyn Plugin>,
    ) -> Known {
        Known {
            name,
            filters,
            weight,
            make,
        }
    }
    const KNOWN: &[Known] = &[
        one("NodeUnschedulable", true, 0, |_| {
            Box::new(NodeUnschedulable::default())
        }),
        one("NodeName", true, 0, |_| Box::new(NodeName)),
        one("TaintToleration", true, 3, |_| {
            Box::new(TaintToleration::default())
        }),
        one("NodeAffinity", true, 2, |args| {
            Box::new(NodeAffinity::new(args.node_affinity.clone()))
        }),
        one("NodePorts", true, 0, |_| Box::new(NodePorts)),
        one("NodeResourcesFit", true, 1, |args| {
            Box::new(args.node_resources_fit.clone())
        }),
        one("VolumeBinding", true, 0, |_| Box::new(Volumes)),
        one("PodTopologySpread", true, 2, |args| {
            Box::new(PodTopologySpread::new(args.pod_topology_spread.clone()))
        }),
        one("InterPodAffinity", true, 2, |args| {
            Box::new(args.inter_pod_affinity.clone())
        }),
        one("NodeResourcesBalancedAllocation", false, 1, |args| {
            Box::new(args.node_resources_balanced_allocation.clone())
        }),
        one("ImageLocality", false, 1, |_| {
            Box::new(ImageLocality::default())
        }),
    ];
    KNOWN
}

impl Profile {
    /// All plugins with the weights and settings that upstream has where nothing is configured.
    pub fn usual(scheduler_name: &str) -> Profile {
        Profile {
            scheduler_name: scheduler_name.into(),
            percentage_of_nodes_to_score: 0,
            plugins: known()
                .iter()
                .map(|known| known.enabled(&Args::default()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_called_what_they_are_listed_as() {
        for known in known() {
            assert_eq!(known.make(&Args::default()).name(), known.name);
        }
        let weights: Vec<i64> = Profile::usual("s")
            .plugins
            .iter()
            .map(|enabled| enabled.weight)
            .collect();
        assert_eq!(weights, [0, 0, 3, 2, 0, 1, 0, 2, 2, 1, 1]);
    }
}
