//! Runs controllers, the scheduler and simulated nodes inside `rhumb up`: each on its own thread with its own runtime, so
//! that their load cannot block the request handlers. Entry point: `spawn_supervised`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rhumb_controllers::{ClientFactory, Controller, ControllerOptions};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Delay before a component restarts after a panic.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// The thread of a component.
pub(crate) struct ComponentThread {
    name: &'static str,
    ended: oneshot::Receiver<()>,
}

impl ComponentThread {
    /// Waits until the component has stopped and released its lease.
    pub(crate) async fn ended(self) {
        if self.ended.await.is_err() {
            tracing::error!(
                component = self.name,
                "component thread panicked while stopping"
            );
        }
    }
}

pub(crate) fn start(
    connect: Arc<dyn ClientFactory>,
    controllers: Vec<&'static Controller>,
    options: ControllerOptions,
    stop: CancellationToken,
) -> Result<ComponentThread> {
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

/// Runs the future that `work` returns on its own thread, and restarts it after a panic, until `stop` is cancelled.
pub(crate) fn keep<W>(
    name: &'static str,
    stop: CancellationToken,
    work: impl Fn() -> W + Send + 'static,
) -> Result<ComponentThread>
where
    W: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    let (sender, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            while !stop.is_cancelled() {
                // `work` creates clients, which spawn tasks: it must run inside the runtime.
                let run = || runtime.block_on(async { work().await });
                if catch_unwind(AssertUnwindSafe(run)).is_err() {
                    tracing::error!(component = name, delay = ?RESTART_DELAY, "component panicked; restarting");
                    std::thread::sleep(RESTART_DELAY);
                }
            }
            // Drop the clients before signalling the end: the last reference to the store must be dropped by the
            // server, not by this thread.
            drop((runtime, work));
            // The receiver is gone if the server has failed.
            let _ = sender.send(());
        })
        .context("failed to start the async runtime")?;
    Ok(ComponentThread { name, ended })
}
