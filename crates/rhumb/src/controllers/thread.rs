//! Controllers and simulated nodes beside a server: each on a thread of their own, so that however much there is to do,
//! the requests of others find a core.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rhumb_controllers::{Connect, Controller, Options};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Between a failure and the next start.
const PAUSE: Duration = Duration::from_secs(1);

/// What runs until it is told to stop.
pub(crate) struct Running {
    name: &'static str,
    ended: oneshot::Receiver<()>,
}

impl Running {
    /// Waits until it has ended: controllers have given their lease back by then.
    pub(crate) async fn ended(self) {
        if self.ended.await.is_err() {
            tracing::error!("the {} ended badly", self.name);
        }
    }
}

pub(crate) fn start(
    connect: Arc<dyn Connect>,
    controllers: Vec<&'static Controller>,
    options: Options,
    stop: CancellationToken,
) -> Result<Running> {
    let token = stop.clone();
    keep("controllers", stop, move || {
        rhumb_controllers::run(
            connect.clone(),
            controllers.clone(),
            options.clone(),
            token.clone(),
        )
    })
}

/// Runs what `work` makes on a thread of its own, again after a failure, until `stop`.
pub(crate) fn keep<W>(
    name: &'static str,
    stop: CancellationToken,
    work: impl Fn() -> W + Send + 'static,
) -> Result<Running>
where
    W: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no threads can be started")?;
    let (sender, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            while !stop.is_cancelled() {
                // Clients are made inside: they begin tasks.
                let run = || runtime.block_on(async { work().await });
                if catch_unwind(AssertUnwindSafe(run)).is_err() {
                    tracing::error!("the {name} failed, and are started again");
                    std::thread::sleep(PAUSE);
                }
            }
            // The store is closed when the last who has it lets it go: that must not be this thread.
            drop((runtime, work));
            // Nobody waits any more if the server has failed.
            let _ = sender.send(());
        })
        .context("no threads can be started")?;
    Ok(Running { name, ended })
}
