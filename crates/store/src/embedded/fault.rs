//! What redb's errors mean for the callers of the store.

use std::io;

use crate::Error;

/// Nothing is known to be wrong with the request: the disk or the file is to blame.
pub(super) fn from_redb(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Io(error) => from_io(&error),
        redb::Error::PreviousIo => Error::Failed {
            reason: AFTER_FAILURE.to_owned(),
        },
        redb::Error::Corrupted(reason) => damaged("the database file", &reason),
        other => Error::Failed {
            reason: other.to_string(),
        },
    }
}

/// What is known when reading the file makes redb give up altogether.
pub(super) const PAGES_DO_NOT_FIT: &str = "its pages do not fit together";

/// What redb says to everyone once any read or write of the file has failed.
const AFTER_FAILURE: &str = "an earlier read or write of the database file failed";

/// Whether this is the echo of a failure that another call has met.
pub(super) fn is_echo(error: &Error) -> bool {
    matches!(error, Error::Failed { reason } if reason == AFTER_FAILURE)
}

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
