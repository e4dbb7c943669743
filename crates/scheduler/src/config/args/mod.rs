//! What can be said to single plugins: `pluginConfig`.

mod form;
mod node_affinity;
mod resources;
mod spread;

use rhumb_meta::field::{Error, ErrorList, Path};

pub(super) use form::Args;

use super::form::PluginConfig;
use super::registry;
use crate::engine::Preemption;
use crate::plugins;
use crate::plugins::inter_pod_affinity::InterPodAffinity;

/// What all plugins of a profile are told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginArgs {
    pub about_nodes: plugins::Args,
    pub preemption: Preemption,
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
        let about = &mut self.about_nodes;
        match plugin {
            "DefaultPreemption" => self.preemption = preemption(args, path, errors),
            "InterPodAffinity" => about.inter_pod_affinity = affinity(args, path, errors),
            "NodeAffinity" => about.node_affinity = node_affinity::read(args, path, errors),
            "NodeResourcesFit" => about.node_resources_fit = resources::fit(args, path, errors),
            "NodeResourcesBalancedAllocation" => {
                about.node_resources_balanced_allocation = resources::balanced(args, path, errors);
            }
            "PodTopologySpread" => about.pod_topology_spread = spread::read(args, path, errors),
            _ => {}
        }
    }
}

fn preemption(args: &Args, path: &Path<'_>, errors: &mut ErrorList) -> Preemption {
    let percentage = args.min_candidate_nodes_percentage.unwrap_or(10);
    let absolute = args.min_candidate_nodes_absolute.unwrap_or(100);
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
        let (of_percentage, of_absolute) = (
            detail("minCandidateNodesAbsolute"),
            detail("minCandidateNodesPercentage"),
        );
        refuse(&percentage_path, percentage, &of_percentage);
        refuse(&absolute_path, absolute, &of_absolute);
    }
    Preemption {
        min_candidate_nodes_percentage: u8::try_from(percentage).unwrap_or_default(),
        min_candidate_nodes_absolute: usize::try_from(absolute).unwrap_or_default(),
    }
}

fn affinity(args: &Args, path: &Path<'_>, errors: &mut ErrorList) -> InterPodAffinity {
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
