//! What an etcd server of some version can do.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    /// From what a server says of itself, such as `3.5.21` or `3.6.0-rc.1`.
    pub(super) fn parse(text: &str) -> Option<Version> {
        let numbers = text.split(['-', '+']).next()?;
        let mut parts = numbers.split('.').map(str::parse);
        let version = Version {
            major: parts.next()?.ok()?,
            minor: parts.next()?.ok()?,
            patch: parts.next()?.ok()?,
        };
        parts.next().is_none().then_some(version)
    }

    /// Whether a requested progress notification never overtakes the changes before it (etcd#15220).
    pub(super) fn keeps_progress_in_order(self) -> bool {
        match (self.major, self.minor) {
            (3, 4) => self.patch >= 31,
            (3, 5) => self.patch >= 13,
            (major, minor) => (major, minor) >= (3, 6),
        }
    }

    /// Whether a compaction keeps a deletion at the very revision it compacts to (etcd#19179), as a watch
    /// that goes on from there needs it.
    pub(super) fn keeps_deletion_at_compaction(self) -> bool {
        match (self.major, self.minor) {
            (3, 4) => self.patch >= 36,
            (3, 5) => self.patch >= 19,
            (major, minor) => (major, minor) >= (3, 6),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_servers_write_them() {
        for (text, shown) in [
            ("3.4.23", Some("3.4.23")),
            ("3.6.0-rc.1", Some("3.6.0")),
            ("3.5.1+git", Some("3.5.1")),
            ("3.5", None),
            ("3.5.1.2", None),
            ("", None),
        ] {
            let parsed = Version::parse(text).map(|version| version.to_string());
            assert_eq!(parsed.as_deref(), shown, "{text}");
        }
    }

    #[test]
    fn deletions_are_kept_from_the_releases_with_the_fix() {
        for (text, expected) in [
            ("3.4.23", false),
            ("3.4.35", false),
            ("3.4.36", true),
            ("3.5.18", false),
            ("3.5.19", true),
            ("3.6.0", true),
        ] {
            let version = Version::parse(text).unwrap();
            assert_eq!(version.keeps_deletion_at_compaction(), expected, "{text}");
        }
    }

    #[test]
    fn progress_is_in_order_from_the_releases_with_the_fix() {
        for (text, expected) in [
            ("3.3.27", false),
            ("3.4.23", false),
            ("3.4.30", false),
            ("3.4.31", true),
            ("3.5.12", false),
            ("3.5.13", true),
            ("3.6.0", true),
            ("4.0.0", true),
        ] {
            let version = Version::parse(text).unwrap();
            assert_eq!(version.keeps_progress_in_order(), expected, "{text}");
        }
    }
}
