//! What a write was let in for, until it is committed.

use std::sync::Arc;

use rhumb_meta::Revision;
use rhumb_store::{Error, Transaction};

use super::Premise;
use crate::Api;
use crate::quota::Reservation;

/// Dropped without a word it stands for a write that nobody knows the end of.
#[derive(Debug, Default)]
pub struct Secured {
    pub(super) premises: Vec<Premise>,
    pub(super) reservations: Vec<Reservation>,
}

/// How a commit ended.
#[derive(Debug)]
pub struct Committed {
    pub outcome: Result<Revision, Error>,
    /// It failed because something was no longer as it was, and may be tried again.
    pub was_overtaken: bool,
}

impl Secured {
    /// Commits the transaction if everything is still as it was. Whoever asked for it may go away in the middle; those
    /// who hold something are told how it ended all the same.
    pub async fn commit(self, api: &Arc<Api>, transaction: Transaction) -> Committed {
        if self.reservations.is_empty() {
            return self.commit_here(api, transaction).await;
        }
        let api = Arc::clone(api);
        let ended = tokio::spawn(async move { self.commit_here(&api, transaction).await });
        // It is not waited for to the end only when the server ends.
        ended.await.unwrap_or(Committed {
            outcome: Err(Error::Closed),
            was_overtaken: false,
        })
    }

    async fn commit_here(self, api: &Api, transaction: Transaction) -> Committed {
        let outcome = api.commit(self.guard(transaction)).await;
        Committed {
            was_overtaken: self.settle(&outcome),
            outcome,
        }
    }

    /// The transaction, to be carried out only if everything is still as it was.
    fn guard(&self, transaction: Transaction) -> Transaction {
        let premises = self.premises.iter();
        premises.fold(transaction, |guarded, premise| {
            guarded.require(&*premise.key, premise.expect)
        })
    }

    /// Tells those who hold something how the write ended. Returns whether it failed because something was no longer
    /// as it was: then it may be tried again.
    fn settle(self, outcome: &Result<Revision, Error>) -> bool {
        for reservation in self.reservations {
            match outcome {
                Ok(revision) => reservation.written(*revision),
                Err(error) if error.changed_nothing() => reservation.failed(),
                Err(_) => drop(reservation),
            }
        }
        let Err(Error::Conflict(conflict)) = outcome else {
            return false;
        };
        let mut premises = self.premises.iter();
        premises.any(|premise| premise.key == *conflict.key)
    }
}
