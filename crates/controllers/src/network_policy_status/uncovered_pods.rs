//! Pods that were added or changed, and that the agent of their node has not reported to have observed: until then a
//! policy that selects them is not programmed there. No I/O.

use std::collections::{BTreeSet, HashMap, HashSet};

use rhumb_netpol::NamespacedName;

#[derive(Debug)]
struct UncoveredPod {
    node: String,
    /// The resourceVersion that the agent must have observed.
    version: u64,
    /// It was in the first list. Its version may be newer than its labels and addresses, so its agent may have
    /// enforced all policies on it before this process started.
    is_from_first_list: bool,
}

#[derive(Debug, Default)]
pub(super) struct UncoveredPods {
    pods: HashMap<NamespacedName, UncoveredPod>,
    by_node: HashMap<String, HashSet<NamespacedName>>,
    /// Nodes whose agents are late: policies have been checked in the meantime, and must be checked again.
    late: HashSet<String>,
}

impl UncoveredPods {
    pub(super) fn contains(&self, pod: &NamespacedName) -> bool {
        self.pods.contains_key(pod)
    }

    pub(super) fn insert(
        &mut self,
        pod: NamespacedName,
        node: &str,
        version: u64,
        is_from_first_list: bool,
    ) {
        self.remove(&pod);
        let pods = self.by_node.entry(node.to_owned()).or_default();
        pods.insert(pod.clone());
        let uncovered = UncoveredPod {
            node: node.to_owned(),
            version,
            is_from_first_list,
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
            uncovered.is_none_or(|uncovered| uncovered.version <= version)
        };
        let covered: Vec<NamespacedName> = pods.filter(is_covered).cloned().collect();
        let is_late = self.late.contains(node);
        covered.iter().for_each(|pod| self.remove(pod));
        match is_late {
            true => covered,
            false => Vec::new(),
        }
    }

    /// The nodes with a pod that satisfies the predicate and is not covered. Pods of the first list only count if the
    /// policy was not programmed before.
    pub(super) fn nodes(
        &mut self,
        was_programmed: bool,
        is_selected: impl Fn(&NamespacedName) -> bool,
    ) -> BTreeSet<String> {
        let counts = |pod: &NamespacedName| {
            let uncovered = self.pods.get(pod);
            let counts = uncovered.is_some_and(|pod| !(was_programmed && pod.is_from_first_list));
            counts && is_selected(pod)
        };
        let nodes = self.by_node.iter();
        let nodes = nodes.filter(|(_, pods)| pods.iter().any(counts));
        let nodes: BTreeSet<String> = nodes.map(|(node, _)| node.clone()).collect();
        self.late.extend(nodes.iter().cloned());
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> NamespacedName {
        NamespacedName::new("ns", name)
    }

    #[test]
    fn a_pod_is_covered_by_a_report_that_observed_it() {
        let mut uncovered = UncoveredPods::default();
        uncovered.insert(pod("x"), "a", 7, false);
        uncovered.insert(pod("y"), "a", 9, false);
        uncovered.insert(pod("z"), "b", 9, false);
        let nodes = |uncovered: &mut UncoveredPods| uncovered.nodes(true, |_| true);
        // Nobody looked at node a, so no policy has to be checked again.
        assert_eq!(uncovered.cover("a", 7), []);
        assert!(!uncovered.contains(&pod("x")));
        assert_eq!(
            nodes(&mut uncovered),
            ["a".to_owned(), "b".to_owned()].into()
        );
        assert_eq!(uncovered.cover("a", 8), []);
        assert_eq!(uncovered.cover("a", 10), [pod("y")]);
        assert_eq!(nodes(&mut uncovered), ["b".to_owned()].into());
        assert_eq!(uncovered.mark_late("b"), [pod("z")]);
        // The pod was moved.
        uncovered.insert(pod("z"), "a", 11, false);
        assert_eq!(uncovered.mark_late("b"), []);
        assert_eq!(nodes(&mut uncovered), ["a".to_owned()].into());
        assert!(uncovered.nodes(true, |name| *name == pod("y")).is_empty());
        uncovered.remove(&pod("z"));
        assert!(nodes(&mut uncovered).is_empty());
        assert!(uncovered.by_node.is_empty() && uncovered.late.is_empty());
    }

    #[test]
    fn pods_of_the_first_list_do_not_revoke_a_status() {
        let mut uncovered = UncoveredPods::default();
        uncovered.insert(pod("x"), "a", 7, true);
        assert!(uncovered.nodes(true, |_| true).is_empty());
        assert_eq!(uncovered.nodes(false, |_| true).len(), 1);
    }
}
