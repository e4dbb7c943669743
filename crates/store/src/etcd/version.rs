//! The version of an etcd server, and the bug fixes that depend on it.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EtcdVersion {
    major: u32,
    minor: u32,
    patch: u32,
}

impl EtcdVersion {
    /// Parses the version reported by a server, such as `3.5.21` or `3.6.0-rc.1`.
    pub(super) fn parse(text: &str) -> Option<EtcdVersion> {
        let numbers = text.split(['-', '+']).next()?;
        let mut parts = numbers.split('.').map(str::parse);
        let version = EtcdVersion {
            major: parts.next()?.ok()?,
            minor: parts.next()?.ok()?,
            patch: parts.next()?.ok()?,
        };
        parts.next().is_none().then_some(version)
    }

    /// Whether a requested progress notification is never sent before earlier changes (etcd#15220).
    pub(super) fn keeps_progress_in_order(self) -> bool {
        match (self.major, self.minor) {
            (3, 4) => self.patch >= 31,
            (3, 5) => self.patch >= 13,
            (major, minor) => (major, minor) >= (3, 6),
        }
    }

    /// Whether a compaction keeps a deletion at exactly the compaction revision (etcd#19179), which a watch that
    /// continues from there needs.
    pub(super) fn keeps_deletion_at_compaction(self) -> bool {
        match (self.major, self.minor) {
            (3, 4) => self.patch >= 36,
            (3, 5) => self.patch >= 19,
            (major, minor) => (major, minor) >= (3, 6),
        }
    }
}

impl fmt::Display for EtcdVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_versions_are_parsed() {
        for (text, shown) in [
            ("3.4.23", Some("3.4.23")),
            ("3.6.0-rc.1", Some("3.6.0")),
            ("3.5.1+git", Some("3.5.1")),
            ("3.5", None),
            ("3.5.1.2", None),
            ("", None),
        ] {
            let parsed = EtcdVersion::parse(text).map(|version| version.to_string());
            assert_eq!(parsed.as_deref(), shown, "{text}");
        }
    }

    #[test]
    fn releases_with_the_fix_keep_deletions_at_compaction() {
        for (text, expected) in [
            ("3.4.23", false),
            ("3.4.35", false),
            ("3.4.36", true),
            ("3.5.18", false),
            ("3.5.19", true),
            ("3.6.0", true),
        ] {
            let version = EtcdVersion::parse(text).unwrap();
            assert_eq!(version.keeps_deletion_at_compaction(), expected, "{text}");
        }
    }

    #[test]
    fn releases_with_the_fix_keep_progress_in_order() {
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
            let version = EtcdVersion::parse(text).unwrap();
            assert_eq!(version.keeps_progress_in_order(), expected, "{text}");
        }
    }
}
