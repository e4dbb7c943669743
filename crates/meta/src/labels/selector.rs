//! Selector: the conjunction of requirements on labels (upstream: `labels.Selector`).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{LabelSelectorParseError, Labels, Operator, Requirement, parser};
use crate::field::Path;

/// Matches the objects that meet all requirements.
///
/// Clones share the requirements, because every watch has a selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Sorted by key; `None` matches nothing.
    requirements: Option<Arc<[Requirement]>>,
}

impl Selector {
    /// Matches every object.
    pub fn everything() -> Self {
        Self::new(Vec::new())
    }

    /// Matches no object. Prints as the empty string, like [`Selector::everything`].
    pub fn nothing() -> Self {
        Selector { requirements: None }
    }

    /// Matches objects that meet all requirements.
    ///
    /// The requirements are sorted by key with a stable sort. (Upstream's sort is not stable for more than twelve
    /// requirements.)
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key().cmp(b.key()));
        Selector {
            requirements: Some(requirements.into()),
        }
    }

    /// Parses a selector; the empty text matches everything.
    pub fn parse(text: &str) -> Result<Self, LabelSelectorParseError> {
        Self::parse_at(&Path::NIL, text)
    }

    /// As [`Selector::parse`], with the errors of keys and values under `path`.
    pub fn parse_at(path: &Path<'_>, text: &str) -> Result<Self, LabelSelectorParseError> {
        parser::parse(text, path).map(Self::new)
    }

    /// Matches the objects that have all of these labels, which must be valid.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self::new(
            labels
                .into_iter()
                .map(|(key, value)| Requirement::equals_unchecked(key, value))
                .collect(),
        )
    }

    /// Adds requirements; [`Selector::nothing`] remains unchanged.
    pub fn and(&self, more: impl IntoIterator<Item = Requirement>) -> Self {
        match &self.requirements {
            None => Self::nothing(),
            Some(requirements) => Self::new(requirements.iter().cloned().chain(more).collect()),
        }
    }

    /// The requirements sorted by key, or `None` for [`Selector::nothing`].
    pub fn requirements(&self) -> Option<&[Requirement]> {
        self.requirements.as_deref()
    }

    /// Whether every object matches.
    pub fn is_everything(&self) -> bool {
        self.requirements
            .as_ref()
            .is_some_and(|requirements| requirements.is_empty())
    }

    /// Whether this is [`Selector::nothing`]. Contradictory requirements are not detected.
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

    /// The value that the first requirement on `key` allows, if it allows exactly one.
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

/// Matches everything, as a request without a selector does.
impl Default for Selector {
    fn default() -> Self {
        Self::everything()
    }
}

impl FromStr for Selector {
    type Err = LabelSelectorParseError;

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
