//! Test harness: complete agents with a fake API server.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use kube::Client;
use rhumb_agent::metrics::AgentMetrics;
use rhumb_agent::nft;
use rhumb_agent::{AgentOptions, NetworkPolicyAgent};
use rhumb_client::testing::{
    FakeResponse, fake_client_with, is_watch, list_response, ok_response, status_response,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::network_namespace::{TestNetworkNamespace, table};

pub(crate) const NODE: &str = "node-1";
/// Timeout of all waits, long enough for a busy machine.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// The objects of the fake server, and the requests that it received.
#[derive(Debug, Default)]
pub(crate) struct FakeApiServerState {
    /// Resources (the last path segment) whose lists fail.
    pub(crate) unlistable: Vec<&'static str>,
    pub(crate) pods: Vec<Value>,
    pub(crate) policies: Vec<Value>,
    pub(crate) nodes: Vec<Value>,
    /// Events for watches of policies; each is sent once.
    pub(crate) policy_events: Vec<Value>,
    /// Whether policy watches without pending events fail, so that the client retries.
    pub(crate) refuses_policy_watches: bool,
    /// Whether writing reports fails.
    pub(crate) rejects_reports: bool,
    pub(crate) reports: Vec<Value>,
    pub(crate) requests: Vec<String>,
}

/// A fake API server.
#[derive(Clone, Default)]
pub(crate) struct FakeApiServer(Arc<Mutex<FakeApiServerState>>);

impl FakeApiServer {
    pub(crate) fn new(change: impl FnOnce(&mut FakeApiServerState)) -> FakeApiServer {
        let server = FakeApiServer::default();
        server.with(change);
        server
    }

    /// A server with a pod and a policy that selects it, which accepts reports.
    pub(crate) fn with_a_policy() -> FakeApiServer {
        FakeApiServer::new(|state| {
            state.pods = vec![pod("p", "10.1.0.2")];
            state.policies = vec![policy("q", 1)];
        })
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut FakeApiServerState) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        fake_client_with(move |request| server.with(|state| state.answer(request)))
    }

    pub(crate) fn reports(&self) -> Vec<Value> {
        self.with(|state| state.reports.clone())
    }
}

impl FakeApiServerState {
    fn answer(&mut self, request: &Request<Vec<u8>>) -> FakeResponse {
        let path = request.uri().path();
        let kind = path.rsplit('/').next().unwrap_or_default();
        let watch = if is_watch(request) { " watch" } else { "" };
        self.requests
            .push(format!("{} {path}{watch}", request.method()));
        if request.method() == "PUT" {
            let report: Value = serde_json::from_slice(request.body()).unwrap();
            if self.rejects_reports {
                return status_response(500);
            }
            self.reports.push(report.clone());
            return ok_response(report);
        }
        if is_watch(request) {
            if kind != "networkpolicies" {
                return None;
            }
            // The response contains one event; then the client starts a new watch.
            return match self.policy_events.pop() {
                Some(event) => ok_response(event),
                None if self.refuses_policy_watches => status_response(503),
                None => None,
            };
        }
        if self.unlistable.contains(&kind) {
            return status_response(503);
        }
        match kind {
            "pods" => list_response(&self.pods),
            "networkpolicies" => list_response(&self.policies),
            "nodes" => list_response(&self.nodes),
            _ => list_response(&[]),
        }
    }
}

pub(crate) fn pod(name: &str, address: &str) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"nodeName": NODE},
        "status": {"phase": "Running", "podIPs": [{"ip": address}]},
    })
}

pub(crate) fn policy(name: &str, generation: u32) -> Value {
    json!({
        "metadata": {
            "namespace": "a", "name": name, "uid": name, "resourceVersion": generation.to_string(), "generation": generation,
        },
        "spec": {"minVersion": "1.3", "podSelector": {}, "policyTypes": ["Ingress"]},
    })
}

pub(crate) fn node() -> Value {
    json!({
        "metadata": {"name": NODE, "uid": "node-uid", "resourceVersion": "1"},
        "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]},
    })
}

/// A running agent.
pub(crate) struct RunningAgent {
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
    pub(crate) metrics: Arc<AgentMetrics>,
}

impl RunningAgent {
    pub(crate) async fn start(
        server: &FakeApiServer,
        namespace: &TestNetworkNamespace,
    ) -> RunningAgent {
        RunningAgent::start_with_inspection_interval(server, namespace, Duration::from_millis(50))
            .await
    }

    pub(crate) async fn start_with_inspection_interval(
        server: &FakeApiServer,
        namespace: &TestNetworkNamespace,
        inspect_every: Duration,
    ) -> RunningAgent {
        let metrics = Arc::<AgentMetrics>::default();
        let options = AgentOptions {
            node: NODE.to_owned(),
            agent: "test".to_owned(),
            versions: vec!["1.3".to_owned(), "1.8".to_owned()],
            table: table(),
            block_unknown_pods: true,
            inspection_interval: inspect_every,
            heartbeat_interval: Duration::from_secs(60),
            metrics: metrics.clone(),
        };
        let client = server.client();
        let connection = namespace.run_inside(nft::NftablesConnection::open_with_monitor);
        let agent = NetworkPolicyAgent::prepare(options, connection, &client)
            .await
            .unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(agent.run(client, stop.clone()));
        RunningAgent {
            stop,
            task,
            metrics,
        }
    }

    /// The value of the repairs metric.
    pub(crate) fn repairs(&self) -> u32 {
        let text = self.metrics.text().unwrap();
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("rhumb_agent_repairs_total "));
        count.unwrap().parse().unwrap()
    }

    pub(crate) async fn shut_down(self) {
        self.stop.cancel();
        timeout(WAIT_TIMEOUT, self.task)
            .await
            .expect("the agent stops")
            .unwrap();
    }
}

pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let waited = timeout(WAIT_TIMEOUT, async {
        while !is_so().await {
            sleep(TICK).await;
        }
    });
    waited
        .await
        .unwrap_or_else(|_| panic!("timed out waiting for: {what}"));
}

pub(crate) fn has_no_problem(report: &Value) -> bool {
    report.get("problem").is_none()
}

pub(crate) async fn until_reports(
    server: &FakeApiServer,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Value {
    let last = || server.with(|state| state.reports.last().cloned());
    until(what, async || last().is_some_and(|report| is_so(&report))).await;
    last().unwrap()
}
