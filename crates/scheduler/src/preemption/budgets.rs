//! Budgets, and what it would do to them if pods went.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::cluster::{Cluster, PodId};
use crate::model::{Budget, PodKey};

#[derive(Debug, Default)]
pub struct Budgets {
    /// By namespace and name.
    all: HashMap<Box<str>, BTreeMap<Box<str>, Budget>>,
}

impl Budgets {
    pub fn set(&mut self, budget: Budget) {
        let PodKey { namespace, name } = budget.key.clone();
        self.all.entry(namespace).or_default().insert(name, budget);
    }

    pub fn remove(&mut self, namespace: &str, name: &str) {
        if let Some(budgets) = self.all.get_mut(namespace) {
            budgets.remove(name);
            if budgets.is_empty() {
                self.all.remove(namespace);
            }
        }
    }

    /// Whatever is not among these is gone.
    pub fn retain(&mut self, keys: &HashSet<PodKey>) {
        self.all.retain(|_, budgets| {
            budgets.retain(|_, budget| keys.contains(&budget.key));
            !budgets.is_empty()
        });
    }

    /// Parts pods into those whose going would overdraw a budget, and the others. Each is counted with those before
    /// it, so the order matters, and is kept.
    pub(super) fn part(&self, cluster: &Cluster, pods: Vec<PodId>) -> (Vec<PodId>, Vec<PodId>) {
        if self.all.is_empty() {
            return (Vec::new(), pods);
        }
        let mut spent: HashMap<&PodKey, i32> = HashMap::new();
        pods.into_iter().partition(|pod| {
            let Some(slot) = cluster.pods().get(*pod) else {
                return false;
            };
            let mut is_overdrawn = false;
            let budgets = self.all.get(&slot.facts.key.namespace);
            for budget in budgets.into_iter().flat_map(BTreeMap::values) {
                if budget.covers(&slot.facts) {
                    let spent = spent.entry(&budget.key).or_default();
                    *spent += 1;
                    is_overdrawn |= *spent > budget.disruptions_allowed;
                }
            }
            is_overdrawn
        })
    }
}
