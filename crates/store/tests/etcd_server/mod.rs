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
    name: String,
    /// The members of its cluster, as etcd is told them.
    cluster: String,
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
            let ports = free_ports();
            let cluster = ports.member("test");
            let mut server = EtcdServer::new("test", &cluster, ports, scheme, arguments);
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

    fn new(
        name: &str,
        cluster: &str,
        ports: Ports,
        scheme: &'static str,
        arguments: &[&str],
    ) -> Self {
        EtcdServer {
            child: None,
            directory: tempfile::tempdir().expect("a temporary directory"),
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

    /// Three healthy members of one cluster.
    pub async fn start_cluster() -> Vec<Self> {
        let names = ["one", "two", "three"];
        for _ in 0..5 {
            let ports = free_ports_for_three();
            let member = |(name, ports): (&&str, &Ports)| ports.member(name);
            let cluster: Vec<String> = names.iter().zip(&ports).map(member).collect();
            let cluster = cluster.join(",");
            // Votes cross the network, and the machine may be busy.
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
        panic!("the members of the cluster do not start");
    }

    /// It accepts connections, and answers nothing.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let child = self.child.as_ref().expect("a running etcd");
        let sent = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "{signal}");
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
        self.becomes_healthy().await
    }

    async fn becomes_healthy(&mut self) -> bool {
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

impl Ports {
    /// How etcd is told of a member with these.
    fn member(&self, name: &str) -> String {
        format!("{name}=http://127.0.0.1:{}", self.peer)
    }
}

/// Three ports that nobody listens on. They are held together, so they differ.
fn free_ports() -> Ports {
    let [ports, ..] = free_ports_for_three();
    ports
}

fn free_ports_for_three() -> [Ports; 3] {
    let held: Vec<TcpListener> = (0..9)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"))
        .collect();
    let port = |index: usize| held[index].local_addr().expect("a bound port").port();
    [0, 3, 6].map(|first| Ports {
        client: port(first),
        peer: port(first + 1),
        health: port(first + 2),
    })
}
