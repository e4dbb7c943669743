//! The scheduling cycle of one pod: filter, score and select a node (upstream: `schedulePod` in `schedule_one.go`).
//! Entry point: [`Profile::schedule_with_nominated_pods`].

mod message;
mod node_search;
mod nominator;
mod plugin_timing;
mod profile;
mod rng;

pub use message::{NO_NODES, unavailable_message};
pub use node_search::{FilterChain, NodeSearch};
pub use nominator::{Nomination, Nominator};
pub use plugin_timing::{PluginTimingObserver, TimedExtensionPoint};
pub use profile::{EnabledPlugin, Profile};
pub use rng::SplitMix64Rng;

use crate::cluster::{ClusterState, NodeId, PodId, PodInfo};
use crate::plugins::FilterRejection;
use node_search::NodeSearchResult;

/// The result of a scheduling cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleResult {
    Scheduled {
        node: NodeId,
        evaluated_nodes: usize,
        feasible_nodes: usize,
    },
    Unschedulable(Diagnosis),
}

/// Why no node is feasible for a pod (upstream: `framework.Diagnosis`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// Each rejected node, with the first rejection.
    pub rejected_nodes: Vec<(NodeId, NodeRejection)>,
    /// The plugin (index in the profile) that rejected the pod on all nodes in PreFilter, and the reason.
    pub pre_filter_rejection: Option<(usize, String)>,
    /// Plugins that restricted the candidate nodes in PreFilter; all other nodes were not evaluated.
    pub narrowing_plugins: Vec<usize>,
    /// The number of nodes per reason, sorted by reason.
    pub reasons: Vec<(String, usize)>,
}

/// The rejection of a node by a plugin, which is given by its index in the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeRejection {
    pub plugin: usize,
    pub rejection: FilterRejection,
}

impl Diagnosis {
    fn from_pre_filter((plugin, reason): (usize, String)) -> Diagnosis {
        Diagnosis {
            pre_filter_rejection: Some((plugin, reason)),
            ..Diagnosis::default()
        }
    }

    /// The indexes of the plugins that rejected the pod on some node (upstream: `UnschedulablePlugins`).
    pub fn plugins(&self) -> impl Iterator<Item = usize> {
        let rejected_nodes = self
            .rejected_nodes
            .iter()
            .map(|(_, rejection)| rejection.plugin);
        let everywhere = self.pre_filter_rejection.iter().map(|(plugin, _)| *plugin);
        rejected_nodes
            .chain(everywhere)
            .chain(self.narrowing_plugins.iter().copied())
    }
}

impl Profile {
    /// Runs the scheduling cycle of a pod without regard to nominated pods.
    pub fn schedule(
        &self,
        cluster: &ClusterState,
        pod: PodId,
        search: &mut NodeSearch,
    ) -> ScheduleResult {
        let Some(slot) = cluster.pods().get(pod) else {
            return ScheduleResult::Unschedulable(Diagnosis::default());
        };
        let observer = search.sampled_observer();
        let started = observer.as_ref().map(|observer| observer.now());
        let checks = match self.build_filters(slot, cluster) {
            Ok(checks) => checks.timed(self, observer.as_ref()),
            Err(pre_filter_rejection) => {
                return ScheduleResult::Unschedulable(Diagnosis::from_pre_filter(
                    pre_filter_rejection,
                ));
            }
        };
        let mut found = NodeSearchResult::default();
        let percentage = self.percentage_of_nodes_to_score;
        search.find_feasible_nodes(&mut found, cluster, &checks, percentage, |_| false);
        if let (Some(observer), Some(started)) = (&observer, started) {
            let took = observer.now().saturating_sub(started);
            let is_refused = found.feasible.is_empty();
            observer.record_extension_point_duration(
                &self.scheduler_name,
                TimedExtensionPoint::Filter,
                is_refused,
                took,
            );
        }
        self.finish_search(slot, cluster, search, found, &checks, observer.as_deref())
    }

    /// Runs the scheduling cycle of a pod. Its own nominated node is tried first. On nodes that other pods of at least
    /// its priority are nominated for, the filters must pass with and without those pods; they are moved there
    /// temporarily.
    pub fn schedule_with_nominated_pods(
        &self,
        nominations: &Nominator,
        cluster: &mut ClusterState,
        pod: PodId,
        search: &mut NodeSearch,
    ) -> ScheduleResult {
        if let Some(node) = nominations.nominated_node(pod, cluster)
            && self
                .fits_with_nominated_pods(nominations, cluster, pod, node)
                .is_ok()
        {
            return ScheduleResult::Scheduled {
                node,
                evaluated_nodes: 1,
                feasible_nodes: 1,
            };
        }
        if nominations.is_empty() {
            return self.schedule(cluster, pod, search);
        }
        let mut found = NodeSearchResult::default();
        loop {
            let Some(slot) = cluster.pods().get(pod) else {
                return ScheduleResult::Unschedulable(Diagnosis::default());
            };
            let checks = match self.build_filters(slot, cluster) {
                Ok(checks) => checks,
                Err(pre_filter_rejection) => {
                    return ScheduleResult::Unschedulable(Diagnosis::from_pre_filter(
                        pre_filter_rejection,
                    ));
                }
            };
            let percentage = self.percentage_of_nodes_to_score;
            search.find_feasible_nodes(&mut found, cluster, &checks, percentage, |node| {
                nominations.has_pods_ahead(cluster, node, pod, slot.pod.priority)
            });
            if found.feasible_without_nominated.is_empty() {
                return self.finish_search(slot, cluster, search, found, &checks, None);
            }
            drop(checks);
            for node in std::mem::take(&mut found.feasible_without_nominated) {
                match self.fits_with_nominated_pods(nominations, cluster, pod, node) {
                    Ok(()) => found.feasible.push(node),
                    Err((rejection, reasons)) => {
                        found.known_reasons.insert(rejection, reasons);
                        found.rejected.push((node, rejection));
                    }
                }
            }
        }
    }

    fn finish_search(
        &self,
        pod: &PodInfo,
        cluster: &ClusterState,
        search: &mut NodeSearch,
        found: NodeSearchResult,
        checks: &FilterChain<'_>,
        observer: Option<&dyn PluginTimingObserver>,
    ) -> ScheduleResult {
        search.advance_start(&found);
        match found.feasible.as_slice() {
            [] => {
                let mut diagnosis = checks.diagnose(found.rejected, &found.known_reasons);
                self.add_excluded_nodes_reason(&mut diagnosis, cluster.nodes().order().len());
                ScheduleResult::Unschedulable(diagnosis)
            }
            feasible_nodes => ScheduleResult::Scheduled {
                node: self.select_host(pod, cluster, feasible_nodes, &mut search.shuffle, observer),
                evaluated_nodes: found.evaluated,
                feasible_nodes: feasible_nodes.len(),
            },
        }
    }

    /// Adds the reason for nodes that were not evaluated because PreFilter plugins restricted the candidates.
    fn add_excluded_nodes_reason(&self, diagnosis: &mut Diagnosis, nodes: usize) {
        let absent = nodes.saturating_sub(diagnosis.rejected_nodes.len());
        if diagnosis.narrowing_plugins.is_empty() || absent == 0 {
            return;
        }
        let plugins = diagnosis.narrowing_plugins.iter();
        let mut names: Vec<&str> = plugins.map(|plugin| self.plugin_name(*plugin)).collect();
        names.sort_unstable();
        let reason = format!("node(s) didn't satisfy plugin(s) [{}]", names.join(" "));
        diagnosis.reasons.push((reason, absent));
        diagnosis.reasons.sort();
    }

    /// Whether a pod fits on a node, both as it is and with the pods nominated for it (upstream:
    /// `RunFilterPluginsWithNominatedPods`).
    pub fn fits_with_nominated_pods(
        &self,
        nominations: &Nominator,
        cluster: &mut ClusterState,
        pod: PodId,
        node: NodeId,
    ) -> Result<(), (NodeRejection, Vec<String>)> {
        self.check_node(cluster, pod, node)?;
        let Some(priority) = cluster.pods().get(pod).map(|slot| slot.pod.priority) else {
            return Ok(());
        };
        let others = nominations.pods_ahead(cluster, node, pod, priority);
        if others.is_empty() {
            return Ok(());
        }
        let mut previous_nodes = Vec::with_capacity(others.len());
        for other in others {
            previous_nodes.push((other, cluster.move_temporarily(other, Some(node))));
        }
        let answer = self.check_node(cluster, pod, node);
        for (other, previous_node) in previous_nodes.into_iter().rev() {
            cluster.move_temporarily(other, previous_node);
        }
        answer
    }

    /// Filters one node. Returns the first rejection with its reasons.
    pub fn check_node(
        &self,
        cluster: &ClusterState,
        pod: PodId,
        node: NodeId,
    ) -> Result<(), (NodeRejection, Vec<String>)> {
        let Some(slot) = cluster.pods().get(pod) else {
            return Ok(());
        };
        match self.build_filters(slot, cluster) {
            Ok(checks) => checks.check(node).map_err(|rejection| {
                let reasons = checks.reasons(rejection);
                (rejection, reasons)
            }),
            Err((plugin, reason)) => Err((
                NodeRejection {
                    plugin,
                    rejection: FilterRejection {
                        is_resolvable: false,
                        reason_code: u32::MAX,
                    },
                },
                vec![reason],
            )),
        }
    }

    /// Selects a random one of the nodes with the highest score.
    fn select_host(
        &self,
        pod: &PodInfo,
        cluster: &ClusterState,
        feasible_nodes: &[NodeId],
        shuffle: &mut SplitMix64Rng,
        observer: Option<&dyn PluginTimingObserver>,
    ) -> NodeId {
        if let [only] = feasible_nodes {
            return *only;
        }
        let scores = match observer {
            None => self.total_scores(pod, cluster, feasible_nodes),
            Some(observer) => self.total_scores_timed(pod, cluster, feasible_nodes, observer),
        };
        let best = scores.iter().copied().max().unwrap_or_default();
        let mut chosen = (feasible_nodes[0], 0);
        for (node, score) in feasible_nodes.iter().zip(scores) {
            if score == best {
                chosen.1 += 1;
                if shuffle.below(chosen.1) == 0 {
                    chosen.0 = *node;
                }
            }
        }
        chosen.0
    }

    /// The weighted sum of the scores of all plugins for each node.
    pub fn total_scores(
        &self,
        pod: &PodInfo,
        cluster: &ClusterState,
        nodes: &[NodeId],
    ) -> Vec<i64> {
        let mut sums = vec![0; nodes.len()];
        self.for_each_plugin_score(pod, cluster, nodes, |enabled, scores| {
            enabled.add_weighted(scores, &mut sums);
        });
        sums
    }

    /// Calls `on_scores` with the normalised, unweighted scores of each plugin that scores the pod.
    pub fn for_each_plugin_score(
        &self,
        pod: &PodInfo,
        cluster: &ClusterState,
        nodes: &[NodeId],
        mut on_scores: impl FnMut(&EnabledPlugin, &[i64]),
    ) {
        let mut scores = Vec::with_capacity(nodes.len());
        for enabled in self.plugins.iter().filter(|enabled| enabled.weight > 0) {
            let Some(score) = enabled.plugin.pre_score(pod, cluster, nodes) else {
                continue;
            };
            scores.clear();
            scores.extend(nodes.iter().map(|node| score.score(*node)));
            score.normalise(nodes, &mut scores);
            on_scores(enabled, &scores);
        }
    }
}
