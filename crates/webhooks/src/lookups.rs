//! The addresses of names, without more questions to the system than it can bear.
//!
//! The system is asked by a call that blocks a thread, of those that the whole process shares, and that nobody can
//! end: it goes on when whoever asked has long given up. So a name is asked for once, however many wait for it, and
//! only a few names at a time.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

/// How many names are asked for at once, and thereby threads that this may hold.
const MAX_AT_ONCE: usize = 8;
/// How long an answer is good for. A name that moves is found again soon, and many connections need one question.
/// A failure is told to those who wait for it and then forgotten.
const KEPT: Duration = Duration::from_secs(5);

type Found = Arc<[SocketAddr]>;
type Asking = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Looks names up. Copies share what they know.
#[derive(Clone)]
pub(crate) struct Lookups(Arc<Shared>);

struct Shared {
    /// Asks for a name; the ports of the addresses mean nothing.
    ask: Box<dyn Fn(String) -> Asking + Send + Sync>,
    room: Semaphore,
    names: Mutex<HashMap<String, watch::Receiver<Outcome>>>,
}

#[derive(Debug, Clone)]
enum Outcome {
    Awaited,
    Unknown,
    Found(Found),
}

/// Nobody knows the name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown;

impl Lookups {
    /// Those of the system.
    pub(crate) fn of_system() -> Lookups {
        Lookups::new(|name| {
            Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
        })
    }

    fn new(ask: impl Fn(String) -> Asking + Send + Sync + 'static) -> Lookups {
        Lookups(Arc::new(Shared {
            ask: Box::new(ask),
            room: Semaphore::new(MAX_AT_ONCE),
            names: Mutex::default(),
        }))
    }

    /// The addresses of a host, which may be one itself.
    pub(crate) async fn find(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Unknown> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let mut outcome = self.outcome(host);
        let outcome = outcome
            .wait_for(|outcome| !matches!(outcome, Outcome::Awaited))
            .await;
        match outcome.as_deref() {
            Ok(Outcome::Found(found)) => Ok(found
                .iter()
                .map(|&address| with_port(address, port))
                .collect()),
            _ => Err(Unknown),
        }
    }

    fn outcome(&self, name: &str) -> watch::Receiver<Outcome> {
        let mut names = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outcome) = names.get(name) {
            return outcome.clone();
        }
        let (tell, outcome) = watch::channel(Outcome::Awaited);
        names.insert(name.to_owned(), outcome.clone());
        let lookup = Lookup {
            shared: self.0.clone(),
            name: name.to_owned(),
            tell,
        };
        // A task of its own: it goes on, and is counted, when those who wait are gone.
        tokio::spawn(lookup.run());
        outcome
    }
}

/// The question for one name, from its first asking until its answer is no longer good.
struct Lookup {
    shared: Arc<Shared>,
    name: String,
    tell: watch::Sender<Outcome>,
}

impl Lookup {
    async fn run(self) {
        let answer = {
            // It is never closed.
            let _room = self.shared.room.acquire().await;
            (self.shared.ask)(self.name.clone()).await
        };
        match answer {
            Ok(found) => {
                self.tell.send_replace(Outcome::Found(found.into()));
                tokio::time::sleep(KEPT).await;
            }
            Err(_) => {
                self.tell.send_replace(Outcome::Unknown);
            }
        }
    }
}

/// Also when the task ends early, with its runtime: the next to ask begins anew.
impl Drop for Lookup {
    fn drop(&mut self) {
        let names = self.shared.names.lock();
        let mut names = names.unwrap_or_else(PoisonError::into_inner);
        names.remove(&self.name);
    }
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

impl std::fmt::Debug for Lookups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lookups").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::time::{sleep, timeout};

    use super::*;

    /// How long the system takes.
    const SLOW: Duration = Duration::from_secs(60);

    /// A system that knows all names but `unknown`, takes its time, and counts what it is asked.
    #[derive(Default)]
    struct System {
        asked: AtomicUsize,
        at_once: AtomicUsize,
        most_at_once: AtomicUsize,
    }

    impl System {
        fn lookups() -> (Arc<System>, Lookups) {
            let system = Arc::new(System::default());
            let asked = system.clone();
            let lookups = Lookups::new(move |name| Box::pin(asked.clone().answer(name)));
            (system, lookups)
        }

        async fn answer(self: Arc<Self>, name: String) -> io::Result<Vec<SocketAddr>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let at_once = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
            self.most_at_once.fetch_max(at_once, Ordering::Relaxed);
            sleep(SLOW).await;
            self.at_once.fetch_sub(1, Ordering::Relaxed);
            match &*name {
                "unknown" => Err(io::ErrorKind::NotFound.into()),
                _ => Ok(vec!["192.0.2.1:0".parse().unwrap()]),
            }
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_are_not_looked_up() {
        let (system, lookups) = System::lookups();
        for (host, expect) in [("192.0.2.7", "192.0.2.7:443"), ("::1", "[::1]:443")] {
            let expect = vec![expect.parse().unwrap()];
            assert_eq!(lookups.find(host, 443).await, Ok(expect));
        }
        assert_eq!(system.asked(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_for_a_name_share_one_question() {
        let (system, lookups) = System::lookups();
        let found = join_all((1..=100).map(|port| lookups.find("a", port))).await;
        for (found, port) in found.into_iter().zip(1..) {
            assert_eq!(found, Ok(vec![SocketAddr::from(([192, 0, 2, 1], port))]));
        }
        assert_eq!(system.asked(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_good_for_a_while() {
        let (system, lookups) = System::lookups();
        lookups.find("a", 1).await.unwrap();
        sleep(KEPT / 2).await;
        lookups.find("a", 1).await.unwrap();
        assert_eq!(system.asked(), 1);
        sleep(KEPT).await;
        lookups.find("a", 1).await.unwrap();
        assert_eq!(system.asked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_not_kept() {
        let (system, lookups) = System::lookups();
        let both = join_all([lookups.find("unknown", 1), lookups.find("unknown", 2)]).await;
        assert_eq!(both, [Err(Unknown), Err(Unknown)]);
        assert_eq!(system.asked(), 1);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(lookups.find("unknown", 1).await, Err(Unknown));
        assert_eq!(system.asked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn questions_are_counted_until_they_end_although_nobody_waits() {
        let (system, lookups) = System::lookups();
        let names: Vec<String> = (0..3 * MAX_AT_ONCE).map(|name| name.to_string()).collect();
        for _ in 0..3 {
            let waiting = join_all(names.iter().map(|name| lookups.find(name, 1)));
            assert!(timeout(SLOW / 10, waiting).await.is_err());
        }
        assert_eq!(system.asked(), MAX_AT_ONCE);
        join_all(names.iter().map(|name| lookups.find(name, 1))).await;
        assert_eq!(system.most_at_once.load(Ordering::Relaxed), MAX_AT_ONCE);
    }

    #[test]
    fn a_question_that_ended_with_its_runtime_is_asked_again() {
        let (system, lookups) = System::lookups();
        for asked in 1..=2 {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            let hasty = async { timeout(Duration::from_millis(1), lookups.find("a", 1)).await };
            assert!(runtime.block_on(hasty).is_err());
            drop(runtime);
            assert_eq!(system.asked(), asked);
        }
    }
}
