//! DNS lookups with deduplication, a concurrency limit and a short cache.
//!
//! The system resolver (`getaddrinfo`) blocks a thread of tokio's shared blocking pool and cannot be cancelled: it goes
//! on after the caller gave up. So concurrent lookups of one name share one query, and only a few names are looked up
//! at a time.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

/// Maximum number of concurrent lookups, and thereby of blocked threads.
const MAX_CONCURRENT_LOOKUPS: usize = 8;
/// How long a result is cached: short enough to follow a name that moves, long enough for a burst of connections to
/// share one query. Failures are reported to the current waiters and not cached.
const CACHE_TTL: Duration = Duration::from_secs(5);

type ResolvedAddresses = Arc<[SocketAddr]>;
type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Resolves host names. Clones share lookups and cached results.
#[derive(Clone)]
pub(crate) struct HostResolver(Arc<DnsResolverInner>);

struct DnsResolverInner {
    /// Queries a name; the ports of the returned addresses are meaningless.
    query: Box<dyn Fn(String) -> LookupFuture + Send + Sync>,
    permits: Semaphore,
    lookups: Mutex<HashMap<String, watch::Receiver<LookupState>>>,
}

#[derive(Debug, Clone)]
enum LookupState {
    Pending,
    Failed,
    Resolved(ResolvedAddresses),
}

/// The host name could not be resolved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HostLookupError;

impl HostResolver {
    /// A resolver that uses the system's name service.
    pub(crate) fn system() -> HostResolver {
        HostResolver::new(|name| {
            Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
        })
    }

    fn new(ask: impl Fn(String) -> LookupFuture + Send + Sync + 'static) -> HostResolver {
        HostResolver(Arc::new(DnsResolverInner {
            query: Box::new(ask),
            permits: Semaphore::new(MAX_CONCURRENT_LOOKUPS),
            lookups: Mutex::default(),
        }))
    }

    /// Resolves a host, which may be an IP address already.
    pub(crate) async fn lookup(
        &self,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, HostLookupError> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let mut outcome = self.subscribe(host);
        let outcome = outcome
            .wait_for(|outcome| !matches!(outcome, LookupState::Pending))
            .await;
        match outcome.as_deref() {
            Ok(LookupState::Resolved(found)) => Ok(found
                .iter()
                .map(|&address| with_port(address, port))
                .collect()),
            _ => Err(HostLookupError),
        }
    }

    fn subscribe(&self, name: &str) -> watch::Receiver<LookupState> {
        let mut names = self.0.lookups.lock();
        if let Some(outcome) = names.get(name) {
            return outcome.clone();
        }
        let (tell, outcome) = watch::channel(LookupState::Pending);
        names.insert(name.to_owned(), outcome.clone());
        let lookup = LookupTask {
            shared: self.0.clone(),
            name: name.to_owned(),
            state: tell,
        };
        // A separate task: the query goes on, and holds its permit, after all waiters are gone.
        tokio::spawn(lookup.run());
        outcome
    }
}

/// Background task for one name, from the query until its result expires.
struct LookupTask {
    shared: Arc<DnsResolverInner>,
    name: String,
    state: watch::Sender<LookupState>,
}

impl LookupTask {
    async fn run(self) {
        let answer = {
            // The semaphore is never closed.
            let _permit = self.shared.permits.acquire().await;
            (self.shared.query)(self.name.clone()).await
        };
        match answer {
            Ok(found) => {
                self.state.send_replace(LookupState::Resolved(found.into()));
                tokio::time::sleep(CACHE_TTL).await;
            }
            Err(_) => {
                self.state.send_replace(LookupState::Failed);
            }
        }
    }
}

/// Runs also when the task is aborted with its runtime, so that the next caller starts a new lookup.
impl Drop for LookupTask {
    fn drop(&mut self) {
        let names = self.shared.lookups.lock();
        let mut names = names;
        names.remove(&self.name);
    }
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

impl std::fmt::Debug for HostResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostResolver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::time::{sleep, timeout};

    use super::*;

    /// How long a fake query takes.
    const QUERY_DURATION: Duration = Duration::from_secs(60);

    /// A fake system resolver that resolves all names but `unknown`, slowly, and counts its queries.
    #[derive(Default)]
    struct FakeSystemResolver {
        lookups_started: AtomicUsize,
        at_once: AtomicUsize,
        most_at_once: AtomicUsize,
    }

    impl FakeSystemResolver {
        fn lookups() -> (Arc<FakeSystemResolver>, HostResolver) {
            let system = Arc::new(FakeSystemResolver::default());
            let lookups_started = system.clone();
            let lookups =
                HostResolver::new(move |name| Box::pin(lookups_started.clone().answer(name)));
            (system, lookups)
        }

        async fn answer(self: Arc<Self>, name: String) -> io::Result<Vec<SocketAddr>> {
            self.lookups_started.fetch_add(1, Ordering::Relaxed);
            let at_once = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
            self.most_at_once.fetch_max(at_once, Ordering::Relaxed);
            sleep(QUERY_DURATION).await;
            self.at_once.fetch_sub(1, Ordering::Relaxed);
            match &*name {
                "unknown" => Err(io::ErrorKind::NotFound.into()),
                _ => Ok(vec!["192.0.2.1:0".parse().unwrap()]),
            }
        }

        fn lookup_count(&self) -> usize {
            self.lookups_started.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_are_not_looked_up() {
        let (system, lookups) = FakeSystemResolver::lookups();
        for (host, expect) in [("192.0.2.7", "192.0.2.7:443"), ("::1", "[::1]:443")] {
            let expect = vec![expect.parse().unwrap()];
            assert_eq!(lookups.lookup(host, 443).await, Ok(expect));
        }
        assert_eq!(system.lookup_count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_lookups_of_a_name_share_one_query() {
        let (system, lookups) = FakeSystemResolver::lookups();
        let found = join_all((1..=100).map(|port| lookups.lookup("a", port))).await;
        for (found, port) in found.into_iter().zip(1..) {
            assert_eq!(found, Ok(vec![SocketAddr::from(([192, 0, 2, 1], port))]));
        }
        assert_eq!(system.lookup_count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_cached_for_a_while() {
        let (system, lookups) = FakeSystemResolver::lookups();
        lookups.lookup("a", 1).await.unwrap();
        sleep(CACHE_TTL / 2).await;
        lookups.lookup("a", 1).await.unwrap();
        assert_eq!(system.lookup_count(), 1);
        sleep(CACHE_TTL).await;
        lookups.lookup("a", 1).await.unwrap();
        assert_eq!(system.lookup_count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_not_cached() {
        let (system, lookups) = FakeSystemResolver::lookups();
        let both = join_all([lookups.lookup("unknown", 1), lookups.lookup("unknown", 2)]).await;
        assert_eq!(both, [Err(HostLookupError), Err(HostLookupError)]);
        assert_eq!(system.lookup_count(), 1);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(lookups.lookup("unknown", 1).await, Err(HostLookupError));
        assert_eq!(system.lookup_count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_lookups_count_until_they_end() {
        let (system, lookups) = FakeSystemResolver::lookups();
        let names: Vec<String> = (0..3 * MAX_CONCURRENT_LOOKUPS)
            .map(|name| name.to_string())
            .collect();
        for _ in 0..3 {
            let waiting = join_all(names.iter().map(|name| lookups.lookup(name, 1)));
            assert!(timeout(QUERY_DURATION / 10, waiting).await.is_err());
        }
        assert_eq!(system.lookup_count(), MAX_CONCURRENT_LOOKUPS);
        join_all(names.iter().map(|name| lookups.lookup(name, 1))).await;
        assert_eq!(
            system.most_at_once.load(Ordering::Relaxed),
            MAX_CONCURRENT_LOOKUPS
        );
    }

    #[test]
    fn lookup_cancelled_with_its_runtime_is_repeated() {
        let (system, lookups) = FakeSystemResolver::lookups();
        for lookups_started in 1..=2 {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            let hasty = async { timeout(Duration::from_millis(1), lookups.lookup("a", 1)).await };
            assert!(runtime.block_on(hasty).is_err());
            drop(runtime);
            assert_eq!(system.lookup_count(), lookups_started);
        }
    }
}
