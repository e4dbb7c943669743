//! How fast nodes of a zone may lose their pods: the more of them are lost at once, the likelier it is that they are
//! well and only cannot be seen from here.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::views::Ready;

/// Between two nodes of a zone that lose their pods.
const PAUSE: Duration = Duration::from_secs(10);
/// The same in a large zone of which most nodes are lost. In a small one none does then.
const PAUSE_DISRUPTED: Duration = Duration::from_secs(100);
const LARGE: usize = 50;
/// From this share on, in percent, most nodes of a zone are lost.
const DISRUPTED_PERCENT: usize = 55;

/// All zones as of the last count.
#[derive(Debug, Default)]
pub(super) struct Zones {
    zones: HashMap<Box<str>, Zone>,
    /// Not one node of any zone is ready.
    is_dark: bool,
}

#[derive(Debug, Default)]
struct Zone {
    /// It has a node, counted or not.
    is_there: bool,
    ready: usize,
    not_ready: usize,
    next: Option<Instant>,
}

/// What became of all zones together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Same,
    /// The last ready node is gone.
    Dark,
    /// There are ready nodes again.
    Light,
}

impl Zones {
    pub(super) fn is_dark(&self) -> bool {
        self.is_dark
    }

    /// The zone of each node, and whether it is ready unless it does not count. A zone of which no node counts is
    /// one in order: its nodes lose their pods as any other's do.
    pub(super) fn count<'a>(
        &mut self,
        nodes: impl Iterator<Item = (&'a str, Option<Ready>)>,
    ) -> Turn {
        for zone in self.zones.values_mut() {
            (zone.is_there, zone.ready, zone.not_ready) = (false, 0, 0);
        }
        for (name, ready) in nodes {
            if !self.zones.contains_key(name) {
                self.zones.insert(name.into(), Zone::default());
            }
            if let Some(zone) = self.zones.get_mut(name) {
                zone.is_there = true;
                match ready {
                    Some(Ready::True) => zone.ready += 1,
                    Some(_) => zone.not_ready += 1,
                    None => {}
                }
            }
        }
        self.zones.retain(|_, zone| zone.is_there);
        let was_dark = self.is_dark;
        self.is_dark = self.zones.values().any(|zone| zone.not_ready > 0)
            && self.zones.values().all(|zone| zone.ready == 0);
        match (was_dark, self.is_dark) {
            (false, true) => Turn::Dark,
            (true, false) => Turn::Light,
            _ => Turn::Same,
        }
    }

    /// Whether one more node of the zone may lose its pods now. One that may counts.
    pub(super) fn may_evict(&mut self, zone: &str, now: Instant) -> bool {
        let is_dark = self.is_dark;
        let Some(zone) = self.zones.get_mut(zone) else {
            return false;
        };
        let Some(pause) = zone.pause().filter(|_| !is_dark) else {
            return false;
        };
        if zone.next.is_some_and(|next| now < next) {
            return false;
        }
        zone.next = Some(now + pause);
        true
    }
}

impl Zone {
    /// `None` if no node may lose its pods.
    fn pause(&self) -> Option<Duration> {
        let size = self.ready + self.not_ready;
        let is_disrupted = self.ready > 0
            && self.not_ready > 2
            && self.not_ready * 100 >= size * DISRUPTED_PERCENT;
        match (is_disrupted, size > LARGE) {
            (false, _) => Some(PAUSE),
            (true, true) => Some(PAUSE_DISRUPTED),
            (true, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(zones: &[(&'static str, usize, usize)]) -> (Zones, Turn) {
        let mut counted = Zones::default();
        let turn = count(&mut counted, zones);
        (counted, turn)
    }

    /// Zones with how many nodes that are ready and how many that are not, and one that does not count.
    fn count(zones: &mut Zones, nodes: &[(&'static str, usize, usize)]) -> Turn {
        let nodes = nodes.iter().flat_map(|&(zone, ready, not_ready)| {
            let of = |ready, count| std::iter::repeat_n((zone, ready), count);
            let ready = of(Some(Ready::True), ready);
            let not_ready = of(Some(Ready::Unknown), not_ready);
            ready.chain(not_ready).chain(of(None, 1))
        });
        zones.count(nodes)
    }

    #[tokio::test(start_paused = true)]
    async fn the_more_nodes_are_lost_the_fewer_lose_their_pods() {
        let now = Instant::now();
        let check = |zones: &[(&'static str, usize, usize)], expect: Option<u64>| {
            let (mut zones, _) = counted(zones);
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
    fn it_is_dark_when_no_zone_has_a_ready_node() {
        let (mut zones, turn) = counted(&[]);
        assert_eq!(turn, Turn::Same);
        let mut check = |nodes: &[(&'static str, usize, usize)], turn, is_dark| {
            assert_eq!(count(&mut zones, nodes), turn, "{nodes:?}");
            assert_eq!(zones.is_dark(), is_dark);
        };
        check(&[("a", 0, 1), ("b", 1, 0)], Turn::Same, false);
        check(&[("a", 0, 1), ("b", 0, 1)], Turn::Dark, true);
        check(&[("a", 0, 2)], Turn::Same, true);
        check(&[("a", 1, 1)], Turn::Light, false);
        check(&[("a", 0, 2)], Turn::Dark, true);
        check(&[("a", 0, 2), ("b", 0, 0)], Turn::Same, true);
        check(&[("b", 0, 0)], Turn::Light, false);
        check(&[("a", 0, 2)], Turn::Dark, true);
        check(&[], Turn::Light, false);
    }
}
