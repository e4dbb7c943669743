//! Limits on concurrent requests (upstream: the max-in-flight filter, `WithMaxInFlightLimit`).

use std::sync::Arc;

use rhumb_meta::Status;
use tokio::sync::Semaphore;

use rhumb_handlers::request::RequestInfo;
use rhumb_registry::InFlightPermit;

/// Upstream's defaults of `--max-requests-inflight` and `--max-mutating-requests-inflight`.
pub const READS_MAX: usize = 400;
pub const WRITES_MAX: usize = 200;

/// Far more watches than a large cluster has, and few enough to fit into memory.
const WATCHES_MAX: usize = 100_000;

const TOO_MANY_REQUESTS: &str = "Too many requests, please try again later.";

/// How many requests may have yielded their permits at a time.
const YIELDED_MAX: usize = 1000;

/// Concurrency limits by class of request. Watches have a separate limit: they are mostly idle and cheap.
#[derive(Debug)]
pub struct InFlightLimits {
    reads: ConcurrencyLimit,
    writes: ConcurrencyLimit,
    watches: ConcurrencyLimit,
    yield_slots: Arc<Semaphore>,
}

/// Limit on concurrent requests of one class.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    permits: Arc<Semaphore>,
    permits_max: usize,
    /// Zero means no limit.
    pub max: usize,
}

impl ConcurrencyLimit {
    fn new(max: usize) -> ConcurrencyLimit {
        let permits_max = match max {
            0 => Semaphore::MAX_PERMITS,
            max => max.min(Semaphore::MAX_PERMITS),
        };
        ConcurrencyLimit {
            permits: Arc::new(Semaphore::new(permits_max)),
            permits_max,
            max,
        }
    }

    /// Number of requests that hold a permit.
    pub fn in_use(&self) -> usize {
        self.permits_max - self.permits.available_permits()
    }
}

impl Default for InFlightLimits {
    fn default() -> Self {
        InFlightLimits::new(READS_MAX, WRITES_MAX)
    }
}

impl InFlightLimits {
    /// Zero means no limit.
    pub fn new(reads_max: usize, writes_max: usize) -> InFlightLimits {
        InFlightLimits {
            reads: ConcurrencyLimit::new(reads_max),
            writes: ConcurrencyLimit::new(writes_max),
            watches: ConcurrencyLimit::new(WATCHES_MAX),
            yield_slots: Arc::new(Semaphore::new(YIELDED_MAX)),
        }
    }

    /// Sets the limit on watches.
    pub fn with_watches_max(self, max: usize) -> InFlightLimits {
        InFlightLimits {
            watches: ConcurrencyLimit::new(max),
            ..self
        }
    }

    /// Limits of reads and writes, by upstream's `request_kind` label.
    pub fn limits(&self) -> [(&'static str, &ConcurrencyLimit); 2] {
        [("readOnly", &self.reads), ("mutating", &self.writes)]
    }

    /// Acquires a permit, or fails with 429. Long-running requests other than watches (exec, proxy) need none: the
    /// nodes limit them.
    pub fn acquire(&self, info: &RequestInfo) -> Result<Option<Arc<InFlightPermit>>, Status> {
        let (limit, message) = match info.verb {
            "watch" => (&self.watches, "Too many watches, please try again later."),
            _ if info.long_running => return Ok(None),
            "get" | "list" | "head" | "options" => (&self.reads, TOO_MANY_REQUESTS),
            _ => (&self.writes, TOO_MANY_REQUESTS),
        };
        let permit = limit.permits.clone().try_acquire_owned();
        let permit = permit.map_err(|_| Status::too_many_requests(message, 1))?;
        Ok(Some(Arc::new(InFlightPermit::new(
            permit,
            Arc::clone(&limit.permits),
            Arc::clone(&self.yield_slots),
        ))))
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use rhumb_handlers::request::QueryParameters;

    #[tokio::test]
    async fn yielding_a_permit_frees_it_until_the_wait_ends() {
        let inflight = InFlightLimits::new(1, 1);
        let info = RequestInfo::new(&Method::DELETE, "/api/v1/pods", &QueryParameters::default());
        let permit = inflight.acquire(&info).unwrap().expect("acquire permit");
        assert_eq!(inflight.acquire(&info).unwrap_err().code, 429);
        permit
            .yield_while(async {
                let other = inflight.acquire(&info).unwrap();
                assert!(other.is_some());
            })
            .await
            .unwrap();
        assert_eq!(inflight.acquire(&info).unwrap_err().code, 429);
        drop(permit);
        assert!(inflight.acquire(&info).is_ok());
    }

    #[tokio::test]
    async fn the_number_of_yielded_permits_is_limited() {
        let inflight = InFlightLimits {
            yield_slots: Arc::new(Semaphore::new(1)),
            ..InFlightLimits::new(1, 2)
        };
        let info = RequestInfo::new(&Method::DELETE, "/api/v1/pods", &QueryParameters::default());
        let acquire_permit = || inflight.acquire(&info).unwrap().expect("acquire permit");
        let (first, second) = (acquire_permit(), acquire_permit());
        first
            .yield_while(async {
                let refused = second.yield_while(std::future::pending::<()>()).await;
                assert_eq!(refused.unwrap_err().code, 429);
            })
            .await
            .unwrap();
    }

    #[test]
    fn limits_apply_per_request_kind() {
        let inflight = InFlightLimits::new(1, 1).with_watches_max(1);
        let info = |method: Method, uri: &str| {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            RequestInfo::new(&method, path, &QueryParameters::parse(query).unwrap())
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
            let held = inflight.acquire(first).unwrap();
            for full in [first, second] {
                assert_eq!(inflight.acquire(full).unwrap_err().code, 429, "{full:?}");
            }
            for [other, _] in kinds.iter().filter(|[other, _]| other != first) {
                assert!(inflight.acquire(other).is_ok(), "{other:?}");
            }
            drop(held);
            assert!(inflight.acquire(second).is_ok());
        }
        let free = info(Method::POST, exec);
        let held: Vec<_> = (0..3).map(|_| inflight.acquire(&free)).collect();
        assert!(held.iter().all(Result::is_ok));
    }
}
