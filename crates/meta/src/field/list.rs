//! A list of field errors (upstream: `field.ErrorList`).

use std::fmt;

use super::Error;

/// The errors of one validation, in the order in which they were found.
///
/// Printed as upstream's aggregate: a single message as is, several in brackets, without duplicates.
///
/// Keeps at most [`ErrorList::ERRORS_MAX`] errors and drops the rest, so that a small object with many errors does
/// not cause a response a hundred times its size. (Upstream has no limit.)
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorList(Vec<Error>);

impl ErrorList {
    pub const ERRORS_MAX: usize = 1000;

    pub const fn new() -> Self {
        ErrorList(Vec::new())
    }

    pub fn push(&mut self, error: Error) {
        if !self.is_full() {
            self.0.push(error);
        }
    }

    /// Whether further errors are dropped; validation can stop.
    pub fn is_full(&self) -> bool {
        self.0.len() >= Self::ERRORS_MAX
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Error> {
        self.0.iter()
    }

    /// `Err` with the list if it has any error.
    pub fn into_result(self) -> Result<(), ErrorList> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for ErrorList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages: Vec<String> = self.0.iter().map(Error::to_string).collect();
        f.write_str(&crate::aggregate(&messages))
    }
}

impl std::error::Error for ErrorList {}

impl From<Error> for ErrorList {
    fn from(error: Error) -> Self {
        ErrorList(vec![error])
    }
}

impl FromIterator<Error> for ErrorList {
    fn from_iter<I: IntoIterator<Item = Error>>(errors: I) -> Self {
        ErrorList(errors.into_iter().take(Self::ERRORS_MAX).collect())
    }
}

impl Extend<Error> for ErrorList {
    fn extend<I: IntoIterator<Item = Error>>(&mut self, errors: I) {
        let remaining = Self::ERRORS_MAX.saturating_sub(self.0.len());
        self.0.extend(errors.into_iter().take(remaining));
    }
}

impl IntoIterator for ErrorList {
    type Item = Error;
    type IntoIter = std::vec::IntoIter<Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a ErrorList {
    type Item = &'a Error;
    type IntoIter = std::slice::Iter<'a, Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Path;

    #[test]
    fn one_error_is_bare_and_several_are_bracketed_without_repeats() {
        let a = || Error::required(&Path::new("a"), "");
        let b = || Error::forbidden(&Path::new("b"), "no");
        let table: [(Vec<Error>, &str); 5] = [
            (vec![], ""),
            (vec![a()], "a: Required value"),
            (vec![a(), a()], "a: Required value"),
            (vec![a(), b()], "[a: Required value, b: Forbidden: no]"),
            (vec![b(), a(), b()], "[b: Forbidden: no, a: Required value]"),
        ];
        for (errors, want) in table {
            assert_eq!(ErrorList::from_iter(errors).to_string(), want);
        }
    }

    #[test]
    fn the_number_of_errors_is_bounded() {
        let flood = || (0..5000).map(|n| Error::required(&Path::new("a").index(n), ""));
        let mut list = ErrorList::from_iter(flood());
        list.extend(flood());
        list.push(Error::required(&Path::new("b"), ""));
        assert_eq!(list.len(), ErrorList::ERRORS_MAX);
        assert!(list.is_full());
    }
}
