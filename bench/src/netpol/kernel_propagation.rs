//! Time from a client's API request until a node's kernel has the changed rules.
//!
//! Server, agent and client run in one network namespace; `nft monitor` reports every committed nftables
//! transaction in it.

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

use super::cluster::{SyntheticCluster, address4, namespace, node_name, pod_name, policy_name};
use super::compute::ClusterSize;
use super::network_namespace::{NetworkNamespace, carry_out};
use crate::client::{ApiConnection, ServerEndpoint};
use crate::servers::{BenchServer, ServerArguments, cpu_of, peak_resident_bytes};
use crate::stats::Percentiles;

const WRITERS: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(120);
/// Pause between changes, so that they are not batched.
const PAUSE: Duration = Duration::from_millis(30);
/// First port of changed policies; no other rule contains these ports.
const FIRST_PORT: usize = 20_000;

#[derive(Serialize, Deserialize)]
pub(super) struct PropagationResult {
    /// A pod on another node starts or stops matching a selector.
    pub(super) peer: Percentiles,
    /// A pod on this node is selected by other policies.
    pub(super) target: Percentiles,
    /// A policy allows a different port.
    pub(super) policy: Percentiles,
    pub(super) agent_peak_mib: f64,
    pub(super) agent_cpu_ms_a_change: f64,
}

/// Runs the measurement in a child process in its own network namespace.
pub(super) fn run_apart(rhumb: &std::path::Path, rounds: usize) -> Result<PropagationResult> {
    NetworkNamespace::new("kernel")?.measure("--kernel-inside", rhumb, rounds)
}

pub(super) async fn run_here(servers: &ServerArguments, rounds: usize) -> Result<()> {
    let cluster = ClusterSize::Medium.cluster();
    let program = servers.rhumb()?;
    let server = BenchServer::start(&program).await?;
    let endpoint = &server.endpoint;
    eprintln!(
        "{} pods and {} policies ...",
        cluster.all_pods(),
        cluster.all_policies()
    );
    fill(endpoint, &cluster).await?;
    let agent = AgentProcess::start(servers, &server)?;
    let mut connection = endpoint.connect().await?;
    wait_for_report(&mut connection).await?;
    let monitor = NftMonitor::start()?;
    let before =
        cpu_of(agent.0.id()).context("failed to read the usage of the agent: it has exited")?;
    eprintln!("{rounds} changes of each kind ...");
    let mut changes = PropagationLoad {
        connection,
        monitor,
        cluster,
    };
    let peer = changes
        .of_pods(rounds, cluster.pods_a_node..cluster.all_pods())
        .await?;
    let target = changes.of_pods(rounds, 0..cluster.pods_a_node).await?;
    let policy = changes.of_policies(rounds).await?;
    let spent = cpu_of(agent.0.id())
        .context("failed to read the usage of the agent: it has exited")?
        - before;
    let peak = peak_resident_bytes(agent.0.id())
        .context("failed to read the usage of the agent: it has exited")?;
    let reached = PropagationResult {
        peer,
        target,
        policy,
        agent_peak_mib: peak as f64 / f64::from(1 << 20),
        agent_cpu_ms_a_change: spent.as_secs_f64() * 1e3 / (3 * rounds) as f64,
    };
    println!("{}", serde_json::to_string(&reached)?);
    Ok(())
}

pub(super) struct AgentProcess(Child);

impl AgentProcess {
    pub(super) fn start(servers: &ServerArguments, server: &BenchServer<'_>) -> Result<Self> {
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

impl Drop for AgentProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Output lines of `nft monitor`, with the time at which they were read.
struct NftMonitor {
    process: Child,
    lines: Receiver<(Instant, String)>,
}

impl NftMonitor {
    fn start() -> Result<Self> {
        let mut process = Command::new("nft")
            .arg("monitor")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start nft monitor")?;
        let output = process
            .stdout
            .take()
            .context("output of nft monitor is not piped")?;
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

    /// Waits until it reports changes: at first it loads the existing ruleset.
    fn wait(&self) -> Result<()> {
        let started = Instant::now();
        loop {
            for verb in ["add", "delete"] {
                carry_out(Command::new("nft").args([verb, "table", "inet", "monitored"]))?;
            }
            while let Ok((_, line)) = self.lines.recv_timeout(PAUSE) {
                if has_word(&line, "monitored") {
                    return Ok(());
                }
            }
            ensure!(
                started.elapsed() < TIMEOUT,
                "timed out waiting for nft monitor to report a change"
            );
        }
    }

    /// Time of the first line that contains `about` as a whole word.
    fn wait_for_event(&self, about: &str) -> Result<Instant> {
        let started = Instant::now();
        loop {
            let left = TIMEOUT.saturating_sub(started.elapsed());
            match self.lines.recv_timeout(left) {
                Ok((at, line)) if has_word(&line, about) => return Ok(at),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    bail!("timed out waiting for {about} in the kernel's rules")
                }
                Err(RecvTimeoutError::Disconnected) => bail!("nft monitor exited"),
            }
        }
    }

    fn forget(&self) {
        while self.lines.try_recv().is_ok() {}
    }
}

impl Drop for NftMonitor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn has_word(line: &str, word: &str) -> bool {
    let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '.' && c != ':';
    line.split(is_other).any(|it| it == word)
}

struct PropagationLoad {
    connection: ApiConnection,
    monitor: NftMonitor,
    cluster: SyntheticCluster,
}

impl PropagationLoad {
    /// Each round moves a pod into or out of the tier that a policy of each namespace allows.
    async fn of_pods(
        &mut self,
        rounds: usize,
        pods: std::ops::Range<usize>,
    ) -> Result<Percentiles> {
        let mut times = Vec::with_capacity(rounds);
        let count = pods.len();
        for round in 0..rounds {
            // A stride, so that all namespaces are covered.
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
        let pod = self
            .connection
            .execute(Method::GET, path, Bytes::new())
            .await?;
        let pod: Value = serde_json::from_slice(&pod)?;
        Ok(match pod["metadata"]["labels"]["tier"].as_str() {
            Some("tier-1") => "tier-2",
            _ => "tier-1",
        })
    }

    /// Each round sets a unique port in a policy that selects pods of the node.
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

    /// Time from sending the patch until `nft monitor` reports `about`.
    async fn time(&mut self, path: &str, patch: &Value, about: &str) -> Result<Duration> {
        sleep(PAUSE).await;
        self.monitor.forget();
        let started = Instant::now();
        self.connection
            .patch(path, patch.to_string().into())
            .await?;
        let changed = tokio::task::block_in_place(|| self.monitor.wait_for_event(about))?;
        Ok(changed.saturating_duration_since(started))
    }
}

async fn fill(endpoint: &ServerEndpoint, cluster: &SyntheticCluster) -> Result<()> {
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

/// Creates objects, each with its status.
pub(super) async fn send(endpoint: &ServerEndpoint, requests: Vec<(String, Value)>) -> Result<()> {
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

/// Creates an object and then patches its status subresource.
async fn create(connection: &mut ApiConnection, path: &str, object: &Value) -> Result<()> {
    let body = object.to_string();
    connection.execute(Method::POST, path, body.into()).await?;
    if let Some(status) = object.get("status") {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let patch = json!({"status": status}).to_string();
        let path = format!("{path}/{name}/status");
        connection.patch(&path, patch.into()).await?;
    }
    Ok(())
}

/// Waits until the agent reports that it applied a policy.
pub(super) async fn wait_for_report(connection: &mut ApiConnection) -> Result<()> {
    let started = Instant::now();
    let path = format!(
        "/apis/networking.rhumb.dev/v1alpha1/networkpolicynodes?fieldSelector=metadata.name%3D{}",
        node_name(0)
    );
    loop {
        let list = connection.execute(Method::GET, &path, Bytes::new()).await?;
        let list: Value = serde_json::from_slice(&list)?;
        let applied = &list["items"][0]["applied"];
        if applied
            .as_array()
            .is_some_and(|applied| !applied.is_empty())
        {
            return Ok(());
        }
        ensure!(
            started.elapsed() < TIMEOUT,
            "timed out waiting for the agent's first status report"
        );
        sleep(PAUSE).await;
    }
}
