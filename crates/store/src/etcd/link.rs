//! How calls to the cluster are made, and repeated where that does no harm.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{GetOptions, GetResponse, KvClient};
use tokio::time::{Instant, timeout_at};

use super::backoff::Backoff;
use super::convert::{Failure, Kind};
use super::members::{ATTEMPT_TIMEOUT, Member, Members};
use super::version::Version;

/// How often a read is asked in all. The waits between add up to about three seconds, which a restarting
/// server needs.
const READ_ATTEMPTS_MAX: u32 = 7;

/// What all calls share. Cheap to clone.
#[derive(Clone)]
pub(super) struct Link {
    members: Arc<Members>,
    /// The oldest of the servers that answered at connect; `None` if one did not say.
    pub(super) version: Option<Version>,
    pub(super) request_timeout: Duration,
    pub(super) settle_timeout: Duration,
}

impl Link {
    pub(super) fn new(
        members: Members,
        version: Option<Version>,
        request_timeout: Duration,
        settle_timeout: Duration,
    ) -> Self {
        Link {
            members: Arc::new(members),
            version,
            request_timeout,
            settle_timeout,
        }
    }

    /// When a call that begins now must have ended.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.request_timeout
    }

    pub(super) fn keeps_progress_in_order(&self) -> bool {
        let version = self.version;
        version.is_some_and(Version::keeps_progress_in_order)
    }

    pub(super) fn keeps_deletion_at_compaction(&self) -> bool {
        let version = self.version;
        version.is_some_and(Version::keeps_deletion_at_compaction)
    }

    /// A server to ask, and until when: it does not get all the time there is, so that some is left to ask
    /// another.
    pub(super) fn next_member(&self, deadline: Instant) -> Result<(Arc<Member>, Instant), Failure> {
        let attempt = deadline.min(Instant::now() + ATTEMPT_TIMEOUT);
        let member = self.members.pick();
        let member = member.ok_or_else(|| Failure::lost("no etcd endpoint is known"))?;
        Ok((member, attempt))
    }

    /// Makes a call once. After it, a retry goes to another server or with a new token, if that helps.
    pub(super) async fn attempt<T, F>(
        &self,
        deadline: Instant,
        call: impl FnOnce(KvClient) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let (member, deadline) = self.next_member(deadline)?;
        let result = match member.kv(deadline).await {
            Ok(kv) => answer(deadline, call(kv)).await,
            Err(failure) => Err(failure),
        };
        match result.as_ref().map_err(|failure| failure.kind) {
            Err(Kind::NotSent | Kind::Lost) => member.failed(),
            Err(Kind::StaleToken) => {
                let deadline = Instant::now() + ATTEMPT_TIMEOUT;
                if let Err(failure) = member.renew_tokens(deadline).await {
                    tracing::debug!(reason = failure.reason, "no new token from etcd");
                }
            }
            _ => member.worked(),
        }
        result
    }

    /// Makes a call that changes nothing when repeated, again and again if need be.
    pub(super) async fn retrying<T, F, C>(&self, call: C) -> Result<T, Failure>
    where
        C: Fn(KvClient) -> F,
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let deadline = self.deadline();
        let mut backoff = Backoff::new(50, 1600);
        loop {
            let failure = match self.attempt(deadline, &call).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let again = failure.is_passing() && backoff.waits + 1 < READ_ATTEMPTS_MAX;
            if !again || !backoff.wait_before(deadline).await {
                return Err(failure);
            }
        }
    }

    pub(super) async fn read(
        &self,
        key: &[u8],
        options: GetOptions,
    ) -> Result<GetResponse, Failure> {
        self.retrying(|mut kv| {
            let (key, options) = (key.to_vec(), options.clone());
            async move { kv.get(key, Some(options)).await }
        })
        .await
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("version", &self.version)
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}

/// Waits for one answer. A call that was given up may still be carried out by the server.
pub(super) async fn answer<T>(
    deadline: Instant,
    call: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, Failure> {
    match timeout_at(deadline, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Failure {
            kind: Kind::Lost,
            reason: "etcd did not answer in time".to_owned(),
        }),
    }
}
