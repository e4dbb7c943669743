//! `rhumb netpol`: evaluates network policies from files or from a server, for one connection (`check`) or for all pairs
//! of pods (`matrix`). The verdicts come from `rhumb_netpol`.

mod check;
mod cluster;
mod endpoints;
mod enforcement;
mod manifest_reader;
mod matrix;
mod node_reports;
mod placeholder_addresses;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::clients;
use cluster::{NetpolCluster, NetpolObjects};

/// Exit code if the answer depends on policies that nodes do not enforce, so that the traffic may differ.
const NOT_ENFORCED: u8 = 3;
/// Exit code if there is no answer. Exit code 1 of `check` means denied.
const NO_ANSWER: u8 = 2;

#[derive(clap::Subcommand)]
pub(crate) enum NetpolCommand {
    /// Show whether a connection is allowed, which policies and rules allow it, and why others do not.
    ///
    /// Exits with 0 if the connection is allowed, 1 if it is denied (reversed with --expect denied), 2 on errors, and 3 if the
    /// answer depends on policies that are not enforced according to the nodes of the server. If both endpoints have IPv4
    /// and IPv6 addresses, each pair is evaluated, and one allowed pair is enough.
    Check(Box<check::NetpolCheckCommand>),
    /// Show which pods can reach which pods on which ports.
    ///
    /// For every pod, the ports are those that its containers declare and those in policies that may apply to it; if there
    /// are none, 80/TCP. Exits with 2 on errors, and with 3 if some policies are not enforced on the shown pods, according to
    /// the nodes of the server.
    Matrix(Box<matrix::NetpolMatrixCommand>),
}

/// Flags for the source of pods, namespaces and policies.
#[derive(clap::Args, Debug)]
struct ObjectSourceFlags {
    /// Files or directories with namespaces, pods and policies, in YAML or JSON; - is standard input.
    #[arg(short, long, value_name = "FILE", num_args = 1.., conflicts_with = "kubeconfig")]
    filename: Vec<PathBuf>,
    /// Kubeconfig of the API server to read from [default: $KUBECONFIG, ~/.kube/config, or the pod's service account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl ObjectSourceFlags {
    fn read(&self) -> Result<NetpolCluster> {
        let objects = match self.filename.is_empty() {
            false => manifest_reader::read(&self.filename)?,
            true => self.read_from_server()?,
        };
        Ok(NetpolCluster::new(objects))
    }

    fn read_from_server(&self) -> Result<NetpolObjects> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("failed to start the async runtime")?;
        runtime.block_on(async {
            let (connect, _) = clients::over_https(self.kubeconfig.as_deref(), false)
                .await
                .context("no input; pass files with -f, or a server with --kubeconfig")?;
            let what = || format!("server {}", connect.server());
            NetpolObjects::of_server(&connect.authenticated())
                .await
                .with_context(what)
        })
    }
}

pub(crate) fn run(command: NetpolCommand) -> Result<ExitCode> {
    let answered = match command {
        NetpolCommand::Check(command) => check::run(&command),
        NetpolCommand::Matrix(command) => matrix::run(&command),
    };
    Ok(answered.unwrap_or_else(|error| {
        eprintln!("rhumb: {error:#}");
        ExitCode::from(NO_ANSWER)
    }))
}

/// Prints notes to standard error.
fn note(notes: &[String]) {
    for note in notes {
        eprintln!("note: {note}");
    }
}
