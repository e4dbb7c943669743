//! Parser for field selectors.

use super::selector::{Operator, Requirement};
use super::{UnescapeError, unescape};
use crate::labels::{REQUIREMENTS_MAX, SELECTOR_MAX_BYTES};

/// Why a text is not a field selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorParseError {
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    NoOperator { selector: String, term: String },
    #[error(transparent)]
    Value(#[from] UnescapeError),
    #[error("selector of {0} bytes is too long: at most {SELECTOR_MAX_BYTES} bytes are accepted")]
    TooLong(usize),
    #[error("selector has too many requirements: at most {REQUIREMENTS_MAX} are accepted")]
    TooMany,
}

/// Parses the requirements of a selector, sorted by their text as upstream.
pub(super) fn parse(selector: &str) -> Result<Vec<Requirement>, FieldSelectorParseError> {
    if selector.len() > SELECTOR_MAX_BYTES {
        return Err(FieldSelectorParseError::TooLong(selector.len()));
    }
    let mut terms: Vec<&str> = SelectorTerms(Some(selector))
        .filter(|term| !term.is_empty())
        .collect();
    if terms.len() > REQUIREMENTS_MAX {
        return Err(FieldSelectorParseError::TooMany);
    }
    terms.sort_unstable();
    terms
        .into_iter()
        .map(|term| requirement(selector, term))
        .collect()
}

fn requirement(selector: &str, term: &str) -> Result<Requirement, FieldSelectorParseError> {
    let no_operator = || FieldSelectorParseError::NoOperator {
        selector: selector.to_owned(),
        term: term.to_owned(),
    };
    // Field names cannot contain escapes, so the first operator is the right one.
    let equals = term.find('=').ok_or_else(no_operator)?;
    let (before, after) = (&term[..equals], &term[equals + 1..]);
    let (field, operator, value) = match before.strip_suffix('!') {
        Some(field) => (field, Operator::NotEquals, after),
        None => (
            before,
            Operator::Equals,
            after.strip_prefix('=').unwrap_or(after),
        ),
    };
    Ok(Requirement::new(field, operator, &unescape(value)?))
}

/// Iterates over the comma-separated terms; an escaped comma (`\,`) is part of a value.
struct SelectorTerms<'a>(Option<&'a str>);

impl<'a> Iterator for SelectorTerms<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0?;
        let mut escaped = false;
        let comma = text.bytes().position(|byte| {
            let is_comma = !escaped && byte == b',';
            escaped = !escaped && byte == b'\\';
            is_comma
        });
        match comma {
            Some(at) => {
                self.0 = Some(&text[at + 1..]);
                Some(&text[..at])
            }
            None => self.0.take(),
        }
    }
}
