//! Keys, entries, and the request and response of a range read.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use rhumb_meta::Revision;

use crate::{Error, KEY_BYTES_MAX, Result};

/// A key of the store, cheap to clone. Keys are ordered by their bytes.
pub type Key = Arc<str>;

/// A key with its value and its create and modification revisions (etcd: `mvccpb.KeyValue`).
#[derive(Clone, PartialEq, Eq)]
pub struct StoreEntry {
    pub key: Key,
    pub value: Bytes,
    /// The revision that created the key; deleting and creating it again sets a new one.
    pub created: Revision,
    /// The revision that last wrote the value.
    pub modified: Revision,
}

impl fmt::Debug for StoreEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreEntry")
            .field("key", &self.key)
            .field("value", &RedactedValue(&self.value))
            .field("created", &self.created)
            .field("modified", &self.modified)
            .finish()
    }
}

/// Formats only the length of a value: values may hold secrets, and debug output ends up in logs.
pub(crate) struct RedactedValue<'a>(pub(crate) &'a Bytes);

impl fmt::Debug for RedactedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// A range read: all entries below `prefix`, optionally restricted.
#[derive(Debug, Clone, Copy)]
pub struct RangeRequest<'a> {
    pub prefix: &'a str,
    /// Only keys that sort after this one; the last key of the previous page.
    pub after: Option<&'a str>,
    /// At most this many entries.
    pub limit: Option<NonZeroUsize>,
    /// Read as of this revision; the latest if absent. Later pages use the revision of the first page.
    pub at: Option<Revision>,
}

impl<'a> RangeRequest<'a> {
    pub fn prefix(prefix: &'a str) -> Self {
        RangeRequest {
            prefix,
            after: None,
            limit: None,
            at: None,
        }
    }

    pub fn after(self, key: &'a str) -> Self {
        RangeRequest {
            after: Some(key),
            ..self
        }
    }

    /// Zero means no limit.
    pub fn limit(self, limit: usize) -> Self {
        RangeRequest {
            limit: NonZeroUsize::new(limit),
            ..self
        }
    }

    pub fn at(self, revision: Revision) -> Self {
        RangeRequest {
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

/// The result of a range read: entries in key order, all as of one revision.
#[derive(Debug, Clone)]
pub struct RangePage {
    pub entries: Vec<StoreEntry>,
    /// The revision of the read. A change stream after it continues without gap or duplicate.
    pub revision: Revision,
    /// Whether the range has entries after the last one here.
    pub more: bool,
}

/// The first byte string after all strings that begin with `prefix`; `None` if there is none.
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
            reason: "empty",
        });
    }
    check_prefix(key)
}

/// Checks a key prefix; the empty prefix selects all keys.
pub(crate) fn check_prefix(key: &str) -> Result<()> {
    let reason = if key.len() > KEY_BYTES_MAX {
        "too long"
    } else if key.contains('\0') {
        "contains a zero byte"
    } else {
        return Ok(());
    };
    // A rejected key may be of any length; truncate it in the error.
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
        assert_eq!(RangeRequest::prefix("/b/").start(), b"/b/");
        assert_eq!(RangeRequest::prefix("/b/").after("/b/x").start(), b"/b/x\0");
        assert_eq!(RangeRequest::prefix("/b/").after("/a").start(), b"/b/");
    }

    #[test]
    fn debug_output_omits_values() {
        let entry = StoreEntry {
            key: "/registry/secrets/a/b".into(),
            value: "hunter2".into(),
            created: Revision::new(1),
            modified: Revision::new(2),
        };
        let change = crate::KeyChange::Put {
            key: entry.key.clone(),
            value: entry.value.clone(),
            created: entry.created,
        };
        let put = crate::Transaction::new().put("/k", "hunter2", crate::ExpectedRevision::Any);
        let error = Error::conflict(entry.key.clone(), Some(entry.clone()));
        let shown = format!("{entry:?} {change:?} {put:?} {error:?} {error}");
        assert!(
            !shown.contains("hunter2") && shown.contains("<7 bytes>"),
            "{shown}"
        );
    }

    #[test]
    fn invalid_keys_are_rejected() {
        for bad in ["", "a\0b", &"x".repeat(KEY_BYTES_MAX + 1)] {
            assert!(check_key(bad).is_err(), "{bad:?}");
        }
        assert!(check_prefix("").is_ok() && check_prefix("a\0").is_err());
        assert!(check_key(&"x".repeat(KEY_BYTES_MAX)).is_ok());
    }
}
