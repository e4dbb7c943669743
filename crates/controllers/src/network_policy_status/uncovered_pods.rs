//! Pods that the agent of their node has not reported to have observed: until then a policy that selects them is not
//! programmed there. No I/O and no clock: time is an argument.

use std::collections::{BTreeSet, HashMap, HashSet};

use rhumb_netpol::NamespacedName;
use rhumb_netpol::node_enforcement::{covers_pod, waits_for_pod};
use tokio::time::Instant;

#[derive(Debug)]
struct UnobservedPod {
    node: String,
    /// The resourceVersion that the agent must have observed.
    version: u64,
    /// When the next report of the agent is due, if the pod was in the first list: its version may be newer than its
    /// labels and addresses, so the agent may have enforced all policies on it before this process started.
    awaits_report_until: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct UnobservedPods {
    pods: HashMap<NamespacedName, UnobservedPod>,
    by_node: HashMap<String, HashSet<NamespacedName>>,
    /// Nodes whose agents are late: policies have been checked in the meantime, and must be checked again.
    late: HashSet<String>,
}

impl UnobservedPods {
    /// Whether policies may have been checked that wait for the pod.
    pub(super) fn is_late(&self, pod: &NamespacedName) -> bool {
        let uncovered = self.pods.get(pod);
        uncovered.is_some_and(|uncovered| self.late.contains(&uncovered.node))
    }

    pub(super) fn insert(
        &mut self,
        pod: NamespacedName,
        node: &str,
        version: u64,
        awaits_report_until: Option<Instant>,
    ) {
        self.remove(&pod);
        let pods = self.by_node.entry(node.to_owned()).or_default();
        pods.insert(pod.clone());
        let uncovered = UnobservedPod {
            node: node.to_owned(),
            version,
            awaits_report_until,
        };
        self.pods.insert(pod, uncovered);
    }

    pub(super) fn remove(&mut self, pod: &NamespacedName) {
        let Some(removed) = self.pods.remove(pod) else {
            return;
        };
        if let Some(pods) = self.by_node.get_mut(&removed.node) {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_node.remove(&removed.node);
                self.late.remove(&removed.node);
            }
        }
    }

    /// Whether the agent of a node has not observed all of its pods.
    pub(super) fn has_pods(&self, node: &str) -> bool {
        self.by_node.contains_key(node)
    }

    /// The pods of a node. Their policies are checked now, and again when the agent has observed them.
    pub(super) fn mark_late(&mut self, node: &str) -> Vec<NamespacedName> {
        let Some(pods) = self.by_node.get(node) else {
            return Vec::new();
        };
        self.late.insert(node.to_owned());
        pods.iter().cloned().collect()
    }

    /// The agent of a node has observed all pods up to a version. Returns the covered pods whose policies must be
    /// checked again.
    pub(super) fn cover(&mut self, node: &str, version: u64) -> Vec<NamespacedName> {
        let pods = self.by_node.get(node).into_iter().flatten();
        let is_covered = |pod: &&NamespacedName| {
            let uncovered = self.pods.get(*pod);
            uncovered.is_none_or(|uncovered| covers_pod(version, uncovered.version))
        };
        let covered: Vec<NamespacedName> = pods.filter(is_covered).cloned().collect();
        let is_late = self.late.contains(node);
        covered.iter().for_each(|pod| self.remove(pod));
        match is_late {
            true => covered,
            false => Vec::new(),
        }
    }

    /// When the next report of a node is due, after which more policies wait for its pods.
    pub(super) fn next_report_due(&self, node: &str, at: Instant) -> Option<Instant> {
        let pods = self.by_node.get(node)?.iter();
        let due = pods.filter_map(|pod| self.pods.get(pod)?.awaits_report_until);
        due.filter(|due| *due > at).min()
    }

    /// Those of the nodes where a policy waits for a pod that it selects.
    pub(super) fn nodes<'a>(
        &mut self,
        nodes: impl Iterator<Item = &'a String>,
        was_programmed: bool,
        at: Instant,
        is_selected: impl Fn(&NamespacedName) -> bool,
    ) -> BTreeSet<String> {
        if self.by_node.is_empty() {
            return BTreeSet::new();
        }
        let waits = |pod: &NamespacedName| {
            self.pods.get(pod).is_some_and(|pod| {
                let awaits_report = pod.awaits_report_until.is_some_and(|due| at < due);
                waits_for_pod(was_programmed, awaits_report)
            }) && is_selected(pod)
        };
        let nodes = nodes.filter(|node| {
            let pods = self.by_node.get(*node);
            pods.is_some_and(|pods| pods.iter().any(waits))
        });
        let nodes: BTreeSet<String> = nodes.cloned().collect();
        self.late.extend(nodes.iter().cloned());
        nodes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn pod(name: &str) -> NamespacedName {
        NamespacedName::new("ns", name)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_pod_is_covered_by_a_report_that_observed_it() {
        let at = Instant::now();
        let mut uncovered = UnobservedPods::default();
        uncovered.insert(pod("x"), "a", 7, None);
        uncovered.insert(pod("y"), "a", 9, None);
        uncovered.insert(pod("z"), "b", 9, None);
        let all = names(&["a", "b", "c"]);
        let nodes =
            |uncovered: &mut UnobservedPods| uncovered.nodes(all.iter(), true, at, |_| true);
        // No policy was checked while it waited for node a, so none has to be checked again.
        assert_eq!(uncovered.cover("a", 7), []);
        assert!(!uncovered.is_late(&pod("y")));
        assert_eq!(
            nodes(&mut uncovered),
            ["a".to_owned(), "b".to_owned()].into()
        );
        assert!(uncovered.is_late(&pod("y")) && !uncovered.is_late(&pod("x")));
        // Only the nodes that are asked about.
        let only_b = uncovered.nodes(all[1..].iter(), true, at, |_| true);
        assert_eq!(only_b, ["b".to_owned()].into());
        assert_eq!(uncovered.cover("a", 8), []);
        assert!(uncovered.has_pods("a"));
        assert_eq!(uncovered.cover("a", 10), [pod("y")]);
        assert!(!uncovered.has_pods("a"));
        assert_eq!(nodes(&mut uncovered), ["b".to_owned()].into());
        assert_eq!(uncovered.mark_late("b"), [pod("z")]);
        // The pod was moved.
        uncovered.insert(pod("z"), "a", 11, None);
        assert_eq!(uncovered.mark_late("b"), []);
        assert_eq!(nodes(&mut uncovered), ["a".to_owned()].into());
        let of_y = uncovered.nodes(all.iter(), true, at, |name| *name == pod("y"));
        assert!(of_y.is_empty());
        uncovered.remove(&pod("z"));
        assert!(nodes(&mut uncovered).is_empty());
        assert!(uncovered.by_node.is_empty() && uncovered.late.is_empty());
    }

    #[test]
    fn pods_of_the_first_list_revoke_a_status_when_the_next_report_is_due() {
        let at = Instant::now();
        let due = at + Duration::from_secs(3);
        let mut uncovered = UnobservedPods::default();
        uncovered.insert(pod("x"), "a", 7, Some(due));
        let node = names(&["a"]);
        let mut count = |was_programmed, at| {
            let nodes = uncovered.nodes(node.iter(), was_programmed, at, |_| true);
            nodes.len()
        };
        assert_eq!((count(true, at), count(false, at)), (0, 1));
        assert_eq!(count(true, due), 1);
        assert_eq!(uncovered.next_report_due("a", at), Some(due));
        assert_eq!(uncovered.next_report_due("a", due), None);
        assert_eq!(uncovered.next_report_due("b", at), None);
    }
}
