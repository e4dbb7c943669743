//! Writes the node's report to the API server: immediately when it changes, but at most once a second except in short
//! bursts, and as a heartbeat while nothing changes. A heartbeat also restores a report that was deleted.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use rhumb_client::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::retry_backoff::RetryBackoff;
use rhumb_netpol::node_report::{NetworkPolicyNode, heartbeat_delay};

/// Average interval between two writes while the report keeps changing.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Writes in succession after a quiet time. A new pod and a new policy change the report a few times within a second, and
/// `Programmed` waits for the last of them.
const WRITE_BURST: u32 = 5;
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// Well below the grace period of heartbeats, so that agents renew them in time after an outage of the server.
const RETRY_MAX: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// A heartbeat writes the whole report. For every so many policies that it lists, the interval grows by itself, up to the
/// maximum.
const POLICIES_PER_INTERVAL: usize = 100;
const LARGE_REPORT_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Runs until the publisher is dropped.
pub(super) async fn run_report_writer(
    client: Client,
    node: String,
    mut reports: watch::Receiver<Option<NetworkPolicyNode>>,
    heartbeat_interval: Duration,
) {
    let api: Api<NetworkPolicyNode> = Api::all(client);
    let mut backoff = RetryBackoff::new(RETRY_FIRST, RETRY_MAX);
    let mut limiter = WriteLimiter::new(Instant::now());
    loop {
        sleep_until(limiter.next_write()).await;
        let report = reports.borrow_and_update().clone();
        let mut next_heartbeat = None;
        if let Some(mut report) = report {
            let interval = report_interval(heartbeat_interval, report.applied.len());
            report.set_heartbeat(Timestamp::now(), interval);
            next_heartbeat = Some(Instant::now() + heartbeat_delay(interval, fastrand::f64()));
            limiter.record_write(Instant::now());
            if let Err(error) = write_report(&api, &node, &report).await {
                let (wait, should_log) = backoff.on_failure(Instant::now());
                if should_log {
                    tracing::warn!(%error, %node, ?wait, "failed to write the node report; retrying");
                }
                sleep(wait).await;
                continue;
            }
            if backoff.on_success() {
                tracing::info!(%node, "writing the node report succeeded again");
            }
        }
        let heartbeat = async {
            match next_heartbeat {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = reports.changed() => if changed.is_err() {
                return;
            },
            () = heartbeat => {}
        }
    }
}

/// Allows one write per `MIN_WRITE_INTERVAL` on average, and `WRITE_BURST` writes after a quiet time.
struct WriteLimiter {
    /// When the whole burst is available again.
    replenished_at: Instant,
}

impl WriteLimiter {
    fn new(now: Instant) -> WriteLimiter {
        WriteLimiter {
            replenished_at: now,
        }
    }

    /// When the next write is allowed; in the past if it is allowed now.
    fn next_write(&self) -> Instant {
        let burst = MIN_WRITE_INTERVAL * (WRITE_BURST - 1);
        self.replenished_at
            .checked_sub(burst)
            .unwrap_or(self.replenished_at)
    }

    fn record_write(&mut self, now: Instant) {
        self.replenished_at = self.replenished_at.max(now) + MIN_WRITE_INTERVAL;
    }
}

/// The interval of heartbeats of a report that lists this many policies.
fn report_interval(configured: Duration, policies: usize) -> Duration {
    let factor = u32::try_from(1 + policies / POLICIES_PER_INTERVAL).unwrap_or(u32::MAX);
    let limit = LARGE_REPORT_INTERVAL_MAX.max(configured);
    configured.saturating_mul(factor).min(limit)
}

/// Replaces the report; the server creates it if it does not exist.
pub(super) async fn write_report(
    api: &Api<NetworkPolicyNode>,
    node: &str,
    report: &NetworkPolicyNode,
) -> Result<(), Error> {
    let params = PostParams::default();
    match timeout(REQUEST_TIMEOUT, api.replace(node, &params, report)).await {
        Ok(written) => written.map(drop).map_err(Error::from),
        Err(_) => Err(Error::Other(format!(
            "the server did not answer within {} s",
            REQUEST_TIMEOUT.as_secs()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use rhumb_client::testing::{fake_client_with, ok_response};
    use serde_json::Value;

    use super::*;

    #[test]
    fn large_reports_are_renewed_less_often() {
        let seconds = Duration::from_secs;
        for (configured, policies, expected) in [
            (10, 0, 10),
            (10, 99, 10),
            (10, 250, 30),
            (10, 10_000, 60),
            (120, 10_000, 120),
        ] {
            assert_eq!(
                report_interval(seconds(configured), policies),
                seconds(expected)
            );
        }
    }

    #[test]
    fn changes_after_a_quiet_time_are_written_at_once() {
        let start = Instant::now() + Duration::from_secs(3600);
        let mut limiter = WriteLimiter::new(start);
        let mut now = start;
        let mut delays = Vec::new();
        for _ in 0..8 {
            let delay = limiter.next_write().saturating_duration_since(now);
            delays.push(delay.as_secs());
            now += delay;
            limiter.record_write(now);
        }
        assert_eq!(delays, [0, 0, 0, 0, 0, 1, 1, 1]);
        now += Duration::from_secs(60);
        let next = limiter.next_write();
        assert_eq!(next.saturating_duration_since(now), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_are_never_sent_before_their_interval_is_over() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let log = written.clone();
        let client = fake_client_with(move |request| {
            let report: Value = serde_json::from_slice(request.body()).unwrap();
            log.lock().unwrap().push((Instant::now(), report.clone()));
            ok_response(report)
        });
        let report = NetworkPolicyNode::new("n", "a".to_owned(), Vec::new());
        let (published, reports) = watch::channel(Some(report));
        let writer = run_report_writer(client, "n".to_owned(), reports, Duration::from_secs(10));
        let ran = timeout(Duration::from_secs(6000), writer).await;
        assert!(ran.is_err());
        drop(published);
        let written = written.lock().unwrap();
        // At most one write per interval, so that 5,000 idle nodes write at most 500 times a second.
        assert!((500..=600).contains(&written.len()), "{}", written.len());
        let pauses = written.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let pauses: Vec<Duration> = pauses.collect();
        let (least, most) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
        assert!(*least >= Duration::from_secs(10), "{least:?}");
        assert!(*most > Duration::from_secs(11), "no jitter: {most:?}");
        // Two heartbeats may be lost within the grace period of 40 s.
        assert!(*most < Duration::from_millis(12_100), "{most:?}");
        for (_, report) in written.iter() {
            assert_eq!(report["heartbeatSeconds"], 10);
            assert!(report["lastHeartbeatTime"].is_string(), "{report}");
        }
    }
}
