//! Field selectors and their requirements (upstream: `fields.Selector`).

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{FieldSelectorParseError, Fields, escape, parser};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    Equals,
    NotEquals,
}

impl Operator {
    pub const fn as_str(self) -> &'static str {
        match self {
            Operator::Equals => "=",
            Operator::NotEquals => "!=",
        }
    }
}

/// A requirement on one field: field, operator, value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    field: Box<str>,
    operator: Operator,
    value: Box<str>,
}

impl Requirement {
    pub fn new(field: &str, operator: Operator, value: &str) -> Self {
        Requirement {
            field: field.into(),
            operator,
            value: value.into(),
        }
    }

    pub fn field(&self) -> &str {
        &self.field
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    pub fn value(&self) -> &str {
        &self.value
    }

    pub fn matches<F: Fields + ?Sized>(&self, fields: &F) -> bool {
        let equal = fields.get(&self.field).unwrap_or_default() == &*self.value;
        equal == (self.operator == Operator::Equals)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}{}",
            self.field,
            self.operator.as_str(),
            escape(&self.value)
        )
    }
}

/// Matches the objects whose fields meet all requirements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selector {
    /// `None` matches nothing.
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

    /// Matches objects that meet all requirements. Keeps the order of the requirements.
    pub fn new(requirements: Vec<Requirement>) -> Self {
        Selector {
            requirements: Some(requirements.into()),
        }
    }

    /// Matches objects that have this value in this field.
    pub fn equals(field: &str, value: &str) -> Self {
        Self::new(vec![Requirement::new(field, Operator::Equals, value)])
    }

    /// Parses a selector; the empty text matches everything.
    pub fn parse(text: &str) -> Result<Self, FieldSelectorParseError> {
        let parsed = Self::new(parser::parse(text)?);
        // Upstream's parser applies its transformation, which drops requirements with neither field nor value.
        let Ok(selector) = parsed
            .transform(|field, value| Ok::<_, Infallible>((field.to_owned(), value.to_owned())));
        Ok(selector)
    }

    /// Maps the field and value of each requirement, such as for the field label conversion of a kind.
    ///
    /// Drops requirements whose field and value both become empty.
    pub fn transform<E>(
        &self,
        mut change: impl FnMut(&str, &str) -> Result<(String, String), E>,
    ) -> Result<Self, E> {
        let Some(requirements) = &self.requirements else {
            return Ok(Self::nothing());
        };
        let mut changed = Vec::with_capacity(requirements.len());
        for requirement in requirements.iter() {
            let (field, value) = change(&requirement.field, &requirement.value)?;
            if !field.is_empty() || !value.is_empty() {
                changed.push(Requirement::new(&field, requirement.operator, &value));
            }
        }
        Ok(Self::new(changed))
    }

    /// Adds requirements; [`Selector::nothing`] remains unchanged.
    pub fn and(&self, more: impl IntoIterator<Item = Requirement>) -> Self {
        match &self.requirements {
            None => Self::nothing(),
            Some(requirements) => Self::new(requirements.iter().cloned().chain(more).collect()),
        }
    }

    /// The requirements, or `None` for [`Selector::nothing`].
    pub fn requirements(&self) -> Option<&[Requirement]> {
        self.requirements.as_deref()
    }

    /// Whether every object matches.
    pub fn is_everything(&self) -> bool {
        self.requirements
            .as_ref()
            .is_some_and(|requirements| requirements.is_empty())
    }

    /// Whether this is [`Selector::nothing`].
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    pub fn matches<F: Fields + ?Sized>(&self, fields: &F) -> bool {
        match &self.requirements {
            None => false,
            Some(requirements) => requirements
                .iter()
                .all(|requirement| requirement.matches(fields)),
        }
    }

    /// The value that a requirement demands for `field`, if any; for index lookups.
    pub fn requires_exact_match(&self, field: &str) -> Option<&str> {
        let mut requirements = self.requirements()?.iter();
        requirements
            .find(|requirement| {
                requirement.operator == Operator::Equals && requirement.field() == field
            })
            .map(Requirement::value)
    }
}

/// Matches everything, as a request without a selector does.
impl Default for Selector {
    fn default() -> Self {
        Self::everything()
    }
}

impl FromStr for Selector {
    type Err = FieldSelectorParseError;

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
