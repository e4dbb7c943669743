//! Versions of what network policies can say.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A release that a policy needs, such as `1.21`, or a revision of an alpha on the way to one, such as
/// `1.37-alpha.1`. The revisions of an alpha come before the release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    /// The revision of an alpha; `None` for what is released.
    pub alpha: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a version of network policies, such as 1.21 or 1.37-alpha.1")]
pub struct NotAVersion;

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Version, NotAVersion> {
        let (release, alpha) = match text.split_once("-alpha.") {
            Some((release, revision)) => (release, Some(number(revision)?)),
            None => (text, None),
        };
        let (major, minor) = release.split_once('.').ok_or(NotAVersion)?;
        Ok(Version {
            major: number(major)?,
            minor: number(minor)?,
            alpha,
        })
    }
}

/// A number in its one form, so that two texts are the same version only if they are the same text.
fn number(text: &str) -> Result<u32, NotAVersion> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let number = text.parse().ok().filter(|_| is_plain);
    number.ok_or(NotAVersion)
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        match self.alpha {
            Some(revision) => write!(f, "-alpha.{revision}"),
            None => Ok(()),
        }
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        let order = |version: &Version| {
            let is_released = version.alpha.is_none();
            (version.major, version.minor, is_released, version.alpha)
        };
        order(self).cmp(&order(other))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_numbers_and_alphas_come_before_their_release() {
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
        let versions = ordered.map(|text| text.parse::<Version>().expect(text));
        assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
        for (text, version) in ordered.iter().zip(versions) {
            assert_eq!(version.to_string(), *text);
        }
    }

    #[test]
    fn a_version_has_one_spelling() {
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
            assert_eq!(text.parse::<Version>(), Err(NotAVersion), "{text}");
        }
    }
}
