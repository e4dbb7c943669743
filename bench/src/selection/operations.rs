//! The measured operations: insert, remove and candidates of both indexes.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rhumb_selection::{
    IndexTerm, InternedLabel, InternedString, Interner, PostingIndex, SelectorIndex,
};

use super::workloads::{IndexedSelector, LabelLookup, LabeledObject, SelectionWorkload};

/// Nanoseconds per operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct OperationCosts {
    pub(super) insert: f64,
    pub(super) candidates: f64,
    pub(super) remove: f64,
    /// Candidates in total, for comparison between implementations.
    pub(super) found: usize,
}

type Index = SelectorIndex<Option<InternedString>, usize>;

/// Which selectors may match an object.
pub(super) fn selector_index(workload: &SelectionWorkload) -> OperationCosts {
    let (mut index, mut interner) = (Index::default(), Interner::default());
    let insert = time_each(workload.selectors.iter().enumerate(), |(id, selector)| {
        change_selector(&mut index, &mut interner, selector, id, true);
    });
    let stored = stored_labels(workload, &mut interner);
    let mut found = 0;
    let objects = workload.objects.iter().zip(&stored);
    let candidates = time_each(objects, |(object, stored)| {
        found += match workload.lookup {
            LabelLookup::Resolved => resolved_candidates(&index, &interner, object),
            LabelLookup::Interned => {
                let labels = interner.intern_labels(pairs(object));
                interned_candidates(&index, &interner, object, &labels)
            }
            LabelLookup::Stored => interned_candidates(&index, &interner, object, stored),
        };
    });
    let remove = time_each(workload.selectors.iter().enumerate(), |(id, selector)| {
        change_selector(&mut index, &mut interner, selector, id, false);
    });
    assert!(index.is_empty(), "selectors are left");
    OperationCosts {
        insert,
        candidates,
        remove,
        found,
    }
}

fn change_selector(
    index: &mut Index,
    interner: &mut Interner,
    selector: &IndexedSelector,
    id: usize,
    is_insert: bool,
) {
    let namespace = selector.namespace.as_ref();
    let namespace = namespace.map(|name| interner.intern(name));
    match (&selector.field, is_insert) {
        (Some(value), true) => {
            index.insert(
                &namespace,
                IndexTerm::Field(0, &interner.intern(value)),
                id,
                true,
            );
        }
        (Some(value), false) => {
            index.remove(&namespace, IndexTerm::Field(0, &interner.intern(value)), id);
        }
        (None, true) => index.insert_selector(&namespace, &selector.labels, id, interner),
        (None, false) => index.remove_selector(&namespace, &selector.labels, id, interner),
    }
}

fn resolved_candidates(index: &Index, interner: &Interner, object: &LabeledObject) -> usize {
    let mut terms = Vec::with_capacity(16);
    terms.push(IndexTerm::Any);
    terms.extend(
        interner
            .get(&object.field)
            .map(|value| IndexTerm::Field(0, value)),
    );
    terms.extend(
        interner
            .resolve_labels(pairs(object))
            .flat_map(IndexTerm::of_resolved),
    );
    let own_namespace = interner.get(&object.namespace).cloned();
    let partitions = [Some(None), own_namespace.map(Some)].into_iter().flatten();
    let candidates =
        partitions.map(|partition| index.candidates(partition, terms.iter().copied()).count());
    candidates.sum()
}

fn interned_candidates(
    index: &Index,
    interner: &Interner,
    object: &LabeledObject,
    labels: &[InternedLabel],
) -> usize {
    let own_namespace = interner.get(&object.namespace).cloned();
    let partitions = [Some(None), own_namespace.map(Some)].into_iter().flatten();
    let candidates =
        partitions.map(|partition| index.candidates_for_labels(&partition, labels).count());
    candidates.sum()
}

/// Which objects a selector may match.
pub(super) fn posting_index(workload: &SelectionWorkload) -> OperationCosts {
    let (mut index, mut interner) = (PostingIndex::default(), Interner::default());
    let objects = || workload.objects.iter().enumerate();
    let insert = time_each(objects(), |(id, object)| {
        index.insert(&interner.intern_labels(pairs(object)), id);
    });
    let mut found = 0;
    let candidates = time_each(workload.selectors.iter(), |selector| {
        let ids = index.candidates(&selector.labels, &interner, workload.objects.len());
        found += black_box(ids).map_or(0, |ids| ids.len());
    });
    let remove = time_each(objects(), |(id, object)| {
        index.remove(&interner.intern_labels(pairs(object)), id);
    });
    assert!(index.is_empty(), "objects are left");
    OperationCosts {
        insert,
        candidates,
        remove,
        found,
    }
}

fn stored_labels(
    workload: &SelectionWorkload,
    interner: &mut Interner,
) -> Vec<Box<[InternedLabel]>> {
    let objects = workload.objects.iter();
    match workload.lookup {
        LabelLookup::Stored => objects
            .map(|object| interner.intern_labels(pairs(object)))
            .collect(),
        _ => objects.map(|_| Box::default()).collect(),
    }
}

fn pairs(object: &LabeledObject) -> impl Iterator<Item = (&String, &String)> {
    object.labels.iter().map(|(key, value)| (key, value))
}

/// Nanoseconds per item.
pub(super) fn time_each<T>(items: impl ExactSizeIterator<Item = T>, act: impl FnMut(T)) -> f64 {
    let count = items.len().max(1) as f64;
    let started = Instant::now();
    items.for_each(act);
    let spent: Duration = started.elapsed();
    spent.as_nanos() as f64 / count
}
