//! Which PodDisruptionBudgets select a pod, without evaluating every budget of its namespace.
//!
//! Entry point: [`DisruptionBudgetIndex::budgets_of`]. The index follows the cache: a lookup first applies the changes
//! since the last one. A namespace with many budgets, which all change with every eviction, costs no more than one.

use std::collections::HashMap;

use parking_lot::Mutex;
use rhumb_cache::{
    CacheEntry, CacheWatcher, EventKind, HistoryError, ResourceCache, WatchEnd, WatchMessage,
    WatchRequest, WatchStart,
};
use rhumb_meta::labels::{LabelSelector, Selector};
use rhumb_meta::{ObjectKey, Status};
use rhumb_registry::history_error_status;
use rhumb_selection::{IndexTerm, InternedString, Interner, SelectorIndex, SlotMap};
use serde::Deserialize;

rhumb_selection::ids! { BudgetId }

/// An index of the selectors of all budgets. Empty until the first eviction.
#[derive(Debug, Default)]
pub struct DisruptionBudgetIndex(Mutex<Option<BudgetIndexWithWatch>>);

impl DisruptionBudgetIndex {
    /// The budgets of the namespace that select a pod with these labels, as of the last applied change.
    pub(super) fn budgets_of(
        &self,
        cache: &ResourceCache,
        namespace: &str,
        labels: &[(String, String)],
    ) -> Result<Vec<ObjectKey>, Status> {
        let mut followed = self.0.lock();
        let followed = match &mut *followed {
            Some(followed) => followed,
            none => none.insert(BudgetIndexWithWatch::new(cache)?),
        };
        followed.catch_up(cache)?;
        Ok(followed.budgets.matching(namespace, labels))
    }
}

/// The budgets, and a watch of later changes.
#[derive(Debug)]
struct BudgetIndexWithWatch {
    watcher: CacheWatcher,
    budgets: IndexedBudgets,
}

impl BudgetIndexWithWatch {
    fn new(cache: &ResourceCache) -> Result<BudgetIndexWithWatch, Status> {
        let request = WatchRequest::everything(WatchStart::InitialList);
        Ok(BudgetIndexWithWatch {
            watcher: cache.watch(request).map_err(history_error_status)?,
            budgets: IndexedBudgets::default(),
        })
    }

    /// Applies all changes that the cache shows.
    fn catch_up(&mut self, cache: &ResourceCache) -> Result<(), Status> {
        loop {
            match self.watcher.try_next() {
                Ok(Some(WatchMessage::Event(event))) => {
                    let selector = match event.kind() {
                        EventKind::Deleted => Selector::nothing(),
                        _ => selector_of(event.entry()),
                    };
                    self.budgets.set(event.entry().key(), selector);
                }
                Ok(Some(WatchMessage::InitialEventsEnd(_))) => {}
                Ok(None) if self.watcher.progress().is_some() => return Ok(()),
                Ok(None) => {}
                Err(WatchEnd::Expired) => *self = BudgetIndexWithWatch::new(cache)?,
                Err(WatchEnd::Closing | WatchEnd::Removed) => {
                    return Err(history_error_status(HistoryError::Closed));
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct IndexedBudgets {
    interner: Interner,
    index: SelectorIndex<InternedString, BudgetId>,
    budgets: SlotMap<BudgetId, IndexedBudget>,
    ids: HashMap<ObjectKey, BudgetId>,
}

#[derive(Debug)]
struct IndexedBudget {
    key: ObjectKey,
    namespace: InternedString,
    selector: Selector,
}

impl IndexedBudgets {
    /// Sets the selector of a budget. One that selects nothing is not kept.
    fn set(&mut self, key: &ObjectKey, selector: Selector) {
        if let Some(&id) = self.ids.get(key) {
            // Most changes are those of the status.
            let is_same = |budget: &IndexedBudget| budget.selector == selector;
            if self.budgets.get(id).is_some_and(is_same) {
                return;
            }
            self.ids.remove(key);
            self.remove(id);
        }
        if selector.is_nothing() {
            return;
        }
        let namespace = self.interner.intern(key.namespace().unwrap_or_default());
        let id = self.budgets.insert(IndexedBudget {
            key: key.clone(),
            namespace: namespace.clone(),
            selector: selector.clone(),
        });
        self.index
            .insert_selector(&namespace, &selector, id, &mut self.interner);
        self.ids.insert(key.clone(), id);
    }

    fn remove(&mut self, id: BudgetId) {
        if let Some(budget) = self.budgets.remove(id) {
            let IndexedBudget {
                namespace,
                selector,
                ..
            } = budget;
            self.index
                .remove_selector(&namespace, &selector, id, &mut self.interner);
        }
    }

    fn matching(&self, namespace: &str, labels: &[(String, String)]) -> Vec<ObjectKey> {
        let Some(namespace) = self.interner.get(namespace) else {
            return Vec::new();
        };
        let resolved = self
            .interner
            .resolve_labels(labels.iter().map(|(key, value)| (key, value)));
        let terms = resolved
            .flat_map(IndexTerm::of_resolved)
            .chain([IndexTerm::Any]);
        let candidates = self.index.candidates(namespace, terms);
        let budgets = candidates.filter_map(|candidate| self.budgets.get(candidate.id));
        budgets
            .filter(|budget| budget.selector.matches(labels))
            .map(|budget| budget.key.clone())
            .collect()
    }
}

/// The part of a budget that is indexed.
#[derive(Deserialize)]
struct PartialDisruptionBudget {
    #[serde(default)]
    spec: PartialDisruptionBudgetSpec,
}

#[derive(Deserialize, Default)]
struct PartialDisruptionBudgetSpec {
    selector: Option<LabelSelector>,
}

/// A budget without a selector, or with an invalid one, selects nothing.
fn selector_of(entry: &CacheEntry) -> Selector {
    let budget = serde_json::from_slice::<PartialDisruptionBudget>(entry.json_slice());
    let selector = budget.ok().and_then(|budget| budget.spec.selector);
    LabelSelector::to_selector(selector.as_ref()).unwrap_or(Selector::nothing())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, name: &str) -> ObjectKey {
        ObjectKey::new(Some(namespace), name).expect("a key")
    }

    fn selector(text: &str) -> Selector {
        Selector::parse(text).expect("a selector")
    }

    #[test]
    fn budgets_are_found_by_the_labels_of_a_pod() {
        let mut budgets = IndexedBudgets::default();
        budgets.set(&key("a", "web"), selector("app=web"));
        budgets.set(&key("a", "all"), Selector::everything());
        budgets.set(&key("a", "none"), Selector::nothing());
        budgets.set(&key("a", "not-db"), selector("app!=db,tier"));
        budgets.set(&key("b", "web"), selector("app=web"));
        let found = |budgets: &IndexedBudgets, labels: &[(&str, &str)]| {
            let labels = labels
                .iter()
                .map(|&(key, value)| (key.into(), value.into()));
            let labels: Vec<(String, String)> = labels.collect();
            let keys = budgets.matching("a", &labels);
            let mut names: Vec<String> = keys.iter().map(|key| key.name().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(found(&budgets, &[]), ["all"]);
        assert_eq!(found(&budgets, &[("app", "web")]), ["all", "web"]);
        let both = [("app", "web"), ("tier", "x")];
        assert_eq!(found(&budgets, &both), ["all", "not-db", "web"]);
        assert_eq!(found(&budgets, &[("app", "db"), ("tier", "x")]), ["all"]);

        budgets.set(&key("a", "all"), selector("app=db"));
        budgets.set(&key("a", "web"), Selector::nothing());
        assert_eq!(found(&budgets, &both), ["not-db"]);
        assert_eq!(found(&budgets, &[("app", "db")]), ["all"]);
        assert_eq!(budgets.matching("c", &[]), []);
    }
}
