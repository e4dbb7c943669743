//! How many requests are handled at a time.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use rhumb_meta::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::request::RequestInfo;

/// Upstream's defaults.
pub const READS_MAX: usize = 400;
pub const WRITES_MAX: usize = 200;

/// Far more than a large cluster has, and few enough to fit into memory.
const WATCHES_MAX: usize = 100_000;

const TOO_MANY_REQUESTS: &str = "Too many requests, please try again later.";

const TOO_MANY_WAIT: &str = "Too many requests wait for webhooks, please try again later.";

/// How many requests may have lent their places at a time.
const LENT_MAX: usize = 1000;

/// A place in a room, to be kept until the request is over.
#[derive(Debug)]
pub struct Place {
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    room: Arc<Semaphore>,
    lenders: Arc<Semaphore>,
}

impl Place {
    /// Lets others have the place while the request waits for somebody outside, so that one who does not answer holds
    /// only those requests that need him. When too many wait already, this one has to come back later: no place is
    /// ever held for somebody outside.
    pub async fn lend<T>(&self, waits: impl Future<Output = T>) -> Result<T, Status> {
        let Ok(_lender) = self.lenders.try_acquire() else {
            return Err(Status::too_many_requests(TOO_MANY_WAIT, 1));
        };
        let held = self.take();
        let was_held = held.is_some();
        drop(held);
        let result = waits.await;
        if was_held {
            let permit = self.room.clone().acquire_owned().await.ok();
            *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = permit;
        }
        Ok(result)
    }

    fn take(&self) -> Option<OwnedSemaphorePermit> {
        let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
        permit.take()
    }
}

/// Room for requests. Watches have their own: they mostly wait, and cost little while they do.
#[derive(Debug)]
pub struct InFlight {
    reads: Room,
    writes: Room,
    watches: Room,
    lenders: Arc<Semaphore>,
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
            watches: Room::new(WATCHES_MAX),
            lenders: Arc::new(Semaphore::new(LENT_MAX)),
        }
    }

    /// With room for so many watches.
    pub fn with_watches(self, max: usize) -> InFlight {
        InFlight {
            watches: Room::new(max),
            ..self
        }
    }

    /// Both rooms, with upstream's names for them.
    pub fn rooms(&self) -> [(&'static str, &Room); 2] {
        [("readOnly", &self.reads), ("mutating", &self.writes)]
    }

    /// A place for a request. Connections to nodes need none: those are limited there.
    pub fn enter(&self, info: &RequestInfo) -> Result<Option<Arc<Place>>, Status> {
        let (room, refusal) = match info.verb {
            "watch" => (&self.watches, "Too many watches, please try again later."),
            _ if info.long_running => return Ok(None),
            "get" | "list" | "head" | "options" => (&self.reads, TOO_MANY_REQUESTS),
            _ => (&self.writes, TOO_MANY_REQUESTS),
        };
        let permit = room.permits.clone().try_acquire_owned();
        let permit = permit.map_err(|_| Status::too_many_requests(refusal, 1))?;
        Ok(Some(Arc::new(Place {
            permit: Mutex::new(Some(permit)),
            room: room.permits.clone(),
            lenders: self.lenders.clone(),
        })))
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::request::Query;

    #[tokio::test]
    async fn a_place_that_is_lent_is_free_and_comes_back() {
        let inflight = InFlight::new(1, 1);
        let info = RequestInfo::new(&Method::DELETE, "/api/v1/pods", &Query::default());
        let place = inflight.enter(&info).unwrap().expect("a place");
        assert_eq!(inflight.enter(&info).unwrap_err().code, 429);
        place
            .lend(async {
                let other = inflight.enter(&info).unwrap();
                assert!(other.is_some());
            })
            .await
            .unwrap();
        assert_eq!(inflight.enter(&info).unwrap_err().code, 429);
        drop(place);
        assert!(inflight.enter(&info).is_ok());
    }

    #[tokio::test]
    async fn no_place_is_held_for_somebody_outside_however_many_wait() {
        let inflight = InFlight {
            lenders: Arc::new(Semaphore::new(1)),
            ..InFlight::new(1, 2)
        };
        let info = RequestInfo::new(&Method::DELETE, "/api/v1/pods", &Query::default());
        let enter = || inflight.enter(&info).unwrap().expect("a place");
        let (first, second) = (enter(), enter());
        first
            .lend(async {
                let refused = second.lend(std::future::pending::<()>()).await;
                assert_eq!(refused.unwrap_err().code, 429);
            })
            .await
            .unwrap();
    }

    #[test]
    fn the_limit_holds_per_kind_of_request() {
        let inflight = InFlight::new(1, 1).with_watches(1);
        let info = |method: Method, uri: &str| {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            RequestInfo::new(&method, path, &Query::parse(query).unwrap())
        };
        let log = "/api/v1/namespaces/a/pods/p/log";
        let exec = "/api/v1/namespaces/a/pods/p/exec";
        let kinds = [
            [info(Method::GET, "/api/v1/pods"), info(Method::GET, log)],
            [
                info(Method::DELETE, "/api/v1/pods"),
                info(Method::PUT, exec),
            ],
            [
                info(Method::GET, "/api/v1/pods?watch=true"),
                info(Method::GET, "/api/v1/watch/pods"),
            ],
        ];
        for [first, second] in &kinds {
            let held = inflight.enter(first).unwrap();
            for full in [first, second] {
                assert_eq!(inflight.enter(full).unwrap_err().code, 429, "{full:?}");
            }
            for [other, _] in kinds.iter().filter(|[other, _]| other != first) {
                assert!(inflight.enter(other).is_ok(), "{other:?}");
            }
            drop(held);
            assert!(inflight.enter(second).is_ok());
        }
        let free = info(Method::POST, exec);
        let held: Vec<_> = (0..3).map(|_| inflight.enter(&free)).collect();
        assert!(held.iter().all(Result::is_ok));
    }
}
