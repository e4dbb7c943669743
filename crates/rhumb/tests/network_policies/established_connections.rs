//! Policies that change while connections are in use.

use std::sync::Arc;

use crate::cluster::{NetpolTestCluster, with_each_link_type};
use crate::long_lived_connection::{LongLivedConnection, all_are_cut, all_go_on};
use crate::network_namespace::NetworkNamespace;
use crate::probe::{ConnectionProbe, all_are_closed, all_are_open, between};

/// One connection of each kind, with both families.
async fn open_connections(
    from: &Arc<NetworkNamespace>,
    to: &Arc<NetworkNamespace>,
) -> Vec<LongLivedConnection> {
    let mut open_connections = Vec::new();
    for is_v4 in [true, false] {
        open_connections.push(LongLivedConnection::tcp(from, to, is_v4).await);
        open_connections.push(LongLivedConnection::udp(from, to, is_v4).await);
        open_connections.push(LongLivedConnection::stream(from, to, is_v4).await);
    }
    open_connections
}

/// Once the policy is programmed, denied connections are silent in both directions, other connections are not
/// affected, and new ones succeed after the policy is deleted.
async fn check_connections_are_cut(
    cluster: &NetpolTestCluster,
    spec: &str,
    forbidden: &[(&str, &str)],
    allowed: &[(&str, &str)],
) {
    let pair = |(from, to): &(&str, &str)| (cluster.pod(from), cluster.pod(to));
    let mut ends = Vec::new();
    for (from, to) in forbidden.iter().map(pair) {
        ends.extend(open_connections(&from, &to).await);
    }
    let mut others = Vec::new();
    for (from, to) in allowed.iter().map(pair) {
        others.extend(open_connections(&from, &to).await);
    }
    cluster.enforce("x/p", spec).await;
    all_are_cut(&ends).await;
    all_go_on(&others).await;
    let closed = forbidden.iter().map(pair);
    let closed: Vec<ConnectionProbe> = closed.flat_map(|(from, to)| between(&from, &to)).collect();
    all_are_closed("forbidden", closed.clone()).await;
    cluster.delete_policy_and_wait("x/p").await;
    all_are_open("allowed again", closed).await;
    all_go_on(&others).await;
}

async fn cut_both_ways(cluster: &mut NetpolTestCluster) {
    cluster.create_pods().await;
    cluster.start_agents().await;
    check_connections_are_cut(
        cluster,
        "{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}]}]}",
        &[("x/b", "x/a"), ("x/c", "x/a")],
        &[("y/a", "x/a"), ("x/b", "x/c")],
    )
    .await;
    check_connections_are_cut(
        cluster,
        "{podSelector: {matchLabels: {pod: c}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {pod: b}}}]}]}",
        &[("x/c", "y/b"), ("x/c", "z/b")],
        &[("x/c", "x/b"), ("x/a", "y/b")],
    )
    .await;
}

#[test]
fn new_policy_cuts_denied_connections_and_keeps_others() {
    with_each_link_type(cut_both_ways);
}
