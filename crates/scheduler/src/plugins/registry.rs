//! The registry of filter and score plugins, in execution order, with upstream's default weights
//! (upstream: `NewInTreeRegistry`). Entry point: [`plugin_factories`].

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
use super::volume_binding::VolumeBinding;
use crate::cycle::{EnabledPlugin, Profile};

/// The arguments of all configurable plugins. Defaults are upstream's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodePluginArgs {
    pub node_affinity: AddedAffinity,
    pub node_resources_fit: NodeResourcesFit,
    pub node_resources_balanced_allocation: NodeResourcesBalancedAllocation,
    pub pod_topology_spread: DefaultConstraints,
    pub inter_pod_affinity: InterPodAffinity,
}

/// Creates a plugin that a profile can name.
#[derive(Debug, Clone, Copy)]
pub struct PluginFactory {
    pub name: &'static str,
    pub filters: bool,
    /// Default score weight; 0 if the plugin does not score.
    pub weight: i64,
    make: fn(&NodePluginArgs) -> Box<dyn Plugin>,
}

impl PluginFactory {
    pub fn make(&self, args: &NodePluginArgs) -> Box<dyn Plugin> {
        (self.make)(args)
    }

    /// A plugin instance with its default extension points and weight.
    pub fn enabled_by_default(&self, args: &NodePluginArgs) -> EnabledPlugin {
        EnabledPlugin {
            plugin: self.make(args),
            filters: self.filters,
            weight: self.weight,
        }
    }
}

/// All plugins, in upstream's execution order.
pub fn plugin_factories() -> &'static [PluginFactory] {
    const fn factory(
        name: &'static str,
        filters: bool,
        weight: i64,
        make: fn(&NodePluginArgs) -> Box<dyn Plugin>,
    ) -> PluginFactory {
        PluginFactory {
            name,
            filters,
            weight,
            make,
        }
    }
    const KNOWN: &[PluginFactory] = &[
        factory("NodeUnschedulable", true, 0, |_| {
            Box::new(NodeUnschedulable::default())
        }),
        factory("NodeName", true, 0, |_| Box::new(NodeName)),
        factory("TaintToleration", true, 3, |_| {
            Box::new(TaintToleration::default())
        }),
        factory("NodeAffinity", true, 2, |args| {
            Box::new(NodeAffinity::new(args.node_affinity.clone()))
        }),
        factory("NodePorts", true, 0, |_| Box::new(NodePorts)),
        factory("NodeResourcesFit", true, 1, |args| {
            Box::new(args.node_resources_fit.clone())
        }),
        factory("VolumeBinding", true, 0, |_| Box::new(VolumeBinding)),
        factory("PodTopologySpread", true, 2, |args| {
            Box::new(PodTopologySpread::new(args.pod_topology_spread.clone()))
        }),
        factory("InterPodAffinity", true, 2, |args| {
            Box::new(args.inter_pod_affinity.clone())
        }),
        factory("NodeResourcesBalancedAllocation", false, 1, |args| {
            Box::new(args.node_resources_balanced_allocation.clone())
        }),
        factory("ImageLocality", false, 1, |_| {
            Box::new(ImageLocality::default())
        }),
    ];
    KNOWN
}

impl Profile {
    /// All plugins with upstream's default weights and arguments.
    pub fn with_default_plugins(scheduler_name: &str) -> Profile {
        Profile {
            scheduler_name: scheduler_name.into(),
            percentage_of_nodes_to_score: 0,
            plugins: plugin_factories()
                .iter()
                .map(|factory| factory.enabled_by_default(&NodePluginArgs::default()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_have_the_name_of_their_factory() {
        for factory in plugin_factories() {
            assert_eq!(
                factory.make(&NodePluginArgs::default()).name(),
                factory.name
            );
        }
        let weights: Vec<i64> = Profile::with_default_plugins("s")
            .plugins
            .iter()
            .map(|enabled| enabled.weight)
            .collect();
        assert_eq!(weights, [0, 0, 3, 2, 0, 1, 0, 2, 2, 1, 1]);
    }
}
