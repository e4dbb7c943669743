//! Looking for nodes that will do.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use super::{Diagnosis, Objection, Observer, Shuffle};
use crate::cluster::{Cluster, NodeId};
use crate::plugins::{Filtering, NodeFilter};

/// With fewer nodes than this, all are looked at.
const ALL_BELOW: usize = 100;

/// Where the last search ended: the next begins there, so that all nodes have their turn.
#[derive(Debug, Default)]
pub struct Search {
    start: usize,
    pub shuffle: Shuffle,
    /// Who wants to know how long it takes.
    observer: Option<Arc<dyn Observer>>,
}

/// The filters for one pod, in their order.
#[derive(Default)]
pub struct Checks<'c> {
    filters: Vec<(usize, Box<dyn NodeFilter + 'c>)>,
    /// The only nodes that can do, if someone said so.
    only: Option<Vec<NodeId>>,
    /// The plugins that said so.
    narrowed_by: Vec<usize>,
}

impl fmt::Debug for Checks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} filters, only: {:?}", self.filters.len(), self.only)
    }
}

/// What a search has come to.
#[derive(Default)]
pub(super) struct Found {
    pub(super) possible: Vec<NodeId>,
    /// Would do, but are kept for others: it is still to be seen whether there is room for both.
    pub(super) kept: Vec<NodeId>,
    pub(super) refused: Vec<(NodeId, Objection)>,
    /// What was said of those that had others put onto them meanwhile.
    pub(super) words: HashMap<Objection, Vec<String>>,
    pub(super) looked_at: usize,
}

impl<'c> Checks<'c> {
    pub(super) fn add(&mut self, plugin: usize, filtering: Filtering<'c>) {
        if let Some(filter) = filtering.filter {
            self.filters.push((plugin, filter));
        }
        if let Some(mut only) = filtering.only {
            if let Some(others) = &self.only {
                only.retain(|node| others.contains(node));
            }
            self.narrowed_by.push(plugin);
            self.only = Some(only);
        }
    }

    pub(super) fn map(
        mut self,
        change: impl Fn(usize, Box<dyn NodeFilter + 'c>) -> Box<dyn NodeFilter + 'c>,
    ) -> Self {
        let filters = self.filters.into_iter();
        let filters = filters.map(|(plugin, filter)| (plugin, change(plugin, filter)));
        self.filters = filters.collect();
        self
    }

    /// What the first plugin says that objects to a node.
    pub fn check(&self, node: NodeId) -> Result<(), Objection> {
        for (plugin, filter) in &self.filters {
            if let Err(refusal) = filter.check(node) {
                return Err(Objection {
                    plugin: *plugin,
                    refusal,
                });
            }
        }
        Ok(())
    }

    /// What all plugins object to a node, for people who ask.
    pub fn objections(&self, node: NodeId) -> Vec<Objection> {
        let objection = |(plugin, filter): &(usize, Box<dyn NodeFilter + 'c>)| {
            let refusal = filter.check(node).err()?;
            Some(Objection {
                plugin: *plugin,
                refusal,
            })
        };
        self.filters.iter().filter_map(objection).collect()
    }

    /// An objection in words.
    pub fn reasons(&self, objection: Objection) -> Vec<String> {
        let filter = self.filter(objection);
        filter.map_or_else(Vec::new, |filter| filter.reasons(objection.refusal))
    }

    /// Who or what stands behind an objection to a node.
    pub fn detail(&self, node: NodeId, objection: Objection) -> Option<String> {
        self.filter(objection)?.detail(node, objection.refusal)
    }

    fn filter(&self, objection: Objection) -> Option<&(dyn NodeFilter + 'c)> {
        let mut filters = self.filters.iter();
        let (_, filter) = filters.find(|(plugin, _)| *plugin == objection.plugin)?;
        Some(&**filter)
    }

    /// Counts the reasons, each made into words once. `known` are words that are known already.
    pub(super) fn diagnose(
        &self,
        refused: Vec<(NodeId, Objection)>,
        known: &HashMap<Objection, Vec<String>>,
    ) -> Diagnosis {
        let mut objections: HashMap<Objection, usize> = HashMap::new();
        for (_, objection) in &refused {
            *objections.entry(*objection).or_default() += 1;
        }
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for (objection, times) in objections {
            let known = known.get(&objection).cloned();
            for reason in known.unwrap_or_else(|| self.reasons(objection)) {
                *reasons.entry(reason).or_default() += times;
            }
        }
        Diagnosis {
            refused,
            everywhere: None,
            narrowed_by: self.narrowed_by.clone(),
            reasons: reasons.into_iter().collect(),
        }
    }
}

impl Search {
    pub fn observed_by(observer: Option<Arc<dyn Observer>>) -> Search {
        Search {
            observer,
            ..Search::default()
        }
    }

    /// Who looks at the decision that begins.
    pub(super) fn begin(&self) -> Option<Arc<dyn Observer>> {
        self.observer
            .as_ref()
            .filter(|observer| observer.begins())
            .cloned()
    }

    /// Looks at nodes until enough will do, from where the search before ended.
    pub(super) fn find(
        &mut self,
        found: &mut Found,
        cluster: &Cluster,
        checks: &Checks<'_>,
        percentage: u8,
        is_kept: impl Fn(NodeId) -> bool,
    ) {
        let (nodes, start, enough) = match &checks.only {
            Some(only) => (only.as_slice(), 0, usize::MAX),
            None => {
                let all = cluster.nodes().order();
                let start = self.start.checked_rem(all.len()).unwrap_or_default();
                (all, start, enough(all.len(), percentage))
            }
        };
        let mut next = start + found.looked_at;
        while found.looked_at < nodes.len() && found.possible.len() + found.kept.len() < enough {
            let node = nodes[if next < nodes.len() {
                next
            } else {
                next - nodes.len()
            }];
            found.look_at(node, checks, &is_kept);
            next += 1;
        }
    }

    /// The next search begins behind what this one has looked at.
    pub(super) fn ended(&mut self, found: &Found) {
        self.start = self.start.wrapping_add(found.looked_at);
    }
}

impl Found {
    fn look_at(&mut self, node: NodeId, checks: &Checks<'_>, is_kept: &impl Fn(NodeId) -> bool) {
        self.looked_at += 1;
        match checks.check(node) {
            Ok(()) if is_kept(node) => self.kept.push(node),
            Ok(()) => self.possible.push(node),
            Err(objection) => self.refused.push((node, objection)),
        }
    }
}

/// How many nodes are enough: of large clusters a smaller part, as upstream has it.
fn enough(nodes: usize, percentage: u8) -> usize {
    if nodes < ALL_BELOW || percentage >= 100 {
        return nodes;
    }
    let percentage = match percentage {
        0 => 50usize.saturating_sub(nodes / 125).max(5),
        percentage => usize::from(percentage),
    };
    (nodes * percentage / 100).max(ALL_BELOW)
}
