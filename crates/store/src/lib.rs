//! Storage for API objects: the [`Store`] trait with two backends, [`embedded`] and [`etcd`].
//!
//! A store is an ordered map from string keys to bytes with a single [`Revision`] sequence over all keys (etcd's
//! MVCC model). Each transaction that changes something takes the next revision. Kubernetes kinds, JSON and
//! namespaces are unknown here; the layer above chooses keys and values. Upstream: `k8s.io/apiserver/pkg/storage`.
//!
//! Guarantees, each a named test of the conformance suite (`crates/store-conformance`):
//! - A commit returns only when the transaction is durable. Every later read and stream sees it.
//! - A transaction is atomic and applies only if all its expected revisions match.
//! - Revisions increase, are never reused and never go back, also across restarts.
//! - A change stream has no gap, no duplicate and no reordering; the changes of a transaction come together.
//! - Access to a compacted revision fails with [`Error::Compacted`]; data is never silently left out.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod change_stream;
mod entries;
mod error;
mod limits;
mod transaction;

pub mod embedded;
pub mod etcd;

use std::fmt::Debug;

use async_trait::async_trait;
pub use rhumb_meta::Revision;

pub use change_stream::{ChangeSet, ChangeStream, ChangeStreamEvent, KeyChange};
pub use entries::{Key, RangePage, RangeRequest, StoreEntry};
pub use error::{Error, Result, RevisionConflict};
pub use limits::{KEY_BYTES_MAX, OPERATIONS_MAX, VALUE_BYTES_MAX};
pub use transaction::{ExpectedRevision, Transaction, TransactionOp};

/// The interface of a backend. All reads are linearizable: they see every transaction whose commit returned
/// before the read began.
#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// Returns the entry at `key`, if there is one.
    async fn get(&self, key: &str) -> Result<Option<StoreEntry>>;

    /// Returns the entries below a prefix in key order, as of one revision.
    async fn range(&self, range: RangeRequest<'_>) -> Result<RangePage>;

    /// Applies the transaction if all its expected revisions match, otherwise returns [`Error::Conflict`].
    ///
    /// Returns the revision of the transaction, or the current revision if it changed nothing.
    async fn commit(&self, transaction: Transaction) -> Result<Revision>;

    /// Streams all changes below `prefix` with a revision greater than `after`: first from the history, then live
    /// (an etcd watch).
    ///
    /// `after` may be a revision that the store has not reached yet: the stream begins there.
    async fn changes(&self, prefix: &str, after: Revision) -> Result<Box<dyn ChangeStream>>;

    /// The same, but the reader gates commits, if the backend supports that: a commit returns only when the reader of
    /// this stream has processed its changes. An event counts as processed when the reader asks for the next one.
    /// Meant for the cache in front of the store, so that every writer can read its own write from the cache.
    async fn changes_gating_commits(
        &self,
        prefix: &str,
        after: Revision,
    ) -> Result<Box<dyn ChangeStream>> {
        self.changes(prefix, after).await
    }

    /// Returns the revision of the latest transaction.
    async fn revision(&self) -> Result<Revision>;

    /// Fails if the store cannot commit transactions now, for health checks: storage failed or is full, or a cluster has
    /// no quorum. Writes nothing.
    async fn check_writable(&self) -> Result<()> {
        self.revision().await.map(|_| ())
    }

    /// Whether other servers may write to the store at the same time.
    fn is_shared(&self) -> bool {
        false
    }

    /// Drops the history before `revision`: reads at an older revision and streams after an older revision then fail
    /// with [`Error::Compacted`].
    ///
    /// Current entries stay. Compacting to the current compaction revision, or before it, does nothing.
    async fn compact(&self, revision: Revision) -> Result<()>;
}
