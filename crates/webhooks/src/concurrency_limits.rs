//! Per-server concurrency limits, so that calls to a hanging server do not use up the global limit.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use crate::target::TargetLocation;

/// Maximum number of concurrent calls, and thereby connections, to one server. A server that responds within 100 ms
/// still handles more than a thousand calls per second, and one that hangs holds no more than these.
pub(crate) const MAX_CALLS_PER_SERVER: usize = 128;
/// From this many entries on, unused ones are pruned when one is added.
const PRUNE_THRESHOLD: usize = 256;

/// The limit of each server, keyed by the Service or address that configurations name. The key is not the resolved
/// address: a Service that moves while it hangs must not get additional permits.
#[derive(Debug, Default)]
pub(crate) struct ServerCallLimits(Mutex<HashMap<TargetLocation, Arc<ServerCallLimit>>>);

/// The limit of one server.
#[derive(Debug)]
struct ServerCallLimit {
    permits: Semaphore,
    /// Calls that hold a permit or wait for one. Changed only while the table is locked, or to a smaller number.
    calls: AtomicUsize,
}

/// A call of one server, which may wait for a permit. Its limit is kept while there is one.
#[derive(Debug)]
pub(crate) struct ServerCallLimitRef(Arc<ServerCallLimit>);

impl ServerCallLimits {
    pub(crate) fn begin_call(&self, location: &TargetLocation) -> ServerCallLimitRef {
        let mut limits = self.0.lock();
        if let Some(limit) = limits.get(location) {
            return ServerCallLimitRef::begin(limit);
        }
        if limits.len() >= PRUNE_THRESHOLD {
            // A limit without calls has all its permits, so dropping it loses nothing.
            limits.retain(|_, limit| limit.calls.load(Ordering::Relaxed) > 0);
        }
        let limit = Arc::new(ServerCallLimit {
            permits: Semaphore::new(MAX_CALLS_PER_SERVER),
            calls: AtomicUsize::new(0),
        });
        let call = ServerCallLimitRef::begin(&limit);
        limits.insert(location.clone(), limit);
        call
    }
}

impl ServerCallLimitRef {
    fn begin(limit: &Arc<ServerCallLimit>) -> ServerCallLimitRef {
        limit.calls.fetch_add(1, Ordering::Relaxed);
        ServerCallLimitRef(Arc::clone(limit))
    }

    pub(crate) fn permits(&self) -> &Semaphore {
        &self.0.permits
    }
}

impl Drop for ServerCallLimitRef {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{TargetAddress, TargetService};

    fn host(host: &str, port: u16) -> TargetLocation {
        let host = host.to_owned();
        TargetLocation::Fixed(TargetAddress { host, port })
    }

    fn service(name: &str) -> TargetLocation {
        TargetLocation::Service(TargetService {
            namespace: "ns".into(),
            name: name.into(),
            port: 1,
        })
    }

    #[test]
    fn every_server_has_its_own_limit() {
        let limits = ServerCallLimits::default();
        let locations = [
            host("a", 1),
            host("a", 2),
            host("b", 1),
            service("a"),
            service("b"),
        ];
        let first: Vec<_> = locations
            .iter()
            .map(|location| limits.begin_call(location))
            .collect();
        for (at, location) in locations.iter().enumerate() {
            let again = limits.begin_call(location);
            let is_same = |call: &ServerCallLimitRef| Arc::ptr_eq(&call.0, &again.0);
            let same: Vec<_> = first.iter().map(is_same).collect();
            let expect: Vec<_> = (0..locations.len()).map(|other| other == at).collect();
            assert_eq!(same, expect, "{location:?}");
        }
    }

    #[test]
    fn unused_limits_are_dropped() {
        let limits = ServerCallLimits::default();
        let used = limits.begin_call(&host("used", 1));
        for port in 0..10 * PRUNE_THRESHOLD as u16 {
            limits.begin_call(&host("a", port));
        }
        assert!(limits.0.lock().len() <= PRUNE_THRESHOLD);
        assert!(Arc::ptr_eq(&used.0, &limits.begin_call(&host("used", 1)).0));
    }
}
