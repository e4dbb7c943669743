//! What redb's errors mean for the callers of the store.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::{Error, Result};

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

/// Runs what reads or writes the file. redb panics on some pages that are damaged: that becomes an error.
pub(super) fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    let damaged = || Err(damaged("the database file", PAGES_DO_NOT_FIT));
    quietly(run).unwrap_or_else(damaged)
}

/// Runs what may panic without printing anything if it does; `None` if it did.
pub(super) fn quietly<T>(run: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                loud(panic);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(outer);
    result.ok()
}

thread_local! {
    /// Whether a panic of this thread is expected and handled.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}
