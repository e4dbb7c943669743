//! Temporary etcd server process.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const START_PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct EtcdServer {
    process: Child,
    endpoint: String,
}

impl EtcdServer {
    /// Starts a server with its default settings, so with fsync, on free ports of the loopback interface.
    pub(crate) async fn start(program: &str, data: &Path) -> Result<Self> {
        let client = format!("http://127.0.0.1:{}", free_port()?);
        let peer = format!("http://127.0.0.1:{}", free_port()?);
        let process = Command::new(program)
            .arg("--data-dir")
            .arg(data)
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--initial-cluster", &format!("default={peer}")])
            .args(["--quota-backend-bytes", "8589934592"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| {
                format!("failed to start {program}: install the package etcd-server")
            })?;
        let mut server = EtcdServer {
            process,
            endpoint: client,
        };
        server.wait().await?;
        Ok(server)
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    async fn wait(&mut self) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < START_PATIENCE {
            if let Some(status) = self.process.try_wait()? {
                bail!("the etcd server exited during startup: {status}");
            }
            if let Ok(mut client) = etcd_client::Client::connect([&self.endpoint], None).await
                && client.status().await.is_ok()
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("the etcd server did not become ready within {START_PATIENCE:?}")
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        // The process has no state worth a clean shutdown.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
