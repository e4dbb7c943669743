//! The version type of `spec.minVersion` of network policies.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A release such as `1.21`, or a revision of an alpha such as `1.37-alpha.1`. Alpha revisions sort before the
/// release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyVersion {
    pub major: u32,
    pub minor: u32,
    /// The alpha revision; `None` for a release.
    pub alpha: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a version of network policies, such as 1.21 or 1.37-alpha.1")]
pub struct ParsePolicyVersionError;

impl FromStr for PolicyVersion {
    type Err = ParsePolicyVersionError;

    fn from_str(text: &str) -> Result<PolicyVersion, ParsePolicyVersionError> {
        let (release, alpha) = match text.split_once("-alpha.") {
            Some((release, revision)) => (release, Some(parse_canonical_number(revision)?)),
            None => (text, None),
        };
        let (major, minor) = release.split_once('.').ok_or(ParsePolicyVersionError)?;
        Ok(PolicyVersion {
            major: parse_canonical_number(major)?,
            minor: parse_canonical_number(minor)?,
            alpha,
        })
    }
}

/// Parses a number without sign or leading zeros, so that every version has one spelling.
fn parse_canonical_number(text: &str) -> Result<u32, ParsePolicyVersionError> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let number = text.parse().ok().filter(|_| is_plain);
    number.ok_or(ParsePolicyVersionError)
}

impl fmt::Display for PolicyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        match self.alpha {
            Some(revision) => write!(f, "-alpha.{revision}"),
            None => Ok(()),
        }
    }
}

impl Ord for PolicyVersion {
    fn cmp(&self, other: &PolicyVersion) -> Ordering {
        let order = |version: &PolicyVersion| {
            let is_released = version.alpha.is_none();
            (version.major, version.minor, is_released, version.alpha)
        };
        order(self).cmp(&order(other))
    }
}

impl PartialOrd for PolicyVersion {
    fn partial_cmp(&self, other: &PolicyVersion) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_numerically_with_alphas_before_their_release() {
        let ordered = [
            "0.9",
            "1.3",
            "1.8",
            "1.9",
            "1.11",
            "1.37-alpha.1",
            "1.37-alpha.2",
            "1.37-alpha.10",
            "1.37",
            "1.38-alpha.1",
            "2.0",
        ];
        let versions = ordered.map(|text| text.parse::<PolicyVersion>().expect(text));
        assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
        for (text, version) in ordered.iter().zip(versions) {
            assert_eq!(version.to_string(), *text);
        }
    }

    #[test]
    fn versions_have_one_canonical_form() {
        for text in [
            "",
            "1",
            "1.",
            ".3",
            "1.03",
            "1.3.0",
            "+1.3",
            "1.3 ",
            "v1.3",
            "1.x",
            "1.37-alpha",
            "1.37-alpha.",
            "1.37-alpha.01",
            "1.37-beta.1",
            "1.4294967296",
        ] {
            assert_eq!(
                text.parse::<PolicyVersion>(),
                Err(ParsePolicyVersionError),
                "{text}"
            );
        }
    }
}
