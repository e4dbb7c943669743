//! Where objects live: one small trait, two backends, one set of promises.
//!
//! A store is an ordered map from string keys to bytes with a single [`Revision`] sequence over all keys.
//! Each transaction that changes something takes the next revision. It knows nothing of Kubernetes kinds,
//! JSON or namespaces: keys and values are the caller's.
//!
//! The promises, each a named test of the conformance suite (`crates/store-conformance`):
//! - A transaction is answered only when it is durable. Afterwards every read and stream sees it.
//! - A transaction happens as a whole or not at all, and only if all its expectations hold.
//! - Revisions grow, are never reused, and never go back, also across restarts.
//! - A stream of changes has no gap, no repeat and no reordering; a transaction's changes come together.
//! - What has been compacted is refused as [`Error::Compacted`], never silently left out.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod changes;
mod error;
mod limits;
mod transaction;
mod types;

pub mod embedded;
pub mod etcd;

use std::fmt::Debug;

use async_trait::async_trait;
pub use rhumb_meta::Revision;

pub use changes::{Change, ChangeEvent, ChangeSet, ChangeStream};
pub use error::{Conflict, Error, Result};
pub use limits::{KEY_BYTES_MAX, OPERATIONS_MAX, VALUE_BYTES_MAX};
pub use transaction::{Expect, Operation, Transaction};
pub use types::{Entry, Key, Page, Range};

/// What a backend must offer. All reads are linearizable: they see every transaction that was answered
/// before they began.
#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// The entry at `key`, if there is one.
    async fn get(&self, key: &str) -> Result<Option<Entry>>;

    /// The entries below a prefix in key order, as they were at one revision.
    async fn range(&self, range: Range<'_>) -> Result<Page>;

    /// Carries out the transaction if all its expectations hold, else [`Error::Conflict`].
    ///
    /// Answers with the revision of the change, or the current one if nothing had to be changed.
    async fn commit(&self, transaction: Transaction) -> Result<Revision>;

    /// All changes below `prefix` with a revision greater than `after`, from the past into the future.
    ///
    /// A revision that the store has not reached yet is allowed: the stream begins there.
    async fn changes(&self, prefix: &str, after: Revision) -> Result<Box<dyn ChangeStream>>;

    /// The same, for the one who keeps a copy of the store: if the store can, it answers writers when this stream's
    /// reader has dealt with what they wrote. It has dealt with an event when it asks for the next one.
    async fn lead(&self, prefix: &str, after: Revision) -> Result<Box<dyn ChangeStream>> {
        self.changes(prefix, after).await
    }

    /// The revision of the latest transaction.
    async fn revision(&self) -> Result<Revision>;

    /// Whether other servers may write to it at the same time.
    fn is_shared(&self) -> bool {
        false
    }

    /// Gives up the history before `revision`: reads at and streams after an older one are refused.
    ///
    /// Current entries stay. Compacting to where the history already begins, or before, does nothing.
    async fn compact(&self, revision: Revision) -> Result<()>;
}
