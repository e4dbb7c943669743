//! Clients beside a server: each on a thread of its own, so that however much there is to do, the requests of others find
//! a core.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Between a failure and the next start.
const PAUSE: Duration = Duration::from_secs(1);

/// Something that runs until it is told to stop.
pub(crate) struct Running {
    what: &'static str,
    ended: oneshot::Receiver<()>,
}

impl Running {
    /// Waits until it has given its lease back.
    pub(crate) async fn ended(self) {
        if self.ended.await.is_err() {
            tracing::error!("{} ended badly", self.what);
        }
    }
}

/// `run` goes on until `stop`; when it fails, it is started again.
pub(crate) fn start<F: Future<Output = ()>>(
    what: &'static str,
    run: impl Fn() -> F + Send + 'static,
    stop: CancellationToken,
) -> Result<Running> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no threads can be started")?;
    let (sender, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name(what.to_owned())
        .spawn(move || {
            while !stop.is_cancelled() {
                // Clients belong to the runtime that they are made on.
                let run = || runtime.block_on(async { run().await });
                if catch_unwind(AssertUnwindSafe(run)).is_err() {
                    tracing::error!("{what} failed, and is started again");
                    std::thread::sleep(PAUSE);
                }
            }
            // The store is closed when the last who has it lets it go: that must not be this thread.
            drop((runtime, run));
            // Nobody waits any more if the server has failed.
            let _ = sender.send(());
        })
        .context("no threads can be started")?;
    Ok(Running { what, ended })
}
