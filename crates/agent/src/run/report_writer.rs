//! Writes the node's report to the API server: immediately when it changes, but at most once a second. A report that
//! somebody deletes is written again.

use std::future::ready;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::PostParams;
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use rhumb_client::Error;
use rhumb_client::informer::{self, Event};
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
    let events = informer::events(api.clone(), own, NetworkPolicyNode::name_any);
    let mut missing = pin!(events.filter(|event| ready(is_absent(event))));
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

/// Whether the event says that the report does not exist.
fn is_absent(event: &Event<NetworkPolicyNode, String>) -> bool {
    match event {
        Event::Applied(_) => false,
        Event::Deleted(_) => true,
        Event::Replaced(names) => names.is_empty(),
    }
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
