//! Cost of idle nodes: each writes its report once per heartbeat interval, on its own connection, as `rhumb agent` does.
//! The server also runs the network policy status controller, which reads every report.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::Method;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use rhumb_netpol::node_report::{NetworkPolicyNode, heartbeat_delay, longest_heartbeat_delay};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::cluster::node_name;
use super::kernel_propagation::send;
use crate::client::{ApiConnection, ServerEndpoint};
use crate::host_info;
use crate::servers::{BenchServer, ServerArguments};
use crate::stats::Percentiles;

/// The default of `rhumb agent --heartbeat-interval`.
const INTERVAL: Duration = Duration::from_secs(10);
const REPORTS: &str = "/apis/networking.rhumb.dev/v1alpha1/networkpolicynodes";

#[derive(Serialize)]
pub(super) struct HeartbeatResult {
    pub(super) nodes: usize,
    pub(super) writes_per_second: f64,
    pub(super) write: Percentiles,
    /// CPU time of the server per second.
    pub(super) server_cores: f64,
    pub(super) server_mib: f64,
}

impl HeartbeatResult {
    /// What idle nodes may write: one report per interval.
    pub(super) fn writes_per_second_max(&self) -> f64 {
        self.nodes as f64 / INTERVAL.as_secs_f64()
    }
}

/// When writes ended, and how long they took.
type WriteTimes = Arc<Mutex<Vec<(Instant, Duration)>>>;

pub(super) async fn run(
    servers: &ServerArguments,
    nodes: usize,
    seconds: u64,
) -> Result<HeartbeatResult> {
    host_info::raise_open_files()?;
    let program = servers.rhumb()?.with_network_policy_status();
    let server = BenchServer::start(&program).await?;
    eprintln!("{nodes} nodes ...");
    let requests = (0..nodes).map(|number| ("/api/v1/nodes".to_owned(), node(number)));
    send(&server.endpoint, requests.chain([policy()]).collect()).await?;
    let writes = WriteTimes::default();
    let mut agents = JoinSet::new();
    for number in 0..nodes {
        let agent = IdleAgent::connect(&server.endpoint, number).await?;
        agents.spawn(agent.run(writes.clone()));
    }
    // Afterwards every agent has written at least once.
    let measured = async {
        sleep(2 * longest_heartbeat_delay(INTERVAL)).await;
        eprintln!("measuring for {seconds} s ...");
        let (begun, before) = (Instant::now(), server.usage()?);
        sleep(Duration::from_secs(seconds)).await;
        let (took, after) = (begun.elapsed(), server.usage()?);
        let writes = std::mem::take(&mut *writes.lock());
        let times = writes.into_iter().filter(|(ended, _)| *ended >= begun);
        let times: Vec<Duration> = times.map(|(_, took)| took).collect();
        anyhow::Ok(HeartbeatResult {
            nodes,
            writes_per_second: times.len() as f64 / took.as_secs_f64(),
            write: Percentiles::of(times),
            server_cores: (after.cpu - before.cpu).as_secs_f64() / took.as_secs_f64(),
            server_mib: after.resident_bytes as f64 / f64::from(1 << 20),
        })
    };
    tokio::select! {
        measured = measured => measured,
        Some(failed) = agents.join_next() => {
            failed??;
            anyhow::bail!("a simulated agent ended")
        }
    }
}

fn node(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name(number)}})
}

/// Without any policy the status controller would not watch pods.
fn policy() -> (String, Value) {
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "all"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    });
    let path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    (path.to_owned(), policy)
}

struct IdleAgent {
    connection: ApiConnection,
    path: String,
    report: NetworkPolicyNode,
}

impl IdleAgent {
    async fn connect(endpoint: &ServerEndpoint, number: usize) -> Result<IdleAgent> {
        let name = node_name(number);
        let versions = ["1.3", "1.8", "1.9", "1.11", "1.12", "1.21"];
        let versions = versions.map(str::to_owned).to_vec();
        let mut report = NetworkPolicyNode::new(&name, "bench".to_owned(), versions);
        report.pods_resource_version = Some("1".to_owned());
        Ok(IdleAgent {
            connection: endpoint.connect().await?,
            path: format!("{REPORTS}/{name}"),
            report,
        })
    }

    async fn run(mut self, writes: WriteTimes) -> Result<()> {
        // Agents do not start at the same time.
        sleep(INTERVAL.mul_f64(fastrand::f64())).await;
        loop {
            self.report.set_heartbeat(Timestamp::now(), INTERVAL);
            let body = serde_json::to_vec(&self.report)?;
            let begun = Instant::now();
            self.connection
                .execute(Method::PUT, &self.path, body.into())
                .await
                .context("failed to write a report")?;
            writes.lock().push((Instant::now(), begun.elapsed()));
            sleep(heartbeat_delay(INTERVAL, fastrand::f64()).saturating_sub(begun.elapsed())).await;
        }
    }
}
