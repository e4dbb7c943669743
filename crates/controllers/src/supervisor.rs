//! Runs the controllers while this process holds the leader lease, and restarts them when they fail.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use kube::Client;
use rhumb_client::leader::{LeaderElector, LeadershipLoss};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{ClientFactory, Controller, ControllerContext, ControllerOptions};

/// Delay before a failed controller is restarted.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// Runs the controllers whenever this process is the leader, until `stop`. Then releases the lease, so that another
/// process can take over at once.
pub async fn run(
    connect: Arc<dyn ClientFactory>,
    controllers: Vec<&'static Controller>,
    options: ControllerOptions,
    stop: CancellationToken,
) {
    if controllers.is_empty() {
        return stop.cancelled().await;
    }
    let options = Arc::new(options);
    let own = connect.client(None);
    let leadership = LeaderElector::new(own.clone(), options.election.clone());
    loop {
        let term = tokio::select! {
            () = stop.cancelled() => return,
            term = leadership.acquire() => term,
        };
        tracing::info!("became leader; starting controllers");
        let mut work = JoinSet::new();
        for controller in controllers.iter().copied() {
            let (connect, own, options) = (connect.clone(), own.clone(), options.clone());
            work.spawn(async move { keep_running(controller, &*connect, &own, &options).await });
        }
        let lost = tokio::select! {
            () = stop.cancelled() => None,
            lost = leadership.renew_until_lost(&term.deadline) => Some(lost),
        };
        // Stop all controllers before another process can become the leader.
        work.shutdown().await;
        match lost {
            None => return leadership.release().await,
            Some(LeadershipLoss::HeldByOther) => {
                tracing::warn!(
                    "lost the controllers' leader lease to another process; controllers stopped"
                );
            }
            Some(LeadershipLoss::RenewDeadline) => {
                tracing::warn!(
                    "failed to renew the controllers' leader lease in time; controllers stopped"
                );
            }
        }
    }
}

/// Runs one controller in its own task, so that a slow or panicking one does not affect the others.
async fn keep_running(
    controller: &Controller,
    connect: &dyn ClientFactory,
    reader: &Client,
    options: &Arc<ControllerOptions>,
) {
    loop {
        let context = ControllerContext {
            client: connect.client(controller.account),
            reader: reader.clone(),
            options: options.clone(),
        };
        let name = controller.name;
        match AssertUnwindSafe((controller.run)(context))
            .catch_unwind()
            .await
        {
            Ok(Ok(())) => tracing::warn!(controller = name, "controller ended; restarting in 1s"),
            Ok(Err(error)) => {
                tracing::warn!(controller = name, %error, "controller failed; restarting in 1s");
            }
            Err(_) => tracing::error!(controller = name, "controller panicked; restarting in 1s"),
        }
        tokio::time::sleep(RESTART_DELAY).await;
    }
}
