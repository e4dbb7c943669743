//! Controllers run while this process leads, and are started again when they fail.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use kube::Client;
use rhumb_client::leader::{Leadership, Lost};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{Connect, Context, Controller, Options};

/// Between the failure of a controller and its next start.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs the controllers whenever this process leads, until `stop`. Then the lease is given back, so that another
/// process goes on at once.
pub async fn run(
    connect: Arc<dyn Connect>,
    controllers: Vec<&'static Controller>,
    options: Options,
    stop: CancellationToken,
) {
    if controllers.is_empty() {
        return stop.cancelled().await;
    }
    let options = Arc::new(options);
    let own = connect.client(None);
    let leadership = Leadership::new(own.clone(), options.election.clone());
    loop {
        let term = tokio::select! {
            () = stop.cancelled() => return,
            term = leadership.acquire() => term,
        };
        tracing::info!("this process has the lease: controllers run");
        let mut work = JoinSet::new();
        for controller in controllers.iter().copied() {
            let (connect, own, options) = (connect.clone(), own.clone(), options.clone());
            work.spawn(async move { keep_running(controller, &*connect, &own, &options).await });
        }
        let lost = tokio::select! {
            () = stop.cancelled() => None,
            lost = leadership.keep(&term.lead) => Some(lost),
        };
        // Nobody else may begin before all of them have ended.
        work.shutdown().await;
        match lost {
            None => return leadership.release().await,
            Some(Lost::ToAnother) => {
                tracing::warn!("another process has the lease of the controllers: they pause");
            }
            Some(Lost::ByTime) => {
                tracing::warn!("the lease of the controllers was not renewed in time: they pause");
            }
        }
    }
}

/// Each is a task of its own: one that is busy does not hold the others, and its panic is its own.
async fn keep_running(
    controller: &Controller,
    connect: &dyn Connect,
    reader: &Client,
    options: &Arc<Options>,
) {
    loop {
        let context = Context {
            client: connect.client(controller.account),
            reader: reader.clone(),
            options: options.clone(),
        };
        let name = controller.name;
        match AssertUnwindSafe((controller.run)(context))
            .catch_unwind()
            .await
        {
            Ok(Ok(())) => tracing::warn!(controller = name, "ended, and is started again"),
            Ok(Err(error)) => {
                tracing::warn!(controller = name, %error, "failed, and is started again");
            }
            Err(_) => tracing::error!(controller = name, "panicked, and is started again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
