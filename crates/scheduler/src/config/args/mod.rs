//! Reads and validates plugin arguments (`profiles[].pluginConfig`). Entry point: [`PluginArgs::read`].

mod node_affinity;
mod node_resources;
mod pod_topology_spread;
mod v1;

use rhumb_meta::field::{Error, ErrorList, Path};

pub(super) use v1::RawPluginArgs;

use super::default_plugins;
use super::v1::PluginConfig;
use crate::engine::DefaultPreemptionArgs;
use crate::plugins;
use crate::plugins::inter_pod_affinity::InterPodAffinity;

/// The arguments of all plugins of a profile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginArgs {
    pub node_plugins: plugins::NodePluginArgs,
    pub preemption: DefaultPreemptionArgs,
}

impl PluginArgs {
    pub(super) fn read(
        configured: &[PluginConfig],
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) -> PluginArgs {
        let mut all = PluginArgs::default();
        let mut names: Vec<&str> = Vec::new();
        for (index, config) in configured.iter().enumerate() {
            let (name, path) = (config.name.as_str(), path.index(index));
            if names.contains(&name) {
                errors.push(Error::duplicate(&path, name));
            }
            names.push(name);
            if let Err(problem) = default_plugins::find(name) {
                errors.push(Error::invalid(&path.child("name"), name, problem));
            } else if let Some(args) = &config.args {
                all.set(name, args, &path.child("args"), errors);
            }
        }
        all
    }

    fn set(&mut self, plugin: &str, args: &RawPluginArgs, path: &Path<'_>, errors: &mut ErrorList) {
        args.check_plugin(plugin, path, errors);
        let about = &mut self.node_plugins;
        match plugin {
            "DefaultPreemption" => self.preemption = read_preemption(args, path, errors),
            "InterPodAffinity" => {
                about.inter_pod_affinity = read_inter_pod_affinity(args, path, errors);
            }
            "NodeAffinity" => about.node_affinity = node_affinity::read(args, path, errors),
            "NodeResourcesFit" => {
                about.node_resources_fit = node_resources::read_fit(args, path, errors);
            }
            "NodeResourcesBalancedAllocation" => {
                about.node_resources_balanced_allocation =
                    node_resources::read_balanced_allocation(args, path, errors);
            }
            "PodTopologySpread" => {
                about.pod_topology_spread = pod_topology_spread::read(args, path, errors);
            }
            _ => {}
        }
    }
}

fn read_preemption(
    args: &RawPluginArgs,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> DefaultPreemptionArgs {
    let percentage = args.min_candidate_nodes_percentage.unwrap_or(10);
    let absolute = args.min_candidate_nodes_absolute.unwrap_or(100);
    let percentage_path = path.child("minCandidateNodesPercentage");
    let absolute_path = path.child("minCandidateNodesAbsolute");
    let mut invalid = |path: &Path<'_>, value: i32, detail: &str| {
        errors.push(Error::invalid(path, value, detail));
    };
    if !(0..=100).contains(&percentage) {
        invalid(&percentage_path, percentage, "not in valid range [0, 100]");
    }
    if absolute < 0 {
        invalid(&absolute_path, absolute, "not in valid range [0, inf)");
    }
    if percentage == 0 && absolute == 0 {
        let detail = |other: &str| format!("cannot be zero at the same time as {other}");
        let (of_percentage, of_absolute) = (
            detail("minCandidateNodesAbsolute"),
            detail("minCandidateNodesPercentage"),
        );
        invalid(&percentage_path, percentage, &of_percentage);
        invalid(&absolute_path, absolute, &of_absolute);
    }
    DefaultPreemptionArgs {
        min_candidate_nodes_percentage: u8::try_from(percentage).unwrap_or_default(),
        min_candidate_nodes_absolute: usize::try_from(absolute).unwrap_or_default(),
    }
}

fn read_inter_pod_affinity(
    args: &RawPluginArgs,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> InterPodAffinity {
    let weight = args.hard_pod_affinity_weight.unwrap_or(1);
    if !(0..=100).contains(&weight) {
        errors.push(Error::invalid(
            &path.child("hardPodAffinityWeight"),
            weight,
            "not in valid range [0, 100]",
        ));
    }
    InterPodAffinity {
        hard_pod_affinity_weight: i64::from(weight),
        ignore_preferred_terms_of_existing_pods: args
            .ignore_preferred_terms_of_existing_pods
            .unwrap_or_default(),
    }
}
