//! An inverted index of the pod matchers of all affinity terms and spread constraints: finds the matchers that match a
//! given pod.

use std::collections::HashMap;
use std::sync::Arc;

use rhumb_selection::{
    IndexTerm, InternedLabel, InternedString, Interner, RequiredLabel, SelectorIndex, SlotMap,
};

use super::ids::{PodMatcherId, TermId};
use crate::model::{Labels, Pod, PodMatcher, TermNamespaces};

/// The condition that a matcher entry evaluates.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum MatcherRule {
    One(Arc<PodMatcher>),
    /// The conjunction of two or more matchers, sorted by id.
    All(Box<[PodMatcherId]>),
}

/// A matcher in the index, with its reference count.
#[derive(Debug)]
pub(super) struct MatcherEntry {
    pub(super) rule: MatcherRule,
    references: usize,
    /// The terms that count the pods it matches.
    pub(super) terms: Vec<TermId>,
}

/// All distinct matchers, deduplicated by rule. Each is indexed under one label that a matching pod must have, so that
/// a lookup does not depend on the number of matchers.
#[derive(Debug, Default)]
pub(super) struct PodMatcherIndex {
    slots: SlotMap<PodMatcherId, MatcherEntry>,
    by_rule: HashMap<MatcherRule, PodMatcherId>,
    /// Partitioned by namespace. Matchers without a fixed list of namespaces, or with too many, are under `None`.
    by_term: SelectorIndex<Option<InternedString>, PodMatcherId>,
    /// Matchers with a namespace selector.
    namespace_selecting: Vec<PodMatcherId>,
}

/// The maximum number of places of one matcher in the index: namespaces times label values.
const PLACES_MAX: usize = 64;

impl PodMatcherIndex {
    pub(super) fn get(&self, id: PodMatcherId) -> &MatcherEntry {
        &self.slots[id]
    }

    pub(super) fn get_mut(&mut self, id: PodMatcherId) -> &mut MatcherEntry {
        &mut self.slots[id]
    }

    /// The matcher with this rule, and whether it is new. Must be paired with [`PodMatcherIndex::release`].
    pub(super) fn acquire(
        &mut self,
        rule: MatcherRule,
        interner: &mut Interner,
    ) -> (PodMatcherId, bool) {
        if let Some(known) = self.by_rule.get(&rule) {
            self.slots[*known].references += 1;
            return (*known, false);
        }
        if let MatcherRule::All(members) = &rule {
            for member in members {
                self.slots[*member].references += 1;
            }
        }
        let id = self.slots.insert(MatcherEntry {
            rule: rule.clone(),
            references: 1,
            terms: Vec::new(),
        });
        let indexed = self.indexed_member(&rule).cloned();
        for_each_place(indexed.as_deref(), interner, |namespace, term| {
            self.by_term.insert(namespace, term, id, false);
        });
        if self.selects_namespaces(&rule) {
            self.namespace_selecting.push(id);
        }
        self.by_rule.insert(rule, id);
        (id, true)
    }

    /// Increments the reference count of a matcher.
    pub(super) fn add_reference(&mut self, id: PodMatcherId) {
        self.slots[id].references += 1;
    }

    /// Decrements the reference count. Returns whether it reached zero: then the caller must call
    /// [`PodMatcherIndex::remove`].
    pub(super) fn release(&mut self, id: PodMatcherId) -> bool {
        let slot = &mut self.slots[id];
        slot.references -= 1;
        slot.references == 0
    }

    /// Removes a matcher without references. The caller must release the members of a conjunction.
    pub(super) fn remove(
        &mut self,
        id: PodMatcherId,
        interner: &mut Interner,
    ) -> Option<MatcherRule> {
        let rule = self.slots.get(id)?.rule.clone();
        let indexed = self.indexed_member(&rule).cloned();
        for_each_place(indexed.as_deref(), interner, |namespace, term| {
            self.by_term.remove(namespace, term, id);
        });
        self.namespace_selecting.retain(|known| *known != id);
        self.by_rule.remove(&rule);
        self.slots.remove(id);
        Some(rule)
    }

    /// All matchers that match a pod, sorted by id. `labels` are those of the pod.
    pub(super) fn matching(
        &self,
        pod: &Pod,
        labels: &[InternedLabel],
        namespace_labels: &Labels,
        interner: &Interner,
    ) -> Vec<PodMatcherId> {
        // `None` finds the matchers of all namespaces.
        let own_namespace = interner.get(&pod.key.namespace).cloned();
        let own_namespace = own_namespace.is_some().then_some(&own_namespace);
        let mut matching = Vec::new();
        for partition in [Some(&None), own_namespace].into_iter().flatten() {
            let candidates = self.by_term.candidates_for_labels(partition, labels);
            let candidates = candidates.map(|candidate| candidate.id);
            matching.extend(candidates.filter(|id| self.matches(*id, pod, namespace_labels)));
        }
        matching.sort_unstable();
        matching
    }

    pub(super) fn matches(&self, id: PodMatcherId, pod: &Pod, namespace_labels: &Labels) -> bool {
        match &self.slots[id].rule {
            MatcherRule::One(matcher) => matcher.matches(pod, namespace_labels),
            MatcherRule::All(members) => members
                .iter()
                .all(|member| self.matches(*member, pod, namespace_labels)),
        }
    }

    /// The matchers that include a namespace with one of the two label sets and not with the other.
    pub(super) fn affected_by_relabel(
        &self,
        namespace: &str,
        old: &Labels,
        after: &Labels,
    ) -> Vec<PodMatcherId> {
        let all = self.namespace_selecting.iter().copied();
        all.filter(|id| {
            let mut rules = self.term_namespaces(&self.slots[*id].rule);
            rules.any(|rule| rule.includes(namespace, old) != rule.includes(namespace, after))
        })
        .collect()
    }

    /// The matcher under which a rule is indexed: of a conjunction, the member with the most selective required label.
    pub(super) fn indexed_member<'p>(
        &'p self,
        rule: &'p MatcherRule,
    ) -> Option<&'p Arc<PodMatcher>> {
        match rule {
            MatcherRule::One(matcher) => Some(matcher),
            MatcherRule::All(members) => {
                let leading = members.iter();
                let leading =
                    leading.filter_map(|id| self.indexed_member(&self.slots.get(*id)?.rule));
                leading.min_by_key(|matcher| {
                    required_label(matcher).map_or(usize::MAX, |label| label.value_count())
                })
            }
        }
    }

    fn term_namespaces<'p>(
        &'p self,
        rule: &'p MatcherRule,
    ) -> Box<dyn Iterator<Item = &'p TermNamespaces> + 'p> {
        match rule {
            MatcherRule::One(matcher) => Box::new(std::iter::once(&matcher.namespaces)),
            MatcherRule::All(members) => Box::new(
                members
                    .iter()
                    .flat_map(|member| self.term_namespaces(&self.slots[*member].rule)),
            ),
        }
    }

    fn selects_namespaces(&self, rule: &MatcherRule) -> bool {
        self.term_namespaces(rule)
            .any(|rule| rule.fixed_names().is_none())
    }
}

/// The label by which a matcher is indexed.
fn required_label(matcher: &PodMatcher) -> Option<RequiredLabel<'_>> {
    RequiredLabel::most_selective(&matcher.selector, PLACES_MAX)
}

/// Calls `act` with each place of a matcher in the index: each value of one required label, in each fixed namespace.
fn for_each_place(
    matcher: Option<&PodMatcher>,
    interner: &mut Interner,
    mut act: impl FnMut(&Option<InternedString>, IndexTerm<'_>),
) {
    let label = matcher.and_then(required_label);
    let terms = label.map_or(1, |label| label.term_count());
    let names = matcher.and_then(|matcher| matcher.namespaces.fixed_names());
    let partitions = match names.filter(|names| names.len() * terms <= PLACES_MAX) {
        Some(names) => names
            .iter()
            .map(|name| Some(interner.intern(name)))
            .collect(),
        None => vec![None],
    };
    for partition in &partitions {
        match label {
            Some(label) => label.for_each_term(interner, |term| act(partition, term)),
            None => act(partition, IndexTerm::Any),
        }
    }
}

#[cfg(test)]
impl PodMatcherIndex {
    pub(super) fn iter(&self) -> impl Iterator<Item = (PodMatcherId, &MatcherEntry)> {
        assert_eq!(self.by_rule.len(), self.slots.len());
        self.slots.iter()
    }

    /// Whether the index has any entries.
    pub(super) fn is_indexed(&self) -> bool {
        !self.by_term.is_empty() || !self.namespace_selecting.is_empty()
    }
}

#[cfg(test)]
impl MatcherEntry {
    pub(super) fn references(&self) -> usize {
        self.references
    }
}
