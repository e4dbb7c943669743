//! Guards: conditions that must still hold when a write is committed. They are evaluated right before the commit, again
//! after each commit that failed because of them, and checked by the transaction itself.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use rhumb_api::JsonObject;
use rhumb_meta::{ObjectKey, Revision, Status};
use rhumb_quota::DecodableObject;
use rhumb_store::{Error, ExpectedRevision, Transaction};
use tokio::time::Instant;

use crate::Registry;
use crate::RequestContext;
use crate::objects::StoredDecoder;

/// A condition that an admission plugin makes for one write. It owns what its evaluation needs, because the object is
/// dropped before.
#[async_trait]
pub trait CommitGuard: Debug + Send + Sync {
    /// Evaluates the condition. May wait for writes in progress, up to the deadline.
    async fn acquire(
        &self,
        context: &RequestContext<'_>,
        object: &EncodedObject<'_>,
        deadline: Instant,
    ) -> Result<AcquiredGuard, Status>;

    /// As `acquire`, for a dry run: reserves nothing.
    async fn check(
        &self,
        context: &RequestContext<'_>,
        object: &EncodedObject<'_>,
    ) -> Result<(), Status>;
}

/// The object that is about to be committed.
#[derive(Debug, Clone, Copy)]
pub struct EncodedObject<'a> {
    pub key: &'a ObjectKey,
    pub bytes: &'a Bytes,
    pub decoder: &'a StoredDecoder,
}

impl EncodedObject<'_> {
    /// The object without its resourceVersion.
    pub fn decode(&self) -> Result<JsonObject, Status> {
        let object = self.decoder.decode(self.bytes);
        object.map_err(Status::internal_error)
    }
}

impl DecodableObject for EncodedObject<'_> {
    fn decoded(&self) -> Cow<'_, JsonObject> {
        Cow::Owned(self.decode().unwrap_or_default())
    }
}

/// A guard that holds now.
#[derive(Debug, Default)]
pub struct AcquiredGuard {
    /// Fails the transaction if the guard no longer holds.
    pub precondition: Option<Precondition>,
    pub reservation: Option<Box<dyn Reservation>>,
}

/// A key and its expected registry, checked in the transaction that commits the write.
#[derive(Debug)]
pub struct Precondition {
    pub key: String,
    pub expect: ExpectedRevision,
}

/// Something that is reserved for a write. If dropped before it is settled, the outcome of the write is unknown.
pub trait Reservation: Debug + Send {
    fn committed(self: Box<Self>, revision: Revision);

    /// The write was not committed, and never will be.
    fn failed(self: Box<Self>);
}

/// The guards of one write that hold now.
#[derive(Debug, Default)]
pub(super) struct CommitGuards {
    preconditions: Vec<Precondition>,
    reservations: Vec<Box<dyn Reservation>>,
}

/// The result of a guarded commit.
#[derive(Debug)]
pub(super) struct GuardedCommitResult {
    pub(super) outcome: Result<Revision, Error>,
    /// A precondition failed: the write may be retried.
    pub(super) precondition_failed: bool,
}

impl CommitGuards {
    /// Evaluates all guards.
    pub(super) async fn acquire(
        guards: &[Box<dyn CommitGuard>],
        context: &RequestContext<'_>,
        object: &EncodedObject<'_>,
        deadline: Instant,
    ) -> Result<CommitGuards, Status> {
        let mut acquired = CommitGuards::default();
        for guard in guards {
            let guard = guard.acquire(context, object, deadline).await?;
            acquired.preconditions.extend(guard.precondition);
            acquired.reservations.extend(guard.reservation);
        }
        Ok(acquired)
    }

    pub(super) fn extend(&mut self, other: CommitGuards) {
        self.reservations.extend(other.reservations);
        for precondition in other.preconditions {
            let is_known = |known: &Precondition| known.key == precondition.key;
            if !self.preconditions.iter().any(is_known) {
                self.preconditions.push(precondition);
            }
        }
    }

    /// Commits the transaction if all preconditions hold. With reservations, the commit runs in a task of its own, so
    /// that they are settled even if the client disconnects.
    pub(super) async fn commit(
        self,
        registry: &Arc<Registry>,
        transaction: Transaction,
    ) -> GuardedCommitResult {
        if self.reservations.is_empty() {
            return self.commit_inner(registry, transaction).await;
        }
        let registry = Arc::clone(registry);
        let task = tokio::spawn(async move { self.commit_inner(&registry, transaction).await });
        // The task is aborted only when the server shuts down.
        task.await.unwrap_or(GuardedCommitResult {
            outcome: Err(Error::Closed),
            precondition_failed: false,
        })
    }

    async fn commit_inner(
        self,
        registry: &Registry,
        transaction: Transaction,
    ) -> GuardedCommitResult {
        let outcome = registry.commit(self.add_preconditions(transaction)).await;
        GuardedCommitResult {
            precondition_failed: self.settle_reservations(&outcome),
            outcome,
        }
    }

    /// Adds the preconditions to the transaction.
    fn add_preconditions(&self, transaction: Transaction) -> Transaction {
        let preconditions = self.preconditions.iter();
        preconditions.fold(transaction, |guarded, precondition| {
            guarded.require(&*precondition.key, precondition.expect)
        })
    }

    /// Settles the reservations with the outcome of the commit. Returns whether a precondition failed, so that the
    /// write may be retried.
    fn settle_reservations(self, outcome: &Result<Revision, Error>) -> bool {
        for reservation in self.reservations {
            match outcome {
                Ok(revision) => reservation.committed(*revision),
                Err(error) if error.changed_nothing() => reservation.failed(),
                Err(_) => drop(reservation),
            }
        }
        let Err(Error::Conflict(conflict)) = outcome else {
            return false;
        };
        let mut preconditions = self.preconditions.iter();
        preconditions.any(|precondition| precondition.key == *conflict.key)
    }
}
