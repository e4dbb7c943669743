//! Entries, and how a range of them is asked for.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use rhumb_meta::Revision;

use crate::{Error, KEY_BYTES_MAX, Result};

/// A key, cheap to clone. Keys are ordered by their bytes.
pub type Key = Arc<str>;

/// A value at a key, and when it came to be.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: Key,
    pub value: Bytes,
    /// When the key was created; deleting and creating it again begins anew.
    pub created: Revision,
    /// When the value was last written.
    pub modified: Revision,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .field("value", &Hidden(&self.value))
            .field("created", &self.created)
            .field("modified", &self.modified)
            .finish()
    }
}

/// Shows how long a value is, and nothing else: values hold secrets, and what can be shown ends up in logs.
pub(crate) struct Hidden<'a>(pub(crate) &'a Bytes);

impl fmt::Debug for Hidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// Which entries to read: all below `prefix`, unless narrowed.
#[derive(Debug, Clone, Copy)]
pub struct Range<'a> {
    pub prefix: &'a str,
    /// Only keys that sort after this one: where the previous page ended.
    pub after: Option<&'a str>,
    /// At most this many entries.
    pub limit: Option<NonZeroUsize>,
    /// As of this revision; the latest when absent. Later pages name the revision of the first.
    pub at: Option<Revision>,
}

impl<'a> Range<'a> {
    pub fn prefix(prefix: &'a str) -> Self {
        Range {
            prefix,
            after: None,
            limit: None,
            at: None,
        }
    }

    pub fn after(self, key: &'a str) -> Self {
        Range {
            after: Some(key),
            ..self
        }
    }

    /// Zero means no limit.
    pub fn limit(self, limit: usize) -> Self {
        Range {
            limit: NonZeroUsize::new(limit),
            ..self
        }
    }

    pub fn at(self, revision: Revision) -> Self {
        Range {
            at: Some(revision),
            ..self
        }
    }

    /// The first possible key of the range, as bytes.
    pub(crate) fn start(&self) -> Vec<u8> {
        match self.after {
            Some(after) if after >= self.prefix => {
                let mut start = after.as_bytes().to_vec();
                // The smallest string greater than `after`: no key contains a zero byte.
                start.push(0);
                start
            }
            _ => self.prefix.as_bytes().to_vec(),
        }
    }
}

/// Entries in key order, all as of one revision.
#[derive(Debug, Clone)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// What the entries are as of. A stream of changes after it continues without gap or repeat.
    pub revision: Revision,
    /// Whether entries of the range follow after the last one here.
    pub more: bool,
}

/// The first byte string after all strings that begin with `prefix`; `None` if there is no end.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

pub(crate) fn check_key(key: &str) -> Result<()> {
    if key.is_empty() {
        return Err(Error::InvalidKey {
            key: String::new(),
            reason: "it is empty",
        });
    }
    check_prefix(key)
}

/// A prefix is the beginning of a key, or empty for all of them.
pub(crate) fn check_prefix(key: &str) -> Result<()> {
    let reason = if key.len() > KEY_BYTES_MAX {
        "it is too long"
    } else if key.contains('\0') {
        "it contains a zero byte"
    } else {
        return Ok(());
    };
    // A key that is refused may be of any length: what is shown of it is not.
    Err(Error::InvalidKey {
        key: key.chars().take(80).collect(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(prefix_end(b"/a/"), Some(b"/a0".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }

    #[test]
    fn a_range_begins_after_the_previous_page_but_never_before_its_prefix() {
        assert_eq!(Range::prefix("/b/").start(), b"/b/");
        assert_eq!(Range::prefix("/b/").after("/b/x").start(), b"/b/x\0");
        assert_eq!(Range::prefix("/b/").after("/a").start(), b"/b/");
    }

    #[test]
    fn values_are_never_shown() {
        let entry = Entry {
            key: "/registry/secrets/a/b".into(),
            value: "hunter2".into(),
            created: Revision::new(1),
            modified: Revision::new(2),
        };
        let change = crate::Change::Put {
            key: entry.key.clone(),
            value: entry.value.clone(),
            created: entry.created,
        };
        let put = crate::Transaction::new().put("/k", "hunter2", crate::Expect::Any);
        let error = Error::conflict(entry.key.clone(), Some(entry.clone()));
        let shown = format!("{entry:?} {change:?} {put:?} {error:?} {error}");
        assert!(
            !shown.contains("hunter2") && shown.contains("<7 bytes>"),
            "{shown}"
        );
    }

    #[test]
    fn keys_that_no_backend_can_hold_are_refused() {
        for bad in ["", "a\0b", &"x".repeat(KEY_BYTES_MAX + 1)] {
            assert!(check_key(bad).is_err(), "{bad:?}");
        }
        assert!(check_prefix("").is_ok() && check_prefix("a\0").is_err());
        assert!(check_key(&"x".repeat(KEY_BYTES_MAX)).is_ok());
    }
}
