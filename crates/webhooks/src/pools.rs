//! Connection pools, keyed by CA bundle, server name and addresses.
//!
//! A configuration that changes any of these uses another pool from then on, so connections that were verified against
//! the old CA bundle are not used again. Unused pools are dropped with their connections.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls_pki_types::ServerName;

use crate::certificate_verification::RootCertificates;
use crate::connect::WebhookConnector;
use crate::error::WebhookCallError;
use crate::host_resolver::HostResolver;
use crate::target::{TargetAddress, WebhookTarget};

const MAX_POOLS: usize = 256;
/// A pool unused for this long is dropped.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// How often unused pools are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// An idle connection is closed after this long. Many servers close theirs after a minute; closing first avoids sending
/// a request into a connection that is just being closed.
const CONNECTION_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of idle connections per pool, as in client-go.
const MAX_IDLE_CONNECTIONS: usize = 25;
/// HTTP/2 keep-alive: a ping is sent after this much silence while calls are in flight.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections with equal keys are interchangeable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PoolKey {
    /// SHA-256 of the CA bundle; `None` if the system's roots are trusted.
    ca_bundle: Option<[u8; 32]>,
    server_name: ServerName<'static>,
    /// Sorted, so that the order given does not matter.
    addresses: Arc<[TargetAddress]>,
}

impl PoolKey {
    pub(crate) fn new(target: &WebhookTarget, mut addresses: Vec<TargetAddress>) -> PoolKey {
        addresses.sort_unstable();
        addresses.dedup();
        PoolKey {
            ca_bundle: target.ca_bundle().map(|bundle| bundle.digest),
            server_name: target.server_name().clone(),
            addresses: addresses.into(),
        }
    }
}

/// The pooled connections to one server.
#[derive(Debug)]
pub(crate) struct ConnectionPool {
    pub(crate) http: legacy::Client<WebhookConnector, Full<Bytes>>,
}

impl ConnectionPool {
    pub(crate) fn new(
        key: &PoolKey,
        roots: &RootCertificates,
        lookups: &HostResolver,
    ) -> Result<ConnectionPool, WebhookCallError> {
        let connector = WebhookConnector {
            server_name: key.server_name.clone(),
            addresses: key.addresses.clone(),
            lookups: lookups.clone(),
            http1: Arc::new(roots.client_config(b"http/1.1")?),
            http2: Arc::new(roots.client_config(b"h2")?),
            prefers_http2: Arc::default(),
            next_address: Arc::default(),
        };
        let http = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(CONNECTION_IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .http2_keep_alive_interval(PING_INTERVAL)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            // A request is retried on another connection only if none of it was sent yet: the server may have closed
            // the idle connection. Go does the same. Once a byte was sent, the webhook may have acted on the request,
            // and it may not be idempotent.
            .retry_canceled_requests(true)
            .build(connector);
        Ok(ConnectionPool { http })
    }
}

/// All connection pools. `P` is [`ConnectionPool`] except in tests.
#[derive(Debug)]
pub(crate) struct ConnectionPools<P> {
    state: Mutex<ConnectionPoolsState<P>>,
}

#[derive(Debug)]
struct ConnectionPoolsState<P> {
    pools: HashMap<PoolKey, PoolEntry<P>>,
    last_sweep: Instant,
}

#[derive(Debug)]
struct PoolEntry<P> {
    pool: Arc<P>,
    last_used: Instant,
}

impl<P> ConnectionPools<P> {
    pub(crate) fn new(now: Instant) -> Self {
        let pools = HashMap::new();
        let state = Mutex::new(ConnectionPoolsState {
            pools,
            last_sweep: now,
        });
        ConnectionPools { state }
    }

    pub(crate) fn get(&self, key: &PoolKey, now: Instant) -> Option<Arc<P>> {
        let mut state = self.state.lock();
        if now.saturating_duration_since(state.last_sweep) >= SWEEP_INTERVAL {
            state.sweep(now);
        }
        let entry = state.pools.get_mut(key)?;
        entry.last_used = now;
        Some(entry.pool.clone())
    }

    /// Adds a pool and returns it, or the one that another call added first.
    pub(crate) fn add(&self, key: PoolKey, pool: P, now: Instant) -> Arc<P> {
        let mut state = self.state.lock();
        if state.pools.len() >= MAX_POOLS && !state.pools.contains_key(&key) {
            state.drop_oldest();
        }
        let entry = state.pools.entry(key).or_insert_with(|| PoolEntry {
            pool: Arc::new(pool),
            last_used: now,
        });
        entry.pool.clone()
    }
}

impl<P> ConnectionPoolsState<P> {
    fn sweep(&mut self, now: Instant) {
        self.last_sweep = now;
        self.pools
            .retain(|_, entry| now.saturating_duration_since(entry.last_used) < POOL_IDLE_TIMEOUT);
    }

    fn drop_oldest(&mut self) {
        let oldest = self.pools.iter().min_by_key(|(_, entry)| entry.last_used);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.pools.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, ca_bundle: &[u8]) -> PoolKey {
        let target = WebhookTarget::from_url(&format!("https://{name}/"), Some(ca_bundle)).unwrap();
        let at = |port| TargetAddress {
            host: name.to_owned(),
            port,
        };
        PoolKey::new(&target, vec![at(2), at(1), at(2)])
    }

    #[test]
    fn pools_are_keyed_by_certificates_name_and_addresses() {
        let now = Instant::now();
        let pools = ConnectionPools::new(now);
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
    fn concurrent_inserts_share_the_first_pool() {
        let now = Instant::now();
        let pools = ConnectionPools::new(now);
        pools.add(key("a.example", b""), 1, now);
        assert_eq!(*pools.add(key("a.example", b""), 2, now), 1);
    }

    #[test]
    fn unused_pools_are_dropped() {
        let start = Instant::now();
        let pools = ConnectionPools::new(start);
        let unused = pools.add(key("a.example", b""), 1, start);
        pools.add(key("b.example", b""), 2, start);
        for step in 1..=6 {
            let now = start + SWEEP_INTERVAL * step;
            assert!(pools.get(&key("b.example", b""), now).is_some());
        }
        assert_eq!(Arc::strong_count(&unused), 1);
    }

    #[test]
    fn number_of_pools_is_limited() {
        let start = Instant::now();
        let pools = ConnectionPools::new(start);
        let at = |step: usize| start + Duration::from_millis(step as u64);
        for step in 0..=MAX_POOLS {
            pools.add(key(&format!("h{step}.example"), b""), step, at(step));
        }
        assert!(pools.get(&key("h0.example", b""), start).is_none());
        assert!(pools.get(&key("h1.example", b""), start).is_some());
    }
}
