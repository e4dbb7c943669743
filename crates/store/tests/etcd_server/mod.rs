//! A real etcd server for tests, on free loopback ports, with its data in a temporary directory.
//!
//! The binary is `etcd` on the `PATH`, or the one that `RHUMB_TEST_ETCD` names.

// Each test binary that includes this module uses only a part of it.
#![allow(dead_code, unreachable_pub)]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a server may take to become healthy. It takes a fraction of a second on an idle machine.
const HEALTHY_TIMEOUT: Duration = Duration::from_secs(30);

/// An etcd process; killed when dropped.
#[derive(Debug)]
pub struct EtcdServer {
    child: Option<Child>,
    directory: TempDir,
    ports: EtcdPorts,
    scheme: &'static str,
    name: String,
    /// The value of `--initial-cluster`.
    cluster: String,
    arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct EtcdPorts {
    client: u16,
    peer: u16,
    health: u16,
}

impl EtcdServer {
    /// Starts a server without TLS and authentication, and waits until it is healthy.
    pub async fn start() -> Self {
        Self::start_with("http", &[]).await
    }

    /// Starts a server with further arguments; `scheme` is that of the client endpoint.
    pub async fn start_with(scheme: &'static str, arguments: &[&str]) -> Self {
        // Another process may take a free port before the server does: then retry with other ports.
        for _ in 0..5 {
            let ports = free_ports();
            let cluster = ports.member("test");
            let mut server = EtcdServer::new("test", &cluster, ports, scheme, arguments);
            if server.try_run().await {
                return server;
            }
            let log = server.log();
            assert!(
                log.contains("address already in use"),
                "etcd failed to start:\n{log}"
            );
        }
        panic!("no free ports for etcd");
    }

    fn new(
        name: &str,
        cluster: &str,
        ports: EtcdPorts,
        scheme: &'static str,
        arguments: &[&str],
    ) -> Self {
        EtcdServer {
            child: None,
            directory: tempfile::tempdir().expect("create temporary directory"),
            ports,
            scheme,
            name: name.to_owned(),
            cluster: cluster.to_owned(),
            arguments: arguments
                .iter()
                .map(|&argument| argument.to_owned())
                .collect(),
        }
    }

    /// Starts a cluster of three members, and waits until they are healthy.
    pub async fn start_cluster() -> Vec<Self> {
        let names = ["one", "two", "three"];
        for _ in 0..5 {
            let ports = free_ports_for_three();
            let member = |(name, ports): (&&str, &EtcdPorts)| ports.member(name);
            let cluster: Vec<String> = names.iter().zip(&ports).map(member).collect();
            let cluster = cluster.join(",");
            // Longer timeouts than for a single server: elections use the network, and the machine may be busy.
            let arguments = ["--heartbeat-interval", "50", "--election-timeout", "500"];
            let mut members: Vec<Self> = names
                .iter()
                .zip(ports)
                .map(|(name, ports)| Self::new(name, &cluster, ports, "http", &arguments))
                .collect();
            for member in &mut members {
                member.child = Some(member.spawn());
            }
            let mut all_healthy = true;
            for member in &mut members {
                all_healthy = all_healthy && member.becomes_healthy().await;
            }
            if all_healthy {
                return members;
            }
        }
        panic!("the etcd cluster did not become healthy");
    }

    /// Suspends the process: it still accepts connections, but does not respond.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let child = self.child.as_ref().expect("etcd is running");
        let sent = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "{signal}");
    }

    /// The client endpoint.
    pub fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.ports.client)
    }

    pub fn client_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.client).into()
    }

    /// Kills the process with SIGKILL, like a crash.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("etcd can be killed");
            child.wait().expect("etcd has ended");
        }
    }

    /// Stops the process with SIGTERM.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let signalled = Command::new("kill").arg(child.id().to_string()).status();
            assert!(
                signalled.is_ok_and(|status| status.success()),
                "failed to stop etcd"
            );
            child.wait().expect("etcd has ended");
        }
    }

    /// Starts the process again after [`Self::kill`] or [`Self::stop`], with the same data and ports.
    pub async fn restart(&mut self) {
        assert!(self.child.is_none(), "etcd is still running");
        assert!(
            self.try_run().await,
            "etcd failed to restart:\n{}",
            self.log()
        );
    }

    /// Deletes all data, as a restore of an old backup loses some. The process must not be running.
    pub fn lose_data(&self) {
        assert!(self.child.is_none(), "etcd is still running");
        let data = self.directory.path().join("data");
        std::fs::remove_dir_all(data).expect("etcd's data can be removed");
    }

    /// Starts the process; returns whether it became healthy.
    async fn try_run(&mut self) -> bool {
        self.child = Some(self.spawn());
        self.becomes_healthy().await
    }

    async fn becomes_healthy(&mut self) -> bool {
        let started = Instant::now();
        while !self.is_healthy() {
            let ended = self
                .child
                .as_mut()
                .is_none_or(|child| child.try_wait().is_ok_and(|s| s.is_some()));
            if ended || started.elapsed() > HEALTHY_TIMEOUT {
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
            .expect("open log file");
        let client = self.endpoint();
        let peer = format!("http://127.0.0.1:{}", self.ports.peer);
        Command::new(binary)
            .arg("--data-dir")
            .arg(self.directory.path().join("data"))
            .args(["--name", &self.name, "--logger", "zap"])
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
            .args(["--initial-cluster", &self.cluster])
            .args([
                "--listen-metrics-urls",
                &format!("http://127.0.0.1:{}", self.ports.health),
            ])
            // Short timeouts: a single server elects itself.
            .args(["--heartbeat-interval", "10", "--election-timeout", "100"])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("install etcd-server, or set RHUMB_TEST_ETCD to an etcd binary")
    }

    /// Queries the health endpoint on the metrics port, which needs neither TLS nor authentication.
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
            // Do not panic: in a failed test a second panic would hide the first.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl EtcdPorts {
    /// The entry of a member in `--initial-cluster`.
    fn member(&self, name: &str) -> String {
        format!("{name}=http://127.0.0.1:{}", self.peer)
    }
}

/// Three distinct free ports: all are bound at the same time.
fn free_ports() -> EtcdPorts {
    let [ports, ..] = free_ports_for_three();
    ports
}

fn free_ports_for_three() -> [EtcdPorts; 3] {
    let held: Vec<TcpListener> = (0..9)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind a free port"))
        .collect();
    let port = |index: usize| held[index].local_addr().expect("local address").port();
    [0, 3, 6].map(|first| EtcdPorts {
        client: port(first),
        peer: port(first + 1),
        health: port(first + 2),
    })
}
