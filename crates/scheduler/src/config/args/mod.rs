//! What can be said to single plugins: `pluginConfig`.

mod form;
mod node_affinity;
mod resources;
mod spread;

use rhumb_meta::field::{Error, ErrorList, Path};

pub(super) use form::Args;
pub use node_affinity::NodeAffinityArgs;
pub use resources::{
    BalancedAllocationArgs, NodeResourcesFitArgs, ResourceWeight, ScoringStrategy, ShapePoint,
};
pub use spread::{DefaultConstraint, PodTopologySpreadArgs};

use super::form::PluginConfig;
use super::registry;

/// What all plugins of a profile are told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginArgs {
    pub default_preemption: DefaultPreemptionArgs,
    pub inter_pod_affinity: InterPodAffinityArgs,
    pub node_affinity: NodeAffinityArgs,
    pub node_resources_fit: NodeResourcesFitArgs,
    pub balanced_allocation: BalancedAllocationArgs,
    pub pod_topology_spread: PodTopologySpreadArgs,
}

/// How many nodes preemption looks at before it chooses among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultPreemptionArgs {
    pub min_candidate_nodes_percentage: i32,
    pub min_candidate_nodes_absolute: i32,
}

impl Default for DefaultPreemptionArgs {
    fn default() -> DefaultPreemptionArgs {
        DefaultPreemptionArgs {
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterPodAffinityArgs {
    /// What required affinity of existing pods counts for in scores.
    pub hard_pod_affinity_weight: i32,
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> InterPodAffinityArgs {
        InterPodAffinityArgs {
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
        }
    }
}

impl PluginArgs {
    pub(super) fn read(
        configured: &[PluginConfig],
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) -> PluginArgs {
        let mut all = PluginArgs::default();
        let mut seen: Vec<&str> = Vec::new();
        for (index, config) in configured.iter().enumerate() {
            let (name, path) = (config.name.as_str(), path.index(index));
            if seen.contains(&name) {
                errors.push(Error::duplicate(&path, name));
            }
            seen.push(name);
            if let Err(problem) = registry::find(name) {
                errors.push(Error::invalid(&path.child("name"), name, problem));
            } else if let Some(args) = &config.args {
                all.set(name, args, &path.child("args"), errors);
            }
        }
        all
    }

    fn set(&mut self, plugin: &str, args: &Args, path: &Path<'_>, errors: &mut ErrorList) {
        args.check(plugin, path, errors);
        match plugin {
            "DefaultPreemption" => self.default_preemption = preemption(args, path, errors),
            "InterPodAffinity" => self.inter_pod_affinity = affinity(args, path, errors),
            "NodeAffinity" => self.node_affinity = NodeAffinityArgs::read(args, path, errors),
            "NodeResourcesFit" => {
                self.node_resources_fit = NodeResourcesFitArgs::read(args, path, errors);
            }
            "NodeResourcesBalancedAllocation" => {
                self.balanced_allocation = BalancedAllocationArgs::read(args, path, errors);
            }
            "PodTopologySpread" => {
                self.pod_topology_spread = PodTopologySpreadArgs::read(args, path, errors);
            }
            _ => {}
        }
    }
}

fn preemption(args: &Args, path: &Path<'_>, errors: &mut ErrorList) -> DefaultPreemptionArgs {
    let defaults = DefaultPreemptionArgs::default();
    let percentage = args
        .min_candidate_nodes_percentage
        .unwrap_or(defaults.min_candidate_nodes_percentage);
    let absolute = args
        .min_candidate_nodes_absolute
        .unwrap_or(defaults.min_candidate_nodes_absolute);
    let percentage_path = path.child("minCandidateNodesPercentage");
    let absolute_path = path.child("minCandidateNodesAbsolute");
    let mut refuse = |path: &Path<'_>, value: i32, detail: &str| {
        errors.push(Error::invalid(path, value, detail));
    };
    if !(0..=100).contains(&percentage) {
        refuse(&percentage_path, percentage, "not in valid range [0, 100]");
    }
    if absolute < 0 {
        refuse(&absolute_path, absolute, "not in valid range [0, inf)");
    }
    if percentage == 0 && absolute == 0 {
        let detail = |other: &str| format!("cannot be zero at the same time as {other}");
        refuse(
            &percentage_path,
            percentage,
            &detail("minCandidateNodesAbsolute"),
        );
        refuse(
            &absolute_path,
            absolute,
            &detail("minCandidateNodesPercentage"),
        );
    }
    DefaultPreemptionArgs {
        min_candidate_nodes_percentage: percentage,
        min_candidate_nodes_absolute: absolute,
    }
}

fn affinity(args: &Args, path: &Path<'_>, errors: &mut ErrorList) -> InterPodAffinityArgs {
    let weight = args.hard_pod_affinity_weight.unwrap_or(1);
    if !(0..=100).contains(&weight) {
        errors.push(Error::invalid(
            &path.child("hardPodAffinityWeight"),
            weight,
            "not in valid range [0, 100]",
        ));
    }
    InterPodAffinityArgs {
        hard_pod_affinity_weight: weight,
        ignore_preferred_terms_of_existing_pods: args
            .ignore_preferred_terms_of_existing_pods
            .unwrap_or_default(),
    }
}
