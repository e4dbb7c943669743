//! Conversion of disk errors, damaged records and panics into store errors.

use std::io;

use super::log::{RecordDamage, RecordId};
use crate::{Error, Result};

/// Converts an I/O error of a write: out of space is recoverable, anything else stops all writes.
pub(super) fn from_io(error: &io::Error) -> Error {
    let reason = error.to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::StorageFull { reason },
        _ => Error::StorageFailed { reason },
    }
}

pub(super) fn damaged(key: &str, reason: &str) -> Error {
    Error::Damaged {
        key: key.to_owned(),
        reason: reason.to_owned(),
    }
}

/// The error for a record whose key is unreadable; names its revision instead.
pub(super) fn damaged_at(record_id: RecordId, bad: RecordDamage) -> Error {
    damaged(&format!("revision {}", record_id.revision), bad.reason())
}

/// The reason of an error without its advice, for messages that add their own.
pub(super) fn reason_only(error: &Error) -> String {
    match error {
        Error::Damaged { key, reason } => format!("{key}: {reason}"),
        Error::StorageFailed { reason }
        | Error::StorageFull { reason }
        | Error::Unavailable { reason } => reason.clone(),
        other => other.to_string(),
    }
}

/// Runs `run` and converts a panic into an error. A panic would end the only writer thread, and all writers would wait
/// forever.
pub(super) fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T> {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    outcome.map_err(|_| Error::StorageFailed {
        reason: "internal error: the storage thread panicked".to_owned(),
    })
}
