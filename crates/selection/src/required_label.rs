//! The labels that a selector requires, from which the terms of indexes are chosen.

use rhumb_meta::labels::{Operator, Requirement, Selector};

use crate::{IndexTerm, Interner};

/// A label that an object must have to match a selector.
#[derive(Debug, Clone, Copy)]
pub struct RequiredLabel<'s> {
    key: &'s str,
    /// The permitted values, sorted; `None` permits any.
    values: Option<&'s [Box<str>]>,
    is_exact: bool,
}

/// All labels that a selector requires. A requirement with more than `values_max` values only yields its key. `None` if
/// the selector is [`Selector::nothing`].
pub fn required_labels(
    selector: &Selector,
    values_max: usize,
) -> Option<impl Iterator<Item = RequiredLabel<'_>>> {
    let requirements = selector.requirements()?;
    let is_only = requirements.len() == 1;
    let required = requirements
        .iter()
        .filter(|requirement| requirement.needs_label());
    Some(required.map(move |requirement| RequiredLabel::new(requirement, is_only, values_max)))
}

impl<'s> RequiredLabel<'s> {
    fn new(requirement: &'s Requirement, is_only: bool, values_max: usize) -> Self {
        let values = requirement.exact_values();
        let values =
            values.filter(|values| distinct(values).take(values_max + 1).count() <= values_max);
        RequiredLabel {
            key: requirement.key(),
            values,
            is_exact: is_only && (values.is_some() || requirement.operator() == Operator::Exists),
        }
    }

    /// The required label with the fewest permitted values, `None` if there is none.
    pub fn most_selective(selector: &'s Selector, values_max: usize) -> Option<RequiredLabel<'s>> {
        required_labels(selector, values_max)?.min_by_key(RequiredLabel::value_count)
    }

    pub fn key(&self) -> &'s str {
        self.key
    }

    /// The permitted values, without duplicates; `None` permits any.
    pub fn values(&self) -> Option<impl Iterator<Item = &'s str> + use<'s>> {
        self.values.map(distinct)
    }

    /// Whether every object with the label matches the selector.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// For comparisons: a label of which any value is permitted has the greatest count.
    pub fn value_count(&self) -> usize {
        self.values.map_or(usize::MAX - 1, <[_]>::len)
    }

    /// The number of terms of [`RequiredLabel::for_each_term`].
    pub fn term_count(&self) -> usize {
        self.values().map_or(1, Iterator::count)
    }

    /// Calls `act` with each term of which a matching object has one: the label with each value, or its key.
    pub fn for_each_term(&self, interner: &mut Interner, mut act: impl FnMut(IndexTerm<'_>)) {
        let key = interner.intern(self.key);
        match self.values() {
            None => act(IndexTerm::Key(&key)),
            Some(values) => {
                for value in values {
                    act(IndexTerm::Label(&key, &interner.intern(value)));
                }
            }
        }
    }
}

/// Sorted values without duplicates.
fn distinct(values: &[Box<str>]) -> impl Iterator<Item = &str> {
    values.chunk_by(|a, b| a == b).map(|equal| &*equal[0])
}
