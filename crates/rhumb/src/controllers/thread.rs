//! Controllers beside a server: on a thread of their own, so that however much there is to do, the requests of others
//! find a core.

use std::sync::Arc;

use anyhow::{Context, Result};
use rhumb_controllers::{Connect, Controller, Options};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Controllers that run until they are told to stop.
pub(crate) struct Running {
    ended: oneshot::Receiver<()>,
}

impl Running {
    /// Waits until they have given their lease back.
    pub(crate) async fn ended(self) {
        if self.ended.await.is_err() {
            tracing::error!("the controllers ended badly");
        }
    }
}

pub(crate) fn start(
    connect: Arc<dyn Connect>,
    controllers: Vec<&'static Controller>,
    options: Options,
    stop: CancellationToken,
) -> Result<Running> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no threads can be started")?;
    let (sender, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name("controllers".to_owned())
        .spawn(move || {
            runtime.block_on(rhumb_controllers::run(connect, controllers, options, stop));
            // Nobody waits any more if the server has failed.
            let _ = sender.send(());
        })
        .context("no threads can be started")?;
    Ok(Running { ended })
}
