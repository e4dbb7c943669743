//! Controllers beside a server: on a thread of their own, so that however much there is to do, the requests of others
//! find a core.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rhumb_controllers::{Connect, Controller, Options};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Between a failure and the next start.
const PAUSE: Duration = Duration::from_secs(1);

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
            while !stop.is_cancelled() {
                let run = || {
                    runtime.block_on(rhumb_controllers::run(
                        connect.clone(),
                        controllers.clone(),
                        options.clone(),
                        stop.clone(),
                    ));
                };
                if catch_unwind(AssertUnwindSafe(run)).is_err() {
                    tracing::error!("the controllers failed, and are started again");
                    std::thread::sleep(PAUSE);
                }
            }
            // The store is closed when the last who has it lets it go: that must not be this thread.
            drop((runtime, connect, options));
            // Nobody waits any more if the server has failed.
            let _ = sender.send(());
        })
        .context("no threads can be started")?;
    Ok(Running { ended })
}
