//! Time from the creation of a policy until its status says that it is programmed, as `kubectl wait` would see it, on one
//! node with the agent and the status controller.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::cluster::node_name;
use super::kernel_propagation::{AgentProcess, send, wait_for_report};
use super::network_namespace::NetworkNamespace;
use crate::client::ApiConnection;
use crate::servers::{BenchServer, ServerArguments};
use crate::stats::Percentiles;

const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Pause between policies: the agent may send several reports in succession only after a quiet time.
const PAUSE: Duration = Duration::from_secs(3);

#[derive(Serialize, Deserialize)]
pub(super) struct ProgrammedDelay {
    pub(super) delay: Percentiles,
    /// Policies whose first status said `Pending`, so that a second write was needed.
    pub(super) pending_first: usize,
    pub(super) policies: usize,
}

/// Runs the measurement in a child process in its own network namespace.
pub(super) fn run_apart(rhumb: &std::path::Path, rounds: usize) -> Result<ProgrammedDelay> {
    NetworkNamespace::new("programmed")?.measure("--programmed-inside", rhumb, rounds)
}

pub(super) async fn run_here(servers: &ServerArguments, rounds: usize) -> Result<()> {
    let program = servers.rhumb()?.with_network_policy_status();
    let server = BenchServer::start(&program).await?;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name(0)}});
    let requests = vec![
        ("/api/v1/nodes".to_owned(), node),
        ("/api/v1/namespaces/default/pods".to_owned(), pod()),
        (POLICIES.to_owned(), policy("first")),
    ];
    send(&server.endpoint, requests).await?;
    let _agent = AgentProcess::start(servers, &server)?;
    let mut connection = server.endpoint.connect().await?;
    wait_for_report(&mut connection).await?;
    let (mut times, mut pending_first) = (Vec::with_capacity(rounds), 0);
    for round in 0..rounds {
        sleep(PAUSE).await;
        let (delay, was_pending) = measure(&mut connection, &format!("p{round}")).await?;
        times.push(delay);
        pending_first += usize::from(was_pending);
    }
    let result = ProgrammedDelay {
        delay: Percentiles::of(times),
        pending_first,
        policies: rounds,
    };
    println!("{}", serde_json::to_string(&result)?);
    Ok(())
}

fn policy(name: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name},
        "spec": {"podSelector": {"matchLabels": {"app": "a"}}, "ingress": [{"ports": [{"port": 80}]}]},
    })
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "a"}},
        "spec": {"nodeName": node_name(0), "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
    })
}

/// The time until a new policy is programmed, and whether its status said something else before.
async fn measure(connection: &mut ApiConnection, name: &str) -> Result<(Duration, bool)> {
    let body = policy(name).to_string();
    let (begun, mut was_pending) = (Instant::now(), false);
    connection
        .execute(Method::POST, POLICIES, body.into())
        .await?;
    loop {
        let path = format!("{POLICIES}/{name}");
        let policy = connection.execute(Method::GET, &path, Bytes::new()).await?;
        let policy: Value = serde_json::from_slice(&policy)?;
        match programmed(&policy) {
            Some("True") => return Ok((begun.elapsed(), was_pending)),
            Some(_) => was_pending = true,
            None => {}
        }
        ensure!(
            begun.elapsed() < TIMEOUT,
            "timed out waiting for a policy to be programmed"
        );
        sleep(POLL_INTERVAL).await;
    }
}

fn programmed(policy: &Value) -> Option<&str> {
    let mut conditions = policy["status"]["conditions"].as_array()?.iter();
    let programmed = conditions.find(|own| own["type"] == "Programmed")?;
    programmed["status"].as_str()
}
