//! The servers of the cluster: which of them to ask next, and over which connection.
//!
//! Each has a channel of its own rather than a share in a balanced one: a balanced channel keeps on giving
//! a server its part of the calls that accepts connections but answers nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, KvClient, WatchClient};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::convert::{Failure, Kind};
use super::link::answer;

/// Answers may be as large as etcd can send them: it counts their bytes in 31 bits.
const ANSWER_BYTES_MAX: usize = i32::MAX as usize;

/// How long one server may take to answer before another is asked.
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a server that failed is left alone,
const PAUSE_FIRST: Duration = Duration::from_secs(5);
/// and how long at most when it fails again and again.
const PAUSE_MAX: Duration = Duration::from_secs(30);

pub(super) struct Members {
    all: Vec<Arc<Member>>,
    turn: AtomicUsize,
}

impl Members {
    pub(super) fn new(endpoints: &[String], options: &ConnectOptions) -> Self {
        let member = |endpoint: &String| Arc::new(Member::new(endpoint, options));
        Members {
            all: endpoints.iter().map(member).collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// The next one in turn of those that work. If none does, the next one.
    pub(super) fn pick(&self) -> Option<Arc<Member>> {
        self.pick_at(Instant::now())
    }

    fn pick_at(&self, now: Instant) -> Option<Arc<Member>> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % self.all.len().max(1);
        let (before, from) = self.all.split_at_checked(first)?;
        let working = from.iter().chain(before).find(|member| member.is_due(now));
        working.or(from.first()).cloned()
    }
}

/// One server. Connected when it is first needed: it may be down while the others are not.
pub(super) struct Member {
    endpoint: String,
    options: ConnectOptions,
    /// Reads and transactions.
    calls: OnceCell<Client>,
    /// What waits for slow readers fills the window that all calls of a connection share.
    streams: OnceCell<Client>,
    health: Mutex<Health>,
}

#[derive(Debug)]
struct Health {
    left_alone_until: Option<Instant>,
    next_pause: Duration,
}

impl Health {
    const GOOD: Health = Health {
        left_alone_until: None,
        next_pause: PAUSE_FIRST,
    };
}

impl Member {
    fn new(endpoint: &str, options: &ConnectOptions) -> Self {
        Member {
            endpoint: endpoint.to_owned(),
            options: options.clone(),
            calls: OnceCell::new(),
            streams: OnceCell::new(),
            health: Mutex::new(Health::GOOD),
        }
    }

    pub(super) async fn kv(&self, deadline: Instant) -> Result<KvClient, Failure> {
        let client = self.client(&self.calls, deadline).await?;
        Ok(client
            .kv_client()
            .max_decoding_message_size(ANSWER_BYTES_MAX))
    }

    pub(super) async fn watch(&self, deadline: Instant) -> Result<WatchClient, Failure> {
        let client = self.client(&self.streams, deadline).await?;
        Ok(client
            .watch_client()
            .max_decoding_message_size(ANSWER_BYTES_MAX))
    }

    async fn client<'a>(
        &self,
        cell: &'a OnceCell<Client>,
        deadline: Instant,
    ) -> Result<&'a Client, Failure> {
        let connect = || Client::connect([&self.endpoint], Some(self.options.clone()));
        let connected = answer(deadline, cell.get_or_try_init(connect)).await;
        connected.map_err(|failure| match failure.kind {
            // Nothing but a password was sent.
            Kind::Lost => Failure {
                kind: Kind::NotSent,
                ..failure
            },
            _ => failure,
        })
    }

    /// Asks for new tokens: the old ones are of before a change of etcd's users, or have expired.
    pub(super) async fn renew_tokens(&self, deadline: Instant) -> Result<(), Failure> {
        for client in [&self.calls, &self.streams]
            .into_iter()
            .filter_map(OnceCell::get)
        {
            answer(deadline, client.refresh_token()).await?;
        }
        Ok(())
    }

    /// Whether to ask it now. One that failed is tried out by one call at a time.
    fn is_due(&self, now: Instant) -> bool {
        let mut health = self.health();
        match health.left_alone_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                health.left_alone_until = Some(now + ATTEMPT_TIMEOUT);
                true
            }
        }
    }

    pub(super) fn worked(&self) {
        *self.health() = Health::GOOD;
    }

    pub(super) fn failed(&self) {
        self.failed_at(Instant::now());
    }

    fn failed_at(&self, now: Instant) {
        let mut health = self.health();
        // Of many calls that fail together only the first counts.
        if health
            .left_alone_until
            .is_none_or(|until| until <= now + ATTEMPT_TIMEOUT)
        {
            let pause = health.next_pause;
            health.left_alone_until = Some(now + pause);
            health.next_pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Members {
        let endpoints = ["http://a", "http://b", "http://c"].map(str::to_owned);
        Members::new(&endpoints, &ConnectOptions::new())
    }

    fn picks(members: &Members, now: Instant, count: usize) -> Vec<String> {
        let pick = |_| {
            members
                .pick_at(now)
                .unwrap()
                .endpoint
                .replace("http://", "")
        };
        (0..count).map(pick).collect()
    }

    #[test]
    fn one_that_fails_is_left_alone_and_then_tried_by_one_call() {
        let members = members();
        let now = Instant::now();
        assert_eq!(picks(&members, now, 3), ["a", "b", "c"]);
        members.all[1].failed_at(now);
        assert_eq!(picks(&members, now, 3), ["a", "c", "c"]);
        let later = now + PAUSE_FIRST;
        assert_eq!(picks(&members, later, 6), ["a", "b", "c", "a", "c", "c"]);
        members.all[1].worked();
        assert_eq!(picks(&members, later, 3), ["a", "b", "c"]);
    }

    #[test]
    fn pauses_grow_while_it_fails_and_end_when_it_works() {
        let members = members();
        let member = &members.all[0];
        let mut now = Instant::now();
        for pause in [5, 10, 20, 30, 30] {
            member.failed_at(now);
            // Others that failed at the same time.
            member.failed_at(now);
            now += Duration::from_secs(pause);
            assert!(!member.is_due(now - Duration::from_millis(1)), "{pause}");
            assert!(member.is_due(now), "{pause}");
        }
        member.worked();
        assert!(member.is_due(now));
    }

    #[test]
    fn if_none_works_all_are_asked_in_turn() {
        let members = members();
        let now = Instant::now();
        for member in &members.all {
            member.failed_at(now);
        }
        assert_eq!(picks(&members, now, 4), ["a", "b", "c", "a"]);
    }
}
