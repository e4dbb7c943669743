//! Looking for nodes that will do.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::{Diagnosis, Objection, Shuffle};
use crate::cluster::{Cluster, NodeId};
use crate::plugins::{Filtering, NodeFilter};

/// With fewer nodes than this, all are looked at.
const ALL_BELOW: usize = 100;

/// Where the last search ended: the next begins there, so that all nodes have their turn.
#[derive(Debug, Default)]
pub struct Search {
    start: usize,
    pub shuffle: Shuffle,
}

/// The filters for one pod, in their order.
#[derive(Default)]
pub struct Checks<'c> {
    filters: Vec<(usize, Box<dyn NodeFilter + 'c>)>,
    /// The only nodes that can do, if someone said so.
    only: Option<Vec<NodeId>>,
}

impl fmt::Debug for Checks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} filters, only: {:?}", self.filters.len(), self.only)
    }
}

pub(super) struct Found {
    pub(super) possible: Vec<NodeId>,
    pub(super) refused: Vec<(NodeId, Objection)>,
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
            self.only = Some(only);
        }
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

    /// Counts the reasons, each made into words once.
    pub(super) fn diagnose(&self, refused: Vec<(NodeId, Objection)>) -> Diagnosis {
        let mut objections: HashMap<Objection, usize> = HashMap::new();
        for (_, objection) in &refused {
            *objections.entry(*objection).or_default() += 1;
        }
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for (objection, times) in objections {
            for reason in self.reasons(objection) {
                *reasons.entry(reason).or_default() += times;
            }
        }
        Diagnosis {
            refused,
            everywhere: None,
            reasons: reasons.into_iter().collect(),
        }
    }
}

impl Search {
    /// Looks at nodes until enough will do.
    pub(super) fn find(&mut self, cluster: &Cluster, checks: &Checks<'_>, percentage: u8) -> Found {
        let all = cluster.nodes().order();
        let mut found = Found {
            possible: Vec::new(),
            refused: Vec::new(),
            looked_at: 0,
        };
        if let Some(only) = &checks.only {
            for node in only {
                found.look_at(*node, checks);
            }
            return found;
        }
        let enough = enough(all.len(), percentage);
        let start = if all.is_empty() {
            0
        } else {
            self.start % all.len()
        };
        for node in all[start..].iter().chain(&all[..start]) {
            found.look_at(*node, checks);
            if found.possible.len() == enough {
                break;
            }
        }
        self.start = start + found.looked_at;
        found
    }
}

impl Found {
    fn look_at(&mut self, node: NodeId, checks: &Checks<'_>) {
        self.looked_at += 1;
        match checks.check(node) {
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
