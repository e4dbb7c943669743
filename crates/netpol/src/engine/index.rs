//! Which selectors may match given labels, without asking each.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::iter;

use rhumb_meta::labels::{Requirement, Selector};

use super::hashing::{IdMap, IdSet};
use super::text::{Label, Texts};

/// Selectors by one label that each of them needs; those that need none apart. `P` parts them further.
#[derive(Debug)]
pub(crate) struct Index<P, I> {
    /// By where the words of the label are.
    by_label: IdMap<(P, usize, usize), Bucket<I>>,
    others: IdMap<P, Vec<Candidate<I>>>,
}

/// Those that need one label. It is held, so that its words stay where they are.
#[derive(Debug)]
struct Bucket<I> {
    _label: Label,
    /// Mostly the only one.
    first: Candidate<I>,
    others: Vec<Candidate<I>>,
}

/// A selector that may match.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<I> {
    pub(crate) id: I,
    /// Whether it asks for nothing else, so that it need not be looked at.
    pub(crate) is_certain: bool,
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
        let Some(requirements) = selector.requirements() else {
            return;
        };
        let Some(trigger) = trigger(selector) else {
            let is_certain = requirements.is_empty();
            let others = self.others.entry(place).or_default();
            others.push(Candidate { id, is_certain });
            return;
        };
        let is_certain = requirements.len() == 1;
        for label in labels_of(trigger, texts) {
            let candidate = Candidate { id, is_certain };
            match self.by_label.entry(key(place, &label)) {
                Entry::Occupied(mut bucket) => bucket.get_mut().others.push(candidate),
                Entry::Vacant(free) => {
                    free.insert(Bucket {
                        _label: label,
                        first: candidate,
                        others: Vec::new(),
                    });
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, place: P, selector: &Selector, id: I, texts: &mut Texts) {
        if selector.is_nothing() {
            return;
        }
        let Some(trigger) = trigger(selector) else {
            if let Entry::Occupied(mut others) = self.others.entry(place) {
                take_out(others.get_mut(), id);
                if others.get().is_empty() {
                    others.remove();
                }
            }
            return;
        };
        for label in labels_of(trigger, texts) {
            let Entry::Occupied(mut entry) = self.by_label.entry(key(place, &label)) else {
                continue;
            };
            let bucket = entry.get_mut();
            if bucket.first.id != id {
                take_out(&mut bucket.others, id);
            } else if let Some(next) = bucket.others.pop() {
                bucket.first = next;
            } else {
                entry.remove();
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_label.is_empty() && self.others.is_empty()
    }

    /// Each that may match, once.
    pub(crate) fn candidates(
        &self,
        place: P,
        labels: &[Label],
    ) -> impl Iterator<Item = Candidate<I>> {
        let by_label = labels
            .iter()
            .filter_map(move |label| self.by_label.get(&key(place, label)));
        let by_label = by_label.flat_map(|bucket| iter::once(&bucket.first).chain(&bucket.others));
        let others = self.others.get(&place).into_iter().flatten();
        by_label.chain(others).copied()
    }
}

fn key<P>(place: P, (key, value): &Label) -> (P, usize, usize) {
    (place, key.place(), value.place())
}

fn take_out<I: Eq>(candidates: &mut Vec<Candidate<I>>, id: I) {
    if let Some(at) = candidates.iter().position(|other| other.id == id) {
        candidates.swap_remove(at);
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

/// A value that is written twice is meant once. They are in order.
fn labels_of(requirement: &Requirement, texts: &mut Texts) -> Vec<Label> {
    let key = texts.intern(requirement.key());
    let mut labels: Vec<Label> = Vec::with_capacity(requirement.values().len());
    for value in requirement.values() {
        let value = texts.intern(value);
        if labels.last().is_none_or(|(_, before)| *before != value) {
            labels.push((key.clone(), value));
        }
    }
    labels
}

/// Who has each label.
#[derive(Debug)]
pub(crate) struct Postings<I> {
    by_label: IdMap<Label, IdSet<I>>,
}

impl<I> Default for Postings<I> {
    fn default() -> Self {
        Postings {
            by_label: HashMap::default(),
        }
    }
}

impl<I: Hash + Eq + Copy> Postings<I> {
    pub(crate) fn insert(&mut self, labels: &[Label], id: I) {
        for label in labels {
            match self.by_label.get_mut(label) {
                Some(ids) => _ = ids.insert(id),
                None => _ = self.by_label.insert(label.clone(), IdSet::from_iter([id])),
            }
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
        let count = |lists: &Vec<&IdSet<I>>| lists.iter().map(|list| list.len()).sum::<usize>();
        let shortest = lists.min_by_key(count)?;
        let few = count(&shortest) < limit;
        few.then(|| shortest.into_iter().flatten().copied().collect())
    }
}
