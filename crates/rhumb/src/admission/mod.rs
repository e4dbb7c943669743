//! `rhumb admission`: which webhooks and policies a write would be sent to, without sending it (`explain`); exclusion
//! rules for servers without them (`compile`); webhooks that can stop a cluster (`lint`).

mod cluster;
mod compile;
mod connect_options;
mod equivalents;
mod lint;
mod output;
mod request_input;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use rhumb_admission::CriteriaFeatures;
use rhumb_admission::explain::{AdmissionParticipant, ExplainedWrite, ParticipantVerdict, explain};
use rhumb_admission::review::UserInfo;

use cluster::{AdmissionClusterState, ConfigurationSource};
use output::AdmissionExplanation;
use request_input::AdmissionRequestInput;

/// Exit code for invalid input.
const BAD_INPUT: u8 = 2;
/// Exit code of `lint` if it finds something.
const HAS_FINDINGS: u8 = 3;

#[derive(clap::Subcommand)]
pub(crate) enum AdmissionCommand {
    /// Show which webhooks and policies a request would be sent to, and which rule excludes it from the others.
    ///
    /// No webhook is called and nothing is stored. Match conditions are evaluated on the object in the file with the
    /// server's defaults, before any mutation.
    Explain(Box<AdmissionExplainCommand>),
    /// Translate exclusion rules of webhooks into matchConditions, for servers without KEP-3693.
    ///
    /// Prints the configurations without excludeResourceRules, each webhook with a match condition that excludes the same
    /// requests. A namespaceSelector inside a rule, which match conditions cannot evaluate, is moved to the webhook if
    /// that is equivalent. Exits with 2, and says why, if a rule cannot be translated.
    Compile(compile::AdmissionCompileCommand),
    /// List the webhooks of a cluster that can stop it, with a patch for each.
    ///
    /// A webhook with failurePolicy Fail that does not answer blocks all writes that it is called for. This command finds
    /// those that are called for node leases, nodes, token reviews and other resources that the cluster depends on. The
    /// patches use excludeResourceRules if the server has them, and otherwise matchConditions. Changes nothing. Exits
    /// with 3 if there are such webhooks.
    Lint(lint::AdmissionLintCommand),
}

#[derive(clap::Args, Debug)]
pub(crate) struct AdmissionExplainCommand {
    /// File with the object of the request, in YAML or JSON; - is standard input.
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
    /// Operation of the request.
    #[arg(
        long,
        value_name = "OPERATION",
        value_enum,
        ignore_case = true,
        default_value = "CREATE"
    )]
    operation: OperationFlag,
    /// Subresource of the request: status, scale, eviction.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    subresource: String,
    /// Resource of the request, if the kind does not determine it: deployments.apps.
    #[arg(long, value_name = "RESOURCE.GROUP")]
    resource: Option<String>,
    /// Namespace of an object without metadata.namespace [default: default].
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// File with the object before the update [default: the same object].
    #[arg(long, value_name = "FILE")]
    old_object: Option<PathBuf>,
    /// File with the options of a CONNECT request, such as PodExecOptions, which are its object for webhooks and policies
    /// [default: those of a request without query parameters].
    #[arg(long, value_name = "FILE")]
    connect_options: Option<PathBuf>,
    /// User of the request, for match conditions.
    #[arg(long, value_name = "NAME", default_value = "kubernetes-admin")]
    user: String,
    /// Group of the user, in addition to system:authenticated; can be repeated.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// Treat the request as a dry run.
    #[arg(long)]
    dry_run: bool,
    /// Files with webhook configurations, policies, bindings and namespaces, instead of those of a server.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "kubeconfig")]
    configurations: Vec<PathBuf>,
    /// Kubeconfig of the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's service account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "table")]
    output: AdmissionOutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "UPPER")]
enum OperationFlag {
    Create,
    Update,
    Delete,
    /// DELETE of all objects of a collection, of which the file has one. The request has no name.
    #[value(name = "DELETECOLLECTION", alias = "delete-collection")]
    DeleteCollection,
    Connect,
}

impl From<OperationFlag> for rhumb_admission::Operation {
    fn from(operation: OperationFlag) -> Self {
        match operation {
            OperationFlag::Create => Self::Create,
            OperationFlag::Update => Self::Update,
            OperationFlag::Delete | OperationFlag::DeleteCollection => Self::Delete,
            OperationFlag::Connect => Self::Connect,
        }
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum AdmissionOutputFormat {
    Table,
    Json,
}

pub(crate) fn run(command: AdmissionCommand) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    match command {
        AdmissionCommand::Explain(flags) => run_explain(&flags, &runtime),
        AdmissionCommand::Compile(command) => match compile::run(&command) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => Ok(bad_input(&error)),
        },
        AdmissionCommand::Lint(command) => match runtime.block_on(lint::run(&command))? {
            true => Ok(ExitCode::from(HAS_FINDINGS)),
            false => Ok(ExitCode::SUCCESS),
        },
    }
}

fn bad_input(error: &anyhow::Error) -> ExitCode {
    eprintln!("rhumb: {error:#}");
    ExitCode::from(BAD_INPUT)
}

fn run_explain(
    flags: &AdmissionExplainCommand,
    runtime: &tokio::runtime::Runtime,
) -> Result<ExitCode> {
    let source = match flags.configurations.is_empty() {
        true => ConfigurationSource::Server(
            runtime.block_on(cluster::connect(flags.kubeconfig.as_deref()))?,
        ),
        false => ConfigurationSource::Files(&flags.configurations),
    };
    let explained = runtime.block_on(flags.explain(&source));
    match explained {
        Ok(explanation) => {
            let text = match flags.output {
                AdmissionOutputFormat::Table => explanation.table(),
                AdmissionOutputFormat::Json => explanation.json()?,
            };
            print!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        Err(ExplainError::Input(error)) => Ok(bad_input(&error)),
        Err(ExplainError::Server(error)) => Err(error),
    }
}

/// An error in the input of the user, or one of the server.
#[derive(Debug)]
enum ExplainError {
    Input(anyhow::Error),
    Server(anyhow::Error),
}

impl AdmissionExplainCommand {
    async fn explain(
        &self,
        source: &ConfigurationSource<'_>,
    ) -> Result<AdmissionExplanation, ExplainError> {
        let subject = AdmissionRequestInput::read(self, source).await?;
        let cluster = AdmissionClusterState::read(source, subject.namespace()).await?;
        let extra = BTreeMap::new();
        let mut groups = self.groups.clone();
        groups.push("system:authenticated".to_owned());
        let write = ExplainedWrite {
            attributes: subject.match_attributes(),
            object: subject.object(),
            old_object: subject.old(),
            namespace: cluster.namespace.as_ref(),
            user: UserInfo {
                username: &self.user,
                uid: "",
                groups: &groups,
                extra: &extra,
            },
            dry_run: self.dry_run,
        };
        let reading = CriteriaFeatures {
            exclusion_rules: cluster.exclusions.unwrap_or(true),
        };
        let participants = explain(&write, &cluster.configurations, reading);
        let mut notes = cluster.notes;
        notes.extend(note_on_exclusions(cluster.exclusions, &participants));
        Ok(AdmissionExplanation {
            request: output::ExplainedRequest::new(
                &write,
                self.operation == OperationFlag::DeleteCollection,
            ),
            participants,
            notes,
        })
    }
}

/// A note if the server ignores exclusion rules, or if that is unknown.
fn note_on_exclusions(
    exclusions: Option<bool>,
    participants: &[AdmissionParticipant],
) -> Option<String> {
    let is_excluded =
        |it: &AdmissionParticipant| matches!(it.verdict, ParticipantVerdict::Excluded { .. });
    match exclusions {
        Some(true) => None,
        Some(false) => Some("the server does not look at excludeResourceRules".to_owned()),
        None => participants.iter().any(is_excluded).then(|| {
            "the server's metrics do not tell whether it looks at excludeResourceRules: it is taken to do so"
                .to_owned()
        }),
    }
}
