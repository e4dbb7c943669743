//! Errors of the store, distinguished by how the caller should react.

use rhumb_meta::Revision;

use crate::{Key, StoreEntry};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The key whose expected revision did not match, and its current entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionConflict {
    pub key: Key,
    pub found: Option<StoreEntry>,
}

#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key is not at its expected revision. Nothing was changed; the caller may retry with the entry found.
    #[error("conflict on key {}: {}", .0.key, describe(.0.found.as_ref()))]
    Conflict(Box<RevisionConflict>),

    /// The history no longer reaches back to the revision. List again, and watch from the revision of that list.
    #[error("revision {requested} has been compacted: the oldest available revision is {oldest}")]
    Compacted {
        requested: Revision,
        oldest: Revision,
    },

    /// The store has not reached the revision yet.
    #[error("revision {requested} is in the future: the store is at {current}")]
    FutureRevision {
        requested: Revision,
        current: Revision,
    },

    /// The transaction may or may not have been applied, and the outcome could not be determined in time.
    #[error("the outcome of the transaction is unknown: {reason}")]
    OutcomeUnknown { reason: String },

    /// Nothing was changed; the same call may succeed later.
    #[error("the store is unavailable: {reason}")]
    Unavailable { reason: String },

    /// Nothing was changed; writes succeed again once space is available.
    #[error("the disk is full: {reason}; free some space, no restart is needed")]
    StorageFull { reason: String },

    /// Writing or syncing failed, so it is unknown what is on disk. Writes are rejected until the store is reopened.
    #[error("storage failed: {reason}; writes are rejected until the server is restarted")]
    StorageFailed { reason: String },

    /// The stored entry fails its checksum or cannot be decoded.
    #[error(
        "the stored value of {key} is damaged: {reason}; restore it from a backup, or delete the key"
    )]
    Damaged { key: String, reason: String },

    #[error("too large: {reason}")]
    TooLarge { reason: String },

    #[error("invalid key {key:?}: {reason}")]
    InvalidKey { key: String, reason: &'static str },

    #[error("invalid transaction: {reason}")]
    InvalidTransaction { reason: String },

    /// The etcd server rejected the request, and a retry will not help. Nothing was changed.
    #[error("the store rejected the request: {reason}")]
    Refused { reason: String },

    /// The backend does not support the operation.
    #[error("not supported by this store: {reason}")]
    Unsupported { reason: String },

    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    pub fn conflict(key: Key, found: Option<StoreEntry>) -> Self {
        Error::Conflict(Box::new(RevisionConflict { key, found }))
    }

    /// Whether the transaction is known not to be applied, now or later.
    pub fn changed_nothing(&self) -> bool {
        !matches!(
            self,
            Error::OutcomeUnknown { .. } | Error::StorageFailed { .. } | Error::Closed
        )
    }

    /// Whether the same call, unchanged, may succeed later.
    pub fn retryable(&self) -> bool {
        matches!(self, Error::Unavailable { .. } | Error::StorageFull { .. })
    }
}

fn describe(found: Option<&StoreEntry>) -> String {
    match found {
        Some(entry) => format!("the key is at revision {}", entry.modified),
        None => "the key does not exist".to_owned(),
    }
}
