//! Selectors by a term that each of them requires: finds those that may match an object without evaluating all.
//!
//! A selector is inserted under one or more terms, of which every object that it matches has at least one: usually the
//! values of one required label. An object looks up all of its terms. The cost is a few lookups per label, however many
//! selectors there are.

use std::borrow::Borrow;
use std::hash::Hash;
use std::iter;

use rhumb_meta::labels::Selector;

use crate::index_term::{self, IndexTerm};
use crate::term_map::{PartitionKey, TermMap};
use crate::{InternedLabel, Interner, RequiredLabel};

/// A requirement with more values is indexed by its key, so that one selector cannot occupy thousands of buckets.
const VALUES_MAX: usize = 64;

/// Selectors, identified by `I`, by required term. `P` partitions the index, for example by namespace: lookups only
/// find the selectors of one partition.
#[derive(Debug)]
pub struct SelectorIndex<P, I> {
    buckets: TermMap<P, Bucket<I>>,
}

/// The selectors under one term. Usually there is one, so it is stored inline.
#[derive(Debug)]
struct Bucket<I> {
    first: SelectorCandidate<I>,
    others: Vec<SelectorCandidate<I>>,
}

/// A selector that may match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectorCandidate<I> {
    pub id: I,
    /// Whether the indexed term is all that the selector requires, so that it certainly matches.
    pub is_exact: bool,
}

impl<P, I> Default for SelectorIndex<P, I> {
    fn default() -> Self {
        SelectorIndex {
            buckets: TermMap::default(),
        }
    }
}

impl<P: Clone + Eq + Hash, I: Copy + Eq> SelectorIndex<P, I> {
    /// Adds a selector under a term. It must not be there yet.
    pub fn insert(&mut self, partition: &P, term: IndexTerm<'_>, id: I, is_exact: bool) {
        let candidate = SelectorCandidate { id, is_exact };
        self.buckets.upsert(
            partition,
            term,
            |bucket| bucket.others.push(candidate),
            || Bucket {
                first: candidate,
                others: Vec::new(),
            },
        );
    }

    /// Removes a selector from a term.
    pub fn remove(&mut self, partition: &P, term: IndexTerm<'_>, id: I) {
        self.buckets.update_or_remove(partition, term, |bucket| {
            if bucket.first.id != id {
                let position = bucket.others.iter().position(|other| other.id == id);
                position.map(|at| bucket.others.swap_remove(at));
                return false;
            }
            match bucket.others.pop() {
                Some(next) => {
                    bucket.first = next;
                    false
                }
                None => true,
            }
        });
    }

    /// Adds a selector under its most selective required label, or under [`IndexTerm::Any`].
    pub fn insert_selector(
        &mut self,
        partition: &P,
        selector: &Selector,
        id: I,
        interner: &mut Interner,
    ) {
        let is_exact = exactness(selector);
        for_each_term(selector, interner, |term| {
            self.insert(partition, term, id, is_exact);
        });
    }

    /// Reverts [`SelectorIndex::insert_selector`].
    pub fn remove_selector(
        &mut self,
        partition: &P,
        selector: &Selector,
        id: I,
        interner: &mut Interner,
    ) {
        for_each_term(selector, interner, |term| self.remove(partition, term, id));
    }

    /// The selectors of a partition that may match an object with these terms. If the terms are distinct and those of
    /// one object, each selector is returned once.
    #[inline]
    pub fn candidates<'t>(
        &self,
        partition: impl Borrow<P>,
        terms: impl Iterator<Item = IndexTerm<'t>>,
    ) -> impl Iterator<Item = SelectorCandidate<I>> {
        let key = PartitionKey::new::<P>(partition);
        let buckets = terms.filter_map(move |term| self.buckets.get(&key, term));
        buckets
            .flat_map(|bucket| iter::once(&bucket.first).chain(&bucket.others))
            .copied()
    }

    /// As [`SelectorIndex::candidates`], for the terms of an object that only has labels.
    #[inline]
    pub fn candidates_for_labels<'a>(
        &'a self,
        partition: impl Borrow<P> + Copy + 'a,
        labels: &'a [InternedLabel],
    ) -> impl Iterator<Item = SelectorCandidate<I>> + 'a {
        let (buckets, partition) = (&self.buckets, PartitionKey::new::<P>(partition));
        let by_label = labels
            .iter()
            .filter_map(move |(key, value)| buckets.get(&partition, IndexTerm::Label(key, value)));
        // Few selectors require a key only. Without any, there is no second lookup per label.
        let keyed = if buckets.has_kind(index_term::KEY) {
            labels
        } else {
            &[]
        };
        let by_key = keyed
            .iter()
            .filter_map(move |(key, _)| buckets.get(&partition, IndexTerm::Key(key)));
        let all = by_label
            .chain(by_key)
            .chain(buckets.get(&partition, IndexTerm::Any));
        all.flat_map(|bucket| iter::once(&bucket.first).chain(&bucket.others))
            .copied()
    }

    /// The number of selectors under a term.
    pub fn bucket_len(&self, partition: &P, term: IndexTerm<'_>) -> usize {
        let bucket = self.buckets.get(&PartitionKey::new::<P>(partition), term);
        bucket.map_or(0, |bucket| 1 + bucket.others.len())
    }

    /// Whether any selector is under a name, in any partition. If not, the caller need not look up names.
    #[inline]
    pub fn has_names(&self) -> bool {
        self.buckets.has_kind(index_term::NAME)
    }

    /// Whether any selector is under a label or a label key, in any partition.
    #[inline]
    pub fn has_labels(&self) -> bool {
        self.buckets.has_kind(index_term::LABEL) || self.buckets.has_kind(index_term::KEY)
    }

    /// Whether any selector is under a value of this field, in any partition.
    #[inline]
    pub fn has_field(&self, index: u16) -> bool {
        self.buckets
            .has_kind(index_term::FIELDS + usize::from(index))
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }
}

fn for_each_term(selector: &Selector, interner: &mut Interner, mut act: impl FnMut(IndexTerm<'_>)) {
    if selector.is_nothing() {
        return;
    }
    match RequiredLabel::most_selective(selector, VALUES_MAX) {
        Some(label) => label.for_each_term(interner, act),
        None => act(IndexTerm::Any),
    }
}

fn exactness(selector: &Selector) -> bool {
    match RequiredLabel::most_selective(selector, VALUES_MAX) {
        Some(label) => label.is_exact(),
        None => selector.is_everything(),
    }
}
