//! `rhumb agent`: enforces network policies on one node with nftables.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::{ArgAction, Args};
use rhumb_agent::metrics::AgentMetrics;
use rhumb_agent::nft::{NftTable, NftablesConnection};
use rhumb_agent::{AgentOptions, DEFAULT_INSPECTION_INTERVAL, NetworkPolicyAgent};
use rhumb_api::network_policy_versions::FeatureCatalog;
use tokio::time::timeout;

use crate::clients;
use crate::duration::duration;
use crate::logging::LoggingFlags;
use crate::metrics_server::{self, MonitoredComponent};
use crate::pki;

const DEFAULT_TABLE: &str = "rhumb";
/// Time limit for deleting the node's report during cleanup.
const FORGET_MAX: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
pub(crate) struct AgentCommand {
    /// Kubeconfig of the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's service account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Node whose pods the agent enforces policies for [default: $NODE_NAME, or the host name].
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// nftables table for all rules. No other program may use it.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_TABLE, value_parser = table)]
    table: NftTable,
    /// Drop packets from and to addresses of the node's podCIDRs that belong to no known pod, so that a new pod has no
    /// network until its policies are enforced.
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
    /// How often the agent renews the report of its node, which the status of policies depends on.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = heartbeat_interval)]
    heartbeat_interval: Duration,
    /// Address for metrics and health checks, over HTTP and without authentication; empty disables it.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10260")]
    metrics_address: String,
    /// Remove the agent's rules from the kernel and its report from the API server, then exit.
    #[arg(long)]
    cleanup: bool,
    #[command(flatten)]
    pub(crate) logging: LoggingFlags,
}

fn table(name: &str) -> Result<NftTable, String> {
    NftTable::new(name).map_err(|error| error.to_string())
}

fn heartbeat_interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    let limits = Duration::from_secs(1)..=Duration::from_secs(3600);
    match limits.contains(&interval) {
        true => Ok(interval),
        false => Err("must be between 1s and 1h0m0s".to_owned()),
    }
}

struct AgentMonitor(Arc<AgentMetrics>);

impl MonitoredComponent for AgentMonitor {
    fn metrics(&self) -> Option<String> {
        self.0.text()
    }

    fn unready(&self) -> Option<String> {
        self.0.not_ready_reason()
    }
}

pub(crate) fn run(command: AgentCommand) -> Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?
        .block_on(async {
            match command.cleanup {
                true => clean_up(command).await,
                false => enforce(command).await,
            }
        })?;
    Ok(ExitCode::SUCCESS)
}

async fn enforce(command: AgentCommand) -> Result<()> {
    let stop = crate::up::stop_on_signals()?;
    let node = command.node_name()?;
    let metrics = Arc::<AgentMetrics>::default();
    let table = command.table.clone();
    let versions = FeatureCatalog::builtin().versions();
    let options = AgentOptions {
        node: node.clone(),
        agent: concat!("rhumb ", env!("CARGO_PKG_VERSION")).to_owned(),
        versions: versions.iter().map(|&version| version.to_owned()).collect(),
        table: command.table,
        block_unknown_pods: command.hold_unknown_pods,
        inspection_interval: DEFAULT_INSPECTION_INTERVAL,
        heartbeat_interval: command.heartbeat_interval,
        metrics: metrics.clone(),
    };
    let (connect, _) = clients::over_https(command.kubeconfig.as_deref(), false).await?;
    let client = connect.multiplexed()?;
    let agent =
        NetworkPolicyAgent::prepare(options, NftablesConnection::open_with_monitor(), &client)
            .await?;
    if !command.metrics_address.is_empty() {
        let listener = metrics_server::bind(&command.metrics_address).await?;
        tokio::spawn(metrics_server::serve(listener, AgentMonitor(metrics)));
    }
    tracing::info!(
        server = connect.server(),
        node,
        %table,
        versions = versions.join(" "),
        unimplemented = unimplemented(&agent),
        "enforcing network policies after the initial lists are complete"
    );
    agent.run(client, stop).await;
    tracing::info!(
        remove_with = removal(&table),
        "agent stopped; its rules stay in the kernel"
    );
    Ok(())
}

/// Policy features that this kernel does not support; `None` if all are supported.
fn unimplemented(agent: &NetworkPolicyAgent) -> Option<String> {
    let all = agent.unimplemented().iter();
    let all: Vec<String> = all
        .map(|it| format!("{} ({})", it.feature, it.message))
        .collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn removal(table: &NftTable) -> String {
    match table.name() {
        DEFAULT_TABLE => "rhumb agent --cleanup".to_owned(),
        name => format!("rhumb agent --cleanup --table {name}"),
    }
}

/// Deletes the report before the rules, because a report must not claim rules that do not exist. The rules are removed
/// even if the report cannot be deleted.
async fn clean_up(command: AgentCommand) -> Result<()> {
    let node = command.node_name()?;
    let deleted = match timeout(FORGET_MAX, forget(&command, &node)).await {
        Ok(deleted) => deleted,
        Err(_) => Err(anyhow!("timed out after {FORGET_MAX:?}")),
    };
    match &deleted {
        Ok(true) => println!("deleted the report of node {node}"),
        Ok(false) => println!("no report of node {node} found"),
        Err(_) => {}
    }
    let table = &command.table;
    match rhumb_agent::remove_rules(NftablesConnection::open()?, table).await? {
        true => println!("removed table {table} from the kernel"),
        false => println!("no table {table} found in the kernel"),
    }
    let what = || {
        format!(
            "failed to delete the report of node {node}: policies count as enforced there until it is deleted (kubectl \
             delete networkpolicynodes {node})"
        )
    };
    deleted.with_context(what)?;
    Ok(())
}

async fn forget(command: &AgentCommand, node: &str) -> Result<bool> {
    let (connect, _) = clients::over_https(command.kubeconfig.as_deref(), false).await?;
    Ok(rhumb_agent::delete_node_report(connect.authenticated(), node).await?)
}

impl AgentCommand {
    fn node_name(&self) -> Result<String> {
        let variable = || std::env::var("NODE_NAME").ok();
        let given = self.node_name.clone().or_else(variable);
        // The kubelet lowercases the host name, too.
        let host = || pki::host_name().map(|name| name.to_lowercase());
        given
            .filter(|name| !name.is_empty())
            .or_else(host)
            .context("this host has no name; set --node-name")
    }
}
