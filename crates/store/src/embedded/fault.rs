//! What the disk's errors mean for the callers of the store.

use std::io;

use super::log::{BadRecord, Place};
use crate::{Error, Result};

/// Nothing is known to be wrong with the request: the disk is to blame.
pub(super) fn from_io(error: &io::Error) -> Error {
    let reason = error.to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::StorageFull { reason },
        _ => Error::Failed { reason },
    }
}

pub(super) fn damaged(key: &str, reason: &str) -> Error {
    Error::Damaged {
        key: key.to_owned(),
        reason: reason.to_owned(),
    }
}

/// A record that does not even tell whose it is.
pub(super) fn nameless(place: Place, bad: BadRecord) -> Error {
    damaged(&format!("revision {}", place.revision), bad.reason())
}

/// What is wrong, without the advice, for messages that have advice of their own.
pub(super) fn short(error: &Error) -> String {
    match error {
        Error::Damaged { key, reason } => format!("{key}: {reason}"),
        Error::Failed { reason }
        | Error::StorageFull { reason }
        | Error::Unavailable { reason } => reason.clone(),
        other => other.to_string(),
    }
}

/// Runs what should never panic, and makes an error of it if it does: one thread writes for everybody, and nobody
/// may wait for it in vain.
pub(super) fn guarded<T>(run: impl FnOnce() -> T) -> Result<T> {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    outcome.map_err(|_| Error::Failed {
        reason: "the store met a state that should not exist".to_owned(),
    })
}
