//! The matrix as JSON rows.

use std::io::{self, Write};

use anyhow::{Result, ensure};
use rhumb_netpol::{NamespacedName, Protocol};
use serde::{Serialize, Serializer};

use super::reachability::ReachabilityMatrix;
use crate::netpol::check::verdict_word;

/// Limit of rows, since more would fill disks.
const ROWS_MAX: usize = 100_000_000;

#[derive(Serialize)]
struct MatrixRow<'a> {
    #[serde(serialize_with = "as_text")]
    from: &'a NamespacedName,
    #[serde(serialize_with = "as_text")]
    to: &'a NamespacedName,
    port: u16,
    protocol: Protocol,
    ingress: &'static str,
    egress: &'static str,
    combined: &'static str,
}

fn as_text<S: Serializer>(name: &NamespacedName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(name)
}

pub(super) fn check_size(reach: &ReachabilityMatrix<'_>) -> Result<()> {
    let pods = reach.pods.len();
    let ports: usize = (0..pods).map(|pod| reach.queried_ports(pod).len()).sum();
    let rows = pods.saturating_mul(ports);
    ensure!(
        rows <= ROWS_MAX,
        "{pods} pods would give {rows} rows, more than the limit of {ROWS_MAX}: select namespaces with --namespace, or use \
         another output format, which groups pods"
    );
    Ok(())
}

/// Streams one row per line: there may be millions.
pub(super) fn write(reach: &ReachabilityMatrix<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut before = "[\n";
    for (at, from) in reach.pods.iter().enumerate() {
        for (other, to) in reach.pods.iter().enumerate() {
            let queried = reach.queried_ports(other).iter();
            for (queried, answer) in queried.zip(reach.answers(at, other)) {
                out.write_all(before.as_bytes())?;
                before = ",\n";
                let row = MatrixRow {
                    from,
                    to,
                    port: queried.port.port,
                    protocol: queried.port.protocol,
                    ingress: verdict_word(answer.ingress),
                    egress: verdict_word(answer.egress),
                    combined: verdict_word(answer.is_allowed()),
                };
                serde_json::to_writer(&mut *out, &row)?;
            }
        }
    }
    let is_empty = before == "[\n";
    out.write_all(if is_empty { b"[]\n" } else { b"\n]\n" })
}
