//! The servers under load, each in a directory of its own, and what they use.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::Method;
use tempfile::TempDir;

use super::client::{Endpoint, TOKEN};
use crate::store::{EtcdServer, free_port};

const START_PATIENCE: Duration = Duration::from_secs(120);

/// How often a server is asked whether it is ready.
const READY_INTERVAL: Duration = Duration::from_millis(5);

/// How the kernel counts a process's time.
const TICK: Duration = Duration::from_millis(10);

pub(super) enum Program {
    Rhumb(PathBuf),
    Kubernetes(Peer),
}

pub(super) struct Peer {
    pub(super) apiserver: PathBuf,
    pub(super) etcd: String,
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Program::Rhumb(_) => "rhumb",
            Program::Kubernetes(_) => "kube-apiserver and etcd",
        })
    }
}

pub(super) struct Server<'a> {
    program: &'a Program,
    pub(super) endpoint: Endpoint,
    /// From the start of the first process to the first good answer of `/readyz`.
    pub(super) ready_in: Duration,
    processes: Processes,
    directory: TempDir,
}

/// What all processes of a server have used and hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    pub(super) resident_bytes: u64,
}

/// Dropped in this order: an API server must not see its etcd go.
struct Processes {
    apiserver: Process,
    etcd: Option<EtcdServer>,
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
    pub(super) async fn start(program: &'a Program) -> Result<Self> {
        let directory = tempfile::tempdir().context("no room for a server")?;
        let tokens = format!("{TOKEN},bench,bench,system:masters\n");
        fs::write(directory.path().join("tokens.csv"), tokens)?;
        Self::start_in(program, directory).await
    }

    /// On the same data, after a crash.
    pub(super) async fn start_again(self) -> Result<Self> {
        drop(self.processes);
        Self::start_in(self.program, self.directory).await
    }

    async fn start_in(program: &'a Program, directory: TempDir) -> Result<Self> {
        let port = free_port()?;
        let begun = Instant::now();
        let mut processes = match program {
            Program::Rhumb(path) => Processes {
                apiserver: start_rhumb(path, directory.path(), port)?,
                etcd: None,
            },
            Program::Kubernetes(peer) => {
                let etcd = EtcdServer::start(&peer.etcd, &directory.path().join("etcd")).await?;
                Processes {
                    apiserver: start_kubernetes(peer, &etcd, directory.path(), port)?,
                    etcd: Some(etcd),
                }
            }
        };
        let authority = directory.path().join(match program {
            Program::Rhumb(_) => "data/pki/ca.crt",
            Program::Kubernetes(_) => "certificates/apiserver.crt",
        });
        let endpoint = wait_until_ready(&mut processes.apiserver, &authority, port)
            .await
            .with_context(|| log_of(directory.path()))?;
        Ok(Self {
            program,
            endpoint,
            ready_in: begun.elapsed(),
            processes,
            directory,
        })
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        let etcd = self.processes.etcd.as_ref().map(EtcdServer::id);
        let ids = [Some(self.processes.apiserver.0.id()), etcd];
        let mut sum = Usage::default();
        for id in ids.into_iter().flatten() {
            let one = usage_of(id).context("a server ended")?;
            sum.cpu += one.cpu;
            sum.resident_bytes += one.resident_bytes;
        }
        Ok(sum)
    }
}

fn usage_of(process: u32) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may have spaces; the numbers begin after its bracket, with the third field.
    let (_, numbers) = stat.rsplit_once(')')?;
    let field = |number: usize| {
        numbers
            .split_whitespace()
            .nth(number - 3)?
            .parse::<u32>()
            .ok()
    };
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = resident.split_whitespace().next()?.parse().ok()?;
    Some(Usage {
        cpu: TICK * (field(14)? + field(15)?),
        resident_bytes: kib * 1024,
    })
}

fn start_rhumb(program: &Path, directory: &Path, port: u16) -> Result<Process> {
    let mut command = Command::new(program);
    command
        .args(["up", "--secure-port", &port.to_string(), "--data-dir"])
        .arg(directory.join("data"))
        .arg("--token-auth-file")
        .arg(directory.join("tokens.csv"));
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
        .arg("--disable-admission-plugins=ServiceAccount")
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

/// What a server that does not start has to say.
fn log_of(directory: &Path) -> String {
    const LINES: usize = 5;
    let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

async fn wait_until_ready(process: &mut Process, authority: &Path, port: u16) -> Result<Endpoint> {
    let begun = Instant::now();
    loop {
        let problem = match try_endpoint(authority, port).await {
            Ok(endpoint) => return Ok(endpoint),
            Err(problem) => problem,
        };
        if let Some(status) = process.0.try_wait()? {
            bail!("the server ended with {status}");
        }
        if begun.elapsed() > START_PATIENCE {
            return Err(problem.context("the server does not get ready"));
        }
        tokio::time::sleep(READY_INTERVAL).await;
    }
}

async fn try_endpoint(authority: &Path, port: u16) -> Result<Endpoint> {
    let endpoint = Endpoint::new(port, &fs::read(authority)?)?;
    let mut connection = endpoint.connect().await?;
    connection.ask(Method::GET, "/readyz", Bytes::new()).await?;
    Ok(endpoint)
}
