//! `rhumb scheduler explain`: why each node is or is not feasible for a pod, which pods its affinity terms match, and
//! which terms of other pods match it.

mod affinity_output;
mod cluster;
mod output;
mod pod_file;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rhumb_api::FeatureGates;
use rhumb_api::feature_gates::Feature;
use rhumb_scheduler::cluster::{ClusterState, PodId};
use rhumb_scheduler::engine::SchedulerCoreSettings;
use rhumb_scheduler::explain::{PodSchedulingExplanation, explain};

use super::flags::read_config;
use crate::clients;

#[derive(Args, Debug)]
pub(crate) struct SchedulerExplainCommand {
    /// The pod: pod/NAME, or just NAME.
    #[arg(value_name = "pod/NAME", required_unless_present = "filename")]
    pod: Option<String>,
    /// File with a pod that is not created yet; - is standard input. The server completes it in a dry run, as it would
    /// when the pod is created, and nothing is stored.
    #[arg(short, long, value_name = "FILE", conflicts_with = "pod")]
    filename: Option<PathBuf>,
    /// Namespace of the pod [default: that of the file, or default].
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Show only this node; can be repeated.
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// Show every node in its own row instead of grouping nodes by reason.
    #[arg(long)]
    all: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "table")]
    output: ExplainOutputFormat,
    /// Kubeconfig of the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's service account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Configuration file of the scheduler.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Feature gates of the scheduler.
    #[arg(
        long,
        value_name = "GATES",
        default_value = "",
        hide_default_value = true
    )]
    feature_gates: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ExplainOutputFormat {
    Table,
    Json,
}

pub(super) fn run(command: &SchedulerExplainCommand) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    let mut explanation = runtime.block_on(command.explain())?;
    match command.output {
        ExplainOutputFormat::Table => {
            let is_created = command.filename.is_none();
            print!("{}", output::headline(&explanation, is_created));
            let nodes = output::nodes(&explanation, &command.nodes, command.all);
            print!("{nodes}{}", affinity_output::terms(&explanation));
        }
        ExplainOutputFormat::Json => {
            let asked = &command.nodes;
            let nodes = &mut explanation.nodes;
            nodes.retain(|node| asked.is_empty() || asked.contains(&node.name));
            println!("{}", serde_json::to_string_pretty(&explanation)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints notes to standard error.
fn note(notes: &[String]) {
    for note in notes {
        eprintln!("note: {note}");
    }
}

impl SchedulerExplainCommand {
    async fn explain(&self) -> Result<PodSchedulingExplanation> {
        let settings = read_config(self.config.as_deref())?.settings();
        let (gates, notes) = FeatureGates::parse(&self.feature_gates).context("--feature-gates")?;
        note(&notes);
        let (connect, _) = clients::over_https(self.kubeconfig.as_deref(), false).await?;
        let namespace_selectors = gates.enabled(Feature::PodAffinityNamespaceSelector);
        let client = connect.authenticated();
        let mut new_pod = match &self.filename {
            None => None,
            Some(path) => Some(pod_file::complete(&client, path, self.namespace.as_deref()).await?),
        };
        if let (Some(pod), false) = (&mut new_pod, namespace_selectors) {
            pod.drop_namespace_selectors();
        }
        let (mut cluster, notes) = cluster::read(&client, namespace_selectors).await?;
        note(&notes);
        let pod = match new_pod {
            None => self.find(&cluster)?,
            Some(pod) => pod_file::add(&mut cluster, pod)?,
        };
        for node in &self.nodes {
            let known = cluster.nodes().find(node);
            if known.is_none_or(|id| cluster.nodes().node(id).is_none()) {
                bail!("node {node:?} not found");
            }
        }
        explain_with(settings, &mut cluster, pod)
    }

    /// The pod that the arguments name.
    fn find(&self, cluster: &ClusterState) -> Result<PodId> {
        let argument = self.pod.as_deref().unwrap_or_default();
        let name = match argument.split_once('/') {
            None => argument,
            Some(("pod" | "pods" | "po", name)) => name,
            Some((kind, _)) => bail!("unsupported resource {kind:?}: only pods are scheduled"),
        };
        let namespace = self.namespace.as_deref().unwrap_or("default");
        let mut pods = cluster.pods().in_namespace(namespace);
        let found = pods.find(|id| {
            let pod = cluster.pods().get(*id);
            pod.is_some_and(|pod| *pod.pod.key.name == *name)
        });
        found.with_context(|| {
            format!("no pod {name:?} in namespace {namespace:?}, or it has terminated")
        })
    }
}

/// Explains the pod with the profile of its `schedulerName`.
fn explain_with(
    settings: SchedulerCoreSettings,
    cluster: &mut ClusterState,
    pod: PodId,
) -> Result<PodSchedulingExplanation> {
    let facts = cluster.pods().get(pod).map(|pod| pod.pod.clone());
    let named = facts
        .map(|facts| facts.scheduler_name.clone())
        .unwrap_or_default();
    let mut profiles = settings.profiles.into_iter().map(|profile| profile.profile);
    let profile = profiles
        .find(|profile| profile.scheduler_name == named)
        .with_context(|| {
            format!(
                "the configuration has no profile for the pod's scheduler {named:?}; set --config to the file of that \
                 scheduler"
            )
        })?;
    profile.register_topologies(cluster);
    explain(cluster, &profile, pod).context("pod not found")
}
