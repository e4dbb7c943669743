//! Label indexes in both directions: selectors by a label that they require ([`SelectorIndex`]), and objects by their
//! labels ([`LabelPostings`]).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::iter;

use rhumb_meta::labels::{Requirement, Selector};

use super::hashing::{IdMap, IdSet};
use super::string_interner::{InternedLabel, StringInterner};

/// Selectors by one label that each of them requires; selectors without such a label are kept separately. `P`
/// partitions the index, for example by namespace.
#[derive(Debug)]
pub(crate) struct SelectorIndex<P, I> {
    /// The key contains the pointers of the interned label key and value.
    by_label: IdMap<(P, usize, usize), SelectorBucket<I>>,
    unindexed: IdMap<P, Vec<SelectorCandidate<I>>>,
}

/// The selectors that require one label. Keeps the label alive, so that its pointers stay unique.
#[derive(Debug)]
struct SelectorBucket<I> {
    _label: InternedLabel,
    /// Usually the only one, so it is stored inline.
    first: SelectorCandidate<I>,
    others: Vec<SelectorCandidate<I>>,
}

/// A selector that may match.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SelectorCandidate<I> {
    pub(crate) id: I,
    /// Whether the indexed label is its only requirement, so that it certainly matches.
    pub(crate) is_exact: bool,
}

impl<P, I> Default for SelectorIndex<P, I> {
    fn default() -> Self {
        SelectorIndex {
            by_label: HashMap::default(),
            unindexed: HashMap::default(),
        }
    }
}

impl<P: Hash + Eq + Copy, I: Copy + Eq> SelectorIndex<P, I> {
    pub(crate) fn insert(
        &mut self,
        scope: P,
        selector: &Selector,
        id: I,
        texts: &mut StringInterner,
    ) {
        let Some(requirements) = selector.requirements() else {
            return;
        };
        let Some(trigger) = most_selective_requirement(selector) else {
            let is_certain = requirements.is_empty();
            let others = self.unindexed.entry(scope).or_default();
            others.push(SelectorCandidate {
                id,
                is_exact: is_certain,
            });
            return;
        };
        let is_certain = requirements.len() == 1;
        for label in required_labels(trigger, texts) {
            let candidate = SelectorCandidate {
                id,
                is_exact: is_certain,
            };
            match self.by_label.entry(bucket_key(scope, &label)) {
                Entry::Occupied(mut bucket) => bucket.get_mut().others.push(candidate),
                Entry::Vacant(free) => {
                    free.insert(SelectorBucket {
                        _label: label,
                        first: candidate,
                        others: Vec::new(),
                    });
                }
            }
        }
    }

    pub(crate) fn remove(
        &mut self,
        scope: P,
        selector: &Selector,
        id: I,
        texts: &mut StringInterner,
    ) {
        if selector.is_nothing() {
            return;
        }
        let Some(trigger) = most_selective_requirement(selector) else {
            if let Entry::Occupied(mut others) = self.unindexed.entry(scope) {
                remove_candidate(others.get_mut(), id);
                if others.get().is_empty() {
                    others.remove();
                }
            }
            return;
        };
        for label in required_labels(trigger, texts) {
            let Entry::Occupied(mut entry) = self.by_label.entry(bucket_key(scope, &label)) else {
                continue;
            };
            let bucket = entry.get_mut();
            if bucket.first.id != id {
                remove_candidate(&mut bucket.others, id);
            } else if let Some(next) = bucket.others.pop() {
                bucket.first = next;
            } else {
                entry.remove();
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_label.is_empty() && self.unindexed.is_empty()
    }

    /// All selectors that may match the labels, each once.
    pub(crate) fn candidates(
        &self,
        scope: P,
        labels: &[InternedLabel],
    ) -> impl Iterator<Item = SelectorCandidate<I>> {
        let by_label = labels
            .iter()
            .filter_map(move |label| self.by_label.get(&bucket_key(scope, label)));
        let by_label = by_label.flat_map(|bucket| iter::once(&bucket.first).chain(&bucket.others));
        let others = self.unindexed.get(&scope).into_iter().flatten();
        by_label.chain(others).copied()
    }
}

fn bucket_key<P>(scope: P, (key, value): &InternedLabel) -> (P, usize, usize) {
    (scope, key.pointer(), value.pointer())
}

fn remove_candidate<I: Eq>(candidates: &mut Vec<SelectorCandidate<I>>, id: I) {
    if let Some(at) = candidates.iter().position(|other| other.id == id) {
        candidates.swap_remove(at);
    }
}

/// The requirement with the fewest permitted values; the selector is indexed by it.
fn most_selective_requirement(selector: &Selector) -> Option<&Requirement> {
    let exact = exact_requirements(selector);
    let fewest = exact.min_by_key(|(_, values)| values.len());
    fewest.map(|(requirement, _)| requirement)
}

fn exact_requirements(selector: &Selector) -> impl Iterator<Item = (&Requirement, &[Box<str>])> {
    let requirements = selector.requirements().unwrap_or_default();
    requirements
        .iter()
        .filter_map(|requirement| Some((requirement, requirement.exact_values()?)))
}

/// One label for each distinct value of a requirement. The values are sorted.
fn required_labels(requirement: &Requirement, texts: &mut StringInterner) -> Vec<InternedLabel> {
    let key = texts.intern(requirement.key());
    let mut labels: Vec<InternedLabel> = Vec::with_capacity(requirement.values().len());
    for value in requirement.values() {
        let value = texts.intern(value);
        if labels.last().is_none_or(|(_, before)| *before != value) {
            labels.push((key.clone(), value));
        }
    }
    labels
}

/// Objects by label (an inverted index).
#[derive(Debug)]
pub(crate) struct LabelPostings<I> {
    by_label: IdMap<InternedLabel, IdSet<I>>,
}

impl<I> Default for LabelPostings<I> {
    fn default() -> Self {
        LabelPostings {
            by_label: HashMap::default(),
        }
    }
}

impl<I: Hash + Eq + Copy> LabelPostings<I> {
    pub(crate) fn insert(&mut self, labels: &[InternedLabel], id: I) {
        for label in labels {
            match self.by_label.get_mut(label) {
                Some(ids) => _ = ids.insert(id),
                None => _ = self.by_label.insert(label.clone(), IdSet::from_iter([id])),
            }
        }
    }

    pub(crate) fn remove(&mut self, labels: &[InternedLabel], id: I) {
        for label in labels {
            let Some(ids) = self.by_label.get_mut(label) else {
                continue;
            };
            ids.remove(&id);
            if ids.is_empty() {
                self.by_label.remove(label);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_label.is_empty()
    }

    /// A superset of the objects that match; `None` if the selector requires no exact label, or there are `limit` or
    /// more.
    pub(crate) fn candidates(
        &self,
        selector: &Selector,
        texts: &StringInterner,
        limit: usize,
    ) -> Option<Vec<I>> {
        let lists = exact_requirements(selector).map(|(requirement, values)| {
            let key = texts.get(requirement.key());
            let labels = values
                .iter()
                .filter_map(|value| Some((key.clone()?, texts.get(value)?)));
            let lists = labels.filter_map(|label| self.by_label.get(&label));
            lists.collect::<Vec<_>>()
        });
        let count = |lists: &Vec<&IdSet<I>>| lists.iter().map(|list| list.len()).sum::<usize>();
        let shortest = lists.min_by_key(count)?;
        let is_short = count(&shortest) < limit;
        is_short.then(|| shortest.into_iter().flatten().copied().collect())
    }
}
