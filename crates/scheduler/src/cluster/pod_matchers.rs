//! An inverted index of the pod matchers of all affinity terms and spread constraints: finds the matchers that match a
//! given pod.

use std::collections::HashMap;
use std::sync::Arc;

use rhumb_meta::labels::Requirement;

use super::ids::{PodMatcherId, TermId};
use super::slab::TypedSlab;
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
    slots: TypedSlab<PodMatcherId, MatcherEntry>,
    by_rule: HashMap<MatcherRule, PodMatcherId>,
    /// Matchers that require a label, by the text of a [`MatcherIndexKey`].
    by_index_key: HashMap<Box<str>, Vec<PodMatcherId>>,
    /// Matchers that require no label, or would need too many index keys. Evaluated for every pod.
    unindexed: Vec<PodMatcherId>,
    /// Matchers with a namespace selector.
    namespace_selecting: Vec<PodMatcherId>,
    /// Buffer for the text of an index key, reused between lookups.
    scratch: String,
}

/// A key of the index: the namespace, if the matcher has a fixed list of them; the label key; and the label value, if
/// the matcher requires specific values.
#[derive(Debug, Clone, Copy)]
struct MatcherIndexKey<'a> {
    namespace: Option<&'a str>,
    key: &'a str,
    value: Option<&'a str>,
}

impl MatcherIndexKey<'_> {
    /// Writes the key as text. Names and labels contain no control characters, so NUL is an unambiguous separator.
    fn write(&self, text: &mut String) {
        text.clear();
        if let Some(namespace) = self.namespace {
            text.push_str(namespace);
        }
        for part in std::iter::once(self.key).chain(self.value) {
            text.push('\0');
            text.push_str(part);
        }
    }
}

impl PodMatcherIndex {
    pub(super) fn get(&self, id: PodMatcherId) -> &MatcherEntry {
        &self.slots[id]
    }

    pub(super) fn get_mut(&mut self, id: PodMatcherId) -> &mut MatcherEntry {
        &mut self.slots[id]
    }

    /// The matcher with this rule, and whether it is new. Must be paired with [`PodMatcherIndex::release`].
    pub(super) fn acquire(&mut self, rule: MatcherRule) -> (PodMatcherId, bool) {
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
        let keys = self.index_keys(&rule);
        if keys.is_empty() {
            self.unindexed.push(id);
        }
        for key in keys {
            self.by_index_key.entry(key).or_default().push(id);
        }
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
    pub(super) fn remove(&mut self, id: PodMatcherId) -> Option<MatcherRule> {
        let rule = self.slots.get(id)?.rule.clone();
        let keys = self.index_keys(&rule);
        if keys.is_empty() {
            self.unindexed.retain(|known| *known != id);
        }
        for key in keys {
            if let Some(found) = self.by_index_key.get_mut(&key) {
                found.retain(|known| *known != id);
                if found.is_empty() {
                    self.by_index_key.remove(&key);
                }
            }
        }
        self.namespace_selecting.retain(|known| *known != id);
        self.by_rule.remove(&rule);
        self.slots.remove(id);
        Some(rule)
    }

    /// All matchers that match a pod, sorted by id.
    pub(super) fn matching(&mut self, pod: &Pod, namespace_labels: &Labels) -> Vec<PodMatcherId> {
        let mut text = std::mem::take(&mut self.scratch);
        let mut matching: Vec<PodMatcherId> = Vec::new();
        let mut add_matching = |candidates: &[PodMatcherId]| {
            let candidates = candidates.iter().copied();
            matching.extend(candidates.filter(|id| self.matches(*id, pod, namespace_labels)));
        };
        add_matching(&self.unindexed);
        for (key, value) in pod.labels.iter() {
            for namespace in [None, Some(&*pod.key.namespace)] {
                for value in [None, Some(value)] {
                    let index_key = MatcherIndexKey {
                        namespace,
                        key,
                        value,
                    };
                    index_key.write(&mut text);
                    if let Some(candidates) = self.by_index_key.get(&*text) {
                        add_matching(candidates);
                    }
                }
            }
        }
        self.scratch = text;
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
        before: &Labels,
        after: &Labels,
    ) -> Vec<PodMatcherId> {
        let all = self.namespace_selecting.iter().copied();
        all.filter(|id| {
            let mut rules = self.term_namespaces(&self.slots[*id].rule);
            rules.any(|rule| rule.includes(namespace, before) != rule.includes(namespace, after))
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
                    RequiredLabel::of(matcher).map_or(usize::MAX, |label| label.value_count())
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

    /// The index keys of a rule: each value of one required label, in each fixed namespace. Empty if the rule requires
    /// no label, or if there would be too many keys.
    fn index_keys(&self, rule: &MatcherRule) -> Vec<Box<str>> {
        const KEYS_MAX: usize = 64;
        let Some(matcher) = self.indexed_member(rule) else {
            return Vec::new();
        };
        let Some(RequiredLabel { key, values }) = RequiredLabel::of(matcher) else {
            return Vec::new();
        };
        let values: Vec<Option<&str>> = match values {
            Some(values) => values.iter().map(|value| Some(&**value)).collect(),
            None => vec![None],
        };
        let namespaces: Vec<Option<&str>> = match matcher.namespaces.fixed_names() {
            Some(names) => names.iter().map(|name| Some(&**name)).collect(),
            None => vec![None],
        };
        if namespaces.len() * values.len() > KEYS_MAX {
            return Vec::new();
        }
        let mut text = String::new();
        let mut keys = Vec::with_capacity(namespaces.len() * values.len());
        for namespace in namespaces {
            for value in values.iter().copied() {
                let index_key = MatcherIndexKey {
                    namespace,
                    key,
                    value,
                };
                index_key.write(&mut text);
                keys.push(Box::from(&*text));
            }
        }
        keys.sort();
        keys.dedup();
        keys
    }
}

/// A label that a pod must have to match.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequiredLabel<'p> {
    pub(super) key: &'p str,
    /// The allowed values; `None` allows any.
    pub(super) values: Option<&'p [Box<str>]>,
}

impl<'p> RequiredLabel<'p> {
    /// The required label with the fewest allowed values.
    pub(super) fn of(matcher: &'p PodMatcher) -> Option<RequiredLabel<'p>> {
        let requirements = matcher.selector.requirements()?.iter();
        requirements
            .filter(|requirement| requirement.needs_label())
            .map(|requirement: &Requirement| RequiredLabel {
                key: requirement.key(),
                values: requirement.exact_values(),
            })
            .min_by_key(RequiredLabel::value_count)
    }

    fn value_count(&self) -> usize {
        self.values.map_or(usize::MAX - 1, <[_]>::len)
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
        let lists = [&self.unindexed, &self.namespace_selecting];
        !self.by_index_key.is_empty() || lists.iter().any(|list| !list.is_empty())
    }
}

#[cfg(test)]
impl MatcherEntry {
    pub(super) fn references(&self) -> usize {
        self.references
    }
}
