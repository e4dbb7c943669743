//! Writes the node's report to the API server: immediately when it changes, but at most once a second. A report that
//! somebody deletes is written again.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::PostParams;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use rhumb_client::{Error, reflector};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::retry_backoff::RetryBackoff;
use rhumb_netpol::node_report::NetworkPolicyNode;

/// Minimum interval between two writes.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(1);
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Runs until the publisher is dropped.
pub(super) async fn run_report_writer(
    client: Client,
    node: String,
    mut reports: watch::Receiver<Option<NetworkPolicyNode>>,
) {
    let api: Api<NetworkPolicyNode> = Api::all(client);
    let own = Config::default().fields(&format!("metadata.name={node}"));
    let mut missing = pin!(report_missing_notifications(reflector::watch_events(
        api.clone(),
        own
    )));
    let mut backoff = RetryBackoff::new(RETRY_FIRST, RETRY_MAX);
    loop {
        let report = reports.borrow_and_update().clone();
        let pause = match &report {
            None => Duration::ZERO,
            Some(report) => match write_report(&api, &node, report).await {
                Ok(()) => {
                    if backoff.on_success() {
                        tracing::info!(%node, "writing the node report succeeded again");
                    }
                    MIN_WRITE_INTERVAL
                }
                Err(error) => {
                    let (wait, should_log) = backoff.on_failure(Instant::now());
                    if should_log {
                        tracing::warn!(%error, %node, ?wait, "failed to write the node report; retrying");
                    }
                    sleep(wait).await;
                    continue;
                }
            },
        };
        sleep(pause).await;
        tokio::select! {
            changed = reports.changed() => if changed.is_err() {
                return;
            },
            // Watched only after it has been written: with a server that does not serve the kind, the write already
            // fails and is logged.
            absent = missing.next(), if report.is_some() => if absent.is_none() {
                return;
            },
        }
    }
}

/// An item each time that the report is found to be missing.
fn report_missing_notifications(
    events: impl futures_util::Stream<Item = Event<NetworkPolicyNode>>,
) -> impl futures_util::Stream<Item = ()> {
    let mut is_listed = false;
    events.filter_map(move |event| {
        let is_absent = match event {
            Event::Init => {
                is_listed = false;
                false
            }
            Event::InitApply(_) => {
                is_listed = true;
                false
            }
            Event::Apply(_) => false,
            Event::InitDone => !is_listed,
            Event::Delete(_) => true,
        };
        std::future::ready(is_absent.then_some(()))
    })
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
