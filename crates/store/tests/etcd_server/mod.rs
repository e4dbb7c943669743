//! A real etcd server for tests: on loopback ports of its own, with its data in a temporary directory.
//!
//! The binary is `etcd` on the `PATH`, or what `RHUMB_TEST_ETCD` names.

// Each test binary that includes this uses a part of it.
#![allow(dead_code, unreachable_pub)]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a server may take to become healthy. It takes a fraction of a second on an idle machine.
const HEALTHY_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs until it is dropped.
#[derive(Debug)]
pub struct EtcdServer {
    child: Option<Child>,
    directory: TempDir,
    ports: Ports,
    scheme: &'static str,
    arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    client: u16,
    peer: u16,
    health: u16,
}

impl EtcdServer {
    /// A healthy server without TLS and authentication.
    pub async fn start() -> Self {
        Self::start_with("http", &[]).await
    }

    /// With further arguments; the scheme is that of the clients' endpoint.
    pub async fn start_with(scheme: &'static str, arguments: &[&str]) -> Self {
        // Somebody else may take a free port before the server does: then others are tried.
        for _ in 0..5 {
            let mut server = EtcdServer {
                child: None,
                directory: tempfile::tempdir().expect("a temporary directory"),
                ports: free_ports(),
                scheme,
                arguments: arguments
                    .iter()
                    .map(|&argument| argument.to_owned())
                    .collect(),
            };
            if server.try_run().await {
                return server;
            }
            let log = server.log();
            assert!(
                log.contains("address already in use"),
                "etcd does not start:\n{log}"
            );
        }
        panic!("etcd finds no free ports");
    }

    /// Where clients connect to.
    pub fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.ports.client)
    }

    pub fn client_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.client).into()
    }

    /// Ends it as a crash does: with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("etcd can be killed");
            child.wait().expect("etcd has ended");
        }
    }

    /// Ends it in an orderly way.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let signalled = Command::new("kill").arg(child.id().to_string()).status();
            assert!(
                signalled.is_ok_and(|status| status.success()),
                "etcd can be stopped"
            );
            child.wait().expect("etcd has ended");
        }
    }

    /// Runs it again after [`Self::kill`] or [`Self::stop`], with the same data and ports.
    pub async fn restart(&mut self) {
        assert!(self.child.is_none(), "etcd is still running");
        assert!(
            self.try_run().await,
            "etcd does not start again:\n{}",
            self.log()
        );
    }

    /// Loses all its data, as a restore from an old backup loses some. It must not be running.
    pub fn lose_data(&self) {
        assert!(self.child.is_none(), "etcd is still running");
        let data = self.directory.path().join("data");
        std::fs::remove_dir_all(data).expect("etcd's data can be removed");
    }

    /// Whether it became healthy.
    async fn try_run(&mut self) -> bool {
        self.child = Some(self.spawn());
        let begun = Instant::now();
        while !self.is_healthy() {
            let ended = self
                .child
                .as_mut()
                .is_none_or(|child| child.try_wait().is_ok_and(|s| s.is_some()));
            if ended || begun.elapsed() > HEALTHY_TIMEOUT {
                self.kill();
                return false;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        true
    }

    fn spawn(&self) -> Child {
        let binary = std::env::var_os("RHUMB_TEST_ETCD").unwrap_or_else(|| "etcd".into());
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.directory.path().join("log"))
            .expect("a log file");
        let client = self.endpoint();
        let peer = format!("http://127.0.0.1:{}", self.ports.peer);
        Command::new(binary)
            .arg("--data-dir")
            .arg(self.directory.path().join("data"))
            .args(["--name", "test", "--logger", "zap"])
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
            .args(["--initial-cluster", &format!("test={peer}")])
            .args([
                "--listen-metrics-urls",
                &format!("http://127.0.0.1:{}", self.ports.health),
            ])
            // A lone server need not wait for the others' votes.
            .args(["--heartbeat-interval", "10", "--election-timeout", "100"])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("install etcd-server, or set RHUMB_TEST_ETCD to an etcd binary")
    }

    /// Asks where neither TLS nor authentication is needed.
    fn is_healthy(&self) -> bool {
        let ask = || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports.health))?;
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            std::io::Result::Ok(answer)
        };
        ask().is_ok_and(|answer| answer.contains(r#""health":"true""#))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // In a test that has failed already a second panic would hide the first.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Three ports that nobody listens on. They are held together, so they differ.
fn free_ports() -> Ports {
    let held: Vec<TcpListener> = (0..3)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"))
        .collect();
    let port = |index: usize| held[index].local_addr().expect("a bound port").port();
    Ports {
        client: port(0),
        peer: port(1),
        health: port(2),
    }
}
