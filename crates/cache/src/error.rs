//! Errors of the cache, distinguished by how the caller should react.

use std::sync::Arc;

use rhumb_meta::{ObjectKey, Revision};

/// Errors of the cache manager.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Store(#[from] rhumb_store::Error),

    /// The deadline passed before the caches had applied the revision. Retryable.
    #[error("timed out waiting for revision {requested}: the cache is at revision {applied}")]
    RevisionTimeout {
        requested: Revision,
        applied: Revision,
    },

    /// The deadline passed before the store returned its current revision. Retryable.
    #[error("timed out waiting for the current revision of the store")]
    StoreTimeout,

    #[error("prefix {prefix} is not below the cache root {root}")]
    OutsideRoot { prefix: String, root: String },

    #[error("prefix {prefix} is already cached")]
    AlreadyCached { prefix: String },

    #[error("prefix {prefix} was removed while its cache was loading")]
    RemovedWhileLoading { prefix: String },

    /// The manager has been closed.
    #[error("the cache is closed")]
    Closed,
}

/// Why the contents or changes of a revision are not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// The history does not reach back that far: the client has to list again.
    #[error("revision {requested} is too old: the oldest available revision is {oldest}")]
    Expired {
        requested: Revision,
        oldest: Revision,
    },
    /// The cache has not reached the revision yet: wait for it first.
    #[error("revision {requested} is in the future: the cache is at {current}")]
    FutureRevision {
        requested: Revision,
        current: Revision,
    },
    /// The manager has been closed, or the resource was removed from it.
    #[error("the cache is closed")]
    Closed,
}

/// A stored object that failed to decode and is therefore not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} at revision {revision} is corrupt: {reason}")]
pub struct CorruptObject {
    pub key: ObjectKey,
    pub revision: Revision,
    pub reason: Arc<str>,
}
