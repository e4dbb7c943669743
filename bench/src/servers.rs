//! Starts the API servers under test (rhumb, kube-apiserver with etcd), each in its own temporary directory, and reads
//! their CPU time and memory from `/proc`. Entry points: the command-line options and `Server::start`.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::Method;
use serde_json::json;
use tempfile::TempDir;

use crate::client::{ServerEndpoint, TOKEN};
use crate::store::{free_port, start_etcd};
use rhumb_etcd_harness::EtcdServer;

const START_PATIENCE: Duration = Duration::from_secs(120);

/// Allows pods in namespaces without a service account.
const NO_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

/// Also keeps new nodes untainted: without a node lifecycle controller nothing would remove the taint.
const NO_ACCOUNTS_NO_TAINTS: &str =
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition";

/// Only the API server is measured: kube-apiserver runs without kube-controller-manager too.
const NO_CONTROLLERS: &str = "--controllers=";

/// Interval between readiness checks.
const READY_INTERVAL: Duration = Duration::from_millis(5);

/// Command-line options that select the servers under test.
#[derive(clap::Args)]
pub(crate) struct ServerArguments {
    /// Path of the rhumb binary to measure.
    #[arg(long, env = "RHUMB_BENCH_RHUMB")]
    rhumb: Option<PathBuf>,
    /// Additional flags for rhumb, separated by spaces.
    #[arg(long, env = "RHUMB_BENCH_RHUMB_FLAGS", allow_hyphen_values = true)]
    rhumb_flags: Option<String>,
    /// Path of a kube-apiserver binary to compare with.
    #[arg(long, env = "RHUMB_BENCH_KUBE_APISERVER")]
    kube_apiserver: Option<PathBuf>,
    /// etcd binary, for kube-apiserver and for rhumb on etcd.
    #[arg(long, env = "RHUMB_BENCH_ETCD", default_value = "etcd")]
    etcd: String,
}

impl ServerArguments {
    /// Path of the rhumb binary.
    pub(crate) fn rhumb_program(&self) -> Result<PathBuf> {
        let program = self.rhumb.clone();
        program.context("no rhumb binary: set RHUMB_BENCH_RHUMB or --rhumb")
    }

    pub(crate) fn rhumb(&self) -> Result<ServerProgram> {
        let flags = self.rhumb_flags.as_deref().unwrap_or_default();
        Ok(ServerProgram::Rhumb(RhumbProgram {
            program: self.rhumb_program()?,
            flags: flags.split_whitespace().map(str::to_owned).collect(),
            controllers: Some(NO_CONTROLLERS),
            admission: NO_ACCOUNTS,
            etcd: None,
        }))
    }

    /// rhumb with etcd instead of the embedded store.
    pub(crate) fn rhumb_on_etcd(&self) -> Result<ServerProgram> {
        let mut program = self.rhumb()?;
        if let ServerProgram::Rhumb(rhumb) = &mut program {
            rhumb.etcd = Some(self.etcd.clone());
        }
        Ok(program)
    }

    /// rhumb with all its controllers.
    pub(crate) fn rhumb_with_controllers(&self) -> Result<ServerProgram> {
        let mut program = self.rhumb()?;
        if let ServerProgram::Rhumb(rhumb) = &mut program {
            rhumb.controllers = None;
        }
        Ok(program)
    }

    /// kube-apiserver with etcd, if a binary is given.
    pub(crate) fn peer(&self) -> Option<ServerProgram> {
        let Some(apiserver) = self.kube_apiserver.clone() else {
            eprintln!("RHUMB_BENCH_KUBE_APISERVER is not set: measuring without a comparison");
            return None;
        };
        let etcd = self.etcd.clone();
        let admission = NO_ACCOUNTS;
        Some(ServerProgram::Kubernetes(KubeApiserverProgram {
            apiserver,
            admission,
            etcd,
        }))
    }
}

pub(crate) enum ServerProgram {
    Rhumb(RhumbProgram),
    Kubernetes(KubeApiserverProgram),
    /// Already running, not started by the benchmark.
    Running(AlreadyRunningServer),
}

pub(crate) struct RhumbProgram {
    program: PathBuf,
    flags: Vec<String>,
    /// The `--controllers` flag; all controllers run if absent.
    controllers: Option<&'static str>,
    /// The `--disable-admission-plugins` flag.
    admission: &'static str,
    /// etcd binary to use instead of the embedded store.
    etcd: Option<String>,
}

pub(crate) struct KubeApiserverProgram {
    apiserver: PathBuf,
    admission: &'static str,
    etcd: String,
}

pub(crate) struct AlreadyRunningServer {
    pub(crate) endpoint: ServerEndpoint,
    /// Process ids whose CPU time and memory are read; they must be on this machine.
    pub(crate) processes: Vec<u32>,
}

impl ServerProgram {
    /// For rhumb: also runs the resource quota controller.
    pub(crate) fn with_quota_status(mut self) -> ServerProgram {
        if let ServerProgram::Rhumb(rhumb) = &mut self {
            rhumb.controllers = Some("--controllers=resourcequota-controller");
        }
        self
    }

    /// For rhumb: also runs the network policy status controller.
    pub(crate) fn with_network_policy_status(mut self) -> ServerProgram {
        if let ServerProgram::Rhumb(rhumb) = &mut self {
            rhumb.controllers = Some("--controllers=networkpolicy-status-controller");
        }
        self
    }

    /// Disables the admission plugin that taints new nodes.
    pub(crate) fn with_bare_nodes(mut self) -> ServerProgram {
        match &mut self {
            ServerProgram::Rhumb(rhumb) => rhumb.admission = NO_ACCOUNTS_NO_TAINTS,
            ServerProgram::Kubernetes(peer) => peer.admission = NO_ACCOUNTS_NO_TAINTS,
            ServerProgram::Running(_) => {}
        }
        self
    }

    /// Path of the CA certificate below the server's directory.
    fn authority(&self) -> &'static str {
        match self {
            ServerProgram::Kubernetes(_) => "certificates/apiserver.crt",
            ServerProgram::Rhumb(_) | ServerProgram::Running(_) => "data/pki/ca.crt",
        }
    }
}

impl fmt::Display for ServerProgram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ServerProgram::Rhumb(RhumbProgram { etcd: Some(_), .. }) => "rhumb on etcd",
            ServerProgram::Rhumb(_) => "rhumb",
            ServerProgram::Kubernetes(_) => "kube-apiserver and etcd",
            ServerProgram::Running(_) => "the running server",
        })
    }
}

pub(crate) struct BenchServer<'a> {
    program: &'a ServerProgram,
    pub(crate) endpoint: ServerEndpoint,
    /// From the start of the first process to the first successful `/readyz`.
    pub(crate) ready_in: Duration,
    processes: ServerProcesses,
    directory: TempDir,
}

/// Total CPU time and memory of all processes of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerUsage {
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: u64,
}

/// CPU time of each process of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerCpuTimes {
    pub(crate) apiserver: Duration,
    /// None if the server has no etcd.
    pub(crate) etcd: Option<Duration>,
}

impl ServerCpuTimes {
    pub(crate) fn since(self, before: ServerCpuTimes) -> ServerCpuTimes {
        let etcd = self.etcd.zip(before.etcd);
        ServerCpuTimes {
            apiserver: self.apiserver.saturating_sub(before.apiserver),
            etcd: etcd.map(|(after, before)| after.saturating_sub(before)),
        }
    }
}

/// Fields are dropped in this order: the API server must stop before its etcd.
#[derive(Default)]
struct ServerProcesses {
    apiserver: Option<KillOnDrop>,
    etcd: Option<EtcdServer>,
    of_others: Vec<u32>,
}

struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // The process has no state worth a clean shutdown.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl<'a> BenchServer<'a> {
    pub(crate) async fn start(program: &'a ServerProgram) -> Result<Self> {
        let directory =
            tempfile::tempdir().context("failed to create a directory for the server")?;
        let tokens = format!("{TOKEN},bench,bench,system:masters\n");
        fs::write(directory.path().join("tokens.csv"), tokens)?;
        Self::start_in(program, directory).await
    }

    /// Kills the server and starts it again on the same data.
    pub(crate) async fn start_again(self) -> Result<Self> {
        drop(self.processes);
        Self::start_in(self.program, self.directory).await
    }

    async fn start_in(program: &'a ServerProgram, directory: TempDir) -> Result<Self> {
        let port = free_port()?;
        let started = Instant::now();
        let mut processes = ServerProcesses::default();
        let here = directory.path();
        let endpoint = match program {
            ServerProgram::Rhumb(rhumb) => {
                if let Some(etcd) = &rhumb.etcd {
                    let etcd = start_etcd(etcd, &here.join("etcd")).await?;
                    processes.etcd = Some(etcd);
                }
                let process = start_rhumb(rhumb, processes.etcd.as_ref(), here, port)?;
                let process = processes.apiserver.insert(process);
                wait_until_ready(process, here, program.authority(), port).await?
            }
            ServerProgram::Kubernetes(peer) => {
                let etcd = start_etcd(&peer.etcd, &here.join("etcd")).await?;
                let etcd = processes.etcd.insert(etcd);
                let process = start_kubernetes(peer, etcd, here, port)?;
                let process = processes.apiserver.insert(process);
                wait_until_ready(process, here, program.authority(), port).await?
            }
            ServerProgram::Running(running) => {
                processes.of_others.clone_from(&running.processes);
                running.endpoint.clone()
            }
        };
        Ok(Self {
            program,
            endpoint,
            ready_in: started.elapsed(),
            processes,
            directory,
        })
    }

    /// Directory of the server's data and log, also used by processes started for it.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a kubeconfig with cluster-admin rights for a server started here, as JSON, which is valid YAML.
    pub(crate) fn kubeconfig(&self) -> Result<PathBuf> {
        let path = self.directory.path().join("client.kubeconfig");
        let cluster = json!({
            "server": self.endpoint.url(),
            "certificate-authority": self.directory.path().join(self.program.authority()),
        });
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "bench", "cluster": cluster}],
            "users": [{"name": "bench", "user": {"token": TOKEN}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
            "current-context": "bench",
        });
        fs::write(&path, kubeconfig.to_string())?;
        Ok(path)
    }

    pub(crate) fn usage(&self) -> Result<ServerUsage> {
        let processes = &self.processes;
        let apiserver = processes.apiserver.as_ref().map(|process| process.0.id());
        let etcd = processes.etcd.as_ref().and_then(EtcdServer::id);
        let of_others = processes.of_others.iter().copied();
        let mut sum = ServerUsage::default();
        for id in apiserver.into_iter().chain(etcd).chain(of_others) {
            let one = usage_of(id)
                .context("failed to read the usage of a server process: it has exited")?;
            sum.cpu += one.cpu;
            sum.resident_bytes += one.resident_bytes;
        }
        Ok(sum)
    }

    /// CPU times of a server that was started here.
    pub(crate) fn cpu(&self) -> Result<ServerCpuTimes> {
        let cpu = |process: u32| {
            cpu_of(process).context("failed to read the usage of a server process: it has exited")
        };
        let apiserver = self.processes.apiserver.as_ref();
        let apiserver = apiserver
            .context("per-process CPU times need a server started by the benchmark")?
            .0
            .id();
        let etcd = self.processes.etcd.as_ref().and_then(EtcdServer::id);
        Ok(ServerCpuTimes {
            apiserver: cpu(apiserver)?,
            etcd: etcd.map(cpu).transpose()?,
        })
    }
}

/// Usage of this process, to detect a saturated load generator.
pub(crate) fn own_usage() -> Result<ServerUsage> {
    usage_of(std::process::id()).context("failed to read /proc")
}

/// Peak resident memory of a process.
pub(crate) fn peak_resident_bytes(process: u32) -> Option<u64> {
    kib_of(process, "VmHWM:").map(|kib| kib * 1024)
}

fn usage_of(process: u32) -> Option<ServerUsage> {
    Some(ServerUsage {
        cpu: cpu_of(process)?,
        resident_bytes: kib_of(process, "VmRSS:")? * 1024,
    })
}

/// Value of a memory line of `/proc/PID/status`.
fn kib_of(process: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// CPU time of the threads of a process from `schedstat`. The times in `/proc/PID/stat` are sampled at clock ticks
/// that also wake servers and load generator, and are wrong by a factor for short work.
///
/// Exited threads are not counted; the servers keep theirs.
pub(crate) fn cpu_of(process: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let nanoseconds = threads.flatten().filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Some(Duration::from_nanos(nanoseconds.sum()))
}

fn start_rhumb(
    rhumb: &RhumbProgram,
    etcd: Option<&EtcdServer>,
    directory: &Path,
    port: u16,
) -> Result<KillOnDrop> {
    let mut command = Command::new(&rhumb.program);
    command
        .args(["up", "--secure-port", &port.to_string(), "--data-dir"])
        .arg(directory.join("data"))
        .arg("--token-auth-file")
        .arg(directory.join("tokens.csv"))
        // As for kube-apiserver: no controller creates service accounts.
        .arg(rhumb.admission)
        .args(&rhumb.flags);
    if let Some(etcd) = etcd {
        command.arg(format!("--etcd-servers={}", etcd.endpoint()));
    }
    let has_flag = |flag: &String| flag.starts_with("--controllers");
    if !rhumb.flags.iter().any(has_flag) {
        command.args(rhumb.controllers);
    }
    spawn(&mut command, directory)
}

fn start_kubernetes(
    peer: &KubeApiserverProgram,
    etcd: &EtcdServer,
    directory: &Path,
    port: u16,
) -> Result<KillOnDrop> {
    let key = rcgen::KeyPair::generate()?;
    fs::write(directory.join("tokens.pem"), key.public_key_pem())?;
    fs::write(directory.join("tokens-key.pem"), key.serialize_pem())?;
    let file = |flag: &str, name: &str| format!("--{flag}={}", directory.join(name).display());
    let mut command = Command::new(&peer.apiserver);
    command
        .arg(format!("--etcd-servers={}", etcd.endpoint()))
        .arg(format!("--secure-port={port}"))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg(file("cert-dir", "certificates"))
        .arg(file("token-auth-file", "tokens.csv"))
        .arg(file("service-account-key-file", "tokens.pem"))
        .arg(file("service-account-signing-key-file", "tokens-key.pem"))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg("--service-cluster-ip-range=10.0.0.0/24")
        .arg("--authorization-mode=RBAC")
        .arg(peer.admission)
        .arg("--endpoint-reconciler-type=none");
    spawn(&mut command, directory)
}

fn spawn(command: &mut Command, directory: &Path) -> Result<KillOnDrop> {
    let log = fs::File::create(directory.join("log"))?;
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    Ok(KillOnDrop(child))
}

/// Last lines of a process log, for error messages.
pub(crate) fn last_lines(log: &Path) -> String {
    const LINES: usize = 5;
    let log = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

async fn wait_until_ready(
    process: &mut KillOnDrop,
    directory: &Path,
    authority: &str,
    port: u16,
) -> Result<ServerEndpoint> {
    let authority = directory.join(authority);
    let log_of = |directory: &Path| last_lines(&directory.join("log"));
    let started = Instant::now();
    loop {
        let problem = match try_endpoint(&authority, port).await {
            Ok(endpoint) => return Ok(endpoint),
            Err(problem) => problem,
        };
        if let Some(status) = process.0.try_wait()? {
            bail!("{}\nthe server exited with {status}", log_of(directory));
        }
        if started.elapsed() > START_PATIENCE {
            let context = format!(
                "{}\ntimed out waiting for the server to become ready",
                log_of(directory)
            );
            return Err(problem.context(context));
        }
        tokio::time::sleep(READY_INTERVAL).await;
    }
}

async fn try_endpoint(authority: &Path, port: u16) -> Result<ServerEndpoint> {
    let endpoint = ServerEndpoint::local(port, &fs::read(authority)?)?;
    let mut connection = endpoint.connect().await?;
    connection
        .execute(Method::GET, "/readyz", Bytes::new())
        .await?;
    Ok(endpoint)
}
