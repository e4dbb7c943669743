//! How long it takes to find out what all policies of a cluster mean, and how much memory that needs.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rhumb_netpol::{Engine, Knowledge, Name, Namespace, NetworkPolicy, Pod, Scope};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cluster::{Cluster, namespace, node_name, policy_name};
use crate::servers::{cpu_of, peak_resident_bytes};

/// So many objects are read before the engine is given them: reading is not what is measured.
const BATCH: usize = 1000;

/// A size that others have published figures for, or that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Size {
    /// 3,000 pods and 3,000 policies in 100 namespaces.
    Medium,
    /// 100,000 pods and 75,000 policies in 25,000 namespaces.
    Large,
}

impl Size {
    pub(super) fn cluster(self) -> Cluster {
        let (namespaces, pods, policies) = match self {
            Size::Medium => (100, 30, 30),
            Size::Large => (25_000, 4, 3),
        };
        Cluster {
            namespaces,
            pods,
            policies,
            pods_a_node: 100,
        }
    }
}

/// For whom it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum View {
    /// All pods, as who tells of all policies has it.
    Cluster,
    /// The rules of one node.
    Node,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Computed {
    pub(super) pods: usize,
    pub(super) policies: usize,
    /// On a core.
    pub(super) seconds: f64,
    pub(super) peak_mib: f64,
    /// What the process had before the first object.
    pub(super) idle_mib: f64,
    /// Pods that policies select, counted once for each policy; or elements of sets in the rules of the node.
    pub(super) found: usize,
}

/// In a process of its own, which has no memory of other runs.
pub(super) fn run_apart(size: Size, view: View) -> Result<Computed> {
    let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
        value().map(|value| value.get_name().to_owned())
    };
    let size = name(&|| clap::ValueEnum::to_possible_value(&size)).context("a size")?;
    let view = name(&|| clap::ValueEnum::to_possible_value(&view)).context("a view")?;
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

/// The policies first, so that every pod has all of them to be compared with.
pub(super) fn run_here(size: Size, view: View) -> Result<()> {
    let cluster = size.cluster();
    let scope = match view {
        View::Cluster => Scope::Cluster,
        View::Node => Scope::Node(node_name(0)),
    };
    let own = std::process::id();
    let idle = peak_resident_bytes(own).context("no /proc")?;
    let mut engine = Engine::new(scope, Knowledge::all());
    let mut spent = Duration::ZERO;
    spent += feed(cluster.namespaces(), |it: Namespace| {
        engine.set_namespace(&it);
    })?;
    spent += feed(cluster.policies(), |it: NetworkPolicy| {
        engine.set_policy(&it);
    })?;
    spent += feed(cluster.pods(), |it: Pod| engine.set_pod(&it))?;
    let before = own_cpu()?;
    let found = match view {
        View::Cluster => selected(&engine, &cluster),
        View::Node => {
            drop(engine.take_changes());
            let sets = engine.program().sets.values();
            sets.map(|set| set.elements.len()).sum()
        }
    };
    spent += own_cpu()?.saturating_sub(before);
    let peak = peak_resident_bytes(own).context("no /proc")?;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let computed = Computed {
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

/// The engine is the only one who works in this process.
fn own_cpu() -> Result<Duration> {
    cpu_of(std::process::id()).context("no /proc")
}

/// Hands all objects over, and says how long the engine took.
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

/// What the status of every policy would be made of.
fn selected(engine: &Engine, cluster: &Cluster) -> usize {
    let mut found = 0;
    for number in 0..cluster.all_policies() {
        let name = Name::new(
            namespace(number % cluster.namespaces),
            policy_name(number / cluster.namespaces),
        );
        if let Some(summary) = engine.summary(&name) {
            found += summary.nodes.values().sum::<usize>();
        }
    }
    found
}
