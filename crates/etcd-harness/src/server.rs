//! An etcd process: start, health, signals, restart.

use std::fs::File;
use std::io::{Error, Read, Result, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{EtcdConfig, free_ports};

/// How long a server may take to become healthy. It takes a fraction of a second on an idle machine.
const HEALTHY_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause between two health checks.
const HEALTH_INTERVAL: Duration = Duration::from_millis(10);

/// How often a server is started on other ports, because another process took a free one first.
const PORT_ATTEMPTS: usize = 5;

/// Short timeouts: a single server elects itself.
const SINGLE_TEST_SERVER: [&str; 4] = ["--heartbeat-interval", "10", "--election-timeout", "100"];

/// Longer timeouts than for a single server: elections use the network, and the machine may be busy.
const TEST_CLUSTER: [&str; 4] = ["--heartbeat-interval", "50", "--election-timeout", "500"];

/// An etcd process; killed when dropped.
#[derive(Debug)]
pub struct EtcdServer {
    child: Option<Child>,
    config: EtcdConfig,
    directory: PathBuf,
    /// Removed when dropped.
    _temporary: Option<TempDir>,
    ports: EtcdPorts,
    name: String,
    /// The value of `--initial-cluster`.
    cluster: String,
}

#[derive(Debug, Clone, Copy)]
struct EtcdPorts {
    client: u16,
    peer: u16,
    health: u16,
}

/// What a health check of a process that was just started finds.
enum EtcdStartup {
    Pending,
    Healthy,
    Failed,
}

/// For tests: these panic if the server does not start.
impl EtcdServer {
    /// Starts a server without TLS and authentication, and waits until it is healthy.
    pub async fn start() -> EtcdServer {
        EtcdServer::start_with("http", &[]).await
    }

    /// Starts a server with further arguments; `scheme` is that of the client endpoint.
    pub async fn start_with(scheme: &'static str, arguments: &[&str]) -> EtcdServer {
        let config = EtcdConfig {
            scheme,
            ..EtcdConfig::default()
        };
        let config = config
            .with_arguments(&SINGLE_TEST_SERVER)
            .with_arguments(arguments);
        EtcdServer::launch(config)
            .await
            .expect("install etcd-server, or set RHUMB_TEST_ETCD to an etcd binary")
    }

    /// Starts a cluster of three members, and waits until they are healthy.
    pub async fn start_cluster() -> Vec<EtcdServer> {
        let names = ["one", "two", "three"];
        for _ in 0..PORT_ATTEMPTS {
            let ports = EtcdPorts::free_for_three().expect("bind free ports");
            let member = |(name, ports): (&&str, &EtcdPorts)| ports.member(name);
            let cluster: Vec<String> = names.iter().zip(&ports).map(member).collect();
            let cluster = cluster.join(",");
            let config = EtcdConfig::default().with_arguments(&TEST_CLUSTER);
            let mut members: Vec<EtcdServer> = Vec::new();
            for (name, ports) in names.iter().zip(ports) {
                let mut member = EtcdServer::new(name, &cluster, ports, config.clone())
                    .expect("create temporary directory");
                member.spawn().expect("run etcd");
                members.push(member);
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
        let id = self.id().expect("etcd is running");
        let sent = Command::new("kill")
            .args([signal, &id.to_string()])
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "{signal}");
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
        if self.child.is_some() {
            self.signal("-TERM");
        }
        if let Some(mut child) = self.child.take() {
            child.wait().expect("etcd has ended");
        }
    }

    /// Starts the process again after [`Self::kill`] or [`Self::stop`], with the same data and ports.
    pub async fn restart(&mut self) {
        assert!(self.child.is_none(), "etcd is still running");
        self.spawn().expect("run etcd");
        assert!(
            self.becomes_healthy().await,
            "etcd failed to restart:\n{}",
            self.log()
        );
    }

    /// Deletes all data, as a restore of an old backup loses some. The process must not be running.
    pub fn lose_data(&self) {
        assert!(self.child.is_none(), "etcd is still running");
        let data = self.directory.join("data");
        std::fs::remove_dir_all(data).expect("etcd's data can be removed");
    }
}

impl EtcdServer {
    /// Starts a server and waits until it is healthy.
    pub async fn launch(config: EtcdConfig) -> Result<EtcdServer> {
        for _ in 0..PORT_ATTEMPTS {
            let mut server = EtcdServer::spawn_on_free_ports(&config)?;
            if server.becomes_healthy().await {
                return Ok(server);
            }
            server.check_port_conflict()?;
        }
        Err(Error::other("no free ports for etcd"))
    }

    /// As [`EtcdServer::launch`], for callers without a runtime.
    pub fn launch_blocking(config: EtcdConfig) -> Result<EtcdServer> {
        for _ in 0..PORT_ATTEMPTS {
            let mut server = EtcdServer::spawn_on_free_ports(&config)?;
            let started = Instant::now();
            loop {
                match server.startup(started) {
                    EtcdStartup::Healthy => return Ok(server),
                    EtcdStartup::Failed => break,
                    EtcdStartup::Pending => std::thread::sleep(HEALTH_INTERVAL),
                }
            }
            server.check_port_conflict()?;
        }
        Err(Error::other("no free ports for etcd"))
    }

    fn spawn_on_free_ports(config: &EtcdConfig) -> Result<EtcdServer> {
        let [ports, ..] = EtcdPorts::free_for_three()?;
        let cluster = ports.member("test");
        let mut server = EtcdServer::new("test", &cluster, ports, config.clone())?;
        server.spawn()?;
        Ok(server)
    }

    fn new(name: &str, cluster: &str, ports: EtcdPorts, config: EtcdConfig) -> Result<EtcdServer> {
        let (directory, temporary) = match &config.directory {
            Some(directory) => {
                std::fs::create_dir_all(directory)?;
                (directory.clone(), None)
            }
            None => {
                let temporary = tempfile::tempdir()?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        Ok(EtcdServer {
            child: None,
            config,
            directory,
            _temporary: temporary,
            ports,
            name: name.to_owned(),
            cluster: cluster.to_owned(),
        })
    }

    /// The client endpoint.
    pub fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", self.config.scheme, self.ports.client)
    }

    pub fn client_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.client).into()
    }

    /// The process id, while it is running.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Only a conflict over a port is worth another attempt.
    fn check_port_conflict(&self) -> Result<()> {
        let log = self.log();
        match log.contains("address already in use") {
            true => Ok(()),
            false => Err(Error::other(format!("etcd failed to start:\n{log}"))),
        }
    }

    async fn becomes_healthy(&mut self) -> bool {
        let started = Instant::now();
        loop {
            match self.startup(started) {
                EtcdStartup::Healthy => return true,
                EtcdStartup::Failed => return false,
                EtcdStartup::Pending => tokio::time::sleep(HEALTH_INTERVAL).await,
            }
        }
    }

    fn startup(&mut self, started: Instant) -> EtcdStartup {
        if self.is_healthy() {
            return EtcdStartup::Healthy;
        }
        let ended = self
            .child
            .as_mut()
            .is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()));
        if ended || started.elapsed() > HEALTHY_TIMEOUT {
            self.end();
            return EtcdStartup::Failed;
        }
        EtcdStartup::Pending
    }

    fn spawn(&mut self) -> Result<()> {
        let binary = &self.config.binary;
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())?;
        let client = self.endpoint();
        let peer = format!("http://127.0.0.1:{}", self.ports.peer);
        let mut command = Command::new(binary);
        command
            .arg("--data-dir")
            .arg(self.directory.join("data"))
            .args(["--name", &self.name, "--logger", "zap"])
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &self.cluster])
            .arg("--listen-metrics-urls")
            .arg(format!("http://127.0.0.1:{}", self.ports.health))
            .args(&self.config.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let cannot_run = |error| Error::other(format!("cannot run {}: {error}", binary.display()));
        self.child = Some(command.spawn().map_err(cannot_run)?);
        Ok(())
    }

    /// Queries the health endpoint on the metrics port, which needs neither TLS nor authentication.
    fn is_healthy(&self) -> bool {
        let ask = || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports.health))?;
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Result::Ok(answer)
        };
        ask().is_ok_and(|answer| answer.contains(r#""health":"true""#))
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join("log")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Kills the process, ignoring errors: in a failed test a panic here would hide the first one.
    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        self.end();
    }
}

impl EtcdPorts {
    fn free_for_three() -> Result<[EtcdPorts; 3]> {
        let ports = free_ports::<9>()?;
        Ok([0, 3, 6].map(|first| EtcdPorts {
            client: ports[first],
            peer: ports[first + 1],
            health: ports[first + 2],
        }))
    }

    /// The entry of a member in `--initial-cluster`.
    fn member(&self, name: &str) -> String {
        format!("{name}=http://127.0.0.1:{}", self.peer)
    }
}
