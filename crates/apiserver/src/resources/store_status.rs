//! What failures of the store and the cache are for a client.

use rhumb_meta::{GroupResource, Status};
use rhumb_store::Error;

/// Conflicts are the caller's to answer; they know what was expected.
pub(crate) fn store_status(error: &Error, resource: &GroupResource, action: &str) -> Status {
    match error {
        Error::Unavailable { .. } | Error::OutcomeUnknown { .. } => {
            Status::server_timeout(resource, action, 1)
        }
        Error::TooLarge { .. } => Status::request_entity_too_large(error),
        Error::Closed => Status::service_unavailable("the server is shutting down"),
        _ => Status::internal_error(error),
    }
}
