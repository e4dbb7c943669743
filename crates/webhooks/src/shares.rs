//! How many calls a server has at once, so that one that hangs leaves room for the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use crate::target::Place;

/// How many calls a server has at once, and thereby connections. A server that answers within a tenth of a second
/// answers more than a thousand a second, and one that hangs holds no more than these.
pub(crate) const MAX_CALLS: usize = 128;
/// Above so many it is looked for those that nobody uses.
const ENOUGH: usize = 256;

/// The share of each server, by the service or the address that configurations name: where a service is may change
/// while it hangs, and what it may have must not grow by that.
#[derive(Debug, Default)]
pub(crate) struct Shares(Mutex<HashMap<Place, Arc<Semaphore>>>);

impl Shares {
    pub(crate) fn of(&self, place: &Place) -> Arc<Semaphore> {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(place) {
            return share.clone();
        }
        if shares.len() >= ENOUGH {
            // A share that nobody holds is as good as a new one.
            shares.retain(|_, share| Arc::strong_count(share) > 1);
        }
        let share = Arc::new(Semaphore::new(MAX_CALLS));
        shares.insert(place.clone(), share.clone());
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Address, Service};

    fn host(host: &str, port: u16) -> Place {
        let host = host.to_owned();
        Place::Fixed(Address { host, port })
    }

    fn service(name: &str) -> Place {
        Place::Service(Service {
            namespace: "ns".into(),
            name: name.into(),
            port: 1,
        })
    }

    #[test]
    fn servers_have_a_share_each() {
        let shares = Shares::default();
        let places = [
            host("a", 1),
            host("a", 2),
            host("b", 1),
            service("a"),
            service("b"),
        ];
        let first: Vec<_> = places.iter().map(|place| shares.of(place)).collect();
        for (at, place) in places.iter().enumerate() {
            let again = shares.of(place);
            let same: Vec<_> = first.iter().map(|s| Arc::ptr_eq(s, &again)).collect();
            let expect: Vec<_> = (0..places.len()).map(|other| other == at).collect();
            assert_eq!(same, expect, "{place:?}");
        }
    }

    #[test]
    fn shares_that_nobody_uses_are_dropped() {
        let shares = Shares::default();
        let used = shares.of(&host("used", 1));
        for port in 0..10 * ENOUGH as u16 {
            shares.of(&host("a", port));
        }
        assert!(shares.0.lock().unwrap().len() <= ENOUGH);
        assert!(Arc::ptr_eq(&used, &shares.of(&host("used", 1))));
    }
}
