//! A table of policies, and for each the full matrix of who reaches whom: what the kernel does is what the engine says, and
//! the engine says what is written here.

use std::collections::BTreeMap;
use std::sync::Arc;

use rhumb_netpol::Protocol;

use crate::cluster::{Cluster, with_cluster};
use crate::matrix::Meaning;
use crate::rows::{BLOCKS, EGRESS, PEERS, PORTS, Row};
use crate::site::Site;
use crate::wiring::Wiring;

/// In one cluster, each instead of the one before.
fn check_table(wiring: Wiring, rows: impl IntoIterator<Item = &'static Row> + Send) {
    with_cluster(wiring, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        let mut before = Vec::new();
        for row in rows {
            before = check(cluster, row, &before).await;
        }
    });
}

#[test]
fn packets_obey_policies_about_peers() {
    check_table(Wiring::Bridged, PEERS);
}

#[test]
fn packets_obey_policies_about_blocks_of_addresses() {
    check_table(Wiring::Bridged, BLOCKS);
}

#[test]
fn packets_obey_policies_about_ports() {
    check_table(Wiring::Bridged, PORTS);
}

#[test]
fn packets_obey_policies_about_what_goes_out() {
    check_table(Wiring::Bridged, EGRESS);
}

/// Some of each kind.
#[test]
fn packets_obey_policies_where_everything_is_routed() {
    let tables = [PEERS, BLOCKS, PORTS, EGRESS];
    check_table(
        Wiring::Routed,
        tables.into_iter().flat_map(|rows| rows.iter().step_by(3)),
    );
}

/// Returns the uids of policies that are deleted, and maybe still in force.
async fn check(cluster: &Cluster, row: &Row, before: &[String]) -> Vec<String> {
    for (name, spec) in row.policies {
        cluster.create_policy(name, spec).await;
    }
    for (name, _) in row.policies {
        cluster.programmed(name).await;
    }
    for uid in before {
        cluster.forgotten(uid).await;
    }
    let meaning = Meaning::read(cluster).await;
    check_samples(cluster, &meaning, row);
    cluster.check_matrix(row.what, &meaning).await;
    let mut deleted = Vec::new();
    for (name, _) in row.policies {
        deleted.push(cluster.delete_policy(name).await);
    }
    deleted
}

fn check_samples(cluster: &Cluster, meaning: &Meaning, row: &Row) {
    let network = &cluster.network;
    let mut sites: BTreeMap<&str, &Arc<Site>> = BTreeMap::new();
    let all = cluster.pods.values().chain(&network.nodes);
    for site in all.chain([&network.outside]) {
        sites.insert(&site.name, site);
    }
    let samples = row.open.iter().map(|sample| (sample, true));
    for (sample, is_open) in samples.chain(row.closed.iter().map(|sample| (sample, false))) {
        let words: Vec<&str> = sample.split(' ').collect();
        let [from, to, port, ..] = words[..] else {
            panic!("{sample}: from, to and port");
        };
        let is_v4 = words.get(3) != Some(&"v6");
        let (from, to) = (sites[from].address(is_v4), sites[to].address(is_v4));
        let said = meaning.allows(from, to, parse_port(port));
        assert_eq!(said, is_open, "{}: {sample}", row.what);
    }
}

fn parse_port(text: &str) -> (Protocol, u16) {
    let (number, protocol) = text.split_once('/').expect("80/TCP");
    let protocol = match protocol {
        "TCP" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        other => panic!("{other} is no protocol"),
    };
    (protocol, number.parse().expect("a port"))
}
