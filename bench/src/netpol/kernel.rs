//! How long a change takes from the request of a client until the kernel of a node has it.
//!
//! Server, agent and client are in one network namespace, of which the rules are looked at by `nft monitor`: it tells of
//! every transaction when it is done.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::cluster::{Cluster, address4, namespace, node_name, pod_name, policy_name};
use super::compute::Size;
use super::inside::{NetworkNamespace, carry_out};
use crate::client::{Connection, Endpoint};
use crate::servers::{Choice, Server, cpu_of, peak_resident_bytes};
use crate::stats::Percentiles;

const WRITERS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two changes, so that each is on its own.
const PAUSE: Duration = Duration::from_millis(30);
/// The first port that changed policies allow; no rule has it otherwise.
const FIRST_PORT: usize = 20_000;

#[derive(Serialize, Deserialize)]
pub(super) struct Reached {
    /// A pod elsewhere comes into a selector, or leaves it.
    pub(super) peer: Percentiles,
    /// A pod of the node comes under other policies.
    pub(super) target: Percentiles,
    /// A policy allows another port.
    pub(super) policy: Percentiles,
    pub(super) agent_peak_mib: f64,
    pub(super) agent_cpu_ms_a_change: f64,
}

/// Starts this program again, inside a namespace.
pub(super) fn run_apart(rhumb: &std::path::Path, rounds: usize) -> Result<Reached> {
    let namespace = NetworkNamespace::new("kernel")?;
    let output = namespace
        .command(std::env::current_exe()?)
        .args(["netpol", "--kernel-inside", "--rounds", &rounds.to_string()])
        .arg("--rhumb")
        .arg(rhumb)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "the measuring process failed");
    Ok(serde_json::from_slice(&output.stdout)?)
}

pub(super) async fn run_here(servers: &Choice, rounds: usize) -> Result<()> {
    let cluster = Size::Medium.cluster();
    let program = servers.rhumb()?;
    let server = Server::start(&program).await?;
    let endpoint = &server.endpoint;
    eprintln!(
        "{} pods and {} policies ...",
        cluster.all_pods(),
        cluster.all_policies()
    );
    fill(endpoint, &cluster).await?;
    let agent = Agent::start(servers, &server)?;
    let mut connection = endpoint.connect().await?;
    wait_for_report(&mut connection).await?;
    let monitor = Monitor::start()?;
    let before = cpu_of(agent.0.id()).context("the agent ended")?;
    eprintln!("{rounds} changes of each sort ...");
    let mut changes = Changes {
        connection,
        monitor,
        cluster,
    };
    let peer = changes
        .of_pods(rounds, cluster.pods_a_node..cluster.all_pods())
        .await?;
    let target = changes.of_pods(rounds, 0..cluster.pods_a_node).await?;
    let policy = changes.of_policies(rounds).await?;
    let spent = cpu_of(agent.0.id()).context("the agent ended")? - before;
    let peak = peak_resident_bytes(agent.0.id()).context("the agent ended")?;
    let reached = Reached {
        peer,
        target,
        policy,
        agent_peak_mib: peak as f64 / f64::from(1 << 20),
        agent_cpu_ms_a_change: spent.as_secs_f64() * 1e3 / (3 * rounds) as f64,
    };
    println!("{}", serde_json::to_string(&reached)?);
    Ok(())
}

struct Agent(Child);

impl Agent {
    fn start(servers: &Choice, server: &Server<'_>) -> Result<Self> {
        let agent = Command::new(servers.rhumb_program()?)
            .arg("agent")
            .args(["--node-name", &node_name(0), "--metrics-address", ""])
            .arg("--kubeconfig")
            .arg(server.kubeconfig()?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self(agent))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `nft monitor` says, with the time at which it was read.
struct Monitor {
    process: Child,
    lines: Receiver<(Instant, String)>,
}

impl Monitor {
    fn start() -> Result<Self> {
        let mut process = Command::new("nft")
            .arg("monitor")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("nft monitor")?;
        let output = process.stdout.take().context("a pipe")?;
        let (said, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if said.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        let monitor = Self { process, lines };
        monitor.wait()?;
        Ok(monitor)
    }

    /// Until it tells of what happens: before, it reads all that there is.
    fn wait(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            for verb in ["add", "delete"] {
                carry_out(Command::new("nft").args([verb, "table", "inet", "monitored"]))?;
            }
            while let Ok((_, line)) = self.lines.recv_timeout(PAUSE) {
                if has_word(&line, "monitored") {
                    return Ok(());
                }
            }
            ensure!(begun.elapsed() < PATIENCE, "nft monitor tells nothing");
        }
    }

    /// When it first said a line about this, which is not part of a longer word.
    fn told(&self, about: &str) -> Result<Instant> {
        let begun = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            match self.lines.recv_timeout(left) {
                Ok((at, line)) if has_word(&line, about) => return Ok(at),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => bail!("the kernel was never told of {about}"),
                Err(RecvTimeoutError::Disconnected) => bail!("nft monitor ended"),
            }
        }
    }

    fn forget(&self) {
        while self.lines.try_recv().is_ok() {}
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn has_word(line: &str, word: &str) -> bool {
    let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '.' && c != ':';
    line.split(is_other).any(|it| it == word)
}

struct Changes {
    connection: Connection,
    monitor: Monitor,
    cluster: Cluster,
}

impl Changes {
    /// Each round moves a pod into the tier that a policy of each namespace lets in, or out of it.
    async fn of_pods(
        &mut self,
        rounds: usize,
        pods: std::ops::Range<usize>,
    ) -> Result<Percentiles> {
        let mut times = Vec::with_capacity(rounds);
        let count = pods.len();
        for round in 0..rounds {
            // Far from the last one, so that all namespaces have their turn.
            let number = pods.start + round * 37 % count;
            let path = format!(
                "/api/v1/namespaces/{}/pods/{}",
                namespace(number % self.cluster.namespaces),
                pod_name(number / self.cluster.namespaces)
            );
            let tier = self.other_tier(&path).await?;
            let patch = json!({"metadata": {"labels": {"tier": tier}}});
            times.push(
                self.time(&path, &patch, &address4(number).to_string())
                    .await?,
            );
        }
        Ok(Percentiles::of(times))
    }

    async fn other_tier(&mut self, path: &str) -> Result<&'static str> {
        let pod = self.connection.ask(Method::GET, path, Bytes::new()).await?;
        let pod: Value = serde_json::from_slice(&pod)?;
        Ok(match pod["metadata"]["labels"]["tier"].as_str() {
            Some("tier-1") => "tier-2",
            _ => "tier-1",
        })
    }

    /// Each round gives a policy that is about pods of the node a port of its own.
    async fn of_policies(&mut self, rounds: usize) -> Result<Percentiles> {
        let mut times = Vec::with_capacity(rounds);
        for round in 0..rounds {
            let path = format!(
                "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies/{}",
                namespace(round % self.cluster.namespaces),
                policy_name(0)
            );
            let port = FIRST_PORT + round;
            let rules = json!([{"ports": [{"protocol": "TCP", "port": port}]}]);
            let patch = json!({"spec": {"ingress": rules}});
            times.push(self.time(&path, &patch, &port.to_string()).await?);
        }
        Ok(Percentiles::of(times))
    }

    /// From just before the request until the kernel's last word on it was read.
    async fn time(&mut self, path: &str, patch: &Value, about: &str) -> Result<Duration> {
        sleep(PAUSE).await;
        self.monitor.forget();
        let begun = Instant::now();
        self.connection
            .patch(path, patch.to_string().into())
            .await?;
        let told = tokio::task::block_in_place(|| self.monitor.told(about))?;
        Ok(told.saturating_duration_since(begun))
    }
}

async fn fill(endpoint: &Endpoint, cluster: &Cluster) -> Result<()> {
    let mut requests = vec![("/api/v1/nodes".to_owned(), node())];
    requests.extend(
        cluster
            .namespaces()
            .map(|it| ("/api/v1/namespaces".to_owned(), it)),
    );
    send(endpoint, requests).await?;
    let mut requests = Vec::new();
    for policy in cluster.policies() {
        let of = policy["metadata"]["namespace"].as_str().unwrap_or_default();
        let path = format!("/apis/networking.k8s.io/v1/namespaces/{of}/networkpolicies");
        requests.push((path, policy));
    }
    for pod in cluster.pods() {
        let of = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        requests.push((format!("/api/v1/namespaces/{of}/pods"), pod));
    }
    send(endpoint, requests).await
}

fn node() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name(0)}})
}

async fn send(endpoint: &Endpoint, requests: Vec<(String, Value)>) -> Result<()> {
    let requests = std::sync::Arc::new(requests);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let mut connection = endpoint.connect().await?;
        let requests = requests.clone();
        writers.spawn(async move {
            for (path, object) in requests.iter().skip(writer).step_by(WRITERS) {
                create(&mut connection, path, object).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = writers.join_next().await {
        done??;
    }
    Ok(())
}

/// With its status, which takes a request of its own.
async fn create(connection: &mut Connection, path: &str, object: &Value) -> Result<()> {
    let body = object.to_string();
    connection.ask(Method::POST, path, body.into()).await?;
    if let Some(status) = object.get("status") {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let patch = json!({"status": status}).to_string();
        let path = format!("{path}/{name}/status");
        connection.patch(&path, patch.into()).await?;
    }
    Ok(())
}

async fn wait_for_report(connection: &mut Connection) -> Result<()> {
    let begun = Instant::now();
    let path = format!(
        "/apis/networking.rhumb.dev/v1alpha1/networkpolicynodes?fieldSelector=metadata.name%3D{}",
        node_name(0)
    );
    loop {
        let list = connection.ask(Method::GET, &path, Bytes::new()).await?;
        let list: Value = serde_json::from_slice(&list)?;
        let applied = &list["items"][0]["applied"];
        if applied
            .as_array()
            .is_some_and(|applied| !applied.is_empty())
        {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "the agent does not report");
        sleep(PAUSE).await;
    }
}
