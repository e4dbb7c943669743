//! Change streams: committed changes in revision order, grouped by transaction (etcd: watch events).

use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use rhumb_meta::Revision;

use crate::entries::RedactedValue;
use crate::{Key, Result};

/// A committed change of one key.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyChange {
    Put {
        key: Key,
        value: Bytes,
        /// The revision that created the key; equal to the revision of this change if it created the key.
        created: Revision,
    },
    Delete {
        key: Key,
    },
}

impl KeyChange {
    pub fn key(&self) -> &Key {
        match self {
            KeyChange::Put { key, .. } | KeyChange::Delete { key } => key,
        }
    }

    /// The length of key and value in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            KeyChange::Put { key, value, .. } => key.len() + value.len(),
            KeyChange::Delete { key } => key.len(),
        }
    }
}

impl Debug for KeyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyChange::Put {
                key,
                value,
                created,
            } => f
                .debug_struct("Put")
                .field("key", key)
                .field("value", &RedactedValue(value))
                .field("created", created)
                .finish(),
            KeyChange::Delete { key } => f.debug_struct("Delete").field("key", key).finish(),
        }
    }
}

/// All changes of one transaction below the prefix of the stream, in the transaction's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet {
    pub revision: Revision,
    pub changes: Arc<[KeyChange]>,
}

/// An event of a change stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeStreamEvent {
    Changes(ChangeSet),
    /// Everything up to this revision has been delivered. Sent only after [`ChangeStream::request_progress`].
    Progress(Revision),
}

/// An endless stream of changes. A slow reader does not block writers or other readers: it catches up from the
/// history, or gets [`crate::Error::Compacted`] if that part of the history is gone.
#[async_trait]
pub trait ChangeStream: Debug + Send {
    /// Waits for the next event. Cancel-safe. An error ends the stream.
    async fn next(&mut self) -> Result<ChangeStreamEvent>;

    /// Requests a [`ChangeStreamEvent::Progress`] with a revision no older than this call, so that the reader knows its
    /// position even when nothing changes below its prefix.
    ///
    /// Returns [`crate::Error::Unsupported`] on etcd servers that do not order progress with the changes.
    async fn request_progress(&mut self) -> Result<()>;
}
