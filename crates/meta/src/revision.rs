//! Revision: the store revision, shown to clients as `resourceVersion`.

use std::fmt;
use std::str::FromStr;

/// A revision of the store, shown to clients as `resourceVersion`.
///
/// Revisions increase monotonically and are shared by all kinds, so they can be compared across kinds.
/// Zero precedes all changes; no object has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// Greater than every revision that the store assigns.
    pub const MAX: Revision = Revision(u64::MAX);
    pub const ZERO: Revision = Revision(0);

    pub const fn new(value: u64) -> Self {
        Revision(value)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next revision. Saturates at the maximum, which a client can send but the store never reaches.
    pub const fn next(self) -> Self {
        Revision(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a string is not a resource version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a resource version: want a decimal integer without sign or leading zeros")]
pub struct ParseRevisionError(String);

impl FromStr for Revision {
    type Err = ParseRevisionError;

    /// Accepts exactly what [`Revision`]'s `Display` writes, so that equal revisions are equal strings.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let canonical = text == "0" || text.starts_with(|c: char| matches!(c, '1'..='9'));
        if !canonical || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ParseRevisionError(text.to_owned()));
        }
        text.parse()
            .map(Revision)
            .map_err(|_| ParseRevisionError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_revision_is_larger_or_none() {
        assert_eq!(Revision::ZERO.next(), Revision::new(1));
        let last: Revision = u64::MAX.to_string().parse().expect("canonical");
        assert_eq!(Revision::new(u64::MAX - 1).next(), last);
        assert_eq!(last.next(), last);
    }

    #[test]
    fn only_the_canonical_form_is_a_revision() {
        for good in ["0", "1", "42", "18446744073709551615"] {
            let revision: Revision = good.parse().expect(good);
            assert_eq!(revision.to_string(), good);
        }
        for bad in [
            "",
            "-1",
            "+1",
            "01",
            "1 ",
            "1.0",
            "abc",
            "18446744073709551616",
        ] {
            assert!(bad.parse::<Revision>().is_err(), "{bad:?} was accepted");
        }
    }
}
