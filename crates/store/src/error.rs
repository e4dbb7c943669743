//! What can go wrong, told apart by what the caller should do.

use rhumb_meta::Revision;

use crate::{Entry, Key};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The expectation that did not hold, and what was there instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub key: Key,
    pub found: Option<Entry>,
}

#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A lost race. Nothing was changed; the caller may decide anew on what was found.
    #[error("the expectation on {} does not hold: {}", .0.key, describe(.0.found.as_ref()))]
    Conflict(Box<Conflict>),

    /// The history no longer reaches back that far. Read again, and follow from there.
    #[error("revision {requested} has been compacted: the history begins at {oldest}")]
    Compacted {
        requested: Revision,
        oldest: Revision,
    },

    /// The store has not come that far.
    #[error("revision {requested} is in the future: the store is at {current}")]
    FutureRevision {
        requested: Revision,
        current: Revision,
    },

    /// The transaction may or may not have happened, and nobody could be asked in time.
    #[error("the outcome of the transaction is unknown: {reason}")]
    OutcomeUnknown { reason: String },

    /// Nothing was changed; the same call may work later.
    #[error("the store cannot be reached: {reason}")]
    Unavailable { reason: String },

    /// Nothing was changed; writes work again once there is room.
    #[error("the disk is full: {reason}; free some space, no restart is needed")]
    StorageFull { reason: String },

    /// The disk failed to keep what was written. The store does nothing more until it is opened again.
    #[error("the disk failed: {reason}; the store stands still until the server is restarted")]
    Failed { reason: String },

    /// What was stored at this key came back changed.
    #[error(
        "the stored value of {key} is damaged: {reason}; restore it from a backup, or delete the key"
    )]
    Damaged { key: String, reason: String },

    #[error("too large: {reason}")]
    TooLarge { reason: String },

    #[error("{key:?} is not a possible key: {reason}")]
    InvalidKey { key: String, reason: &'static str },

    #[error("not a possible transaction: {reason}")]
    InvalidTransaction { reason: String },

    /// The server behind the store does not do it, whoever asks how often. Nothing was changed.
    #[error("the store refuses it: {reason}")]
    Refused { reason: String },

    /// This server cannot do it, however often it is asked.
    #[error("not supported by this store: {reason}")]
    Unsupported { reason: String },

    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    pub fn conflict(key: Key, found: Option<Entry>) -> Self {
        Error::Conflict(Box::new(Conflict { key, found }))
    }

    /// Whether the transaction is known not to have happened, now or ever.
    pub fn changed_nothing(&self) -> bool {
        !matches!(
            self,
            Error::OutcomeUnknown { .. } | Error::Failed { .. } | Error::Closed
        )
    }

    /// Whether the same call, unchanged, may work later.
    pub fn retryable(&self) -> bool {
        matches!(self, Error::Unavailable { .. } | Error::StorageFull { .. })
    }
}

fn describe(found: Option<&Entry>) -> String {
    match found {
        Some(entry) => format!("it is at revision {}", entry.modified),
        None => "there is no entry".to_owned(),
    }
}
