//! The servers under load, each in a directory of its own, and what they use.

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

use crate::client::{Endpoint, TOKEN};
use crate::store::{EtcdServer, free_port};

const START_PATIENCE: Duration = Duration::from_secs(120);

/// Lets pods be made where there is no service account.
const NO_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

/// Also lets nodes be ready from the start: where no controller runs, nothing would take their taint away.
const NO_ACCOUNTS_NO_TAINTS: &str =
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition";

/// What is measured is an API server: beside a kube-apiserver runs no kube-controller-manager either.
const NO_CONTROLLERS: &str = "--controllers=";

/// How often a server is asked whether it is ready.
const READY_INTERVAL: Duration = Duration::from_millis(5);

/// Which servers are measured.
#[derive(clap::Args)]
pub(crate) struct Choice {
    /// The rhumb to measure.
    #[arg(long, env = "RHUMB_BENCH_RHUMB")]
    rhumb: Option<PathBuf>,
    /// What else to tell rhumb when it starts, separated by spaces.
    #[arg(long, env = "RHUMB_BENCH_RHUMB_FLAGS", allow_hyphen_values = true)]
    rhumb_flags: Option<String>,
    /// A kube-apiserver to compare with.
    #[arg(long, env = "RHUMB_BENCH_KUBE_APISERVER")]
    kube_apiserver: Option<PathBuf>,
    /// The etcd that it keeps its objects in, and rhumb where that is measured.
    #[arg(long, env = "RHUMB_BENCH_ETCD", default_value = "etcd")]
    etcd: String,
}

impl Choice {
    /// The rhumb itself.
    pub(crate) fn rhumb_program(&self) -> Result<PathBuf> {
        let program = self.rhumb.clone();
        program.context("RHUMB_BENCH_RHUMB or --rhumb must name a rhumb")
    }

    pub(crate) fn rhumb(&self) -> Result<Program> {
        let flags = self.rhumb_flags.as_deref().unwrap_or_default();
        Ok(Program::Rhumb(Rhumb {
            program: self.rhumb_program()?,
            flags: flags.split_whitespace().map(str::to_owned).collect(),
            controllers: Some(NO_CONTROLLERS),
            admission: NO_ACCOUNTS,
            etcd: None,
        }))
    }

    /// One that keeps its objects where the peer does.
    pub(crate) fn rhumb_on_etcd(&self) -> Result<Program> {
        let mut program = self.rhumb()?;
        if let Program::Rhumb(rhumb) = &mut program {
            rhumb.etcd = Some(self.etcd.clone());
        }
        Ok(program)
    }

    /// One that also does what is a kube-controller-manager's.
    pub(crate) fn rhumb_with_controllers(&self) -> Result<Program> {
        let mut program = self.rhumb()?;
        if let Program::Rhumb(rhumb) = &mut program {
            rhumb.controllers = None;
        }
        Ok(program)
    }

    /// What to compare with, if anything.
    pub(crate) fn peer(&self) -> Option<Program> {
        let Some(apiserver) = self.kube_apiserver.clone() else {
            eprintln!(
                "RHUMB_BENCH_KUBE_APISERVER names no kube-apiserver: nothing to compare with"
            );
            return None;
        };
        let etcd = self.etcd.clone();
        let admission = NO_ACCOUNTS;
        Some(Program::Kubernetes(Peer {
            apiserver,
            admission,
            etcd,
        }))
    }
}

pub(crate) enum Program {
    Rhumb(Rhumb),
    Kubernetes(Peer),
    /// Started by someone else.
    Running(Running),
}

pub(crate) struct Rhumb {
    program: PathBuf,
    flags: Vec<String>,
    /// The flag that says which are on; all, if there is none.
    controllers: Option<&'static str>,
    /// The flag that says which admission plugins are off.
    admission: &'static str,
    /// Instead of the embedded store.
    etcd: Option<String>,
}

pub(crate) struct Peer {
    apiserver: PathBuf,
    admission: &'static str,
    etcd: String,
}

pub(crate) struct Running {
    pub(crate) endpoint: Endpoint,
    /// Whose CPU time and memory are looked at, which needs the server to be on this machine.
    pub(crate) processes: Vec<u32>,
}

impl Program {
    /// One that also keeps the status of quotas up to date, if it is a rhumb.
    pub(crate) fn with_quota_status(mut self) -> Program {
        if let Program::Rhumb(rhumb) = &mut self {
            rhumb.controllers = Some("--controllers=resourcequota-controller");
        }
        self
    }

    /// One whose nodes are as they are created.
    pub(crate) fn with_bare_nodes(mut self) -> Program {
        match &mut self {
            Program::Rhumb(rhumb) => rhumb.admission = NO_ACCOUNTS_NO_TAINTS,
            Program::Kubernetes(peer) => peer.admission = NO_ACCOUNTS_NO_TAINTS,
            Program::Running(_) => {}
        }
        self
    }

    /// Where a server of this program has the authority of its certificate.
    fn authority(&self) -> &'static str {
        match self {
            Program::Kubernetes(_) => "certificates/apiserver.crt",
            Program::Rhumb(_) | Program::Running(_) => "data/pki/ca.crt",
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Program::Rhumb(Rhumb { etcd: Some(_), .. }) => "rhumb on etcd",
            Program::Rhumb(_) => "rhumb",
            Program::Kubernetes(_) => "kube-apiserver and etcd",
            Program::Running(_) => "the running server",
        })
    }
}

pub(crate) struct Server<'a> {
    program: &'a Program,
    pub(crate) endpoint: Endpoint,
    /// From the start of the first process to the first good answer of `/readyz`.
    pub(crate) ready_in: Duration,
    processes: Processes,
    directory: TempDir,
}

/// What all processes of a server have used and hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: u64,
}

/// What the processes of a server have used, each for itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) apiserver: Duration,
    /// None, if the server has no etcd.
    pub(crate) etcd: Option<Duration>,
}

impl Cpu {
    pub(crate) fn since(self, before: Cpu) -> Cpu {
        let etcd = self.etcd.zip(before.etcd);
        Cpu {
            apiserver: self.apiserver.saturating_sub(before.apiserver),
            etcd: etcd.map(|(after, before)| after.saturating_sub(before)),
        }
    }
}

/// Dropped in this order: an API server must not see its etcd go.
#[derive(Default)]
struct Processes {
    apiserver: Option<Process>,
    etcd: Option<EtcdServer>,
    of_others: Vec<u32>,
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It is ours alone and has nothing to lose.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl<'a> Server<'a> {
    pub(crate) async fn start(program: &'a Program) -> Result<Self> {
        let directory = tempfile::tempdir().context("no room for a server")?;
        let tokens = format!("{TOKEN},bench,bench,system:masters\n");
        fs::write(directory.path().join("tokens.csv"), tokens)?;
        Self::start_in(program, directory).await
    }

    /// On the same data, after a crash.
    pub(crate) async fn start_again(self) -> Result<Self> {
        drop(self.processes);
        Self::start_in(self.program, self.directory).await
    }

    async fn start_in(program: &'a Program, directory: TempDir) -> Result<Self> {
        let port = free_port()?;
        let begun = Instant::now();
        let mut processes = Processes::default();
        let here = directory.path();
        let endpoint = match program {
            Program::Rhumb(rhumb) => {
                if let Some(etcd) = &rhumb.etcd {
                    let etcd = EtcdServer::start(etcd, &here.join("etcd")).await?;
                    processes.etcd = Some(etcd);
                }
                let process = start_rhumb(rhumb, processes.etcd.as_ref(), here, port)?;
                let process = processes.apiserver.insert(process);
                wait_until_ready(process, here, program.authority(), port).await?
            }
            Program::Kubernetes(peer) => {
                let etcd = EtcdServer::start(&peer.etcd, &here.join("etcd")).await?;
                let etcd = processes.etcd.insert(etcd);
                let process = start_kubernetes(peer, etcd, here, port)?;
                let process = processes.apiserver.insert(process);
                wait_until_ready(process, here, program.authority(), port).await?
            }
            Program::Running(running) => {
                processes.of_others.clone_from(&running.processes);
                running.endpoint.clone()
            }
        };
        Ok(Self {
            program,
            endpoint,
            ready_in: begun.elapsed(),
            processes,
            directory,
        })
    }

    /// Where the server keeps its things, and those around it theirs.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The file by which a client finds a server that was started here, and may do everything. JSON is YAML.
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

    pub(crate) fn usage(&self) -> Result<Usage> {
        let processes = &self.processes;
        let apiserver = processes.apiserver.as_ref().map(|process| process.0.id());
        let etcd = processes.etcd.as_ref().map(EtcdServer::id);
        let of_others = processes.of_others.iter().copied();
        let mut sum = Usage::default();
        for id in apiserver.into_iter().chain(etcd).chain(of_others) {
            let one = usage_of(id).context("a server ended")?;
            sum.cpu += one.cpu;
            sum.resident_bytes += one.resident_bytes;
        }
        Ok(sum)
    }

    /// Of a server that was started here.
    pub(crate) fn cpu(&self) -> Result<Cpu> {
        let cpu = |process: u32| cpu_of(process).context("a server ended");
        let apiserver = self.processes.apiserver.as_ref();
        let apiserver = apiserver.context("the server is someone else's")?.0.id();
        let etcd = self.processes.etcd.as_ref().map(EtcdServer::id);
        Ok(Cpu {
            apiserver: cpu(apiserver)?,
            etcd: etcd.map(cpu).transpose()?,
        })
    }
}

/// What this process itself has used: a load generator that is busy all the time measures itself.
pub(crate) fn own_usage() -> Result<Usage> {
    usage_of(std::process::id()).context("no /proc")
}

/// The most memory that a process ever held.
pub(crate) fn peak_resident_bytes(process: u32) -> Option<u64> {
    kib_of(process, "VmHWM:").map(|kib| kib * 1024)
}

fn usage_of(process: u32) -> Option<Usage> {
    Some(Usage {
        cpu: cpu_of(process)?,
        resident_bytes: kib_of(process, "VmRSS:")? * 1024,
    })
}

/// A line of a process' status that counts memory.
fn kib_of(process: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The time that the threads of a process had a core, as the scheduler counts it. What `/proc/PID/stat` tells is
/// counted at the ticks of a clock that wakes both servers and load, and is wrong by a factor for short work.
///
/// Threads that have ended are not counted; servers keep theirs.
pub(crate) fn cpu_of(process: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let nanoseconds = threads.flatten().filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Some(Duration::from_nanos(nanoseconds.sum()))
}

fn start_rhumb(
    rhumb: &Rhumb,
    etcd: Option<&EtcdServer>,
    directory: &Path,
    port: u16,
) -> Result<Process> {
    let mut command = Command::new(&rhumb.program);
    command
        .args(["up", "--secure-port", &port.to_string(), "--data-dir"])
        .arg(directory.join("data"))
        .arg("--token-auth-file")
        .arg(directory.join("tokens.csv"))
        // As the peer, which has no controllers that would make the accounts.
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
    peer: &Peer,
    etcd: &EtcdServer,
    directory: &Path,
    port: u16,
) -> Result<Process> {
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

fn spawn(command: &mut Command, directory: &Path) -> Result<Process> {
    let log = fs::File::create(directory.join("log"))?;
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    Ok(Process(child))
}

/// What a process that does not go on has to say.
pub(crate) fn last_lines(log: &Path) -> String {
    const LINES: usize = 5;
    let log = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

async fn wait_until_ready(
    process: &mut Process,
    directory: &Path,
    authority: &str,
    port: u16,
) -> Result<Endpoint> {
    let authority = directory.join(authority);
    let log_of = |directory: &Path| last_lines(&directory.join("log"));
    let begun = Instant::now();
    loop {
        let problem = match try_endpoint(&authority, port).await {
            Ok(endpoint) => return Ok(endpoint),
            Err(problem) => problem,
        };
        if let Some(status) = process.0.try_wait()? {
            bail!("{}\nthe server ended with {status}", log_of(directory));
        }
        if begun.elapsed() > START_PATIENCE {
            let context = format!("{}\nthe server does not get ready", log_of(directory));
            return Err(problem.context(context));
        }
        tokio::time::sleep(READY_INTERVAL).await;
    }
}

async fn try_endpoint(authority: &Path, port: u16) -> Result<Endpoint> {
    let endpoint = Endpoint::local(port, &fs::read(authority)?)?;
    let mut connection = endpoint.connect().await?;
    connection.ask(Method::GET, "/readyz", Bytes::new()).await?;
    Ok(endpoint)
}
