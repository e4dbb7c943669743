//! The stream of changes: what happened, in order.

use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use rhumb_meta::Revision;

use crate::types::Hidden;
use crate::{Key, Result};

/// What happened to one key.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    Put {
        key: Key,
        value: Bytes,
        /// Equal to the change's own revision when the key was created by it.
        created: Revision,
    },
    Delete {
        key: Key,
    },
}

impl Change {
    pub fn key(&self) -> &Key {
        match self {
            Change::Put { key, .. } | Change::Delete { key } => key,
        }
    }

    /// How many bytes its key and value have.
    pub(crate) fn size(&self) -> usize {
        match self {
            Change::Put { key, value, .. } => key.len() + value.len(),
            Change::Delete { key } => key.len(),
        }
    }
}

impl Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Put {
                key,
                value,
                created,
            } => f
                .debug_struct("Put")
                .field("key", key)
                .field("value", &Hidden(value))
                .field("created", created)
                .finish(),
            Change::Delete { key } => f.debug_struct("Delete").field("key", key).finish(),
        }
    }
}

/// All changes of one transaction that fall into the stream's prefix, in the transaction's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet {
    pub revision: Revision,
    pub changes: Arc<[Change]>,
}

/// What a stream says next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeEvent {
    Changes(ChangeSet),
    /// Everything up to this revision has been delivered. Comes only when it was asked for.
    Progress(Revision),
}

/// An endless stream of changes. A slow reader holds nobody: it catches up from the history, or gets
/// [`crate::Error::Compacted`] when that part of it is gone.
#[async_trait]
pub trait ChangeStream: Debug + Send {
    /// Waits for the next event. Dropping the future loses nothing. After an error the stream is over.
    async fn next(&mut self) -> Result<ChangeEvent>;

    /// Asks for a [`ChangeEvent::Progress`] with a revision no older than this call, so that a reader
    /// learns how far it is even when nothing changes below its prefix.
    ///
    /// [`crate::Error::Unsupported`] on etcd servers that do not keep progress in order with the changes.
    async fn request_progress(&mut self) -> Result<()>;
}
