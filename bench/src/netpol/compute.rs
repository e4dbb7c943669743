//! CPU time and memory that the policy engine needs to compute all policies of a cluster.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rhumb_netpol::{
    EngineScope, Namespace, NamespacedName, NetworkPolicy, PluginCapabilities, Pod, PolicyEngine,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cluster::{SyntheticCluster, namespace, node_name, policy_name};
use crate::servers::{cpu_of, peak_resident_bytes};

/// Objects are decoded in batches of this size before the engine gets them: decoding is not measured.
const BATCH: usize = 1000;

/// Cluster size with a performance target or published results of other implementations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ClusterSize {
    /// 3,000 pods and 3,000 policies in 100 namespaces.
    Medium,
    /// 100,000 pods and 75,000 policies in 25,000 namespaces.
    Large,
}

impl ClusterSize {
    pub(super) fn cluster(self) -> SyntheticCluster {
        let (namespaces, pods, policies) = match self {
            ClusterSize::Medium => (100, 30, 30),
            ClusterSize::Large => (25_000, 4, 3),
        };
        SyntheticCluster {
            namespaces,
            pods,
            policies,
            pods_a_node: 100,
        }
    }
}

/// Scope of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum EngineView {
    /// All pods, as in the controller that writes policy status.
    Cluster,
    /// The rules of one node, as in the agent.
    Node,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ComputeResult {
    pub(super) pods: usize,
    pub(super) policies: usize,
    /// CPU time.
    pub(super) seconds: f64,
    pub(super) peak_mib: f64,
    /// Memory of the process before the first object.
    pub(super) idle_mib: f64,
    /// Pods selected by policies, counted once per policy; for a node, the number of set elements in its rules.
    pub(super) found: usize,
}

/// Runs in a child process, so that peak memory excludes earlier runs.
pub(super) fn run_apart(size: ClusterSize, view: EngineView) -> Result<ComputeResult> {
    let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
        value().map(|value| value.get_name().to_owned())
    };
    let size = name(&|| clap::ValueEnum::to_possible_value(&size))
        .context("cluster size has no command-line name")?;
    let view = name(&|| clap::ValueEnum::to_possible_value(&view))
        .context("engine view has no command-line name")?;
    let output = Command::new(std::env::current_exe()?)
        .args(["netpol", "--compute", &size, "--view", &view])
        .output()?;
    ensure!(
        output.status.success(),
        "the computing process failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Policies are added first, so that every pod is matched against all of them.
pub(super) fn run_here(size: ClusterSize, view: EngineView) -> Result<()> {
    let cluster = size.cluster();
    let scope = match view {
        EngineView::Cluster => EngineScope::Cluster,
        EngineView::Node => EngineScope::Node(node_name(0)),
    };
    let own = std::process::id();
    let idle = peak_resident_bytes(own).context("failed to read /proc")?;
    let mut engine = PolicyEngine::new(scope, PluginCapabilities::all());
    let mut spent = Duration::ZERO;
    spent += feed(cluster.namespaces(), |it: Namespace| {
        engine.set_namespace(&it);
    })?;
    spent += feed(cluster.policies(), |it: NetworkPolicy| {
        engine.set_policy(&it);
    })?;
    spent += feed(cluster.pods(), |it: Pod| {
        engine.set_pod(&it);
    })?;
    let before = own_cpu()?;
    let found = match view {
        EngineView::Cluster => selected(&engine, &cluster),
        EngineView::Node => {
            drop(engine.take_ruleset_delta());
            let sets = engine.ruleset().sets.values();
            sets.map(|set| set.elements.len()).sum()
        }
    };
    spent += own_cpu()?.saturating_sub(before);
    let peak = peak_resident_bytes(own).context("failed to read /proc")?;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let computed = ComputeResult {
        pods: cluster.all_pods(),
        policies: cluster.all_policies(),
        seconds: spent.as_secs_f64(),
        peak_mib: mib(peak),
        idle_mib: mib(idle),
        found,
    };
    println!("{}", serde_json::to_string(&computed)?);
    Ok(())
}

/// CPU time of this process, in which only the engine runs.
fn own_cpu() -> Result<Duration> {
    cpu_of(std::process::id()).context("failed to read /proc")
}

/// Passes all objects to the engine and returns the CPU time it took.
fn feed<K: DeserializeOwned>(
    objects: impl Iterator<Item = Value>,
    mut take: impl FnMut(K),
) -> Result<Duration> {
    let mut spent = Duration::ZERO;
    let mut objects = objects.peekable();
    while objects.peek().is_some() {
        let batch = objects.by_ref().take(BATCH);
        let batch: Vec<K> = batch
            .map(serde_json::from_value)
            .collect::<Result<_, _>>()?;
        let before = own_cpu()?;
        batch.into_iter().for_each(&mut take);
        spent += own_cpu()?.saturating_sub(before);
    }
    Ok(spent)
}

/// Computes the status summary of every policy.
fn selected(engine: &PolicyEngine, cluster: &SyntheticCluster) -> usize {
    let mut found = 0;
    for number in 0..cluster.all_policies() {
        let name = NamespacedName::new(
            namespace(number % cluster.namespaces),
            policy_name(number / cluster.namespaces),
        );
        if let Some(summary) = engine.summary(&name) {
            found += summary.pods_per_node.values().sum::<usize>();
        }
    }
    found
}
