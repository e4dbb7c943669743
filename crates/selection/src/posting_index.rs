//! Objects by label (an inverted index with posting lists): finds those that a selector may match.

use std::hash::Hash;

use rhumb_meta::labels::Selector;

use crate::IndexTerm;
use crate::hashing::{IdMap, IdSet};
use crate::interner::{InternedLabel, InternedString, Interner};
use crate::required_label::{RequiredLabel, required_labels};
use crate::small_id_set::SmallIdSet;
use crate::term_map::{PartitionKey, TermMap};

/// The objects, identified by `I`, that have each label.
#[derive(Debug)]
pub struct PostingIndex<I> {
    postings: TermMap<(), SmallIdSet<I>>,
    /// The values that occur with each key, for selectors that require a key only. Changes more rarely than a posting
    /// list per key would.
    values_by_key: IdMap<InternedString, IdSet<InternedString>>,
}

impl<I> Default for PostingIndex<I> {
    fn default() -> Self {
        PostingIndex {
            postings: TermMap::default(),
            values_by_key: IdMap::default(),
        }
    }
}

impl<I: Copy + Eq + Hash> PostingIndex<I> {
    pub fn insert(&mut self, labels: &[InternedLabel], id: I) {
        for (key, value) in labels {
            let mut is_new = false;
            self.postings.upsert(
                &(),
                IndexTerm::Label(key, value),
                |ids| ids.insert(id),
                || {
                    is_new = true;
                    SmallIdSet::One(id)
                },
            );
            if is_new {
                let values = self.values_by_key.entry(key.clone()).or_default();
                values.insert(value.clone());
            }
        }
    }

    pub fn remove(&mut self, labels: &[InternedLabel], id: I) {
        for (key, value) in labels {
            let mut is_last = false;
            self.postings
                .update_or_remove(&(), IndexTerm::Label(key, value), |ids| {
                    ids.remove(id);
                    is_last = ids.is_empty();
                    is_last
                });
            if is_last && let Some(values) = self.values_by_key.get_mut(key) {
                values.remove(value);
                if values.is_empty() {
                    self.values_by_key.remove(key);
                }
            }
        }
    }

    /// A superset of the objects that match; `None` if the selector requires no label, or if there are `limit` or more.
    /// The interner must be the one of the labels.
    pub fn candidates(
        &self,
        selector: &Selector,
        interner: &Interner,
        limit: usize,
    ) -> Option<Vec<I>> {
        let Some(required) = required_labels(selector, usize::MAX - 1) else {
            return Some(Vec::new());
        };
        // The shortest posting lists so far, and those of the label that is examined.
        let (mut shortest, mut lists) = (Vec::new(), Vec::new());
        let mut count = limit;
        for label in required {
            lists.clear();
            let mut length = 0;
            for ids in self.postings_of(label, interner) {
                length += ids.len();
                // A length that reaches the least count is of no use, so the other lists are not needed.
                if length >= count {
                    break;
                }
                lists.push(ids);
            }
            if length < count {
                count = length;
                std::mem::swap(&mut shortest, &mut lists);
            }
        }
        if count == limit {
            return None;
        }
        let mut found = Vec::with_capacity(count);
        shortest.iter().for_each(|ids| ids.append_to(&mut found));
        Some(found)
    }

    /// The posting lists of all values that a required label permits.
    fn postings_of<'a>(
        &'a self,
        label: RequiredLabel<'a>,
        interner: &'a Interner,
    ) -> impl Iterator<Item = &'a SmallIdSet<I>> {
        let key = interner.get(label.key());
        let listed = label.values().into_iter().flatten();
        let listed = listed.filter_map(|value| interner.get(value));
        let all = key.filter(|_| label.values().is_none());
        let all = all.and_then(|key| self.values_by_key.get(key));
        let values = listed.chain(all.into_iter().flatten());
        let partition = PartitionKey::new::<()>(());
        values.filter_map(move |value| self.postings.get(&partition, IndexTerm::Label(key?, value)))
    }

    pub fn is_empty(&self) -> bool {
        self.postings.is_empty()
    }

    /// The labels of all objects, with the number of objects that have each, in unspecified order.
    pub fn label_counts(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        self.postings.iter().filter_map(|(strings, ids)| {
            let [key, value] = strings;
            Some((key.as_ref()?.as_ref(), value.as_ref()?.as_ref(), ids.len()))
        })
    }
}
