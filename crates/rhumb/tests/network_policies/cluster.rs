//! A server, nodes with agents, and pods, in a test network.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;

use crate::agent::AgentProcess;
use crate::network::{CONTROL_ADDRESS, NODES, TestNetwork};
use crate::network_namespace::NetworkNamespace;
use crate::pod_links::PodLinkType;
use crate::prerequisites::{can_run, runtime};
use crate::program::{self, RhumbUpProcess, poll_until};

/// Dropped in field order.
pub(crate) struct NetpolTestCluster {
    pub(crate) agents: Vec<AgentProcess>,
    pub(crate) server: RhumbUpProcess,
    pub(crate) client: Client,
    pub(crate) network: TestNetwork,
    /// By namespace and name.
    pub(crate) pods: BTreeMap<String, Arc<NetworkNamespace>>,
    directory: TempDir,
}

/// Runs a test on a thread in the server's network namespace, if networks can be created.
pub(crate) fn with_cluster(
    link_type: PodLinkType,
    test: impl AsyncFnOnce(&mut NetpolTestCluster) + Send,
) {
    if !can_run() {
        return;
    }
    let network = runtime().block_on(TestNetwork::new(link_type));
    let control = network.control.clone();
    control.inside(|| {
        runtime().block_on(async {
            let mut cluster = NetpolTestCluster::start(network).await;
            test(&mut cluster).await;
        });
    });
}

/// Runs a test on two clusters concurrently, one per link type.
pub(crate) fn with_each_link_type(test: impl AsyncFn(&mut NetpolTestCluster) + Sync) {
    if can_run() {
        let test = &test;
        thread::scope(|scope| {
            for link_type in [PodLinkType::Bridged, PodLinkType::Routed] {
                scope.spawn(move || with_cluster(link_type, test));
            }
        });
    }
}

impl NetpolTestCluster {
    /// A cluster with nodes, without agents and pods.
    async fn start(network: TestNetwork) -> NetpolTestCluster {
        let directory = tempfile::tempdir().expect("a directory");
        let server = RhumbUpProcess::start(directory.path(), 0, &flags());
        let cluster = NetpolTestCluster {
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

    /// Starts an agent on every node and waits until its rules are loaded.
    pub(crate) async fn start_agents(&mut self) {
        for node in &self.network.nodes {
            let log = self.directory.path().join(&node.name);
            self.agents
                .push(AgentProcess::start(node, &self.kubeconfig(), log));
        }
        for (node, name) in NODES.iter().enumerate() {
            poll_until(&format!("rules of {name}"), async || {
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

    /// Restarts the server on the same data and port.
    pub(crate) fn restart_server(&mut self) {
        let directory = self.directory.path();
        self.server = RhumbUpProcess::start(directory, self.server.port, &flags());
    }

    pub(crate) fn pod(&self, name: &str) -> Arc<NetworkNamespace> {
        let found = self.pods.get(name);
        found
            .unwrap_or_else(|| panic!("there is no {name}"))
            .clone()
    }
}

impl Drop for NetpolTestCluster {
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
    // Pods need no service account here, because nothing runs them.
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
