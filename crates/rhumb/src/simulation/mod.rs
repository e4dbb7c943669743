//! `rhumb simulate-nodes`, and the parts by which `rhumb up --nodes` simulates nodes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use kube::Client;
use rhumb_controllers::ClientFactory as _;
use rhumb_simulation::{NodePools, SERVICE_ACCOUNT};
use tokio_util::sync::CancellationToken;

use crate::clients::{self, InProcessClientFactory};
use crate::controllers::{self, ComponentThread};
use crate::logging::LoggingFlags;

/// Delay between attempts to create the RBAC objects of the simulation.
const GRANT_RETRY_DELAY: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(crate) struct SimulationFlags {
    /// Number of simulated nodes. They run no containers; annotations of pods control the pods' life cycle [default:
    /// none].
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// File with one or more Node manifests to make simulated nodes from [default: 32 CPUs, 256Gi, in three zones].
    #[arg(long, value_name = "FILE")]
    node_template: Option<PathBuf>,
}

impl SimulationFlags {
    /// The nodes to simulate; `None` if no flag is set. With `--nodes 0`, nodes of an earlier run are removed.
    pub(crate) fn node_pools(&self) -> Result<Option<NodePools>> {
        match (&self.node_template, self.nodes) {
            (None, None) => Ok(None),
            (None, Some(nodes)) => Ok(Some(NodePools::new(nodes).context("--nodes")?)),
            (Some(path), nodes) => {
                let what = || format!("--node-template {}", path.display());
                let text = std::fs::read_to_string(path).with_context(what)?;
                Ok(Some(
                    NodePools::from_template(&text, nodes).with_context(what)?,
                ))
            }
        }
    }
}

/// A line about the simulated nodes for the console.
pub(crate) fn describe(node_pools: &NodePools) -> String {
    match node_pools.nodes() {
        0 => "no simulated nodes; those of an earlier run are removed".to_owned(),
        1 => "1 simulated node, which runs nothing".to_owned(),
        nodes => format!("{nodes} simulated nodes, which run nothing"),
    }
}

/// Starts the simulation in the process of the API server, on its own thread and with its own service account.
pub(crate) fn start(
    connect: &Arc<InProcessClientFactory>,
    node_pools: NodePools,
    stop: CancellationToken,
) -> Result<ComponentThread> {
    let connect = connect.clone();
    let token = stop.clone();
    controllers::keep("simulated nodes", stop, move || {
        let (administrator, client) = (
            connect.administrator(),
            connect.client(Some(SERVICE_ACCOUNT)),
        );
        let (node_pools, stop) = (node_pools.clone(), token.clone());
        async move {
            tokio::select! {
                () = stop.cancelled() => return,
                () = grant(&administrator) => {}
            }
            rhumb_simulation::run(client, node_pools, stop).await;
        }
    })
}

async fn grant(administrator: &Client) {
    while let Err(error) = rhumb_simulation::grant(administrator).await {
        tracing::warn!(%error, "failed to create the RBAC objects of simulated nodes; retrying");
        tokio::time::sleep(GRANT_RETRY_DELAY).await;
    }
}

#[derive(Args, Debug)]
pub(crate) struct SimulateNodesCommand {
    /// Kubeconfig of the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's service account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    flags: SimulationFlags,
    #[command(flatten)]
    pub(crate) logging: LoggingFlags,
}

pub(crate) fn run(command: SimulateNodesCommand) -> Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?
        .block_on(simulate(command))?;
    Ok(ExitCode::SUCCESS)
}

async fn simulate(command: SimulateNodesCommand) -> Result<()> {
    let stop = crate::up::stop_on_signals()?;
    let node_pools = command.flags.node_pools()?;
    ensure!(node_pools.is_some(), "set --nodes or --node-template");
    let (connect, _) = clients::over_https(command.kubeconfig.as_deref(), false).await?;
    if let Some(node_pools) = node_pools {
        tracing::info!(server = connect.server(), "{}", describe(&node_pools));
        rhumb_simulation::run(connect.multiplexed()?, node_pools, stop).await;
    }
    Ok(())
}
