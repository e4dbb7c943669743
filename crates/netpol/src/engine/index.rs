//! Which selectors may match given labels, without asking each.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use rhumb_meta::labels::{Requirement, Selector};

use super::slots::IdMap;
use super::text::{Label, Text, Texts};

/// Selectors by one label that each of them needs; those that need none apart. `P` parts them further.
#[derive(Debug)]
pub(crate) struct Index<P, I> {
    by_label: IdMap<(P, Text, Text), Vec<I>>,
    others: IdMap<P, Vec<I>>,
}

impl<P, I> Default for Index<P, I> {
    fn default() -> Self {
        Index {
            by_label: HashMap::default(),
            others: HashMap::default(),
        }
    }
}

impl<P: Hash + Eq + Copy, I: Copy + Eq> Index<P, I> {
    pub(crate) fn insert(&mut self, place: P, selector: &Selector, id: I, texts: &mut Texts) {
        if selector.is_nothing() {
            return;
        }
        let Some(trigger) = trigger(selector) else {
            self.others.entry(place).or_default().push(id);
            return;
        };
        for label in labels_of(trigger, texts) {
            let key = (place, label.0, label.1);
            self.by_label.entry(key).or_default().push(id);
        }
    }

    pub(crate) fn remove(&mut self, place: P, selector: &Selector, id: I, texts: &mut Texts) {
        if selector.is_nothing() {
            return;
        }
        let Some(trigger) = trigger(selector) else {
            take_out(&mut self.others, &place, id);
            return;
        };
        for label in labels_of(trigger, texts) {
            take_out(&mut self.by_label, &(place, label.0, label.1), id);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_label.is_empty() && self.others.is_empty()
    }

    /// Each that may match, once.
    pub(crate) fn candidates(&self, place: P, labels: &[Label]) -> impl Iterator<Item = I> {
        let by_label = labels.iter().filter_map(move |(key, value)| {
            let key = (place, key.clone(), value.clone());
            self.by_label.get(&key)
        });
        by_label.chain(self.others.get(&place)).flatten().copied()
    }
}

fn take_out<K: Hash + Eq, I: Eq>(lists: &mut IdMap<K, Vec<I>>, key: &K, id: I) {
    let Some(list) = lists.get_mut(key) else {
        return;
    };
    if let Some(at) = list.iter().position(|other| *other == id) {
        list.swap_remove(at);
    }
    if list.is_empty() {
        lists.remove(key);
    }
}

/// The requirement that fewest labels can meet.
fn trigger(selector: &Selector) -> Option<&Requirement> {
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

/// A value that is written twice is meant once.
fn labels_of(requirement: &Requirement, texts: &mut Texts) -> Vec<Label> {
    let values: BTreeSet<&str> = requirement.values().iter().map(AsRef::as_ref).collect();
    let key = texts.intern(requirement.key());
    let labels = values.into_iter();
    labels
        .map(|value| (key.clone(), texts.intern(value)))
        .collect()
}

/// Who has each label.
#[derive(Debug)]
pub(crate) struct Postings<I> {
    by_label: IdMap<Label, BTreeSet<I>>,
}

impl<I> Default for Postings<I> {
    fn default() -> Self {
        Postings {
            by_label: HashMap::default(),
        }
    }
}

impl<I: Ord + Copy> Postings<I> {
    pub(crate) fn insert(&mut self, labels: &[Label], id: I) {
        for label in labels {
            self.by_label.entry(label.clone()).or_default().insert(id);
        }
    }

    pub(crate) fn remove(&mut self, labels: &[Label], id: I) {
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

    /// A short list that holds all who may match; `None` if the selector names no label, or `limit` or more have them.
    pub(crate) fn candidates(
        &self,
        selector: &Selector,
        texts: &Texts,
        limit: usize,
    ) -> Option<Vec<I>> {
        let lists = exact_requirements(selector).map(|(requirement, values)| {
            let key = texts.find(requirement.key());
            let labels = values
                .iter()
                .filter_map(|value| Some((key.clone()?, texts.find(value)?)));
            let lists = labels.filter_map(|label| self.by_label.get(&label));
            lists.collect::<Vec<_>>()
        });
        let count = |lists: &Vec<&BTreeSet<I>>| lists.iter().map(|list| list.len()).sum::<usize>();
        let shortest = lists.min_by_key(count)?;
        let few = count(&shortest) < limit;
        few.then(|| shortest.into_iter().flatten().copied().collect())
    }
}
