//! Writes the report of the node: at once when there is something new, and then at most once a second.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::PostParams;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use rhumb_client::{Error, watching};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::patience::Patience;
use rhumb_netpol::report::NetworkPolicyNode;

/// Between two writes.
const SPACING: Duration = Duration::from_secs(1);
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MOST: Duration = Duration::from_secs(30);
const REQUEST_MAX: Duration = Duration::from_secs(15);

/// Ends when nobody has anything to tell any more.
pub(super) async fn run(
    client: Client,
    node: String,
    mut told: watch::Receiver<Option<NetworkPolicyNode>>,
) {
    let api: Api<NetworkPolicyNode> = Api::all(client);
    let own = Config::default().fields(&format!("metadata.name={node}"));
    let mut seen = pin!(absences(watching::events(api.clone(), own)));
    let mut patience = Patience::new(RETRY_FIRST, RETRY_MOST);
    loop {
        let report = told.borrow_and_update().clone();
        let pause = match &report {
            None => Duration::ZERO,
            Some(report) => match write(&api, &node, report).await {
                Ok(()) => {
                    if patience.succeed() {
                        tracing::info!("the report of this node is written again");
                    }
                    SPACING
                }
                Err(error) => {
                    let (wait, is_news) = patience.fail(Instant::now());
                    if is_news {
                        tracing::warn!(%error, "the report of this node cannot be written; it is tried again");
                    }
                    sleep(wait).await;
                    continue;
                }
            },
        };
        sleep(pause).await;
        tokio::select! {
            changed = told.changed() => if changed.is_err() {
                return;
            },
            // It is watched once it has been written: a server that does not know the kind would say so twice.
            absent = seen.next(), if report.is_some() => if absent.is_none() {
                return;
            },
        }
    }
}

/// Tells each time that the report is found to be missing.
fn absences(
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

/// One that does not exist is created.
pub(super) async fn write(
    api: &Api<NetworkPolicyNode>,
    node: &str,
    report: &NetworkPolicyNode,
) -> Result<(), Error> {
    let params = PostParams::default();
    match timeout(REQUEST_MAX, api.replace(node, &params, report)).await {
        Ok(written) => written.map(drop).map_err(Error::from),
        Err(_) => Err(Error::Other(format!(
            "the server has not answered for {} s",
            REQUEST_MAX.as_secs()
        ))),
    }
}
