//! The members of the etcd cluster: health, selection and connections.
//!
//! Each member has its own channel instead of one balanced channel: a balanced channel keeps sending calls to a member
//! that accepts connections but does not respond.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, KvClient, WatchClient};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::cluster_client::await_response;
use super::convert::{EtcdFailure, EtcdFailureKind};

/// The maximum response size: etcd limits its responses to 31 bits.
const RESPONSE_BYTES_MAX: usize = i32::MAX as usize;

/// How long one member may take to respond before another is tried.
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a member is skipped after its first failure.
const PAUSE_FIRST: Duration = Duration::from_secs(5);
/// How long a member is skipped at most after repeated failures.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// All configured members, picked round-robin.
pub(super) struct MemberPool {
    all: Vec<Arc<EtcdMember>>,
    next_index: AtomicUsize,
}

impl MemberPool {
    pub(super) fn new(endpoints: &[String], options: &ConnectOptions) -> Self {
        let member = |endpoint: &String| Arc::new(EtcdMember::new(endpoint, options));
        MemberPool {
            all: endpoints.iter().map(member).collect(),
            next_index: AtomicUsize::new(0),
        }
    }

    /// Picks the next available member round-robin; if none is available, the next one regardless.
    pub(super) fn pick(&self) -> Option<Arc<EtcdMember>> {
        self.pick_at(Instant::now())
    }

    fn pick_at(&self, now: Instant) -> Option<Arc<EtcdMember>> {
        let first = self.next_index.fetch_add(1, Ordering::Relaxed) % self.all.len().max(1);
        let (before, from) = self.all.split_at_checked(first)?;
        let working = from
            .iter()
            .chain(before)
            .find(|member| member.is_available(now));
        working.or(from.first()).cloned()
    }
}

/// One member, connected on first use because it may be down while the others are up.
pub(super) struct EtcdMember {
    endpoint: String,
    options: ConnectOptions,
    /// The connection for reads and transactions.
    call_client: OnceCell<Client>,
    /// A separate connection for watches: data for slow readers fills the HTTP/2 window shared by the whole connection.
    watch_client: OnceCell<Client>,
    health: Mutex<MemberHealth>,
}

#[derive(Debug)]
struct MemberHealth {
    paused_until: Option<Instant>,
    next_pause: Duration,
}

impl MemberHealth {
    const HEALTHY: MemberHealth = MemberHealth {
        paused_until: None,
        next_pause: PAUSE_FIRST,
    };
}

impl EtcdMember {
    fn new(endpoint: &str, options: &ConnectOptions) -> Self {
        EtcdMember {
            endpoint: endpoint.to_owned(),
            options: options.clone(),
            call_client: OnceCell::new(),
            watch_client: OnceCell::new(),
            health: Mutex::new(MemberHealth::HEALTHY),
        }
    }

    pub(super) async fn kv(&self, deadline: Instant) -> Result<KvClient, EtcdFailure> {
        let client = self.client(&self.call_client, deadline).await?;
        Ok(client
            .kv_client()
            .max_decoding_message_size(RESPONSE_BYTES_MAX))
    }

    pub(super) async fn watch(&self, deadline: Instant) -> Result<WatchClient, EtcdFailure> {
        let client = self.client(&self.watch_client, deadline).await?;
        Ok(client
            .watch_client()
            .max_decoding_message_size(RESPONSE_BYTES_MAX))
    }

    async fn client<'a>(
        &self,
        cell: &'a OnceCell<Client>,
        deadline: Instant,
    ) -> Result<&'a Client, EtcdFailure> {
        let connect = || Client::connect([&self.endpoint], Some(self.options.clone()));
        let connected = await_response(deadline, cell.get_or_try_init(connect)).await;
        connected.map_err(|failure| match failure.kind {
            // Connecting sends at most the credentials, not the request.
            EtcdFailureKind::Ambiguous => EtcdFailure {
                kind: EtcdFailureKind::NotSent,
                ..failure
            },
            _ => failure,
        })
    }

    /// Renews the auth tokens, which expire or become invalid after a change of etcd's users.
    pub(super) async fn renew_tokens(&self, deadline: Instant) -> Result<(), EtcdFailure> {
        for client in [&self.call_client, &self.watch_client]
            .into_iter()
            .filter_map(OnceCell::get)
        {
            await_response(deadline, client.refresh_token()).await?;
        }
        Ok(())
    }

    /// Whether the member can be used now. After a pause only one call at a time probes a failed member.
    fn is_available(&self, now: Instant) -> bool {
        let mut health = self.health();
        match health.paused_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                health.paused_until = Some(now + ATTEMPT_TIMEOUT);
                true
            }
        }
    }

    pub(super) fn record_success(&self) {
        *self.health() = MemberHealth::HEALTHY;
    }

    pub(super) fn record_failure(&self) {
        self.record_failure_at(Instant::now());
    }

    fn record_failure_at(&self, now: Instant) {
        let mut health = self.health();
        // Of many calls that fail at the same time only the first extends the pause.
        if health
            .paused_until
            .is_none_or(|until| until <= now + ATTEMPT_TIMEOUT)
        {
            let pause = health.next_pause;
            health.paused_until = Some(now + pause);
            health.next_pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn health(&self) -> MutexGuard<'_, MemberHealth> {
        self.health.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> MemberPool {
        let endpoints = ["http://a", "http://b", "http://c"].map(str::to_owned);
        MemberPool::new(&endpoints, &ConnectOptions::new())
    }

    fn picks(members: &MemberPool, now: Instant, count: usize) -> Vec<String> {
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
    fn a_failed_member_is_paused_and_then_probed_by_one_call() {
        let members = members();
        let now = Instant::now();
        assert_eq!(picks(&members, now, 3), ["a", "b", "c"]);
        members.all[1].record_failure_at(now);
        assert_eq!(picks(&members, now, 3), ["a", "c", "c"]);
        let later = now + PAUSE_FIRST;
        assert_eq!(picks(&members, later, 6), ["a", "b", "c", "a", "c", "c"]);
        members.all[1].record_success();
        assert_eq!(picks(&members, later, 3), ["a", "b", "c"]);
    }

    #[test]
    fn pauses_grow_with_failures_and_end_on_success() {
        let members = members();
        let member = &members.all[0];
        let mut now = Instant::now();
        for pause in [5, 10, 20, 30, 30] {
            member.record_failure_at(now);
            // Another call that failed at the same time.
            member.record_failure_at(now);
            now += Duration::from_secs(pause);
            assert!(
                !member.is_available(now - Duration::from_millis(1)),
                "{pause}"
            );
            assert!(member.is_available(now), "{pause}");
        }
        member.record_success();
        assert!(member.is_available(now));
    }

    #[test]
    fn if_all_members_fail_they_are_tried_round_robin() {
        let members = members();
        let now = Instant::now();
        for member in &members.all {
            member.record_failure_at(now);
        }
        assert_eq!(picks(&members, now, 4), ["a", "b", "c", "a"]);
    }
}
