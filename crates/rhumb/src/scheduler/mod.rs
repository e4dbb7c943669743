//! The scheduler: `rhumb scheduler`, and what `rhumb up` needs to run it inside.

mod explain;
mod flags;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use rhumb_api::Gates;
use rhumb_api::gates::Feature;
use rhumb_apiserver::metrics::Beside;
use rhumb_scheduler::metrics::Metrics;
use rhumb_scheduler::run::Health;

pub(crate) use flags::{options, read_config};

use crate::connect;
use crate::controllers::unique_identity;
use crate::listener::{self, Component};

/// What the scheduler counts, shown by the server that it runs beside.
#[derive(Debug)]
pub(crate) struct Counted(pub(crate) Arc<Metrics>);

impl Beside for Counted {
    fn write(&self, text: &mut String) -> fmt::Result {
        self.0.write(text)
    }
}

/// The same where it runs alone.
struct Alone {
    metrics: Arc<Metrics>,
    health: Arc<Health>,
}

impl Component for Alone {
    fn metrics(&self) -> Option<String> {
        self.metrics.text()
    }

    fn unready(&self) -> Option<String> {
        let is_ready = self.health.is_ready();
        (!is_ready).then(|| "not all that there is has been seen yet".to_owned())
    }
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Command {
    #[command(subcommand)]
    question: Option<Question>,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Subcommand, Debug)]
enum Question {
    /// Show which nodes a pod could go to, and what stands against the others: which plugin, and which pod's term.
    ///
    /// The cluster is read from the server and nothing is changed. A pod that is on a node is looked at as if it were to
    /// be placed again.
    Explain(explain::Explain),
}

#[derive(Args, Debug)]
struct Flags {
    /// How to reach the API server [default: as the configuration says, $KUBECONFIG, ~/.kube/config, or the pod's own
    /// account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// How to schedule: a file with a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Features to turn on or off: PodAffinityNamespaceSelector=false is the one that schedulers look at.
    #[arg(
        long,
        value_name = "GATES",
        default_value = "",
        hide_default_value = true
    )]
    feature_gates: String,
    /// Schedule only while this process has the lease [default: as the configuration says, or true].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    leader_elect: Option<bool>,
    /// The Lease by which one process at a time schedules [default: as the configuration says, or kube-scheduler].
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// The namespace of that Lease [default: as the configuration says, or kube-system].
    #[arg(long, value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
    /// Where to show metrics and health, over HTTP and to everyone who can reach it; nothing is nowhere.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10259")]
    metrics_address: String,
}

pub(crate) fn run(command: Command) -> Result<ExitCode> {
    if let Some(Question::Explain(question)) = &command.question {
        return explain::run(question);
    }
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no threads can be started")?
        .block_on(schedule(command.flags))?;
    Ok(ExitCode::SUCCESS)
}

async fn schedule(command: Flags) -> Result<()> {
    let stop = crate::up::stop_on_signals()?;
    let mut config = read_config(command.config.as_deref())?;
    let (gates, notes) = Gates::parse(&command.feature_gates).context("--feature-gates")?;
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
    let (connect, _) = connect::over_https(kubeconfig.as_deref(), false).await?;
    if !command.metrics_address.is_empty() {
        let listener = listener::bind(&command.metrics_address).await?;
        let health = options.health.clone();
        tokio::spawn(listener::serve(listener, Alone { metrics, health }));
    }
    tracing::info!(
        server = connect.server(),
        lease = options
            .election
            .as_ref()
            .map(|lease| format!("{}/{}", lease.namespace, lease.name)),
        "scheduling begins once this process leads"
    );
    rhumb_scheduler::run::run(connect.multiplexed()?, options, stop).await;
    Ok(())
}
