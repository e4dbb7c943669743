//! Per-server concurrency limits, so that calls to a hanging server do not use up the global limit.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::target::TargetLocation;

/// Maximum number of concurrent calls, and thereby connections, to one server. A server that responds within 100 ms
/// still handles more than a thousand calls per second, and one that hangs holds no more than these.
pub(crate) const MAX_CALLS_PER_SERVER: usize = 128;
/// From this many entries on, unused ones are pruned when one is added.
const PRUNE_THRESHOLD: usize = 256;

/// The call semaphore of each server, keyed by the Service or address that configurations name. The key is not the
/// resolved address: a Service that moves while it hangs must not get additional permits.
#[derive(Debug, Default)]
pub(crate) struct ServerCallLimits(Mutex<HashMap<TargetLocation, Arc<Semaphore>>>);

impl ServerCallLimits {
    pub(crate) fn semaphore_for(&self, place: &TargetLocation) -> Arc<Semaphore> {
        let mut shares = self.0.lock();
        if let Some(share) = shares.get(place) {
            return share.clone();
        }
        if shares.len() >= PRUNE_THRESHOLD {
            // An unused semaphore has all its permits, so dropping it loses nothing.
            shares.retain(|_, share| Arc::strong_count(share) > 1);
        }
        let share = Arc::new(Semaphore::new(MAX_CALLS_PER_SERVER));
        shares.insert(place.clone(), share.clone());
        share
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
        let shares = ServerCallLimits::default();
        let places = [
            host("a", 1),
            host("a", 2),
            host("b", 1),
            service("a"),
            service("b"),
        ];
        let first: Vec<_> = places
            .iter()
            .map(|place| shares.semaphore_for(place))
            .collect();
        for (at, place) in places.iter().enumerate() {
            let again = shares.semaphore_for(place);
            let same: Vec<_> = first.iter().map(|s| Arc::ptr_eq(s, &again)).collect();
            let expect: Vec<_> = (0..places.len()).map(|other| other == at).collect();
            assert_eq!(same, expect, "{place:?}");
        }
    }

    #[test]
    fn unused_limits_are_dropped() {
        let shares = ServerCallLimits::default();
        let used = shares.semaphore_for(&host("used", 1));
        for port in 0..10 * PRUNE_THRESHOLD as u16 {
            shares.semaphore_for(&host("a", port));
        }
        assert!(shares.0.lock().len() <= PRUNE_THRESHOLD);
        assert!(Arc::ptr_eq(&used, &shares.semaphore_for(&host("used", 1))));
    }
}
