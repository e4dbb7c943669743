//! Calls to the etcd cluster: picks a member, applies timeouts, and retries idempotent calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{GetOptions, GetResponse, KvClient};
use tokio::time::{Instant, timeout_at};

use super::convert::{EtcdFailure, EtcdFailureKind};
use super::jittered_backoff::JitteredBackoff;
use super::members::{ATTEMPT_TIMEOUT, EtcdMember, MemberPool};
use super::version::EtcdVersion;

/// The maximum number of attempts of a read. The waits between them add up to about three seconds, which a restarting
/// server needs.
const READ_ATTEMPTS_MAX: u32 = 7;

/// Client of the whole cluster: its members, oldest version and timeouts. Cheap to clone.
#[derive(Clone)]
pub(super) struct ClusterClient {
    members: Arc<MemberPool>,
    /// The oldest version of the members reached at connect; `None` if one did not report its version.
    pub(super) version: Option<EtcdVersion>,
    pub(super) request_timeout: Duration,
    pub(super) settle_timeout: Duration,
}

impl ClusterClient {
    pub(super) fn new(
        members: MemberPool,
        version: Option<EtcdVersion>,
        request_timeout: Duration,
        settle_timeout: Duration,
    ) -> Self {
        ClusterClient {
            members: Arc::new(members),
            version,
            request_timeout,
            settle_timeout,
        }
    }

    /// The deadline of a call that begins now.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.request_timeout
    }

    pub(super) fn keeps_progress_in_order(&self) -> bool {
        let version = self.version;
        version.is_some_and(EtcdVersion::keeps_progress_in_order)
    }

    pub(super) fn keeps_deletion_at_compaction(&self) -> bool {
        let version = self.version;
        version.is_some_and(EtcdVersion::keeps_deletion_at_compaction)
    }

    /// Picks a member and the deadline of one attempt, which is short enough to leave time for another member.
    pub(super) fn next_member(
        &self,
        deadline: Instant,
    ) -> Result<(Arc<EtcdMember>, Instant), EtcdFailure> {
        let attempt = deadline.min(Instant::now() + ATTEMPT_TIMEOUT);
        let member = self.members.pick();
        let member =
            member.ok_or_else(|| EtcdFailure::ambiguous("no etcd endpoint is configured"))?;
        Ok((member, attempt))
    }

    /// Makes a call once, and records the result: a retry then uses another member or a new token.
    pub(super) async fn call_once<T, F>(
        &self,
        deadline: Instant,
        call: impl FnOnce(KvClient) -> F,
    ) -> Result<T, EtcdFailure>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let (member, deadline) = self.next_member(deadline)?;
        let result = match member.kv(deadline).await {
            Ok(kv) => await_response(deadline, call(kv)).await,
            Err(failure) => Err(failure),
        };
        match result.as_ref().map_err(|failure| failure.kind) {
            Err(EtcdFailureKind::NotSent | EtcdFailureKind::Ambiguous) => member.record_failure(),
            Err(EtcdFailureKind::StaleToken) => {
                let deadline = Instant::now() + ATTEMPT_TIMEOUT;
                if let Err(failure) = member.renew_tokens(deadline).await {
                    tracing::debug!(
                        reason = failure.reason,
                        "failed to renew the etcd auth token; the next attempt retries"
                    );
                }
            }
            _ => member.record_success(),
        }
        result
    }

    /// Makes an idempotent call, with retries.
    pub(super) async fn call_with_retries<T, F, C>(&self, call: C) -> Result<T, EtcdFailure>
    where
        C: Fn(KvClient) -> F,
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let deadline = self.deadline();
        let mut backoff = JitteredBackoff::new(50, 1600);
        loop {
            let failure = match self.call_once(deadline, &call).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let again = failure.is_transient() && backoff.waits() + 1 < READ_ATTEMPTS_MAX;
            if !again || !backoff.wait_before(deadline).await {
                return Err(failure);
            }
        }
    }

    pub(super) async fn read(
        &self,
        key: &[u8],
        options: GetOptions,
    ) -> Result<GetResponse, EtcdFailure> {
        self.call_with_retries(|mut kv| {
            let (key, options) = (key.to_vec(), options.clone());
            async move { kv.get(key, Some(options)).await }
        })
        .await
    }
}

impl fmt::Debug for ClusterClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterClient")
            .field("version", &self.version)
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}

/// Waits for a response until the deadline. After a timeout the server may still apply the request.
pub(super) async fn await_response<T>(
    deadline: Instant,
    call: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, EtcdFailure> {
    match timeout_at(deadline, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(EtcdFailure {
            kind: EtcdFailureKind::Ambiguous,
            reason: "etcd did not answer in time".to_owned(),
        }),
    }
}
