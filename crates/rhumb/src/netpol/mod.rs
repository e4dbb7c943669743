//! `rhumb netpol`: who may reach whom by network policies, in files or on a server.

mod check;
mod cluster;
mod ends;
mod files;
mod matrix;
mod policies;
mod stand_ins;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::connect;
use cluster::{Cluster, Objects};

/// What the shell is told when there is no answer. 1 is an answer of `check`: denied.
const NO_ANSWER: u8 = 2;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Say whether a connection is allowed, by which policies and rules, and why not by the others.
    ///
    /// Exits with 0 if it is allowed, 1 if it is denied (the other way round with --expect denied), and 2 if there is no
    /// answer. Where both ends have addresses of both
    /// families, each pair is judged, and one that is allowed is enough.
    Check(Box<check::Check>),
    /// Show who can reach whom on which ports.
    ///
    /// Every pod is asked about the ports that its containers declare, and those that policies name where they may be about
    /// it. One that has none of either is asked about 80/TCP. Exits with 2 if there is no answer.
    Matrix(Box<matrix::Matrix>),
}

/// Where pods, namespaces and policies come from.
#[derive(clap::Args, Debug)]
struct Source {
    /// Namespaces, pods and policies from these files, in YAML or JSON, also in lists; of a directory, its files; - is
    /// standard input.
    #[arg(short, long, value_name = "FILE", num_args = 1.., conflicts_with = "kubeconfig")]
    filename: Vec<PathBuf>,
    /// The API server to read them from [default: $KUBECONFIG, ~/.kube/config, or the pod's own account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl Source {
    fn read(&self) -> Result<Cluster> {
        let objects = match self.filename.is_empty() {
            false => files::read(&self.filename)?,
            true => self.ask_server()?,
        };
        Ok(Cluster::new(objects))
    }

    fn ask_server(&self) -> Result<Objects> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("no threads can be started")?;
        runtime.block_on(async {
            let (connect, _) = connect::over_https(self.kubeconfig.as_deref(), false)
                .await
                .context("there is nothing to read; name files with -f, or a server")?;
            let what = || format!("the server {}", connect.server());
            Objects::of_server(&connect.own()).await.with_context(what)
        })
    }
}

pub(crate) fn run(command: Command) -> Result<ExitCode> {
    let answered = match command {
        Command::Check(command) => check::run(&command),
        Command::Matrix(command) => matrix::run(&command),
    };
    Ok(answered.unwrap_or_else(|error| {
        eprintln!("rhumb: {error:#}");
        ExitCode::from(NO_ANSWER)
    }))
}

/// What people should know though it is no part of the answer.
fn note(notes: &[String]) {
    for note in notes {
        eprintln!("note: {note}");
    }
}
