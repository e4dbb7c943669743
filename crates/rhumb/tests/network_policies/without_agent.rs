//! The test network without agents: allowed and dropped packets are both detected.

use std::sync::Arc;

use crate::network::TestNetwork;
use crate::network_namespace::NetworkNamespace;
use crate::pod_links::PodLinkType;
use crate::prerequisites::with_network;
use crate::probe::{all_are_closed, all_are_open, between, check_all};

/// Two pods on one node, one on another.
async fn three_pods(network: &mut TestNetwork) -> [Arc<NetworkNamespace>; 3] {
    [
        network.add_pod(0, "a", 10).await,
        network.add_pod(0, "b", 11).await,
        network.add_pod(1, "c", 12).await,
    ]
}

async fn everybody_reaches_everybody(network: &mut TestNetwork) {
    let mut namespaces = three_pods(network).await.to_vec();
    namespaces.extend(network.nodes.iter().cloned());
    namespaces.push(network.outside.clone());
    let pairs = namespaces
        .iter()
        .flat_map(|from| namespaces.iter().map(move |to| (from, to)));
    let probes = pairs.flat_map(|(from, to)| between(from, to));
    all_are_open("no rules", probes).await;
}

#[test]
fn without_rules_all_pods_reach_each_other_over_bridges() {
    with_network(PodLinkType::Bridged, everybody_reaches_everybody);
}

#[test]
fn without_rules_all_pods_reach_each_other_on_routed_links() {
    with_network(PodLinkType::Routed, everybody_reaches_everybody);
}

/// Drops one port per protocol in one family, between pods of a node and between nodes.
async fn dropped_packets_are_missed(network: &mut TestNetwork) {
    let [a, b, c] = three_pods(network).await;
    let [to_b, to_c] = [&b, &c].map(|pod| (pod.address(true), pod.address(false)));
    network.nodes[0].nft(&format!(
        "table inet test {{
            chain forward {{
                type filter hook forward priority filter
                ip daddr {} tcp dport 80 drop
                ip daddr {} udp dport 53 drop
                ip6 daddr {} sctp dport 80 drop
                ip6 daddr {} tcp dport 8080 drop
            }}
        }}",
        to_b.0, to_c.0, to_b.1, to_c.1
    ));
    let closed = [
        "a (10.244.1.10) to b (10.244.1.11) 80/Tcp",
        "a (10.244.1.10) to c (10.244.2.12) 53/Udp",
        "a (fd44:1::10) to b (fd44:1::11) 80/Sctp",
        "a (fd44:1::10) to c (fd44:2::12) 8080/Tcp",
    ];
    let [near, far] = [&b, &c].map(|to| between(&a, to));
    let probes = near.into_iter().chain(far).map(|probe| {
        let is_open = !closed.contains(&probe.to_string().as_str());
        (probe, is_open)
    });
    check_all("a few closed", probes.collect()).await;
}

#[test]
fn packets_dropped_by_a_bridge_are_detected() {
    with_network(PodLinkType::Bridged, dropped_packets_are_missed);
}

#[test]
fn packets_dropped_by_a_router_are_detected() {
    with_network(PodLinkType::Routed, dropped_packets_are_missed);
}

/// Connection tracking recognizes replies of all protocols, including the SCTP handshake of the tests.
#[test]
fn connections_are_tracked() {
    with_network(PodLinkType::Bridged, async |network| {
        let [a, b, c] = three_pods(network).await;
        let (from4, from6) = (a.address(true), a.address(false));
        network.nodes[0].nft(&format!(
            "table inet test {{
                chain forward {{
                    type filter hook forward priority filter; policy drop
                    icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept
                    ct state established ct direction reply accept
                    ct state {{ new, established }} ct direction original ip saddr {from4} accept
                    ct state {{ new, established }} ct direction original ip6 saddr {from6} accept
                }}
            }}"
        ));
        let [back, back_far] = [&b, &c].map(|from| between(from, &a));
        all_are_closed("against the direction", back.into_iter().chain(back_far)).await;
        let [there, far] = [&b, &c].map(|to| between(&a, to));
        all_are_open("in the direction", there.into_iter().chain(far)).await;
    });
}
