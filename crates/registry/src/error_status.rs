//! Maps errors of the store and the cache to API `Status` errors.

use rhumb_cache::HistoryError;
use rhumb_meta::{GroupResource, Status};
use rhumb_store::Error;

/// The `Status` for a store error. Callers handle conflicts themselves, because only they know what was expected.
pub fn store_error_status(error: &Error, resource: &GroupResource, action: &str) -> Status {
    match error {
        Error::Unavailable { .. } | Error::OutcomeUnknown { .. } => {
            Status::server_timeout(resource, action, 1)
        }
        Error::TooLarge { .. } => Status::request_entity_too_large(error),
        Error::Closed => shutting_down_status(),
        _ => Status::internal_error(error),
    }
}

/// The `Status` for a history error. Callers handle `Expired` themselves, because only they know what was requested.
pub fn history_error_status(error: HistoryError) -> Status {
    match error {
        HistoryError::Closed => shutting_down_status(),
        _ => Status::internal_error(error),
    }
}

/// The error for requests that arrive during shutdown, with upstream's message. Clients retry after a second.
pub fn shutting_down_status() -> Status {
    let mut status = Status::service_unavailable("apiserver is shutting down");
    status.details.get_or_insert_default().retry_after_seconds = 1;
    status
}
