//! What failures of the store and the cache are for a client.

use rhumb_cache::HistoryError;
use rhumb_meta::{GroupResource, Status};
use rhumb_store::Error;

/// Conflicts are the caller's to answer; they know what was expected.
pub(crate) fn store_status(error: &Error, resource: &GroupResource, action: &str) -> Status {
    match error {
        Error::Unavailable { .. } | Error::OutcomeUnknown { .. } => {
            Status::server_timeout(resource, action, 1)
        }
        Error::TooLarge { .. } => Status::request_entity_too_large(error),
        Error::Closed => shutting_down(),
        _ => Status::internal_error(error),
    }
}

/// What is too old is the caller's to answer; they know what was asked for.
pub(crate) fn history_status(error: HistoryError) -> Status {
    match error {
        HistoryError::Closed => shutting_down(),
        _ => Status::internal_error(error),
    }
}

/// Upstream's words for whoever comes too late: the next server takes them in a moment.
pub(crate) fn shutting_down() -> Status {
    let mut status = Status::service_unavailable("apiserver is shutting down");
    status.details.get_or_insert_default().retry_after_seconds = 1;
    status
}
