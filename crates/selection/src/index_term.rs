//! Terms: properties of an object under which selectors and objects are indexed.

use crate::interner::{InternedString, ResolvedLabel};

/// The kinds of terms; from [`FIELDS`] on, one for each selectable field.
const ANY: usize = 0;
pub(crate) const NAME: usize = 1;
pub(crate) const LABEL: usize = 2;
pub(crate) const KEY: usize = 3;
pub(crate) const FIELDS: usize = 4;

/// A property that an object has, and that a selector may require. Terms refer to strings of one
/// [`Interner`](crate::Interner).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexTerm<'t> {
    /// Every object has it: for selectors that require nothing that is indexed.
    Any,
    Name(&'t InternedString),
    /// A label with this key and value.
    Label(&'t InternedString, &'t InternedString),
    /// A label with this key.
    Key(&'t InternedString),
    /// A selectable field, by its index among those of the resource, with this value.
    Field(u16, &'t InternedString),
}

impl<'t> IndexTerm<'t> {
    /// The terms of one resolved label.
    #[inline]
    pub fn of_resolved(label: ResolvedLabel<'t>) -> impl Iterator<Item = IndexTerm<'t>> {
        let (key, value) = label;
        let with_value = value.map(|value| IndexTerm::Label(key, value));
        with_value.into_iter().chain([IndexTerm::Key(key)])
    }

    /// A dense number of the kind of term; each selectable field has its own.
    #[inline]
    pub(crate) fn kind(self) -> usize {
        match self {
            IndexTerm::Any => ANY,
            IndexTerm::Name(_) => NAME,
            IndexTerm::Label(..) => LABEL,
            IndexTerm::Key(_) => KEY,
            IndexTerm::Field(index, _) => FIELDS + usize::from(index),
        }
    }

    /// The strings of the term.
    #[inline]
    pub(crate) fn strings(self) -> [Option<&'t InternedString>; 2] {
        match self {
            IndexTerm::Any => [None, None],
            IndexTerm::Name(text) | IndexTerm::Key(text) | IndexTerm::Field(_, text) => {
                [Some(text), None]
            }
            IndexTerm::Label(key, value) => [Some(key), Some(value)],
        }
    }
}
