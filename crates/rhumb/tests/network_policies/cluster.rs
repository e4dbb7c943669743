//! A server, nodes with agents, and pods: all of the built program, in a network of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::agent::Agent;
use crate::network::{CONTROL_ADDRESS, NODES, Network};
use crate::program::{self, Program};
use crate::setting::{can_run, runtime};
use crate::site::Site;
use crate::wiring::Wiring;

/// Far longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// Asks until there is an answer.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} did not come about");
        sleep(PAUSE).await;
    }
}

/// Ends in the order of its fields.
pub(crate) struct Cluster {
    pub(crate) agents: Vec<Agent>,
    pub(crate) server: Program,
    pub(crate) client: Client,
    pub(crate) network: Network,
    /// By namespace and name.
    pub(crate) pods: BTreeMap<String, Arc<Site>>,
    directory: TempDir,
}

/// Runs a test on a thread that is where the server is, so that both reach each other, if networks can be made.
pub(crate) fn with_cluster(wiring: Wiring, test: impl AsyncFnOnce(&mut Cluster) + Send) {
    if !can_run() {
        return;
    }
    let network = runtime().block_on(Network::new(wiring));
    let control = network.control.clone();
    control.inside(|| {
        runtime().block_on(async {
            let mut cluster = Cluster::start(network).await;
            test(&mut cluster).await;
        });
    });
}

/// On two clusters at the same time, one of each wiring.
pub(crate) fn with_each_wiring(test: impl AsyncFn(&mut Cluster) + Sync) {
    if can_run() {
        let test = &test;
        thread::scope(|scope| {
            for wiring in [Wiring::Bridged, Wiring::Routed] {
                scope.spawn(move || with_cluster(wiring, test));
            }
        });
    }
}

impl Cluster {
    /// With nodes, and without agents and pods.
    async fn start(network: Network) -> Cluster {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Program::start(directory.path(), 0, &flags());
        let cluster = Cluster {
            agents: Vec::new(),
            client: client(&program::kubeconfig(directory.path())).await,
            server,
            network,
            pods: BTreeMap::new(),
            directory,
        };
        for node in 0..NODES.len() {
            cluster.create_node(node).await;
        }
        cluster
    }

    /// On every node, ready when its rules are in force.
    pub(crate) async fn start_agents(&mut self) {
        for node in &self.network.nodes {
            let log = self.directory.path().join(&node.name);
            self.agents
                .push(Agent::start(node, &self.kubeconfig(), log));
        }
        for (node, name) in NODES.iter().enumerate() {
            until(&format!("rules of {name}"), async || {
                self.agents[node].must_run();
                let report = self.report_of(node).await;
                report.data["problem"].is_null().then_some(())
            })
            .await;
        }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        program::kubeconfig(self.directory.path())
    }

    /// After it was ended or killed: on the same data and port as before.
    pub(crate) fn start_server_again(&mut self) {
        let directory = self.directory.path();
        self.server = Program::start(directory, self.server.port, &flags());
    }

    pub(crate) fn pod(&self, name: &str) -> Arc<Site> {
        let found = self.pods.get(name);
        found
            .unwrap_or_else(|| panic!("there is no {name}"))
            .clone()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() {
            for (agent, node) in self.agents.iter().zip(&self.network.nodes) {
                println!("--- the agent of {}:\n{}", node.name, agent.log());
                println!("--- the rules of {}:\n{}", node.name, node.ruleset());
            }
            println!("--- the server:\n{}", self.server.log());
        }
    }
}

fn flags() -> Vec<String> {
    let address = format!("--bind-address={CONTROL_ADDRESS}");
    // Pods run as nobody: they do not run.
    let plugins = "--disable-admission-plugins=ServiceAccount";
    let controllers = "--controllers=namespace-controller,networkpolicy-status-controller";
    vec![address, plugins.to_owned(), controllers.to_owned()]
}

async fn client(kubeconfig: &PathBuf) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.expect("a configuration")).expect("a client")
}
