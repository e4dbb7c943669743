//! `rhumb admission`: who sees a write before it is stored.

mod cluster;
mod output;
mod subject;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use rhumb_admission::Reading;
use rhumb_admission::explain::{Participant, Verdict, Write, explain};
use rhumb_admission::review::UserInfo;

use cluster::{Cluster, Source};
use output::Explanation;
use subject::Subject;

/// What the shell is told when the input is no good.
const BAD_INPUT: u8 = 2;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Show which webhooks and policies would see a request, and which rule excludes it from the others.
    ///
    /// Nobody is called and nothing is stored. Match conditions are evaluated on the object as it is in the file, with
    /// the defaults that the server fills in, and before anybody else has changed it.
    Explain(Box<Explain>),
}

#[derive(clap::Args, Debug)]
pub(crate) struct Explain {
    /// The object that the request is about, in YAML or JSON; - is standard input.
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
    /// What is done to it.
    #[arg(
        long,
        value_name = "OPERATION",
        value_enum,
        ignore_case = true,
        default_value = "CREATE"
    )]
    operation: Operation,
    /// The part of it that the request is for: status, scale, eviction.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    subresource: String,
    /// The resource, where the kind does not tell: deployments.apps.
    #[arg(long, value_name = "RESOURCE.GROUP")]
    resource: Option<String>,
    /// The namespace of an object that does not say its own [default: default].
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// The object before an update [default: the same].
    #[arg(long, value_name = "FILE")]
    old_object: Option<PathBuf>,
    /// Who asks, for match conditions.
    #[arg(long, value_name = "NAME", default_value = "kubernetes-admin")]
    user: String,
    /// A group of theirs, beside system:authenticated; may be there several times.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// As if nothing were to be stored.
    #[arg(long)]
    dry_run: bool,
    /// Webhook configurations, policies, bindings and namespaces from these files instead of a server's.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "kubeconfig")]
    configurations: Vec<PathBuf>,
    /// How to reach the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's own account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// How to show the result.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "UPPER")]
enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl From<Operation> for rhumb_admission::Operation {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Create => Self::Create,
            Operation::Update => Self::Update,
            Operation::Delete => Self::Delete,
            Operation::Connect => Self::Connect,
        }
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

pub(crate) fn run(command: Command) -> Result<ExitCode> {
    let Command::Explain(flags) = command;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no threads can be started")?;
    let source = match flags.configurations.is_empty() {
        true => Source::Server(runtime.block_on(cluster::connect(flags.kubeconfig.as_deref()))?),
        false => Source::Files(&flags.configurations),
    };
    let explained = runtime.block_on(flags.explain(&source));
    match explained {
        Ok(explanation) => {
            let text = match flags.output {
                Output::Table => explanation.table(),
                Output::Json => explanation.json()?,
            };
            print!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        Err(Failure::Input(error)) => {
            eprintln!("rhumb: {error:#}");
            Ok(ExitCode::from(BAD_INPUT))
        }
        Err(Failure::Server(error)) => Err(error),
    }
}

/// Whose fault it is.
#[derive(Debug)]
enum Failure {
    Input(anyhow::Error),
    Server(anyhow::Error),
}

impl Explain {
    async fn explain(&self, source: &Source<'_>) -> Result<Explanation, Failure> {
        let subject = Subject::read(self, source).await?;
        let cluster = Cluster::read(source, subject.namespace()).await?;
        let extra = BTreeMap::new();
        let mut groups = self.groups.clone();
        groups.push("system:authenticated".to_owned());
        let write = Write {
            facts: subject.facts(),
            object: subject.object(),
            old: subject.old(),
            namespace: cluster.namespace.as_ref(),
            user: UserInfo {
                username: &self.user,
                uid: "",
                groups: &groups,
                extra: &extra,
            },
            dry_run: self.dry_run,
        };
        let reading = Reading {
            exclusions: cluster.exclusions.unwrap_or(true),
        };
        let participants = explain(&write, &cluster.configurations, reading);
        let mut notes = cluster.notes;
        notes.extend(note_on_exclusions(cluster.exclusions, &participants));
        Ok(Explanation {
            request: output::Request::new(&write),
            participants,
            notes,
        })
    }
}

/// What people should know of exclusion rules in the answer.
fn note_on_exclusions(exclusions: Option<bool>, participants: &[Participant]) -> Option<String> {
    let is_excluded = |it: &Participant| matches!(it.verdict, Verdict::Excluded { .. });
    match exclusions {
        Some(true) => None,
        Some(false) => Some("the server does not look at excludeResourceRules".to_owned()),
        None => participants.iter().any(is_excluded).then(|| {
            "the server's metrics do not tell whether it looks at excludeResourceRules: it is taken to do so"
                .to_owned()
        }),
    }
}
