//! `rhumb scheduler explain`: what stands between a pod and each node.

mod cluster;
mod output;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rhumb_api::Gates;
use rhumb_api::gates::Feature;
use rhumb_scheduler::cluster::{Cluster, PodId};
use rhumb_scheduler::engine::Settings;
use rhumb_scheduler::explain::{Explanation, explain};

use super::flags::read_config;
use crate::connect;

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The pod: pod/NAME, or just NAME.
    #[arg(value_name = "pod/NAME")]
    pod: String,
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Show these nodes only; may be there several times.
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// Show every node by itself, however many there are.
    #[arg(long)]
    all: bool,
    /// How to show the result.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    /// How to reach the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's own account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// How the pod is scheduled: the file that the scheduler was started with.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Features that the scheduler was started with.
    #[arg(
        long,
        value_name = "GATES",
        default_value = "",
        hide_default_value = true
    )]
    feature_gates: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    Table,
    Json,
}

pub(super) fn run(command: &Explain) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no threads can be started")?;
    let explanation = runtime.block_on(command.explain())?;
    match command.output {
        Output::Table => print!(
            "{}",
            output::table(&explanation, &command.nodes, command.all)
        ),
        Output::Json => println!("{}", serde_json::to_string_pretty(&explanation)?),
    }
    Ok(ExitCode::SUCCESS)
}

/// What people should know though it is no part of the answer.
fn note(notes: &[String]) {
    for note in notes {
        eprintln!("note: {note}");
    }
}

impl Explain {
    async fn explain(&self) -> Result<Explanation> {
        let settings = read_config(self.config.as_deref())?.settings();
        let (gates, notes) = Gates::parse(&self.feature_gates).context("--feature-gates")?;
        note(&notes);
        let (connect, _) = connect::over_https(self.kubeconfig.as_deref(), false).await?;
        let namespace_selectors = gates.enabled(Feature::PodAffinityNamespaceSelector);
        let (mut cluster, notes) = cluster::read(&connect.own(), namespace_selectors).await?;
        note(&notes);
        let pod = self.find(&cluster)?;
        for node in &self.nodes {
            let known = cluster.nodes().find(node);
            if known.is_none_or(|id| cluster.nodes().facts(id).is_none()) {
                bail!("there is no node {node:?}");
            }
        }
        explain_with(settings, &mut cluster, pod)
    }

    fn find(&self, cluster: &Cluster) -> Result<PodId> {
        let name = match self.pod.split_once('/') {
            None => &*self.pod,
            Some(("pod" | "pods" | "po", name)) => name,
            Some((kind, _)) => bail!("{kind:?} is no pod: only pods are scheduled"),
        };
        let mut pods = cluster.pods().in_namespace(&self.namespace);
        let found = pods.find(|id| {
            let pod = cluster.pods().get(*id);
            pod.is_some_and(|pod| *pod.facts.key.name == *name)
        });
        found.with_context(|| {
            format!(
                "there is no pod {name:?} in the namespace {:?} that has not come to its end",
                self.namespace
            )
        })
    }
}

/// By the profile that the pod names.
fn explain_with(settings: Settings, cluster: &mut Cluster, pod: PodId) -> Result<Explanation> {
    let facts = cluster.pods().get(pod).map(|pod| pod.facts.clone());
    let named = facts
        .map(|facts| facts.scheduler_name.clone())
        .unwrap_or_default();
    let mut profiles = settings.profiles.into_iter().map(|profile| profile.profile);
    let profile = profiles
        .find(|profile| profile.scheduler_name == named)
        .with_context(|| {
            format!(
                "the pod is scheduled by {named:?}, which is no profile of the configuration; name the file of its \
                 scheduler with --config"
            )
        })?;
    profile.introduce(cluster);
    explain(cluster, &profile, pod).context("the pod is not known")
}
