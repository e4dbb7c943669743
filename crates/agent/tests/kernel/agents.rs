//! Agents as whole ones, and servers that say what a test wants.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use kube::Client;
use rhumb_agent::metrics::Metrics;
use rhumb_agent::nft;
use rhumb_agent::{Agent, Options};
use rhumb_client::testing::{Answer, connect, is_watch, list, ok, refused};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::namespace::{Namespace, table};

pub(crate) const NODE: &str = "node-1";
/// For a machine that is busy; nothing is waited for any longer than it takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// What a server has, and what it was told.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Kinds that are not listed yet, by the end of their path.
    pub(crate) hidden: Vec<&'static str>,
    pub(crate) pods: Vec<Value>,
    pub(crate) policies: Vec<Value>,
    pub(crate) nodes: Vec<Value>,
    /// What is told once to whoever watches policies.
    pub(crate) policy_events: Vec<Value>,
    /// Whoever watches policies while there is nothing to be told is sent away, and comes again.
    pub(crate) refuses_policy_watches: bool,
    pub(crate) has_report: bool,
    /// Reports are refused.
    pub(crate) is_broken: bool,
    pub(crate) reports: Vec<Value>,
    pub(crate) asked: Vec<String>,
}

#[derive(Clone, Default)]
pub(crate) struct Server(Arc<Mutex<State>>);

impl Server {
    pub(crate) fn new(change: impl FnOnce(&mut State)) -> Server {
        let server = Server::default();
        server.with(change);
        server
    }

    /// One with a pod and a policy about it, which takes reports.
    pub(crate) fn with_a_policy() -> Server {
        Server::new(|state| {
            state.pods = vec![pod("p", "10.1.0.2")];
            state.policies = vec![policy("q", 1)];
            state.has_report = true;
        })
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        connect(move |request| server.with(|state| state.answer(request)))
    }

    pub(crate) fn reports(&self) -> Vec<Value> {
        self.with(|state| state.reports.clone())
    }
}

impl State {
    fn answer(&mut self, request: &Request<Vec<u8>>) -> Answer {
        let path = request.uri().path();
        let kind = path.rsplit('/').next().unwrap_or_default();
        let watch = if is_watch(request) { " watch" } else { "" };
        self.asked
            .push(format!("{} {path}{watch}", request.method()));
        if request.method() == "PUT" {
            let report: Value = serde_json::from_slice(request.body()).unwrap();
            if self.is_broken {
                return refused(500);
            }
            self.reports.push(report.clone());
            return ok(report);
        }
        if is_watch(request) {
            if kind != "networkpolicies" {
                return None;
            }
            // The answer is one event, after which it is watched anew.
            return match self.policy_events.pop() {
                Some(event) => ok(event),
                None if self.refuses_policy_watches => refused(503),
                None => None,
            };
        }
        if self.hidden.contains(&kind) {
            return refused(503);
        }
        match kind {
            "pods" => list(&self.pods),
            "networkpolicies" => list(&self.policies),
            "nodes" => list(&self.nodes),
            "networkpolicynodes" if self.has_report => {
                list(&[json!({"metadata": {"name": NODE, "uid": "r", "resourceVersion": "1"}})])
            }
            _ => list(&[]),
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

pub(crate) struct Running {
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Running {
    pub(crate) async fn start(server: &Server, namespace: &Namespace) -> Running {
        Running::inspecting(server, namespace, Duration::from_millis(50)).await
    }

    pub(crate) async fn inspecting(
        server: &Server,
        namespace: &Namespace,
        inspect_every: Duration,
    ) -> Running {
        let metrics = Arc::<Metrics>::default();
        let options = Options {
            node: NODE.to_owned(),
            agent: "test".to_owned(),
            versions: vec!["1.3".to_owned(), "1.8".to_owned()],
            table: table(),
            hold_unknown_pods: true,
            inspect_every,
            metrics: metrics.clone(),
        };
        let client = server.client();
        let connection = namespace.inside(nft::Connection::open_and_listen);
        let agent = Agent::prepare(options, connection, &client).await.unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(agent.run(client, stop.clone()));
        Running {
            stop,
            task,
            metrics,
        }
    }

    /// How often the rules of somebody else were found.
    pub(crate) fn repairs(&self) -> u32 {
        let text = self.metrics.text().unwrap();
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("rhumb_agent_repairs_total "));
        count.unwrap().parse().unwrap()
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.task)
            .await
            .expect("it ends")
            .unwrap();
    }
}

pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let waited = timeout(PATIENCE, async {
        while !is_so().await {
            sleep(TICK).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{what}: in vain"));
}

pub(crate) fn is_well(report: &Value) -> bool {
    report.get("problem").is_none()
}

pub(crate) async fn until_reports(
    server: &Server,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Value {
    let last = || server.with(|state| state.reports.last().cloned());
    until(what, async || last().is_some_and(|report| is_so(&report))).await;
    last().unwrap()
}
