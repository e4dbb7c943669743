//! All PodDisruptionBudgets, and which preemption victims would violate them.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::cluster::{ClusterState, PodId};
use crate::model::{DisruptionBudget, NamespacedName};

/// The PodDisruptionBudgets of all namespaces.
#[derive(Debug, Default)]
pub struct DisruptionBudgets {
    /// By namespace and name.
    by_namespace: HashMap<Box<str>, BTreeMap<Box<str>, DisruptionBudget>>,
}

impl DisruptionBudgets {
    pub fn set(&mut self, budget: DisruptionBudget) {
        let NamespacedName { namespace, name } = budget.key.clone();
        self.by_namespace
            .entry(namespace)
            .or_default()
            .insert(name, budget);
    }

    pub fn remove(&mut self, namespace: &str, name: &str) {
        if let Some(budgets) = self.by_namespace.get_mut(namespace) {
            budgets.remove(name);
            if budgets.is_empty() {
                self.by_namespace.remove(namespace);
            }
        }
    }

    /// Removes all budgets except these.
    pub fn retain(&mut self, keys: &HashSet<NamespacedName>) {
        self.by_namespace.retain(|_, budgets| {
            budgets.retain(|_, budget| keys.contains(&budget.key));
            !budgets.is_empty()
        });
    }

    /// Partitions pods into those whose eviction would violate a budget, and the others (upstream:
    /// `filterPodsWithPDBViolation`). Each pod is counted after those before it, so the order matters; it is preserved.
    pub(super) fn partition_violating(
        &self,
        cluster: &ClusterState,
        pods: Vec<PodId>,
    ) -> (Vec<PodId>, Vec<PodId>) {
        if self.by_namespace.is_empty() {
            return (Vec::new(), pods);
        }
        let mut spent: HashMap<&NamespacedName, i32> = HashMap::new();
        pods.into_iter().partition(|pod| {
            let Some(slot) = cluster.pods().get(*pod) else {
                return false;
            };
            let mut is_overdrawn = false;
            let budgets = self.by_namespace.get(&slot.pod.key.namespace);
            for budget in budgets.into_iter().flat_map(BTreeMap::values) {
                if budget.covers(&slot.pod) {
                    let spent = spent.entry(&budget.key).or_default();
                    *spent += 1;
                    is_overdrawn |= *spent > budget.disruptions_allowed;
                }
            }
            is_overdrawn
        })
    }
}
