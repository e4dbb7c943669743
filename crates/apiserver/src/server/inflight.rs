//! How many requests are handled at a time.

use std::sync::Arc;

use rhumb_meta::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::request::RequestInfo;

/// Upstream's defaults.
pub const READS_MAX: usize = 400;
pub const WRITES_MAX: usize = 200;

/// Room for requests. Watches take none: they wait, and cost nothing while they do.
#[derive(Debug)]
pub struct InFlight {
    reads: Room,
    writes: Room,
}

/// Room for requests of one kind.
#[derive(Debug)]
pub struct Room {
    permits: Arc<Semaphore>,
    permits_max: usize,
    /// Zero means no limit.
    pub max: usize,
}

impl Room {
    fn new(max: usize) -> Room {
        let permits_max = match max {
            0 => Semaphore::MAX_PERMITS,
            max => max.min(Semaphore::MAX_PERMITS),
        };
        Room {
            permits: Arc::new(Semaphore::new(permits_max)),
            permits_max,
            max,
        }
    }

    /// How many requests are in it.
    pub fn taken(&self) -> usize {
        self.permits_max - self.permits.available_permits()
    }
}

impl Default for InFlight {
    fn default() -> Self {
        InFlight::new(READS_MAX, WRITES_MAX)
    }
}

impl InFlight {
    /// Zero means no limit.
    pub fn new(reads_max: usize, writes_max: usize) -> InFlight {
        InFlight {
            reads: Room::new(reads_max),
            writes: Room::new(writes_max),
        }
    }

    /// Both rooms, with upstream's names for them.
    pub fn rooms(&self) -> [(&'static str, &Room); 2] {
        [("readOnly", &self.reads), ("mutating", &self.writes)]
    }

    pub fn enter(&self, info: &RequestInfo) -> Result<Option<OwnedSemaphorePermit>, Status> {
        if info.is_long_running() {
            return Ok(None);
        }
        let room = match info.verb {
            "get" | "list" | "head" | "options" => &self.reads,
            _ => &self.writes,
        };
        room.permits
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
