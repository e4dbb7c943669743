//! Controllers run while this process leads, and are started again when they fail.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::leader::Leadership;
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
        tokio::select! {
            () = stop.cancelled() => return,
            () = leadership.acquire() => {}
        }
        let work = join_all(
            controllers
                .iter()
                .map(|controller| keep_running(controller, &*connect, &own, &options)),
        );
        tokio::select! {
            () = stop.cancelled() => {
                leadership.release().await;
                return;
            }
            () = leadership.keep() => tracing::warn!("another process leads now: the controllers pause"),
            _ = work => {}
        }
    }
}

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
        // Its own task: a controller that is busy does not hold the others, and its panic is its own.
        let mut task = AbortOnDrop(tokio::spawn((controller.run)(context)));
        match (&mut task.0).await {
            Ok(Ok(())) => {
                tracing::warn!(controller = controller.name, "ended, and is started again");
            }
            Ok(Err(error)) => {
                tracing::warn!(controller = controller.name, %error, "failed, and is started again");
            }
            Err(error) => {
                tracing::error!(controller = controller.name, %error, "failed, and is started again");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A task that ends with whoever waits for it.
pub(crate) struct AbortOnDrop<T>(pub(crate) tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
