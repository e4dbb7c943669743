//! Cached match decisions for requests with the same operation, resource and namespace.
//!
//! Most webhooks match by these alone. A plan lists the webhooks that match and those that are excluded; only webhooks
//! that match by object names or labels have to be evaluated for each request.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rhumb_admission::{Operation, ResourceAndKind};
use rhumb_meta::{GroupResource, GroupVersionResource, Revision};

/// Maximum number of cached plans. A namespace has a few of them; an evicted one is computed again.
const MAX_PLANS: usize = 4096;

/// What a plan depends on.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct MatchKey<'a> {
    pub(super) operation: Operation,
    pub(super) resource: &'a GroupVersionResource,
    /// Its registration: a resource that is removed and added again may be served in other versions.
    pub(super) registration: u64,
    pub(super) subresource: &'a str,
    /// The name if any webhook depends on it, else only whether there is a namespace.
    pub(super) namespace: &'a str,
    /// The revision of the namespace whose labels were matched.
    pub(super) namespace_revision: Option<Revision>,
}

/// One webhook to consider for a request, in call order.
#[derive(Debug)]
pub(super) enum MatchPlanStep {
    /// The webhook matches, as this resource and kind; call it if its conditions are true.
    Call(usize, ResourceAndKind),
    /// The criteria depend on the object: evaluate them for each request.
    Evaluate(usize),
}

impl MatchPlanStep {
    pub(super) fn webhook(&self) -> usize {
        match self {
            MatchPlanStep::Call(webhook, _) | MatchPlanStep::Evaluate(webhook) => *webhook,
        }
    }
}

/// The match decisions for requests of one key.
#[derive(Debug)]
pub(super) struct MatchPlan {
    operation: Operation,
    resource: GroupVersionResource,
    registration: u64,
    subresource: Box<str>,
    namespace: Box<str>,
    namespace_revision: Option<Revision>,
    pub(super) steps: Vec<MatchPlanStep>,
    /// Indexes of excluded webhooks, each with the index of the exclusion rule.
    pub(super) excluded: Vec<(usize, usize)>,
    /// Requests since the exclusions were last added to the metrics.
    writes: AtomicU64,
}

impl MatchPlan {
    pub(super) fn new(
        key: &MatchKey<'_>,
        steps: Vec<MatchPlanStep>,
        excluded: Vec<(usize, usize)>,
    ) -> MatchPlan {
        MatchPlan {
            operation: key.operation,
            resource: key.resource.clone(),
            registration: key.registration,
            subresource: key.subresource.into(),
            namespace: key.namespace.into(),
            namespace_revision: key.namespace_revision,
            steps,
            excluded,
            writes: AtomicU64::new(0),
        }
    }

    fn matches_key(&self, key: &MatchKey<'_>) -> bool {
        self.operation == key.operation
            && self.resource == *key.resource
            && self.registration == key.registration
            && *self.subresource == *key.subresource
            && *self.namespace == *key.namespace
            && self.namespace_revision == key.namespace_revision
    }

    /// Counts a request.
    fn count_write(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// The exclusions since the last call, and resets the count.
    pub(super) fn take_excluded_count(&self) -> Option<ExcludedCount<'_>> {
        let writes = self.writes.swap(0, Ordering::Relaxed);
        (writes > 0 && !self.excluded.is_empty()).then(|| ExcludedCount {
            operation: self.operation,
            resource: self.resource.group_resource(),
            webhooks: &self.excluded,
            writes,
        })
    }
}

/// How many requests were excluded from which webhooks.
#[derive(Debug)]
pub(super) struct ExcludedCount<'a> {
    pub(super) operation: Operation,
    pub(super) resource: GroupResource,
    pub(super) webhooks: &'a [(usize, usize)],
    pub(super) writes: u64,
}

/// Plans by hash of their key, so that a lookup allocates nothing.
#[derive(Debug, Default)]
pub(super) struct MatchPlanCache {
    plans: RwLock<HashMap<u64, Arc<MatchPlan>>>,
    hasher: RandomState,
}

impl MatchPlanCache {
    /// The plan of a key; `is_counted`: whether to count the request. The count is increased under the lock, so that no
    /// count is lost: an evicted plan's count is read after its removal.
    pub(super) fn get(&self, key: &MatchKey<'_>, is_counted: bool) -> Option<Arc<MatchPlan>> {
        let hash = self.hasher.hash_one(key);
        let plans = self.plans.read();
        let plan = plans.get(&hash).filter(|plan| plan.matches_key(key))?;
        if is_counted {
            plan.count_write();
        }
        Some(plan.clone())
    }

    /// Inserts a plan unless another task inserted one first. Returns the cached plan and those that were evicted.
    pub(super) fn insert(
        &self,
        key: &MatchKey<'_>,
        plan: MatchPlan,
        is_counted: bool,
    ) -> (Arc<MatchPlan>, Vec<Arc<MatchPlan>>) {
        let hash = self.hasher.hash_one(key);
        let mut plans = self.plans.write();
        let mut evicted: Vec<Arc<MatchPlan>> = Vec::new();
        let plan_in_cache = match plans.get(&hash).filter(|plans| plans.matches_key(key)) {
            Some(plan_in_cache) => plan_in_cache.clone(),
            None => {
                if plans.len() >= MAX_PLANS {
                    evicted.extend(plans.drain().map(|(_, plan)| plan));
                }
                let plan = Arc::new(plan);
                evicted.extend(plans.insert(hash, plan.clone()));
                plan
            }
        };
        if is_counted {
            plan_in_cache.count_write();
        }
        (plan_in_cache, evicted)
    }

    pub(super) fn all(&self) -> Vec<Arc<MatchPlan>> {
        let plans = self.plans.read();
        plans.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource() -> GroupVersionResource {
        GroupVersionResource::new("", "v1", "pods")
    }

    fn match_key<'a>(resource: &'a GroupVersionResource, namespace: &'a str) -> MatchKey<'a> {
        MatchKey {
            operation: Operation::Create,
            resource,
            registration: 1,
            subresource: "",
            namespace,
            namespace_revision: None,
        }
    }

    fn plan(key: &MatchKey<'_>) -> MatchPlan {
        MatchPlan::new(key, Vec::new(), vec![(0, 1)])
    }

    #[test]
    fn a_plan_applies_only_to_its_key() {
        let (plans, pods) = (MatchPlanCache::default(), resource());
        let key = match_key(&pods, "here");
        assert!(plans.insert(&key, plan(&key), false).1.is_empty());
        assert!(plans.get(&key, false).is_some());
        let other_keys = [
            match_key(&pods, "there"),
            MatchKey {
                operation: Operation::Update,
                ..key
            },
            MatchKey {
                registration: 2,
                ..key
            },
            MatchKey {
                subresource: "status",
                ..key
            },
            MatchKey {
                namespace_revision: Some(Revision::ZERO),
                ..key
            },
        ];
        for other_key in other_keys {
            assert!(plans.get(&other_key, false).is_none(), "{other_key:?}");
        }
    }

    #[test]
    fn concurrent_plans_count_each_write_once() {
        let (plans, pods) = (MatchPlanCache::default(), resource());
        let key = match_key(&pods, "here");
        let (first, _) = plans.insert(&key, plan(&key), true);
        // Two tasks computed it at the same time.
        let (second, evicted) = plans.insert(&key, plan(&key), true);
        assert!(Arc::ptr_eq(&first, &second) && evicted.is_empty());
        plans.get(&key, true);
        plans.get(&key, false);
        let excluded = first.take_excluded_count().expect("counted writes");
        assert_eq!((excluded.writes, excluded.webhooks), (3, &[(0, 1)][..]));
        assert!(first.take_excluded_count().is_none());
    }

    #[test]
    fn the_number_of_plans_is_limited() {
        let (plans, pods) = (MatchPlanCache::default(), resource());
        let mut evicted = 0;
        for number in 0..=MAX_PLANS {
            let namespace = number.to_string();
            let key = match_key(&pods, &namespace);
            evicted += plans.insert(&key, plan(&key), false).1.len();
        }
        assert_eq!((plans.all().len(), evicted), (1, MAX_PLANS));
    }
}
