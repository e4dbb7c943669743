//! The connection to the cluster, and how calls that may be repeated are made on it.

use std::fmt;
use std::time::Duration;

use etcd_client::{Client, GetOptions, GetResponse, KvClient, WatchClient};
use tokio::time::{Instant, timeout_at};

use super::backoff::Backoff;
use super::convert::{Failure, Kind};
use super::version::Version;

/// Answers may be as large as etcd can send them: it counts their bytes in 31 bits.
const ANSWER_BYTES_MAX: usize = i32::MAX as usize;

/// How often a read is asked in all. The waits between add up to about three seconds, which a restarting
/// server needs.
const READ_ATTEMPTS_MAX: u32 = 7;

/// What all calls share. Cheap to clone.
#[derive(Clone)]
pub(super) struct Link {
    kv: KvClient,
    watch: WatchClient,
    /// The oldest of the servers that answered at connect; `None` if one did not say.
    pub(super) version: Option<Version>,
    pub(super) request_timeout: Duration,
    pub(super) settle_timeout: Duration,
}

impl Link {
    pub(super) fn new(
        client: &Client,
        version: Option<Version>,
        request_timeout: Duration,
        settle_timeout: Duration,
    ) -> Self {
        Link {
            kv: client
                .kv_client()
                .max_decoding_message_size(ANSWER_BYTES_MAX),
            watch: client
                .watch_client()
                .max_decoding_message_size(ANSWER_BYTES_MAX),
            version,
            request_timeout,
            settle_timeout,
        }
    }

    pub(super) fn kv(&self) -> KvClient {
        self.kv.clone()
    }

    pub(super) fn watch(&self) -> WatchClient {
        self.watch.clone()
    }

    /// When a call that begins now must have ended.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.request_timeout
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
            let failure = match answer(deadline, call(self.kv())).await {
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
