//! `rhumb netpol matrix`: every pod to every other.

mod classes;
mod dot;
mod groups;
mod json;
mod picture;
mod ports;
mod reach;
mod table;
#[cfg(test)]
mod tests;

use std::io::{BufWriter, ErrorKind, Write, stdout};
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};

use super::cluster::{Cluster, counted, few};
use super::ends::PortNumber;
use super::note;
use groups::Groups;
use reach::Reach;

/// With no more pods than this, each is shown by itself; of more, those that behave the same are shown together.
const IN_TABLE_MAX: usize = 20;
const IN_PICTURE_MAX: usize = 60;

#[derive(clap::Args, Debug)]
pub(crate) struct Matrix {
    #[command(flatten)]
    source: super::Source,
    /// Only pods of this namespace, at both ends; may be there several times.
    #[arg(short, long = "namespace", value_name = "NAME")]
    namespaces: Vec<String>,
    /// A port that every pod is asked about, beside others: 8080, 53/UDP; may be there several times.
    #[arg(
        long = "port",
        visible_alias = "ports",
        value_name = "PORT/PROTOCOL",
        value_delimiter = ','
    )]
    ports: Vec<PortNumber>,
    /// How to show the result: lines for people, rows for programs, a graph for Graphviz, or a picture.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Table,
    Json,
    Dot,
    Svg,
}

pub(super) fn run(command: &Matrix) -> Result<ExitCode> {
    let cluster = command.source.read()?;
    note(&cluster.notes);
    check_is_something(&cluster, &command.namespaces)?;
    if !cluster.finished.is_empty() {
        note(&[counted(
            cluster.finished.len(),
            "pod has come to its end and is left out",
            "pods have come to their end and are left out",
        )]);
    }
    let reach = Reach::find(&cluster, &command.namespaces, &command.ports)?;
    note(&reach.notes());
    if command.output == Output::Json {
        json::check_size(&reach)?;
    }
    let mut out = BufWriter::new(stdout().lock());
    let written = match command.output {
        Output::Json => json::write(&reach, &mut out),
        Output::Table => {
            let groups = Groups::new(&reach, IN_TABLE_MAX);
            out.write_all(table::text(&reach, &groups, cluster.policies.len()).as_bytes())
        }
        Output::Dot => {
            let groups = Groups::new(&reach, IN_PICTURE_MAX);
            out.write_all(dot::text(&reach, &groups).as_bytes())
        }
        Output::Svg => {
            let groups = Groups::new(&reach, IN_PICTURE_MAX);
            check_fits(&groups)?;
            out.write_all(picture::svg(&reach, &groups, cluster.policies.len()).as_bytes())
        }
    };
    // Whoever reads the first lines of many only, such as head, has what they wanted.
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn check_is_something(cluster: &Cluster, namespaces: &[String]) -> Result<()> {
    ensure!(!cluster.pods.is_empty(), "there are no pods to ask about");
    for namespace in namespaces {
        let mut pods = cluster.pods.keys();
        if !pods.any(|pod| pod.namespace == *namespace) {
            let mut known: Vec<String> =
                cluster.pods.keys().map(|it| it.namespace.clone()).collect();
            known.dedup();
            bail!(
                "there is no pod in the namespace {namespace:?}; there are some in {}",
                few(known.into_iter())
            );
        }
    }
    Ok(())
}

fn check_fits(groups: &Groups) -> Result<()> {
    ensure!(
        groups.list.len() <= IN_PICTURE_MAX,
        "a picture of {} pods that all behave differently could not be read: show some namespaces with --namespace, or take \
         -o json",
        groups.list.len()
    );
    Ok(())
}
