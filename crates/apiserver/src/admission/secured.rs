//! What a write was let in for, until it is committed.

use rhumb_meta::Revision;
use rhumb_store::{Error, Transaction};

use super::Premise;
use crate::quota::Reservation;

/// Dropped without a word it stands for a write that nobody knows the end of.
#[derive(Debug, Default)]
pub struct Secured {
    pub(super) premises: Vec<Premise>,
    pub(super) reservations: Vec<Reservation>,
}

impl Secured {
    /// The transaction, to be carried out only if everything is still as it was.
    pub fn guard(&self, transaction: Transaction) -> Transaction {
        let premises = self.premises.iter();
        premises.fold(transaction, |guarded, premise| {
            guarded.require(&*premise.key, premise.expect)
        })
    }

    /// Tells those who hold something how the write ended. Returns whether it failed because something was no longer
    /// as it was: then it may be tried again.
    pub fn settle(self, outcome: &Result<Revision, Error>) -> bool {
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
