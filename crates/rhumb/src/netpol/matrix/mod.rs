//! `rhumb netpol matrix`: evaluates the connections between all pairs of pods, and writes them as a table, JSON, Graphviz
//! or SVG.

mod dot;
mod equivalence_classes;
mod json;
mod pod_groups;
mod queried_ports;
mod reachability;
mod svg;
mod table;
#[cfg(test)]
mod tests;

use std::io::{BufWriter, ErrorKind, Write, stdout};
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};

use super::cluster::{NetpolCluster, counted, first_names};
use super::endpoints::PortAndProtocol;
use super::enforcement::{self, UnenforcedPolicy};
use super::{NOT_ENFORCED, note};
use pod_groups::PodGroups;
use reachability::ReachabilityMatrix;

/// Up to this many pods, each is shown on its own; with more, pods with equal reachability are grouped.
const IN_TABLE_MAX: usize = 20;
const IN_PICTURE_MAX: usize = 60;

#[derive(clap::Args, Debug)]
pub(crate) struct NetpolMatrixCommand {
    #[command(flatten)]
    source: super::ObjectSourceFlags,
    /// Show only pods of this namespace, as source and destination; can be repeated.
    #[arg(short, long = "namespace", value_name = "NAME")]
    namespaces: Vec<String>,
    /// Additional port to evaluate for every pod: 8080, 53/UDP; can be repeated.
    #[arg(
        long = "port",
        visible_alias = "ports",
        value_name = "PORT/PROTOCOL",
        value_delimiter = ','
    )]
    ports: Vec<PortAndProtocol>,
    /// Output format; dot is for Graphviz.
    #[arg(short, long, value_enum, default_value = "table")]
    output: MatrixOutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MatrixOutputFormat {
    Table,
    Json,
    Dot,
    Svg,
}

pub(super) fn run(command: &NetpolMatrixCommand) -> Result<ExitCode> {
    let cluster = command.source.read()?;
    note(&cluster.notes);
    check_is_something(&cluster, &command.namespaces)?;
    if !cluster.finished.is_empty() {
        note(&[counted(
            cluster.finished.len(),
            "pod has terminated and is ignored",
            "pods have terminated and are ignored",
        )]);
    }
    let reach = ReachabilityMatrix::find(&cluster, &command.namespaces, &command.ports)?;
    note(&reach.notes());
    if command.output == MatrixOutputFormat::Json {
        json::check_size(&reach)?;
    }
    let unenforced = unenforced_policies(&cluster, &reach);
    let mut out = BufWriter::new(stdout().lock());
    let written = match command.output {
        MatrixOutputFormat::Json => json::write(&reach, &mut out),
        MatrixOutputFormat::Table => {
            let groups = PodGroups::new(&reach, IN_TABLE_MAX);
            let mut text = table::text(&reach, &groups, cluster.policies.len());
            if !unenforced.is_empty() {
                text.push('\n');
                text.push_str(&enforcement::lines(&unenforced));
            }
            out.write_all(text.as_bytes())
        }
        MatrixOutputFormat::Dot => {
            let groups = PodGroups::new(&reach, IN_PICTURE_MAX);
            out.write_all(dot::text(&reach, &groups).as_bytes())
        }
        MatrixOutputFormat::Svg => {
            let groups = PodGroups::new(&reach, IN_PICTURE_MAX);
            check_fits(&groups)?;
            out.write_all(svg::svg(&reach, &groups, cluster.policies.len()).as_bytes())
        }
    };
    // A reader such as head may close the pipe early; that is not an error.
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    if unenforced.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if command.output != MatrixOutputFormat::Table {
        eprint!("{}", enforcement::lines(&unenforced));
    }
    Ok(ExitCode::from(NOT_ENFORCED))
}

/// The policies that select pods of the matrix but are not enforced there.
fn unenforced_policies(
    cluster: &NetpolCluster,
    reach: &ReachabilityMatrix<'_>,
) -> Vec<UnenforcedPolicy> {
    let Some(enforcement) = &cluster.enforcement else {
        return Vec::new();
    };
    let pods = reach
        .pods
        .iter()
        .filter_map(|name| cluster.pods.get_key_value(*name));
    enforcement.unenforced_on(&cluster.engine, pods)
}

fn check_is_something(cluster: &NetpolCluster, namespaces: &[String]) -> Result<()> {
    ensure!(!cluster.pods.is_empty(), "there are no pods");
    for namespace in namespaces {
        let mut pods = cluster.pods.keys();
        if !pods.any(|pod| pod.namespace == *namespace) {
            let mut known: Vec<String> =
                cluster.pods.keys().map(|it| it.namespace.clone()).collect();
            known.dedup();
            bail!(
                "there is no pod in the namespace {namespace:?}; there are some in {}",
                first_names(known.into_iter())
            );
        }
    }
    Ok(())
}

fn check_fits(groups: &PodGroups) -> Result<()> {
    ensure!(
        groups.list.len() <= IN_PICTURE_MAX,
        "too many for an SVG: {} groups of pods with different reachability; select namespaces with --namespace, or use \
         -o json",
        groups.list.len()
    );
    Ok(())
}
