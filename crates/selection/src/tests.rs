//! Property tests of the indexes against evaluating all selectors.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rhumb_meta::labels::{Operator, Requirement, Selector};

use crate::{IndexTerm, InternedLabel, Interner, PostingIndex, SelectorIndex};

type Labels = BTreeMap<String, String>;

/// Few keys and values, so that selectors and objects often meet.
fn key() -> impl Strategy<Value = String> {
    "[a-d]".boxed()
}

fn value() -> impl Strategy<Value = String> {
    "[1-4]"
}

fn labels() -> impl Strategy<Value = Labels> {
    prop::collection::btree_map(key(), value(), 0..4)
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let values = prop_oneof![
        9 => prop::collection::vec(value(), 1..4),
        // More values than the index has buckets for.
        1 => Just((0..100).map(|number: usize| number.to_string()).collect()),
    ];
    let operator = prop::sample::select(vec![
        Operator::Equals,
        Operator::NotEquals,
        Operator::In,
        Operator::NotIn,
        Operator::Exists,
        Operator::DoesNotExist,
        Operator::GreaterThan,
    ]);
    (key(), operator, values).prop_map(|(key, operator, mut values)| {
        values.truncate(match operator {
            Operator::In | Operator::NotIn => usize::MAX,
            Operator::Exists | Operator::DoesNotExist => 0,
            _ => 1,
        });
        Requirement::new(&key, operator, &values).expect("a valid requirement")
    })
}

fn selector() -> impl Strategy<Value = Selector> {
    prop_oneof![
        9 => prop::collection::vec(requirement(), 0..4).prop_map(Selector::new),
        1 => Just(Selector::nothing()),
    ]
}

/// Adds the value under a number, or removes it if the number is in use.
type Toggles<T> = Vec<(usize, T)>;

fn toggles<T: Clone + std::fmt::Debug>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Toggles<T>> {
    prop::collection::vec((0..20_usize, value), 0..60)
}

/// The selectors that an index finds for an object, with whether they are exact.
fn found(
    index: &SelectorIndex<u8, usize>,
    partition: u8,
    labels: &[InternedLabel],
) -> Vec<(usize, bool)> {
    let candidates = index.candidates_for_labels(&partition, labels);
    let mut found: Vec<_> = candidates.map(|found| (found.id, found.is_exact)).collect();
    found.sort_unstable();
    found
}

fn check_found_selectors(
    index: &SelectorIndex<u8, usize>,
    selectors: &BTreeMap<usize, (u8, Selector)>,
    object: &Labels,
    labels: &[InternedLabel],
) {
    for partition in 0..2 {
        let found = found(index, partition, labels);
        let ids: BTreeSet<usize> = found.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids.len(), found.len(), "found twice: {found:?}");
        for (id, is_exact) in &found {
            assert_eq!(selectors[id].0, partition);
            assert!(!is_exact || selectors[id].1.matches(object));
        }
        for (id, (of, selector)) in selectors {
            let must_be_found = *of == partition && selector.matches(object);
            assert!(!must_be_found || ids.contains(id), "{id} is not found");
        }
    }
}

proptest! {
    #[test]
    fn every_matching_selector_is_a_candidate_once(
        changes in toggles((0..2_u8, selector())),
        objects in prop::collection::vec(labels(), 1..4),
    ) {
        let (mut index, mut interner) = (SelectorIndex::default(), Interner::default());
        let mut selectors: BTreeMap<usize, (u8, Selector)> = BTreeMap::new();
        for (id, (partition, selector)) in changes {
            match selectors.remove(&id) {
                Some((partition, known)) => {
                    index.remove_selector(&partition, &known, id, &mut interner);
                }
                None => {
                    index.insert_selector(&partition, &selector, id, &mut interner);
                    selectors.insert(id, (partition, selector));
                }
            }
            for object in &objects {
                let labels = interner.intern_labels(object);
                check_found_selectors(&index, &selectors, object, &labels);
            }
        }
        for (id, (partition, selector)) in selectors {
            index.remove_selector(&partition, &selector, id, &mut interner);
        }
        prop_assert!(index.is_empty());
    }

    #[test]
    fn resolved_labels_find_the_same_selectors(
        all in prop::collection::vec(selector(), 0..20),
        object in labels(),
    ) {
        let (mut index, mut interner) = (SelectorIndex::default(), Interner::default());
        for (id, selector) in all.iter().enumerate() {
            index.insert_selector(&0, selector, id, &mut interner);
        }
        let resolved: Vec<_> = interner.resolve_labels(&object).collect();
        let terms = resolved.iter().flat_map(|label| IndexTerm::of_resolved(*label));
        let candidates = index.candidates(&0, terms.chain([IndexTerm::Any]));
        let mut by_resolved: Vec<_> = candidates.map(|found| (found.id, found.is_exact)).collect();
        by_resolved.sort_unstable();
        drop(resolved);
        let labels = interner.intern_labels(&object);
        prop_assert_eq!(by_resolved, found(&index, 0, &labels));
    }

    #[test]
    fn every_matching_object_is_a_candidate_once(
        changes in toggles(labels()),
        selectors in prop::collection::vec(selector(), 1..4),
        limit in prop_oneof![0..20_usize, Just(usize::MAX)],
    ) {
        let (mut index, mut interner) = (PostingIndex::default(), Interner::default());
        let mut objects: BTreeMap<usize, Labels> = BTreeMap::new();
        for (id, labels) in changes {
            match objects.remove(&id) {
                Some(known) => index.remove(&interner.intern_labels(&known), id),
                None => {
                    index.insert(&interner.intern_labels(&labels), id);
                    objects.insert(id, labels);
                }
            }
            for selector in &selectors {
                let Some(found) = index.candidates(selector, &interner, limit) else {
                    continue;
                };
                prop_assert!(found.len() < limit.max(1));
                let ids: BTreeSet<usize> = found.iter().copied().collect();
                prop_assert_eq!(ids.len(), found.len());
                let matching = objects.iter().filter(|(_, labels)| selector.matches(*labels));
                prop_assert!(matching.map(|(id, _)| id).all(|id| ids.contains(id)));
            }
        }
        for (id, labels) in objects {
            index.remove(&interner.intern_labels(&labels), id);
        }
        prop_assert!(index.is_empty());
    }
}

#[test]
fn selectors_that_require_a_label_are_always_candidates_of_posting_lists() {
    let (mut index, mut interner) = (PostingIndex::default(), Interner::default());
    for (id, value) in ["x", "x", "y"].into_iter().enumerate() {
        index.insert(
            &interner.intern_labels([("app", value), ("own", &id.to_string())]),
            id,
        );
    }
    let count = |selector: &str, limit: usize| {
        let selector: Selector = selector.parse().expect("valid");
        let found = index.candidates(&selector, &interner, limit);
        found.map(|found| found.len())
    };
    assert_eq!(count("app=x", 10), Some(2));
    assert_eq!(count("app in (x,y)", 10), Some(3));
    assert_eq!(count("app", 10), Some(3));
    assert_eq!(count("app,own=1", 10), Some(1), "the shortest list is used");
    assert_eq!(count("app=x", 2), None, "the limit is reached");
    assert_eq!(count("other=x", 10), Some(0));
    assert_eq!(count("app!=x", 10), None);
    assert_eq!(count("", 10), None);
    let nothing = index.candidates(&Selector::nothing(), &interner, 10);
    assert_eq!(nothing, Some(Vec::new()));
}
