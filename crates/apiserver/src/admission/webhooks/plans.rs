//! What was decided about writes of one sort, so that it need not be decided again.
//!
//! Most webhooks decide by operation, resource and namespace alone. For a sort of writes a plan says which of them are
//! asked and which are left out; only those that look at names or labels of objects are left to be decided each time.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rhumb_admission::{Names, Operation};
use rhumb_meta::{GroupResource, GroupVersionResource, Revision};

/// How many plans are kept. A namespace has a few of them; one that had to go is made again.
const PLANS_MAX: usize = 4096;

/// A sort of writes.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Sort<'a> {
    pub(super) operation: Operation,
    pub(super) resource: &'a GroupVersionResource,
    pub(super) subresource: &'a str,
    /// Its name where webhooks tell namespaces apart; else only whether there is one.
    pub(super) namespace: &'a str,
    /// The version of the labels that were looked at.
    pub(super) labels: Option<Revision>,
}

/// What is to be done about a write, in the order of the webhooks.
#[derive(Debug)]
pub(super) enum Step {
    /// This webhook is asked, under these names, if its conditions hold.
    Ask(usize, Names),
    /// Whether it is asked depends on the object.
    Decide(usize),
}

impl Step {
    pub(super) fn webhook(&self) -> usize {
        match self {
            Step::Ask(webhook, _) | Step::Decide(webhook) => *webhook,
        }
    }
}

#[derive(Debug)]
pub(super) struct Plan {
    operation: Operation,
    resource: GroupVersionResource,
    subresource: Box<str>,
    namespace: Box<str>,
    labels: Option<Revision>,
    pub(super) steps: Vec<Step>,
    /// Webhooks that are left out, each with the rule that does it.
    pub(super) excluded: Vec<(usize, usize)>,
    /// How many writes of this sort there were since they were last counted.
    writes: AtomicU64,
}

impl Plan {
    pub(super) fn new(sort: &Sort<'_>, steps: Vec<Step>, excluded: Vec<(usize, usize)>) -> Plan {
        Plan {
            operation: sort.operation,
            resource: sort.resource.clone(),
            subresource: sort.subresource.into(),
            namespace: sort.namespace.into(),
            labels: sort.labels,
            steps,
            excluded,
            writes: AtomicU64::new(0),
        }
    }

    fn is_for(&self, sort: &Sort<'_>) -> bool {
        self.operation == sort.operation
            && self.resource == *sort.resource
            && *self.subresource == *sort.subresource
            && *self.namespace == *sort.namespace
            && self.labels == sort.labels
    }

    /// One more write of this sort.
    fn count(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// What was kept away from whom since this was last asked.
    pub(super) fn take_counts(&self) -> Option<KeptAway<'_>> {
        let writes = self.writes.swap(0, Ordering::Relaxed);
        (writes > 0 && !self.excluded.is_empty()).then(|| KeptAway {
            operation: self.operation,
            resource: self.resource.group_resource(),
            webhooks: &self.excluded,
            writes,
        })
    }
}

/// So many writes to a resource were kept away from these webhooks.
#[derive(Debug)]
pub(super) struct KeptAway<'a> {
    pub(super) operation: Operation,
    pub(super) resource: GroupResource,
    pub(super) webhooks: &'a [(usize, usize)],
    pub(super) writes: u64,
}

/// The plans that were made, found by hash without making a string.
#[derive(Debug, Default)]
pub(super) struct Plans {
    known: RwLock<HashMap<u64, Arc<Plan>>>,
    hasher: RandomState,
}

impl Plans {
    /// The plan for a write, which is counted if it counts. That is done while the plan is known: whoever takes it out
    /// reads the counts afterwards.
    pub(super) fn get(&self, sort: &Sort<'_>, counts: bool) -> Option<Arc<Plan>> {
        let hash = self.hasher.hash_one(sort);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let plan = known.get(&hash).filter(|plan| plan.is_for(sort))?;
        if counts {
            plan.count();
        }
        Some(plan.clone())
    }

    /// Keeps a plan, unless somebody else was faster; gives the one that is kept, and those that had to go for it.
    pub(super) fn keep(
        &self,
        sort: &Sort<'_>,
        plan: Plan,
        counts: bool,
    ) -> (Arc<Plan>, Vec<Arc<Plan>>) {
        let hash = self.hasher.hash_one(sort);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut gone: Vec<Arc<Plan>> = Vec::new();
        let kept = match known.get(&hash).filter(|known| known.is_for(sort)) {
            Some(kept) => kept.clone(),
            None => {
                if known.len() >= PLANS_MAX {
                    gone.extend(known.drain().map(|(_, plan)| plan));
                }
                let plan = Arc::new(plan);
                gone.extend(known.insert(hash, plan.clone()));
                plan
            }
        };
        if counts {
            kept.count();
        }
        (kept, gone)
    }

    pub(super) fn all(&self) -> Vec<Arc<Plan>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource() -> GroupVersionResource {
        GroupVersionResource::new("", "v1", "pods")
    }

    fn sort<'a>(resource: &'a GroupVersionResource, namespace: &'a str) -> Sort<'a> {
        Sort {
            operation: Operation::Create,
            resource,
            subresource: "",
            namespace,
            labels: None,
        }
    }

    fn plan(sort: &Sort<'_>) -> Plan {
        Plan::new(sort, Vec::new(), vec![(0, 1)])
    }

    #[test]
    fn a_plan_is_for_its_sort_only() {
        let (plans, pods) = (Plans::default(), resource());
        let here = sort(&pods, "here");
        assert!(plans.keep(&here, plan(&here), false).1.is_empty());
        assert!(plans.get(&here, false).is_some());
        let others = [
            sort(&pods, "there"),
            Sort {
                operation: Operation::Update,
                ..here
            },
            Sort {
                subresource: "status",
                ..here
            },
            Sort {
                labels: Some(Revision::ZERO),
                ..here
            },
        ];
        for other in others {
            assert!(plans.get(&other, false).is_none(), "{other:?}");
        }
    }

    #[test]
    fn every_write_is_counted_once_whoever_made_the_plan() {
        let (plans, pods) = (Plans::default(), resource());
        let here = sort(&pods, "here");
        let (first, _) = plans.keep(&here, plan(&here), true);
        // Two made it at the same time.
        let (second, gone) = plans.keep(&here, plan(&here), true);
        assert!(Arc::ptr_eq(&first, &second) && gone.is_empty());
        plans.get(&here, true);
        plans.get(&here, false);
        let counts = first.take_counts().expect("writes");
        assert_eq!((counts.writes, counts.webhooks), (3, &[(0, 1)][..]));
        assert!(first.take_counts().is_none());
    }

    #[test]
    fn plans_are_few() {
        let (plans, pods) = (Plans::default(), resource());
        let mut gone = 0;
        for number in 0..=PLANS_MAX {
            let namespace = number.to_string();
            let sort = sort(&pods, &namespace);
            gone += plans.keep(&sort, plan(&sort), false).1.len();
        }
        assert_eq!((plans.all().len(), gone), (1, PLANS_MAX));
    }
}
