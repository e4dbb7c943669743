//! Simulated nodes: `rhumb simulate-nodes`, and what `rhumb up` needs to have them inside.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use kube::Client;
use rhumb_controllers::Connect as _;
use rhumb_simulation::{ACCOUNT, Fleet};
use tokio_util::sync::CancellationToken;

use crate::connect::{self, InProcess};
use crate::controllers::{self, Running};

/// Between two attempts to give the simulation its rights.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(crate) struct SimulationFlags {
    /// Simulate this many nodes: they run no containers, and pods on them live as their annotations say [default: none].
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// What simulated nodes look like: a file with a Node, or several [default: 32 CPUs, 256Gi, in three zones].
    #[arg(long, value_name = "FILE")]
    node_template: Option<PathBuf>,
}

impl SimulationFlags {
    /// The nodes that were asked for; `None` if none were. With 0, those of an earlier run go.
    pub(crate) fn fleet(&self) -> Result<Option<Fleet>> {
        match (&self.node_template, self.nodes) {
            (None, None) => Ok(None),
            (None, Some(nodes)) => Ok(Some(Fleet::new(nodes).context("--nodes")?)),
            (Some(path), nodes) => {
                let what = || format!("--node-template {}", path.display());
                let text = std::fs::read_to_string(path).with_context(what)?;
                Ok(Some(Fleet::from_template(&text, nodes).with_context(what)?))
            }
        }
    }
}

/// What people are told about nodes that are none.
pub(crate) fn describe(fleet: &Fleet) -> String {
    match fleet.nodes() {
        0 => "no simulated nodes; those of an earlier run are removed".to_owned(),
        1 => "1 simulated node, which runs nothing".to_owned(),
        nodes => format!("{nodes} simulated nodes, which run nothing"),
    }
}

/// Beside the server of this process, on a thread of their own, with an account of their own.
pub(crate) fn start(
    connect: &Arc<InProcess>,
    fleet: Fleet,
    stop: CancellationToken,
) -> Result<Running> {
    let connect = connect.clone();
    let token = stop.clone();
    controllers::keep("simulated nodes", stop, move || {
        let (administrator, client) = (connect.administrator(), connect.client(Some(ACCOUNT)));
        let (fleet, stop) = (fleet.clone(), token.clone());
        async move {
            tokio::select! {
                () = stop.cancelled() => return,
                () = grant(&administrator) => {}
            }
            rhumb_simulation::run(client, fleet, stop).await;
        }
    })
}

async fn grant(administrator: &Client) {
    while let Err(error) = rhumb_simulation::grant(administrator).await {
        tracing::warn!(%error, "simulated nodes get no rights; it is tried again");
        tokio::time::sleep(PAUSE).await;
    }
}

#[derive(Args, Debug)]
pub(crate) struct Command {
    /// How to reach the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's own account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    flags: SimulationFlags,
}

pub(crate) fn run(command: Command) -> Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no threads can be started")?
        .block_on(simulate(command))?;
    Ok(ExitCode::SUCCESS)
}

async fn simulate(command: Command) -> Result<()> {
    let stop = crate::up::stop_on_signals()?;
    let fleet = command.flags.fleet()?;
    ensure!(
        fleet.is_some(),
        "say how many nodes there are to be with --nodes, or --node-template"
    );
    let (connect, _) = connect::over_https(command.kubeconfig.as_deref(), false).await?;
    if let Some(fleet) = fleet {
        tracing::info!(server = connect.server(), "{}", describe(&fleet));
        rhumb_simulation::run(connect.multiplexed()?, fleet, stop).await;
    }
    Ok(())
}
