//! Nodes, and what their agents report.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rhumb_netpol::report::{NetworkPolicyNode, Unimplemented};

/// What an agent can do. Few in a cluster differ.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ability {
    pub(super) versions: Vec<String>,
    unimplemented: Vec<Unimplemented>,
}

impl Ability {
    /// Why a feature is not available.
    pub(super) fn lacks(&self, feature: &str) -> Option<&str> {
        let mut unimplemented = self.unimplemented.iter();
        let found = unimplemented.find(|own| own.feature == feature);
        found.map(|own| own.message.as_str())
    }
}

#[derive(Debug)]
pub(super) struct Report {
    uid: Option<String>,
    version: Option<String>,
    /// Which run of the kernel it is about; empty if it does not say.
    boot: Box<str>,
    ability: Arc<Ability>,
    /// The generation that is in force, by the uid of its policy.
    pub(super) applied: HashMap<Box<str>, i64>,
    /// Why the node's rules are not up to date, if they are not.
    pub(super) problem: Option<String>,
}

/// The policies, by uid, that a change of a report is about.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) uids: BTreeSet<Box<str>>,
    /// Others may be concerned too: something is different for the node as a whole.
    pub(super) is_for_all: bool,
}

/// Which report is meant, so that no later one is deleted for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stray {
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
}

/// A report counts if there is a node of its name, and both are of the same run of its kernel as far as they say: rules do
/// not outlive it.
#[derive(Debug, Default)]
pub(super) struct Agents {
    /// With the run of the kernel that each is in; empty if it does not say.
    nodes: BTreeMap<String, Box<str>>,
    reports: BTreeMap<String, Report>,
    /// The nodes of all reports that count.
    by_ability: BTreeMap<Arc<Ability>, BTreeSet<String>>,
}

impl Agents {
    /// Whether nobody reports.
    pub(super) fn is_empty(&self) -> bool {
        self.by_ability.is_empty()
    }

    pub(super) fn has_node(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &String> {
        self.nodes.keys()
    }

    pub(super) fn reporting(&self) -> impl Iterator<Item = &String> {
        self.reports.keys()
    }

    /// What counts.
    pub(super) fn report(&self, node: &str) -> Option<&Report> {
        let report = self.reports.get(node)?;
        let boot = self.nodes.get(node)?;
        let is_of_now = boot.is_empty() || report.boot.is_empty() || report.boot == *boot;
        is_of_now.then_some(report)
    }

    /// Whether there is a report, of another run of the kernel than the node is in.
    pub(super) fn is_of_another_boot(&self, node: &str) -> bool {
        self.has_node(node) && self.reports.contains_key(node) && self.report(node).is_none()
    }

    pub(super) fn ability(&self, node: &str) -> Option<&Ability> {
        self.report(node).map(|report| &*report.ability)
    }

    /// Those of all nodes that are like this.
    pub(super) fn that(
        &self,
        is_like: impl Fn(&Ability) -> bool,
    ) -> impl Iterator<Item = (&str, &Ability)> {
        let abilities = self.by_ability.iter();
        let alike = abilities.filter(move |(ability, _)| is_like(ability));
        alike.flat_map(|(ability, nodes)| nodes.iter().map(move |node| (node.as_str(), &**ability)))
    }

    /// The report of a node that is not there.
    pub(super) fn stray(&self, node: &str) -> Option<Stray> {
        let report = self.reports.get(node).filter(|_| !self.has_node(node))?;
        Some(Stray {
            uid: report.uid.clone(),
            version: report.version.clone(),
        })
    }

    /// `None` if the node was known, and its report counts as before.
    pub(super) fn set_node(&mut self, node: String, boot: &str) -> Option<Change> {
        if self.nodes.get(&node).is_some_and(|known| **known == *boot) {
            return None;
        }
        let was_known = self.has_node(&node);
        let did_count = self.report(&node).is_some();
        self.uncount(&node);
        self.nodes.insert(node.clone(), boot.into());
        self.count(&node);
        let is_same = was_known && did_count == self.report(&node).is_some();
        (!is_same).then(|| self.whole(&node))
    }

    pub(super) fn remove_node(&mut self, node: &str) -> Change {
        self.uncount(node);
        self.nodes.remove(node);
        self.whole(node)
    }

    pub(super) fn set_report(&mut self, node: String, report: NetworkPolicyNode) -> Change {
        let did_count = self.report(&node).is_some();
        let before = did_count.then(|| self.whole(&node));
        self.uncount(&node);
        let report = self.read(report);
        let old = self.reports.insert(node.clone(), report);
        self.count(&node);
        match self.report(&node) {
            Some(report) => difference(old.as_ref().filter(|_| did_count), report),
            None => before.unwrap_or_default(),
        }
    }

    pub(super) fn remove_report(&mut self, node: &str) -> Change {
        self.uncount(node);
        let change = match self.has_node(node) {
            true => self.whole(node),
            false => Change::default(),
        };
        self.reports.remove(node);
        change
    }

    /// With an ability that is shared by all who have the same.
    fn read(&self, report: NetworkPolicyNode) -> Report {
        let mut unimplemented = report.unimplemented;
        unimplemented.sort();
        let ability = Ability {
            versions: report.versions,
            unimplemented,
        };
        let known = self.by_ability.get_key_value(&ability);
        let applied = report.applied.into_iter();
        Report {
            uid: report.metadata.uid,
            version: report.metadata.resource_version,
            boot: report.boot_id.unwrap_or_default().into(),
            ability: known.map_or_else(|| Arc::new(ability), |(known, _)| known.clone()),
            applied: applied
                .map(|applied| (applied.uid.into(), applied.generation))
                .collect(),
            problem: report.problem.filter(|problem| !problem.is_empty()),
        }
    }

    fn count(&mut self, node: &str) {
        let Some(ability) = self.report(node).map(|report| report.ability.clone()) else {
            return;
        };
        let alike = self.by_ability.entry(ability).or_default();
        alike.insert(node.to_owned());
    }

    fn uncount(&mut self, node: &str) {
        let Some(ability) = self.report(node).map(|report| report.ability.clone()) else {
            return;
        };
        if let Some(alike) = self.by_ability.get_mut(&ability) {
            alike.remove(node);
            if alike.is_empty() {
                self.by_ability.remove(&ability);
            }
        }
    }

    /// All that has to do with a node.
    fn whole(&self, node: &str) -> Change {
        let applied = self.reports.get(node).map(|report| report.applied.keys());
        Change {
            uids: applied.into_iter().flatten().cloned().collect(),
            is_for_all: true,
        }
    }
}

/// If anything but what is applied is different, everything that was or is applied is concerned.
fn difference(old: Option<&Report>, new: &Report) -> Change {
    let is_for_all = old.is_none_or(|old| old.ability != new.ability || old.problem != new.problem);
    let before = old.into_iter().flat_map(|old| &old.applied);
    let is_lost = |uid: &str| !new.applied.contains_key(uid);
    let lost = before.filter(|(uid, _)| is_for_all || is_lost(uid));
    let is_new =
        |uid: &str, generation: &i64| old.and_then(|old| old.applied.get(uid)) != Some(generation);
    let changed = new
        .applied
        .iter()
        .filter(|(uid, generation)| is_for_all || is_new(uid, generation));
    Change {
        uids: lost.chain(changed).map(|(uid, _)| uid.clone()).collect(),
        is_for_all,
    }
}

#[cfg(test)]
mod tests;
