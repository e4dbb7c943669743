//! Network policies on one node: `rhumb agent`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::{ArgAction, Args};
use rhumb_agent::metrics::Metrics;
use rhumb_agent::nft::{Connection, Table};
use rhumb_agent::{Agent, INSPECT_EVERY, Options};
use rhumb_api::network_policies::Catalog;
use tokio::time::timeout;

use crate::connect;
use crate::listener::{self, Component};
use crate::pki;

const DEFAULT_TABLE: &str = "rhumb";
/// How long a server may take to forget a node that is cleaned up.
const FORGET_MAX: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
pub(crate) struct Command {
    /// How to reach the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's own account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The node whose pods are looked after [default: $NODE_NAME, or the name of this host].
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// The table of nftables that holds all rules. Nobody else may use it.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_TABLE, value_parser = table)]
    table: Table,
    /// Let no packets from or to addresses of the node's podCIDRs that no known pod has: pods that are new are cut off
    /// until their policies are enforced.
    #[arg(
        long,
        value_name = "BOOL",
        action = ArgAction::Set,
        num_args = 0..=1,
        default_value_t = true,
        default_missing_value = "true",
        require_equals = true
    )]
    hold_unknown_pods: bool,
    /// Where to show metrics and health, over HTTP and to everyone who can reach it; nothing is nowhere.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10260")]
    metrics_address: String,
    /// Remove all rules of an agent from the kernel, and its report from the server, and end.
    #[arg(long)]
    cleanup: bool,
}

fn table(name: &str) -> Result<Table, String> {
    Table::new(name).map_err(|error| error.to_string())
}

struct Shown(Arc<Metrics>);

impl Component for Shown {
    fn metrics(&self) -> Option<String> {
        self.0.text()
    }

    fn unready(&self) -> Option<String> {
        self.0.missing()
    }
}

pub(crate) fn run(command: Command) -> Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no threads can be started")?
        .block_on(async {
            match command.cleanup {
                true => clean_up(command).await,
                false => enforce(command).await,
            }
        })?;
    Ok(ExitCode::SUCCESS)
}

async fn enforce(command: Command) -> Result<()> {
    let stop = crate::up::stop_on_signals()?;
    let node = command.node_name()?;
    let metrics = Arc::<Metrics>::default();
    let table = command.table.clone();
    let versions = Catalog::builtin().versions();
    let options = Options {
        node: node.clone(),
        agent: concat!("rhumb ", env!("CARGO_PKG_VERSION")).to_owned(),
        versions: versions.iter().map(|&version| version.to_owned()).collect(),
        table: command.table,
        hold_unknown_pods: command.hold_unknown_pods,
        inspect_every: INSPECT_EVERY,
        metrics: metrics.clone(),
    };
    let (connect, _) = connect::over_https(command.kubeconfig.as_deref(), false).await?;
    let client = connect.multiplexed()?;
    let agent = Agent::prepare(options, Connection::open_and_listen(), &client).await?;
    if !command.metrics_address.is_empty() {
        let listener = listener::bind(&command.metrics_address).await?;
        tokio::spawn(listener::serve(listener, Shown(metrics)));
    }
    tracing::info!(
        server = connect.server(),
        node,
        %table,
        versions = versions.join(" "),
        unimplemented = unimplemented(&agent),
        "network policies are enforced once all that there is has been seen"
    );
    agent.run(client, stop).await;
    tracing::info!(
        "the rules stay in the kernel: {} removes them",
        removal(&table)
    );
    Ok(())
}

/// `None` if all that is known can be had.
fn unimplemented(agent: &Agent) -> Option<String> {
    let all = agent.unimplemented().iter();
    let all: Vec<String> = all
        .map(|it| format!("{} ({})", it.feature, it.message))
        .collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn removal(table: &Table) -> String {
    match table.name() {
        DEFAULT_TABLE => "rhumb agent --cleanup".to_owned(),
        name => format!("rhumb agent --cleanup --table {name}"),
    }
}

/// The report goes first: it must not say of rules that are gone that they are there. Rules go also where it cannot.
async fn clean_up(command: Command) -> Result<()> {
    let node = command.node_name()?;
    let forgotten = match timeout(FORGET_MAX, forget(&command, &node)).await {
        Ok(forgotten) => forgotten,
        Err(_) => Err(anyhow!("the server does not answer")),
    };
    match &forgotten {
        Ok(true) => println!("the report of node {node} is deleted"),
        Ok(false) => println!("there is no report of node {node}"),
        Err(_) => {}
    }
    let table = &command.table;
    match rhumb_agent::clean_up(Connection::open()?, table).await? {
        true => println!("the table {table} is removed from the kernel"),
        false => println!("there is no table {table} in the kernel"),
    }
    let what = || {
        format!(
            "the report of node {node} is not deleted, and policies count as in force there until it is (kubectl delete \
             networkpolicynodes {node})"
        )
    };
    forgotten.with_context(what)?;
    Ok(())
}

async fn forget(command: &Command, node: &str) -> Result<bool> {
    let (connect, _) = connect::over_https(command.kubeconfig.as_deref(), false).await?;
    Ok(rhumb_agent::forget(connect.own(), node).await?)
}

impl Command {
    fn node_name(&self) -> Result<String> {
        let variable = || std::env::var("NODE_NAME").ok();
        let given = self.node_name.clone().or_else(variable);
        // As kubelets name their nodes.
        let host = || pki::host_name().map(|name| name.to_lowercase());
        given
            .filter(|name| !name.is_empty())
            .or_else(host)
            .context("this host has no name; say which node it is with --node-name")
    }
}
