//! What can go wrong, told apart by what the caller should do.

use std::sync::Arc;

use rhumb_meta::{ObjectKey, Revision};

/// Why the hub cannot do something.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Store(#[from] rhumb_store::Error),

    /// The deadline came before the cache had applied the revision. The same call may work later.
    #[error("the cache is at revision {applied}, and did not reach {requested} in time")]
    Behind {
        requested: Revision,
        applied: Revision,
    },

    /// The deadline came before the store had told its revision. The same call may work later.
    #[error("the store did not tell its revision in time")]
    StoreSilent,

    #[error("{prefix} is not below {root}")]
    Foreign { prefix: String, root: String },

    #[error("{prefix} is already cached")]
    Duplicate { prefix: String },

    /// The hub has been closed.
    #[error("the cache is closed")]
    Closed,
}

/// Why the past, or the future, cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// The history no longer reaches back that far: list again.
    #[error("revision {requested} is too old: the history begins at {oldest}")]
    Expired {
        requested: Revision,
        oldest: Revision,
    },
    /// The cache has not come that far: wait for the revision first.
    #[error("revision {requested} is in the future: the cache is at {current}")]
    Future {
        requested: Revision,
        current: Revision,
    },
    /// The hub has been closed, or the resource was removed from it.
    #[error("the cache is closed")]
    Closed,
}

/// An object is stored, but cannot be served: its projector refused it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} as of revision {revision} cannot be read: {reason}")]
pub struct Unreadable {
    pub key: ObjectKey,
    pub revision: Revision,
    pub reason: Arc<str>,
}
