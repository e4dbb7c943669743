//! Finds feasible nodes for a pod (upstream: `findNodesThatFitPod`).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use super::{Diagnosis, NodeRejection, PluginTimingObserver, SplitMix64Rng};
use crate::cluster::{ClusterState, NodeId};
use crate::plugins::{NodeFilter, PreFilterResult};

/// With fewer nodes than this, all are evaluated (upstream: `minFeasibleNodesToFind`).
const MIN_FEASIBLE_NODES_TO_FIND: usize = 100;

/// State between searches. Each search begins where the last one ended, so that all nodes are evaluated equally often.
#[derive(Debug, Default)]
pub struct NodeSearch {
    next_start: usize,
    pub shuffle: SplitMix64Rng,
    observer: Option<Arc<dyn PluginTimingObserver>>,
}

/// The filters of all plugins for one pod, in the order of the profile.
#[derive(Default)]
pub struct FilterChain<'c> {
    filters: Vec<(usize, Box<dyn NodeFilter + 'c>)>,
    /// The only nodes to evaluate, if PreFilter plugins restricted them.
    candidate_nodes: Option<Vec<NodeId>>,
    /// The plugins that did so.
    narrowing_plugins: Vec<usize>,
}

impl fmt::Debug for FilterChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} filters, only: {:?}",
            self.filters.len(),
            self.candidate_nodes
        )
    }
}

/// The nodes evaluated so far in a search.
#[derive(Default)]
pub(super) struct NodeSearchResult {
    pub(super) feasible: Vec<NodeId>,
    /// Feasible, but other pods are nominated for them: must be checked again with those pods present.
    pub(super) feasible_without_nominated: Vec<NodeId>,
    pub(super) rejected: Vec<(NodeId, NodeRejection)>,
    /// The reasons of rejections that were found with nominated pods present.
    pub(super) known_reasons: HashMap<NodeRejection, Vec<String>>,
    pub(super) evaluated: usize,
}

impl<'c> FilterChain<'c> {
    pub(super) fn add(&mut self, plugin: usize, filtering: PreFilterResult<'c>) {
        if let Some(filter) = filtering.filter {
            self.filters.push((plugin, filter));
        }
        if let Some(mut only) = filtering.candidate_nodes {
            if let Some(others) = &self.candidate_nodes {
                only.retain(|node| others.contains(node));
            }
            self.narrowing_plugins.push(plugin);
            self.candidate_nodes = Some(only);
        }
    }

    pub(super) fn map_filters(
        mut self,
        change: impl Fn(usize, Box<dyn NodeFilter + 'c>) -> Box<dyn NodeFilter + 'c>,
    ) -> Self {
        let filters = self.filters.into_iter();
        let filters = filters.map(|(plugin, filter)| (plugin, change(plugin, filter)));
        self.filters = filters.collect();
        self
    }

    /// The first rejection of a node.
    pub fn check(&self, node: NodeId) -> Result<(), NodeRejection> {
        for (plugin, filter) in &self.filters {
            if let Err(rejection) = filter.check(node) {
                return Err(NodeRejection {
                    plugin: *plugin,
                    rejection,
                });
            }
        }
        Ok(())
    }

    /// The rejections of a node by all plugins, for `explain`.
    pub fn rejections(&self, node: NodeId) -> Vec<NodeRejection> {
        let rejection = |(plugin, filter): &(usize, Box<dyn NodeFilter + 'c>)| {
            let rejection = filter.check(node).err()?;
            Some(NodeRejection {
                plugin: *plugin,
                rejection,
            })
        };
        self.filters.iter().filter_map(rejection).collect()
    }

    /// The reasons of a rejection as text.
    pub fn reasons(&self, rejection: NodeRejection) -> Vec<String> {
        let filter = self.filter(rejection);
        filter.map_or_else(Vec::new, |filter| filter.reasons(rejection.rejection))
    }

    /// Details of a rejection, such as the conflicting pod.
    pub fn detail(&self, node: NodeId, rejection: NodeRejection) -> Option<String> {
        self.filter(rejection)?.detail(node, rejection.rejection)
    }

    fn filter(&self, rejection: NodeRejection) -> Option<&(dyn NodeFilter + 'c)> {
        let mut filters = self.filters.iter();
        let (_, filter) = filters.find(|(plugin, _)| *plugin == rejection.plugin)?;
        Some(&**filter)
    }

    /// Counts the nodes per reason. Formats each distinct rejection once, unless its reasons are in `known`.
    pub(super) fn diagnose(
        &self,
        rejected_nodes: Vec<(NodeId, NodeRejection)>,
        known: &HashMap<NodeRejection, Vec<String>>,
    ) -> Diagnosis {
        let mut rejections: HashMap<NodeRejection, usize> = HashMap::new();
        for (_, rejection) in &rejected_nodes {
            *rejections.entry(*rejection).or_default() += 1;
        }
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for (rejection, times) in rejections {
            let known = known.get(&rejection).cloned();
            for reason in known.unwrap_or_else(|| self.reasons(rejection)) {
                *reasons.entry(reason).or_default() += times;
            }
        }
        Diagnosis {
            rejected_nodes,
            pre_filter_rejection: None,
            narrowing_plugins: self.narrowing_plugins.clone(),
            reasons: reasons.into_iter().collect(),
        }
    }
}

impl NodeSearch {
    pub fn with_observer(observer: Option<Arc<dyn PluginTimingObserver>>) -> NodeSearch {
        NodeSearch {
            observer,
            ..NodeSearch::default()
        }
    }

    /// The observer, if it measures the attempt that begins.
    pub(super) fn sampled_observer(&self) -> Option<Arc<dyn PluginTimingObserver>> {
        self.observer
            .as_ref()
            .filter(|observer| observer.sample_attempt())
            .cloned()
    }

    /// Evaluates nodes until enough are feasible, starting where the previous search ended.
    pub(super) fn find_feasible_nodes(
        &mut self,
        found: &mut NodeSearchResult,
        cluster: &ClusterState,
        checks: &FilterChain<'_>,
        percentage: u8,
        is_nominated: impl Fn(NodeId) -> bool,
    ) {
        let (nodes, start, enough) = match &checks.candidate_nodes {
            Some(only) => (only.as_slice(), 0, usize::MAX),
            None => {
                let all = cluster.nodes().order();
                let start = self.next_start.checked_rem(all.len()).unwrap_or_default();
                (all, start, feasible_nodes_to_find(all.len(), percentage))
            }
        };
        let mut next = start + found.evaluated;
        while found.evaluated < nodes.len()
            && found.feasible.len() + found.feasible_without_nominated.len() < enough
        {
            let node = nodes[if next < nodes.len() {
                next
            } else {
                next - nodes.len()
            }];
            found.evaluate(node, checks, &is_nominated);
            next += 1;
        }
    }

    /// Lets the next search begin after the nodes that this one evaluated.
    pub(super) fn advance_start(&mut self, found: &NodeSearchResult) {
        self.next_start = self.next_start.wrapping_add(found.evaluated);
    }
}

impl NodeSearchResult {
    fn evaluate(
        &mut self,
        node: NodeId,
        checks: &FilterChain<'_>,
        is_nominated: &impl Fn(NodeId) -> bool,
    ) {
        self.evaluated += 1;
        match checks.check(node) {
            Ok(()) if is_nominated(node) => self.feasible_without_nominated.push(node),
            Ok(()) => self.feasible.push(node),
            Err(rejection) => self.rejected.push((node, rejection)),
        }
    }
}

/// The number of feasible nodes after which the search stops (upstream: `numFeasibleNodesToFind`).
fn feasible_nodes_to_find(nodes: usize, percentage: u8) -> usize {
    if nodes < MIN_FEASIBLE_NODES_TO_FIND || percentage >= 100 {
        return nodes;
    }
    let percentage = match percentage {
        0 => 50usize.saturating_sub(nodes / 125).max(5),
        percentage => usize::from(percentage),
    };
    (nodes * percentage / 100).max(MIN_FEASIBLE_NODES_TO_FIND)
}
