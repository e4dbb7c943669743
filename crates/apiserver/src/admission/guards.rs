//! Commits an admitted write under its guards: transaction preconditions and quota reservations.

use std::sync::Arc;

use rhumb_meta::Revision;
use rhumb_store::{Error, Transaction};

use super::Precondition;
use crate::ServerState;
use crate::quota::QuotaReservation;

/// The guards of one write. If dropped before it is settled, the outcome of the write counts as unknown.
#[derive(Debug, Default)]
pub struct CommitGuards {
    pub(super) preconditions: Vec<Precondition>,
    pub(super) reservations: Vec<QuotaReservation>,
}

/// The result of a guarded commit.
#[derive(Debug)]
pub struct GuardedCommitResult {
    pub outcome: Result<Revision, Error>,
    /// A precondition failed: the write may be retried.
    pub precondition_failed: bool,
}

impl CommitGuards {
    /// Commits the transaction if all preconditions hold. With reservations, the commit runs in a task of its own, so
    /// that they are settled even if the client disconnects.
    pub async fn commit(
        self,
        state: &Arc<ServerState>,
        transaction: Transaction,
    ) -> GuardedCommitResult {
        if self.reservations.is_empty() {
            return self.commit_inner(state, transaction).await;
        }
        let state = Arc::clone(state);
        let task = tokio::spawn(async move { self.commit_inner(&state, transaction).await });
        // The task is aborted only when the server shuts down.
        task.await.unwrap_or(GuardedCommitResult {
            outcome: Err(Error::Closed),
            precondition_failed: false,
        })
    }

    async fn commit_inner(
        self,
        state: &ServerState,
        transaction: Transaction,
    ) -> GuardedCommitResult {
        let outcome = state.commit(self.add_preconditions(transaction)).await;
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
