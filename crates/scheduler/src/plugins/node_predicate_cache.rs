//! Caches of per-node predicates (for example "does this selector match the node"), updated incrementally as nodes
//! change. Pods that ask the same question share one entry.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::cluster::{NodeBitSet, NodeTable};
use crate::model::Node;

/// Entries per cache; beyond that the least recently used one is evicted.
const ENTRIES_MAX: usize = 512;

/// The nodes for which a predicate holds, by cache key. The predicate must depend on the key and on the node object
/// alone: only nodes that changed since the last call are evaluated again.
#[derive(Debug)]
pub(super) struct NodePredicateCache<Q> {
    entries: RefCell<LruCache<Q, Arc<MatchingNodes>>>,
}

/// A least-recently-used cache.
#[derive(Debug)]
pub(super) struct LruCache<Q, A> {
    entries: HashMap<Q, (u64, A)>,
    /// Logical time of the last access.
    clock: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct MatchingNodes {
    /// The version of the node table that the entry reflects.
    version: u64,
    pub(super) nodes: NodeBitSet,
    /// Whether the predicate holds for all nodes.
    pub(super) matches_all: bool,
}

impl<Q> Default for NodePredicateCache<Q> {
    fn default() -> Self {
        NodePredicateCache {
            entries: RefCell::default(),
        }
    }
}

impl<Q, A> Default for LruCache<Q, A> {
    fn default() -> Self {
        LruCache {
            entries: HashMap::new(),
            clock: 0,
        }
    }
}

impl<Q: Hash + Eq + Clone> NodePredicateCache<Q> {
    pub(super) fn matching_nodes(
        &self,
        key: &Q,
        nodes: &NodeTable,
        holds: impl Fn(&Node) -> bool,
    ) -> Arc<MatchingNodes> {
        let mut entries = self.entries.borrow_mut();
        let entry =
            entries.get_or_insert_with(key, || Arc::new(MatchingNodes::compute(nodes, &holds)));
        if entry.version != nodes.version() {
            Arc::make_mut(entry).refresh(nodes, &holds);
        }
        entry.clone()
    }
}

impl<Q: Hash + Eq + Clone, A> LruCache<Q, A> {
    /// The cached value, which may be stale, or else a computed one.
    pub(super) fn get_or_insert_with(&mut self, key: &Q, compute: impl FnOnce() -> A) -> &mut A {
        self.clock += 1;
        if !self.entries.contains_key(key) {
            self.evict_least_recent();
        }
        let entry = self.entries.entry(key.clone());
        let (last_used, value) = entry.or_insert_with(|| (0, compute()));
        *last_used = self.clock;
        value
    }

    fn evict_least_recent(&mut self) {
        if self.entries.len() < ENTRIES_MAX {
            return;
        }
        let entries = self.entries.iter();
        let oldest = entries.min_by_key(|(_, (last_used, _))| *last_used);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
            self.entries.remove(&oldest);
        }
    }
}

impl MatchingNodes {
    fn compute(nodes: &NodeTable, holds: impl Fn(&Node) -> bool) -> MatchingNodes {
        let mut matching = MatchingNodes::default();
        matching.scan(nodes, holds, |_| true);
        matching
    }

    /// Evaluates the nodes that changed since the last call.
    fn refresh(&mut self, nodes: &NodeTable, holds: impl Fn(&Node) -> bool) {
        let last_version = self.version;
        self.scan(nodes, holds, |version| version > last_version);
    }

    fn scan(
        &mut self,
        nodes: &NodeTable,
        holds: impl Fn(&Node) -> bool,
        is_new: impl Fn(u64) -> bool,
    ) {
        self.matches_all = true;
        for (id, slot) in nodes.iter() {
            let Some(node) = slot.node() else { continue };
            if is_new(slot.version()) {
                self.nodes.set(id, holds(node));
            }
            self.matches_all &= self.nodes.contains(id);
        }
        self.version = nodes.version();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::plugins::testing::{cluster, node};

    #[test]
    fn only_changed_nodes_are_evaluated_again() {
        let cache: NodePredicateCache<&str> = NodePredicateCache::default();
        let mut cluster = cluster([node("a"), node("b"), node("c")], []);
        let evaluations = Cell::new(0);
        let is_open = |node: &Node| {
            evaluations.set(evaluations.get() + 1);
            !node.is_unschedulable
        };
        for (change, evaluated, matches_all) in [
            (None, 3, true),
            (None, 0, true),
            (Some(("b", true)), 1, false),
            (Some(("d", false)), 1, false),
            (Some(("b", false)), 1, true),
        ] {
            if let Some((name, is_unschedulable)) = change {
                cluster.set_node(Node {
                    is_unschedulable,
                    ..node(name)
                });
            }
            let count_before = evaluations.get();
            let answer = cache.matching_nodes(&"open", cluster.nodes(), is_open);
            assert_eq!(evaluations.get() - count_before, evaluated, "{change:?}");
            assert_eq!(answer.matches_all, matches_all, "{change:?}");
        }
        cluster.remove_node("a");
        cluster.set_node(Node {
            is_unschedulable: true,
            ..node("e")
        });
        let answer = cache.matching_nodes(&"open", cluster.nodes(), is_open);
        let holds = |name| answer.nodes.contains(cluster.nodes().find(name).unwrap());
        assert!(
            holds("b") && !holds("e"),
            "a reused node id must be evaluated again"
        );
    }

    #[test]
    fn the_number_of_cached_predicates_is_bounded() {
        let cache: NodePredicateCache<usize> = NodePredicateCache::default();
        let cluster = cluster([node("a")], []);
        for key in 0..ENTRIES_MAX + 10 {
            cache.matching_nodes(&0, cluster.nodes(), |_| true);
            cache.matching_nodes(&key, cluster.nodes(), |_| true);
        }
        let entries = cache.entries.borrow();
        assert_eq!(entries.entries.len(), ENTRIES_MAX);
        assert!(
            entries.entries.contains_key(&0),
            "a frequently used entry must not be evicted"
        );
    }
}
