//! Terms: properties of an object under which selectors and objects are indexed.

use crate::interner::{ResolvedLabel, Symbol};

/// The kinds of terms; from [`FIELDS`] on, one for each selectable field.
const ANY: usize = 0;
pub(crate) const NAME: usize = 1;
pub(crate) const LABEL: usize = 2;
pub(crate) const KEY: usize = 3;
pub(crate) const FIELDS: usize = 4;

/// A property that an object has, and that a selector may require. Terms refer to strings of one
/// [`Interner`](crate::Interner).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term<'t> {
    /// Every object has it: for selectors that require nothing that is indexed.
    Any,
    Name(&'t Symbol),
    /// A label with this key and value.
    Label(&'t Symbol, &'t Symbol),
    /// A label with this key.
    Key(&'t Symbol),
    /// A selectable field, by its index among those of the resource, with this value.
    Field(u16, &'t Symbol),
}

impl<'t> Term<'t> {
    /// The terms of one resolved label.
    #[inline]
    pub fn of_resolved(label: ResolvedLabel<'t>) -> impl Iterator<Item = Term<'t>> {
        let (key, value) = label;
        let with_value = value.map(|value| Term::Label(key, value));
        with_value.into_iter().chain([Term::Key(key)])
    }

    /// A dense number of the kind of term; each selectable field has its own.
    #[inline]
    pub(crate) fn kind(self) -> usize {
        match self {
            Term::Any => ANY,
            Term::Name(_) => NAME,
            Term::Label(..) => LABEL,
            Term::Key(_) => KEY,
            Term::Field(index, _) => FIELDS + usize::from(index),
        }
    }

    /// The strings of the term.
    #[inline]
    pub(crate) fn symbols(self) -> [Option<&'t Symbol>; 2] {
        match self {
            Term::Any => [None, None],
            Term::Name(text) | Term::Key(text) | Term::Field(_, text) => [Some(text), None],
            Term::Label(key, value) => [Some(key), Some(value)],
        }
    }
}
