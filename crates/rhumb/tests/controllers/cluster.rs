//! A server with its controllers, for the time of a test.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::program::{self, Program};

/// Longer than anything takes on a busy machine. No test waits so long unless it fails.
const WAITED_MAX: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);

/// `rhumb up` on a free port, with a data directory of its own.
#[derive(Debug)]
pub(crate) struct Cluster {
    program: Program,
    directory: TempDir,
}

impl Cluster {
    /// Returns when the server says that it is ready.
    pub(crate) fn start() -> Cluster {
        let directory = tempfile::tempdir().expect("a directory");
        Cluster {
            program: Program::start(directory.path(), 0, &[]),
            directory,
        }
    }

    /// As the machine would take it down, and up again, on the same data and port.
    pub(crate) fn crash_and_start_again(&mut self) {
        self.program.kill();
        self.program = Program::start(self.directory.path(), self.program.port, &[]);
    }

    /// A client of the administrator.
    pub(crate) async fn client(&self) -> Client {
        client(self.directory.path()).await
    }

    /// Waits until the condition holds.
    pub(crate) async fn wait_until(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let begun = Instant::now();
        while !is_so().await {
            let waited = begun.elapsed();
            assert!(waited < WAITED_MAX, "not {what}: {}", self.program.log());
            sleep(PAUSE).await;
        }
    }
}

async fn client(directory: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(program::kubeconfig(directory)).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a configuration");
    Client::try_from(config).expect("a client")
}
