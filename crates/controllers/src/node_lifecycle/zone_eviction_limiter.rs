//! Rate limit of NoExecute taints per zone, as upstream's zone states: the more nodes of a zone are unhealthy at once,
//! the likelier is a network failure rather than failed nodes, so evictions slow down or stop.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::partial_objects::NodeReadiness;

/// Minimum time between evictions from two nodes of a zone (upstream's `--node-eviction-rate`).
const EVICTION_INTERVAL: Duration = Duration::from_secs(10);
/// The same in a large zone that is partially disrupted (`--secondary-node-eviction-rate`); small ones stop then.
const PAUSE_DISRUPTED: Duration = Duration::from_secs(100);
const LARGE_ZONE_NODES: usize = 50;
/// Percentage of unhealthy nodes from which a zone is partially disrupted.
const DISRUPTED_PERCENT: usize = 55;

/// State of all zones as of the last count.
#[derive(Debug, Default)]
pub(super) struct ZoneEvictionLimiter {
    zones: HashMap<Box<str>, ZoneState>,
    /// No node of any zone is ready.
    is_fully_disrupted: bool,
}

#[derive(Debug, Default)]
struct ZoneState {
    /// The zone has nodes, counted or not.
    is_there: bool,
    ready: usize,
    not_ready: usize,
    next: Option<Instant>,
}

/// How the full disruption of the cluster changed with a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DisruptionChange {
    Unchanged,
    /// No node is ready any more.
    FullyDisrupted,
    /// Some node is ready again.
    Recovered,
}

impl ZoneEvictionLimiter {
    pub(super) fn is_fully_disrupted(&self) -> bool {
        self.is_fully_disrupted
    }

    /// Recounts nodes, given as zone and readiness (`None` if the node is excluded). A zone with only excluded nodes is
    /// not disrupted, so its pods are evicted at the normal rate.
    pub(super) fn count<'a>(
        &mut self,
        nodes: impl Iterator<Item = (&'a str, Option<NodeReadiness>)>,
    ) -> DisruptionChange {
        for zone in self.zones.values_mut() {
            (zone.is_there, zone.ready, zone.not_ready) = (false, 0, 0);
        }
        for (name, ready) in nodes {
            if !self.zones.contains_key(name) {
                self.zones.insert(name.into(), ZoneState::default());
            }
            if let Some(zone) = self.zones.get_mut(name) {
                zone.is_there = true;
                match ready {
                    Some(NodeReadiness::True) => zone.ready += 1,
                    Some(_) => zone.not_ready += 1,
                    None => {}
                }
            }
        }
        self.zones.retain(|_, zone| zone.is_there);
        let was_fully_disrupted = self.is_fully_disrupted;
        self.is_fully_disrupted = self.zones.values().any(|zone| zone.not_ready > 0)
            && self.zones.values().all(|zone| zone.ready == 0);
        match (was_fully_disrupted, self.is_fully_disrupted) {
            (false, true) => DisruptionChange::FullyDisrupted,
            (true, false) => DisruptionChange::Recovered,
            _ => DisruptionChange::Unchanged,
        }
    }

    /// Permits the eviction of one more node of the zone, if the rate allows it now.
    pub(super) fn may_evict(&mut self, zone: &str, now: Instant) -> bool {
        let is_fully_disrupted = self.is_fully_disrupted;
        let Some(zone) = self.zones.get_mut(zone) else {
            return false;
        };
        let Some(pause) = zone.eviction_interval().filter(|_| !is_fully_disrupted) else {
            return false;
        };
        if zone.next.is_some_and(|next| now < next) {
            return false;
        }
        zone.next = Some(now + pause);
        true
    }
}

impl ZoneState {
    /// `None` if evictions are stopped.
    fn eviction_interval(&self) -> Option<Duration> {
        let size = self.ready + self.not_ready;
        let is_disrupted = self.ready > 0
            && self.not_ready > 2
            && self.not_ready * 100 >= size * DISRUPTED_PERCENT;
        match (is_disrupted, size > LARGE_ZONE_NODES) {
            (false, _) => Some(EVICTION_INTERVAL),
            (true, true) => Some(PAUSE_DISRUPTED),
            (true, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter_with(
        zones: &[(&'static str, usize, usize)],
    ) -> (ZoneEvictionLimiter, DisruptionChange) {
        let mut counted = ZoneEvictionLimiter::default();
        let change = count(&mut counted, zones);
        (counted, change)
    }

    /// Each zone with its numbers of ready and not ready nodes, and one excluded node.
    fn count(
        zones: &mut ZoneEvictionLimiter,
        nodes: &[(&'static str, usize, usize)],
    ) -> DisruptionChange {
        let nodes = nodes.iter().flat_map(|&(zone, ready, not_ready)| {
            let of = |ready, count| std::iter::repeat_n((zone, ready), count);
            let ready = of(Some(NodeReadiness::True), ready);
            let not_ready = of(Some(NodeReadiness::Unknown), not_ready);
            ready.chain(not_ready).chain(of(None, 1))
        });
        zones.count(nodes)
    }

    #[tokio::test(start_paused = true)]
    async fn the_eviction_rate_falls_with_the_share_of_lost_nodes() {
        let now = Instant::now();
        let check = |zones: &[(&'static str, usize, usize)], expect: Option<u64>| {
            let (mut zones, _) = limiter_with(zones);
            let may = zones.may_evict("a", now);
            let pause = (1..=100).find(|&second| {
                let later = now + Duration::from_secs(second);
                zones.may_evict("a", later)
            });
            assert_eq!(may.then_some(pause).flatten(), expect);
        };
        check(&[("a", 1, 1)], Some(10));
        check(&[("a", 10, 2)], Some(10));
        check(&[("a", 3, 3)], Some(10));
        check(&[("a", 2, 3)], None);
        check(&[("a", 40, 60)], Some(100));
        check(&[("a", 0, 3), ("b", 1, 0)], Some(10));
        check(&[("a", 0, 3), ("b", 0, 1)], None);
        check(&[("b", 1, 0)], None);
        check(&[("a", 0, 0), ("b", 1, 0)], Some(10));
        check(&[("a", 0, 0), ("b", 0, 1)], None);
        check(&[("a", 0, 0)], Some(10));
    }

    #[test]
    fn full_disruption_starts_when_no_zone_has_a_ready_node() {
        let (mut zones, change) = limiter_with(&[]);
        assert_eq!(change, DisruptionChange::Unchanged);
        let mut check = |nodes: &[(&'static str, usize, usize)], change, is_fully_disrupted| {
            assert_eq!(count(&mut zones, nodes), change, "{nodes:?}");
            assert_eq!(zones.is_fully_disrupted(), is_fully_disrupted);
        };
        check(
            &[("a", 0, 1), ("b", 1, 0)],
            DisruptionChange::Unchanged,
            false,
        );
        check(
            &[("a", 0, 1), ("b", 0, 1)],
            DisruptionChange::FullyDisrupted,
            true,
        );
        check(&[("a", 0, 2)], DisruptionChange::Unchanged, true);
        check(&[("a", 1, 1)], DisruptionChange::Recovered, false);
        check(&[("a", 0, 2)], DisruptionChange::FullyDisrupted, true);
        check(
            &[("a", 0, 2), ("b", 0, 0)],
            DisruptionChange::Unchanged,
            true,
        );
        check(&[("b", 0, 0)], DisruptionChange::Recovered, false);
        check(&[("a", 0, 2)], DisruptionChange::FullyDisrupted, true);
        check(&[], DisruptionChange::Recovered, false);
    }
}
