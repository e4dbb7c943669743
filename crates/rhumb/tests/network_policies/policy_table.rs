//! A table of policies with the full reachability matrix of each: the kernel must match the engine, and the engine
//! must match the table.

use std::collections::BTreeMap;
use std::sync::Arc;

use rhumb_netpol::Protocol;

use crate::cluster::{NetpolTestCluster, with_cluster};
use crate::matrix::ExpectedReachability;
use crate::network_namespace::NetworkNamespace;
use crate::pod_links::PodLinkType;
use crate::policy_rows::{BLOCKS, EGRESS, PEERS, PORTS, PolicyTableRow};

/// Applies the policies in one cluster, one after the other.
fn check_table(
    link_type: PodLinkType,
    rows: impl IntoIterator<Item = &'static PolicyTableRow> + Send,
) {
    with_cluster(link_type, async |cluster| {
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
    check_table(PodLinkType::Bridged, PEERS);
}

#[test]
fn packets_obey_policies_about_ip_blocks() {
    check_table(PodLinkType::Bridged, BLOCKS);
}

#[test]
fn packets_obey_policies_about_ports() {
    check_table(PodLinkType::Bridged, PORTS);
}

#[test]
fn packets_obey_policies_about_egress() {
    check_table(PodLinkType::Bridged, EGRESS);
}

/// Samples of each kind.
#[test]
fn packets_obey_policies_on_routed_links() {
    let tables = [PEERS, BLOCKS, PORTS, EGRESS];
    check_table(
        PodLinkType::Routed,
        tables.into_iter().flat_map(|rows| rows.iter().step_by(3)),
    );
}

/// Returns the UIDs of deleted policies that may still be enforced.
async fn check(
    cluster: &NetpolTestCluster,
    row: &PolicyTableRow,
    before: &[String],
) -> Vec<String> {
    for (name, spec) in row.policies {
        cluster.create_policy(name, spec).await;
    }
    for (name, _) in row.policies {
        cluster.wait_until_programmed(name).await;
    }
    for uid in before {
        cluster.wait_until_unreported(uid).await;
    }
    let expected = ExpectedReachability::read(cluster).await;
    check_samples(cluster, &expected, row);
    cluster.check_matrix(row.what, &expected).await;
    let mut deleted = Vec::new();
    for (name, _) in row.policies {
        deleted.push(cluster.delete_policy(name).await);
    }
    deleted
}

fn check_samples(
    cluster: &NetpolTestCluster,
    expected: &ExpectedReachability,
    row: &PolicyTableRow,
) {
    let network = &cluster.network;
    let mut namespaces: BTreeMap<&str, &Arc<NetworkNamespace>> = BTreeMap::new();
    let all = cluster.pods.values().chain(&network.nodes);
    for netns in all.chain([&network.outside]) {
        namespaces.insert(&netns.name, netns);
    }
    let samples = row.open.iter().map(|sample| (sample, true));
    for (sample, is_open) in samples.chain(row.closed.iter().map(|sample| (sample, false))) {
        let words: Vec<&str> = sample.split(' ').collect();
        let [from, to, port, ..] = words[..] else {
            panic!("{sample}: from, to and port");
        };
        let is_v4 = words.get(3) != Some(&"v6");
        let (from, to) = (
            namespaces[from].address(is_v4),
            namespaces[to].address(is_v4),
        );
        let stderr = expected.allows(from, to, parse_port(port));
        assert_eq!(stderr, is_open, "{}: {sample}", row.what);
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
