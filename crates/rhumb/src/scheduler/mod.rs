//! `rhumb scheduler`, and the parts by which `rhumb up` runs the scheduler (upstream: kube-scheduler).

mod explain;
mod flags;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use rhumb_api::FeatureGates;
use rhumb_api::feature_gates::Feature;
use rhumb_handlers::MetricsSource;
use rhumb_scheduler::metrics::Metrics;
use rhumb_scheduler::run::SchedulerHealth;

pub(crate) use flags::{options, read_config};

use crate::clients;
use crate::controllers::unique_identity;
use crate::logging::LoggingFlags;
use crate::metrics_server::{self, MonitoredComponent};

/// Adds the scheduler's metrics to those of the API server in the same process.
#[derive(Debug)]
pub(crate) struct SchedulerMetricsSource(pub(crate) Arc<Metrics>);

impl MetricsSource for SchedulerMetricsSource {
    fn encode(&self, text: &mut String) -> fmt::Result {
        self.0.write(text)
    }
}

/// Metrics and readiness of a scheduler in its own process.
struct SchedulerMonitor {
    metrics: Arc<Metrics>,
    health: Arc<SchedulerHealth>,
}

impl MonitoredComponent for SchedulerMonitor {
    fn metrics(&self) -> Option<String> {
        self.metrics.text()
    }

    fn unready(&self) -> Option<String> {
        let is_ready = self.health.is_ready();
        (!is_ready).then(|| "the initial lists are not complete".to_owned())
    }
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SchedulerCommand {
    #[command(subcommand)]
    question: Option<SchedulerSubcommand>,
    #[command(flatten)]
    flags: SchedulerFlags,
}

#[derive(Subcommand, Debug)]
enum SchedulerSubcommand {
    /// Show which nodes are feasible for a pod, and which plugin rejects each of the others and why.
    ///
    /// Reads the cluster from the server and changes nothing. A pod that is bound to a node is evaluated as if it were
    /// pending.
    Explain(explain::SchedulerExplainCommand),
}

#[derive(Args, Debug)]
struct SchedulerFlags {
    /// Kubeconfig of the API server [default: from --config, $KUBECONFIG, ~/.kube/config, or the pod's service
    /// account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// File with a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Feature gates as Name=true,Name=false. The scheduler uses PodAffinityNamespaceSelector.
    #[arg(
        long,
        value_name = "GATES",
        default_value = "",
        hide_default_value = true
    )]
    feature_gates: String,
    /// Schedule only while this process holds the leader election Lease [default: from --config, or true].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    leader_elect: Option<bool>,
    /// Name of the Lease for leader election [default: from --config, or kube-scheduler].
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// Namespace of the Lease for leader election [default: from --config, or kube-system].
    #[arg(long, value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
    /// Address for metrics and health checks, over HTTP and without authentication; empty disables it.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10259")]
    metrics_address: String,
    #[command(flatten)]
    logging: LoggingFlags,
}

impl SchedulerCommand {
    pub(crate) fn logging(&self) -> LoggingFlags {
        self.flags.logging
    }
}

pub(crate) fn run(command: SchedulerCommand) -> Result<ExitCode> {
    if let Some(SchedulerSubcommand::Explain(question)) = &command.question {
        return explain::run(question);
    }
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?
        .block_on(schedule(command.flags))?;
    Ok(ExitCode::SUCCESS)
}

async fn schedule(command: SchedulerFlags) -> Result<()> {
    let stop = crate::up::stop_on_signals()?;
    let mut config = read_config(command.config.as_deref())?;
    let (gates, notes) = FeatureGates::parse(&command.feature_gates).context("--feature-gates")?;
    for note in notes {
        tracing::warn!("{note}");
    }
    config.namespace_selectors = gates.enabled(Feature::PodAffinityNamespaceSelector);
    let election = &mut config.leader_election;
    if let Some(leader_elect) = command.leader_elect {
        election.leader_elect = leader_elect;
    }
    if let Some(name) = command.leader_elect_resource_name {
        election.resource_name = name;
    }
    if let Some(namespace) = command.leader_elect_resource_namespace {
        election.resource_namespace = namespace;
    }
    let named = config.kubeconfig.as_ref().map(PathBuf::from);
    let kubeconfig = command.kubeconfig.or(named);
    let metrics = Arc::<Metrics>::default();
    let options = options(config, unique_identity(), metrics.clone())?;
    let (connect, _) = clients::over_https(kubeconfig.as_deref(), false).await?;
    if !command.metrics_address.is_empty() {
        let listener = metrics_server::bind(&command.metrics_address).await?;
        let health = options.health.clone();
        tokio::spawn(metrics_server::serve(
            listener,
            SchedulerMonitor { metrics, health },
        ));
    }
    tracing::info!(
        server = connect.server(),
        lease = options
            .election
            .as_ref()
            .map(|lease| format!("{}/{}", lease.namespace, lease.name)),
        "waiting for the leader election lease before scheduling starts"
    );
    rhumb_scheduler::run::run(connect.multiplexed()?, options, stop).await;
    Ok(())
}
