//! How many requests are handled at a time.

use std::sync::Arc;

use rhumb_meta::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::request::RequestInfo;

/// Upstream's defaults.
const READS_MAX: usize = 400;
const WRITES_MAX: usize = 200;

/// Room for requests. Watches take none: they wait, and cost nothing while they do.
#[derive(Debug)]
pub struct InFlight {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

impl Default for InFlight {
    fn default() -> Self {
        InFlight::new(READS_MAX, WRITES_MAX)
    }
}

impl InFlight {
    /// Zero means no limit.
    pub fn new(reads_max: usize, writes_max: usize) -> InFlight {
        let permits = |max: usize| {
            if max == 0 {
                Semaphore::MAX_PERMITS
            } else {
                max
            }
        };
        InFlight {
            reads: Arc::new(Semaphore::new(permits(reads_max))),
            writes: Arc::new(Semaphore::new(permits(writes_max))),
        }
    }

    pub fn enter(&self, info: &RequestInfo) -> Result<Option<OwnedSemaphorePermit>, Status> {
        if info.is_long_running() {
            return Ok(None);
        }
        let semaphore = match info.verb {
            "get" | "list" | "head" | "options" => &self.reads,
            _ => &self.writes,
        };
        semaphore
            .clone()
            .try_acquire_owned()
            .map(Some)
            .map_err(|_| Status::too_many_requests("Too many requests, please try again later.", 1))
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::request::Query;

    #[test]
    fn the_limit_holds_per_kind_of_request_and_watches_are_free() {
        let inflight = InFlight::new(1, 1);
        let info = |method: Method, query: &str| {
            RequestInfo::new(&method, "/api/v1/pods", &Query::parse(query).unwrap())
        };
        let held = inflight.enter(&info(Method::GET, "")).unwrap();
        assert_eq!(
            inflight.enter(&info(Method::GET, "")).unwrap_err().code,
            429
        );
        assert!(inflight.enter(&info(Method::GET, "watch=true")).is_ok());
        assert!(inflight.enter(&info(Method::DELETE, "")).is_ok());
        drop(held);
        assert!(inflight.enter(&info(Method::GET, "")).is_ok());
    }
}
