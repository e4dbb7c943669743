//! The connections that stand, by what they were made for.
//!
//! A pool belongs to one set of certificates, one server name and one set of addresses. A configuration that
//! changes any of them has another pool from then on, and what was trusted before is not asked again. Pools that
//! nobody uses are dropped, with their connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls_pki_types::ServerName;

use crate::connect::Connector;
use crate::error::CallError;
use crate::lookups::Lookups;
use crate::target::{Address, Target};
use crate::trust::Roots;

const MAX_POOLS: usize = 256;
/// A pool that was not used for this long is dropped.
const POOL_IDLE: Duration = Duration::from_secs(300);
/// How often it is looked for such pools.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// A connection that was not used for this long is closed. Many servers close theirs after a minute: whoever is
/// first never sends a request into a connection that is just being closed.
const CONNECTION_IDLE: Duration = Duration::from_secs(30);
/// How many connections of a pool are kept although nobody uses them. client-go keeps as many.
const MAX_IDLE_CONNECTIONS: usize = 25;
/// How long a shared connection may be silent while there are calls on it.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// What makes connections of one kind good for each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The digest of the CA bundle; none where the system's roots are believed.
    ca_bundle: Option<[u8; 32]>,
    server_name: ServerName<'static>,
    /// In order, so that it does not matter in which they were given.
    addresses: Arc<[Address]>,
}

impl Key {
    pub(crate) fn new(target: &Target, mut addresses: Vec<Address>) -> Key {
        addresses.sort_unstable();
        addresses.dedup();
        Key {
            ca_bundle: target.ca_bundle().map(|bundle| bundle.digest),
            server_name: target.server_name().clone(),
            addresses: addresses.into(),
        }
    }
}

/// Connections to one server.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) http: legacy::Client<Connector, Full<Bytes>>,
}

impl Pool {
    pub(crate) fn new(key: &Key, roots: &Roots, lookups: &Lookups) -> Result<Pool, CallError> {
        let connector = Connector {
            server_name: key.server_name.clone(),
            addresses: key.addresses.clone(),
            lookups: lookups.clone(),
            http1: Arc::new(roots.client_config(b"http/1.1")?),
            http2: Arc::new(roots.client_config(b"h2")?),
            prefers_http2: Arc::default(),
            turn: Arc::default(),
        };
        let http = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(CONNECTION_IDLE)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .http2_keep_alive_interval(PING_INTERVAL)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            // Only a request of which nothing was sent yet is sent again, on another connection: the server may
            // have closed the first while it was idle. Go does the same. Once a byte was sent, the webhook may
            // have done what it does, and whether it may do it twice is not ours to say.
            .retry_canceled_requests(true)
            .build(connector);
        Ok(Pool { http })
    }
}

/// All pools. `P` is [`Pool`] but in tests.
#[derive(Debug)]
pub(crate) struct Pools<P> {
    state: Mutex<State<P>>,
}

#[derive(Debug)]
struct State<P> {
    pools: HashMap<Key, Entry<P>>,
    swept: Instant,
}

#[derive(Debug)]
struct Entry<P> {
    pool: Arc<P>,
    used: Instant,
}

impl<P> Pools<P> {
    pub(crate) fn new(now: Instant) -> Self {
        let pools = HashMap::new();
        let state = Mutex::new(State { pools, swept: now });
        Pools { state }
    }

    pub(crate) fn get(&self, key: &Key, now: Instant) -> Option<Arc<P>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(state.swept) >= SWEEP_INTERVAL {
            state.sweep(now);
        }
        let entry = state.pools.get_mut(key)?;
        entry.used = now;
        Some(entry.pool.clone())
    }

    /// Adds a pool, unless somebody else was faster: then it is theirs that is used.
    pub(crate) fn add(&self, key: Key, pool: P, now: Instant) -> Arc<P> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.pools.len() >= MAX_POOLS && !state.pools.contains_key(&key) {
            state.drop_oldest();
        }
        let entry = state.pools.entry(key).or_insert_with(|| Entry {
            pool: Arc::new(pool),
            used: now,
        });
        entry.pool.clone()
    }
}

impl<P> State<P> {
    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        self.pools
            .retain(|_, entry| now.saturating_duration_since(entry.used) < POOL_IDLE);
    }

    fn drop_oldest(&mut self) {
        let oldest = self.pools.iter().min_by_key(|(_, entry)| entry.used);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.pools.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, ca_bundle: &[u8]) -> Key {
        let target = Target::url(&format!("https://{name}/"), Some(ca_bundle)).unwrap();
        let at = |port| Address {
            host: name.to_owned(),
            port,
        };
        Key::new(&target, vec![at(2), at(1), at(2)])
    }

    #[test]
    fn a_pool_is_found_by_certificates_name_and_addresses() {
        let now = Instant::now();
        let pools = Pools::new(now);
        pools.add(key("a.example", b"1"), 1, now);
        assert!(pools.get(&key("a.example", b"1"), now).is_some());
        assert!(pools.get(&key("a.example", b"2"), now).is_none());
        assert!(pools.get(&key("a.example", b""), now).is_none());
        assert!(pools.get(&key("b.example", b"1"), now).is_none());

        let mut elsewhere = key("a.example", b"1");
        elsewhere.addresses = elsewhere.addresses[..1].into();
        assert!(pools.get(&elsewhere, now).is_none());
    }

    #[test]
    fn the_second_to_add_a_pool_uses_the_first() {
        let now = Instant::now();
        let pools = Pools::new(now);
        pools.add(key("a.example", b""), 1, now);
        assert_eq!(*pools.add(key("a.example", b""), 2, now), 1);
    }

    #[test]
    fn pools_that_nobody_uses_are_dropped() {
        let start = Instant::now();
        let pools = Pools::new(start);
        let unused = pools.add(key("a.example", b""), 1, start);
        pools.add(key("b.example", b""), 2, start);
        for step in 1..=6 {
            let now = start + SWEEP_INTERVAL * step;
            assert!(pools.get(&key("b.example", b""), now).is_some());
        }
        assert_eq!(Arc::strong_count(&unused), 1);
    }

    #[test]
    fn there_are_only_so_many_pools() {
        let start = Instant::now();
        let pools = Pools::new(start);
        let at = |step: usize| start + Duration::from_millis(step as u64);
        for step in 0..=MAX_POOLS {
            pools.add(key(&format!("h{step}.example"), b""), step, at(step));
        }
        assert!(pools.get(&key("h0.example", b""), start).is_none());
        assert!(pools.get(&key("h1.example", b""), start).is_some());
    }
}
