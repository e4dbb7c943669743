//! Requirements joined by "and".

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{Labels, Operator, ParseError, Requirement, parser};
use crate::field::Path;

/// Picks the objects that meet all of its requirements.
///
/// Every watch holds one, so clones share the requirements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Sorted by key; `None` picks nothing.
    requirements: Option<Arc<[Requirement]>>,
}

impl Selector {
    /// Picks every object.
    pub fn everything() -> Self {
        Self::new(Vec::new())
    }

    /// Picks no object. Printed, it cannot be told from [`Selector::everything`].
    pub fn nothing() -> Self {
        Selector { requirements: None }
    }

    /// Picks what meets all requirements.
    ///
    /// They are sorted by key; those with one key stay in the order given. (Upstream's sort keeps that order
    /// up to twelve requirements, and beyond that gives one that depends on all of them.)
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key().cmp(b.key()));
        Selector {
            requirements: Some(requirements.into()),
        }
    }

    /// Reads a selector; the empty text picks everything.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_at(&Path::NIL, text)
    }

    /// The same, with the errors of keys and values under `path`.
    pub fn parse_at(path: &Path<'_>, text: &str) -> Result<Self, ParseError> {
        parser::parse(text, path).map(Self::new)
    }

    /// Picks the objects that have all of these labels, which are known to be valid.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self::new(
            labels
                .into_iter()
                .map(|(key, value)| Requirement::equals_unchecked(key, value))
                .collect(),
        )
    }

    /// This selector with more requirements; nothing stays nothing.
    pub fn and(&self, more: impl IntoIterator<Item = Requirement>) -> Self {
        match &self.requirements {
            None => Self::nothing(),
            Some(requirements) => Self::new(requirements.iter().cloned().chain(more).collect()),
        }
    }

    /// The requirements sorted by key, or `None` if nothing is picked whatever its labels.
    pub fn requirements(&self) -> Option<&[Requirement]> {
        self.requirements.as_deref()
    }

    /// Whether every object is picked.
    pub fn is_everything(&self) -> bool {
        self.requirements
            .as_ref()
            .is_some_and(|requirements| requirements.is_empty())
    }

    /// Whether this is [`Selector::nothing`]. Requirements that contradict each other are not looked for.
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        match &self.requirements {
            None => false,
            Some(requirements) => requirements
                .iter()
                .all(|requirement| requirement.matches(labels)),
        }
    }

    /// The single value that the first requirement on `key` allows, if it allows a single one.
    pub fn requires_exact_match(&self, key: &str) -> Option<&str> {
        let requirement = self
            .requirements()?
            .iter()
            .find(|requirement| requirement.key() == key)?;
        match (requirement.operator(), requirement.values()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

/// Picks everything, as the absence of a selector in a request does.
impl Default for Selector {
    fn default() -> Self {
        Self::everything()
    }
}

impl FromStr for Selector {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().unwrap_or_default().iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}
