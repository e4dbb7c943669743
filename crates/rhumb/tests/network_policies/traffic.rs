//! Policies that change while connections are in use.

use std::sync::Arc;

use crate::cluster::{Cluster, with_each_wiring};
use crate::probe::{Probe, all_are_closed, all_are_open, between};
use crate::site::Site;
use crate::talk::{Talk, all_are_cut, all_go_on};

/// Of each kind, by both families.
async fn talks(from: &Arc<Site>, to: &Arc<Site>) -> Vec<Talk> {
    let mut talks = Vec::new();
    for is_v4 in [true, false] {
        talks.push(Talk::tcp(from, to, is_v4).await);
        talks.push(Talk::udp(from, to, is_v4).await);
        talks.push(Talk::stream(from, to, is_v4).await);
    }
    talks
}

/// From the moment that the policy is programmed, the connections that it forbids are silent both ways; nobody else
/// notices, and who asks again once it is gone is answered.
async fn cut(cluster: &Cluster, spec: &str, forbidden: &[(&str, &str)], allowed: &[(&str, &str)]) {
    let pair = |(from, to): &(&str, &str)| (cluster.pod(from), cluster.pod(to));
    let mut ends = Vec::new();
    for (from, to) in forbidden.iter().map(pair) {
        ends.extend(talks(&from, &to).await);
    }
    let mut others = Vec::new();
    for (from, to) in allowed.iter().map(pair) {
        others.extend(talks(&from, &to).await);
    }
    cluster.enforce("x/p", spec).await;
    all_are_cut(&ends).await;
    all_go_on(&others).await;
    let closed = forbidden.iter().map(pair);
    let closed: Vec<Probe> = closed.flat_map(|(from, to)| between(&from, &to)).collect();
    all_are_closed("forbidden", closed.clone()).await;
    cluster.lift("x/p").await;
    all_are_open("allowed again", closed).await;
    all_go_on(&others).await;
}

async fn cut_both_ways(cluster: &mut Cluster) {
    cluster.create_pods().await;
    cluster.start_agents().await;
    cut(
        cluster,
        "{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}]}]}",
        &[("x/b", "x/a"), ("x/c", "x/a")],
        &[("y/a", "x/a"), ("x/b", "x/c")],
    )
    .await;
    cut(
        cluster,
        "{podSelector: {matchLabels: {pod: c}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {pod: b}}}]}]}",
        &[("x/c", "y/b"), ("x/c", "z/b")],
        &[("x/c", "x/b"), ("x/a", "y/b")],
    )
    .await;
}

#[test]
fn connections_that_a_new_policy_forbids_are_cut_and_others_go_on() {
    with_each_wiring(cut_both_ways);
}
