//! Nodes and the NetworkPolicyNode reports of their agents.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rhumb_netpol::node_enforcement::{
    AgentLiveness, NodeReport, PolicyReport, is_of_current_boot, unimplemented_reason,
};
use rhumb_netpol::node_report::{NetworkPolicyNode, PolicyProblem, UnimplementedFeature};

/// What an agent supports. Shared, because most agents of a cluster are alike.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AgentCapabilities {
    pub(super) versions: Vec<String>,
    unimplemented: Vec<UnimplementedFeature>,
}

impl AgentCapabilities {
    /// The reason why a feature is not available; `None` if it is.
    pub(super) fn unimplemented_reason(&self, feature: &str) -> Option<&str> {
        unimplemented_reason(&self.unimplemented, feature)
    }
}

#[derive(Debug)]
pub(super) struct AgentReport {
    uid: Option<String>,
    version: Option<String>,
    /// Boot id of the node at the time of the report; empty if unknown.
    boot: Box<str>,
    capabilities: Arc<AgentCapabilities>,
    /// The applied generation, by the uid of the policy.
    pub(super) applied: HashMap<Box<str>, i64>,
    /// What the agent found wrong with policies, by the uid of the policy.
    policy_problems: BTreeMap<Box<str>, Vec<ReportedProblem>>,
    /// The resourceVersion up to which the agent has observed pods.
    pub(super) pods_version: u64,
    /// Why the node's rules are outdated, if they are.
    pub(super) problem: Option<String>,
}

/// What an agent found wrong with one generation of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReportedProblem {
    generation: i64,
    pub(super) reason: String,
    pub(super) message: String,
}

/// Uids of the policies that a change of a report or node affects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AffectedPolicies {
    pub(super) uids: BTreeSet<Box<str>>,
    /// Something changed for the whole node, so any other policy may be affected too.
    pub(super) is_for_all: bool,
}

/// Uid and resourceVersion of a report to delete, so that a later version is not deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StaleReport {
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
}

/// A report is valid if its node exists and both have the same boot id (or one is unknown): rules do not survive a
/// reboot.
#[derive(Debug, Default)]
pub(super) struct AgentReports {
    /// Boot id of each node; empty if unknown.
    nodes: BTreeMap<String, Box<str>>,
    reports: BTreeMap<String, AgentReport>,
    /// Nodes with a valid report.
    by_capabilities: BTreeMap<Arc<AgentCapabilities>, BTreeSet<String>>,
    /// Nodes whose reports, valid or not, name a problem of the policy with this uid.
    by_problem: HashMap<Box<str>, BTreeSet<String>>,
}

impl AgentReports {
    /// Whether there is no valid report.
    pub(super) fn is_empty(&self) -> bool {
        self.by_capabilities.is_empty()
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

    /// The node's report, if it is valid.
    pub(super) fn report(&self, node: &str) -> Option<&AgentReport> {
        let report = self.reports.get(node)?;
        let boot = self.nodes.get(node)?;
        is_of_current_boot(&report.boot, boot).then_some(report)
    }

    /// What the node's report says about a policy.
    pub(super) fn policy_report(
        &self,
        node: &str,
        uid: &str,
        liveness: AgentLiveness,
        waits_for_pods: bool,
    ) -> NodeReport<'_> {
        let Some(report) = self.report(node) else {
            let has_report = self.has_node(node) && self.reports.contains_key(node);
            return match has_report {
                true => NodeReport::OfAnotherBoot,
                false => NodeReport::Missing,
            };
        };
        NodeReport::Valid(PolicyReport {
            versions: &report.capabilities.versions,
            problem: report.problem.as_deref(),
            applied_generation: report.applied.get(uid).copied(),
            liveness,
            waits_for_pods,
        })
    }

    pub(super) fn capabilities(&self, node: &str) -> Option<&AgentCapabilities> {
        self.report(node).map(|report| &*report.capabilities)
    }

    /// All nodes with a valid report whose capabilities satisfy the predicate.
    pub(super) fn with_capabilities(
        &self,
        predicate: impl Fn(&AgentCapabilities) -> bool,
    ) -> impl Iterator<Item = (&str, &AgentCapabilities)> {
        let all_capabilities = self.by_capabilities.iter();
        let matching = all_capabilities.filter(move |(capabilities, _)| predicate(capabilities));
        matching.flat_map(|(capabilities, nodes)| {
            nodes
                .iter()
                .map(move |node| (node.as_str(), &**capabilities))
        })
    }

    /// What agents found wrong with a generation of a policy, and on which nodes.
    pub(super) fn policy_problems(
        &self,
        uid: &str,
        generation: i64,
    ) -> impl Iterator<Item = (&str, &ReportedProblem)> {
        let nodes = self.by_problem.get(uid).into_iter().flatten();
        let reports = nodes.filter_map(|node| Some((node.as_str(), self.report(node)?)));
        let problems = reports.flat_map(move |(node, report)| {
            let problems = report.policy_problems.get(uid).into_iter().flatten();
            problems.map(move |problem| (node, problem))
        });
        problems.filter(move |(_, problem)| problem.generation == generation)
    }

    /// The report of this node, if the node does not exist.
    pub(super) fn stale_report(&self, node: &str) -> Option<StaleReport> {
        let report = self.reports.get(node).filter(|_| !self.has_node(node))?;
        Some(StaleReport {
            uid: report.uid.clone(),
            version: report.version.clone(),
        })
    }

    /// `None` if the node was known and the validity of its report is unchanged.
    pub(super) fn set_node(&mut self, node: String, boot: &str) -> Option<AffectedPolicies> {
        if self.nodes.get(&node).is_some_and(|known| **known == *boot) {
            return None;
        }
        let was_known = self.has_node(&node);
        let did_count = self.report(&node).is_some();
        self.unindex_capabilities(&node);
        self.nodes.insert(node.clone(), boot.into());
        self.index_capabilities(&node);
        let is_same = was_known && did_count == self.report(&node).is_some();
        (!is_same).then(|| self.all_policies(&node))
    }

    pub(super) fn remove_node(&mut self, node: &str) -> AffectedPolicies {
        self.unindex_capabilities(node);
        self.nodes.remove(node);
        self.all_policies(node)
    }

    pub(super) fn set_report(
        &mut self,
        node: String,
        report: NetworkPolicyNode,
    ) -> AffectedPolicies {
        let did_count = self.report(&node).is_some();
        let before = did_count.then(|| self.all_policies(&node));
        self.unindex_capabilities(&node);
        let report = self.read(report);
        self.unindex_problems(&node);
        for uid in report.policy_problems.keys() {
            let nodes = self.by_problem.entry(uid.clone()).or_default();
            nodes.insert(node.clone());
        }
        let old = self.reports.insert(node.clone(), report);
        self.index_capabilities(&node);
        match self.report(&node) {
            Some(report) => difference(old.as_ref().filter(|_| did_count), report),
            None => before.unwrap_or_default(),
        }
    }

    pub(super) fn remove_report(&mut self, node: &str) -> AffectedPolicies {
        self.unindex_capabilities(node);
        let change = match self.has_node(node) {
            true => self.all_policies(node),
            false => AffectedPolicies::default(),
        };
        self.unindex_problems(node);
        self.reports.remove(node);
        change
    }

    /// Parses a report, sharing equal capabilities.
    fn read(&self, report: NetworkPolicyNode) -> AgentReport {
        let mut unimplemented = report.unimplemented;
        unimplemented.sort();
        let capabilities = AgentCapabilities {
            versions: report.versions,
            unimplemented,
        };
        let known = self.by_capabilities.get_key_value(&capabilities);
        let applied = report.applied.into_iter();
        AgentReport {
            uid: report.metadata.uid,
            version: report.metadata.resource_version,
            boot: report.boot_id.unwrap_or_default().into(),
            capabilities: known.map_or_else(|| Arc::new(capabilities), |(known, _)| known.clone()),
            applied: applied
                .map(|applied| (applied.uid.into(), applied.generation))
                .collect(),
            policy_problems: problems_by_policy(report.policy_problems),
            pods_version: report
                .pods_resource_version
                .and_then(|version| version.parse().ok())
                .unwrap_or_default(),
            problem: report.problem.filter(|problem| !problem.is_empty()),
        }
    }

    fn index_capabilities(&mut self, node: &str) {
        let Some(capabilities) = self.report(node).map(|report| report.capabilities.clone()) else {
            return;
        };
        let matching = self.by_capabilities.entry(capabilities).or_default();
        matching.insert(node.to_owned());
    }

    fn unindex_capabilities(&mut self, node: &str) {
        let Some(capabilities) = self.report(node).map(|report| report.capabilities.clone()) else {
            return;
        };
        if let Some(matching) = self.by_capabilities.get_mut(&capabilities) {
            matching.remove(node);
            if matching.is_empty() {
                self.by_capabilities.remove(&capabilities);
            }
        }
    }

    fn unindex_problems(&mut self, node: &str) {
        let Some(report) = self.reports.get(node) else {
            return;
        };
        for uid in report.policy_problems.keys() {
            if let Some(nodes) = self.by_problem.get_mut(uid) {
                nodes.remove(node);
                if nodes.is_empty() {
                    self.by_problem.remove(uid);
                }
            }
        }
    }

    /// All policies that the node's report names, and possibly any other.
    pub(super) fn all_policies(&self, node: &str) -> AffectedPolicies {
        let report = self.reports.get(node).into_iter();
        let uids = report.flat_map(|report| {
            let problems = report.policy_problems.keys();
            report.applied.keys().chain(problems)
        });
        AffectedPolicies {
            uids: uids.cloned().collect(),
            is_for_all: true,
        }
    }
}

/// Groups the problems that name the uid of their policy.
fn problems_by_policy(problems: Vec<PolicyProblem>) -> BTreeMap<Box<str>, Vec<ReportedProblem>> {
    let mut by_policy: BTreeMap<Box<str>, Vec<ReportedProblem>> = BTreeMap::new();
    for problem in problems {
        let of_policy = by_policy.entry(problem.uid.into()).or_default();
        of_policy.push(ReportedProblem {
            generation: problem.generation,
            reason: problem.reason,
            message: problem.message,
        });
    }
    by_policy
}

/// If anything other than the applied generations changed, all policies that were or are applied are affected.
fn difference(old: Option<&AgentReport>, new: &AgentReport) -> AffectedPolicies {
    let is_for_all =
        old.is_none_or(|old| old.capabilities != new.capabilities || old.problem != new.problem);
    let before = old.into_iter().flat_map(|old| &old.applied);
    let is_lost = |uid: &str| !new.applied.contains_key(uid);
    let lost = before.filter(|(uid, _)| is_for_all || is_lost(uid));
    let is_new =
        |uid: &str, generation: &i64| old.and_then(|old| old.applied.get(uid)) != Some(generation);
    let changed = new
        .applied
        .iter()
        .filter(|(uid, generation)| is_for_all || is_new(uid, generation));
    let uids = lost.chain(changed).map(|(uid, _)| uid);
    let problems = old.map(|old| &old.policy_problems);
    AffectedPolicies {
        uids: uids
            .chain(changed_keys(problems, &new.policy_problems))
            .cloned()
            .collect(),
        is_for_all,
    }
}

/// The keys that one of the maps lacks, or that have different values.
fn changed_keys<'a, K: Ord, V: PartialEq>(
    old: Option<&'a BTreeMap<K, V>>,
    new: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    let of_old = old.into_iter().flatten();
    let lost = of_old.filter(|(key, value)| new.get(key) != Some(*value));
    let is_new = move |key: &K, value: &V| old.and_then(|old| old.get(key)) != Some(value);
    let changed = new.iter().filter(move |(key, value)| is_new(key, value));
    lost.chain(changed).map(|(key, _)| key)
}

#[cfg(test)]
mod tests;
