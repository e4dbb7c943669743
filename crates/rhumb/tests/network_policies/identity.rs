//! Changed labels, created and deleted pods, and reused addresses.

use rhumb_netpol::Protocol;
use serde_json::json;

use crate::cluster::with_cluster;
use crate::denied_traffic::DeniedTraffic;
use crate::long_lived_connection::{LongLivedConnection, all_are_cut};
use crate::matrix::ExpectedReachability;
use crate::objects::{PODS, test_pod};
use crate::pod_links::PodLinkType;
use crate::probe::{ConnectionProbe, all_are_closed, all_are_open, between};

const WEB: (Protocol, u16) = (Protocol::Tcp, 80);
/// Samples of each kind.
const TRIES: usize = 200;

#[test]
fn reachability_follows_namespace_and_pod_labels() {
    with_cluster(PodLinkType::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster
            .enforce(
                "x/p",
                "{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{
                    namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {pod: a}}}]}]}",
            )
            .await;
        let probe =
            |from, to| ConnectionProbe::new(&cluster.pod(from), &cluster.pod(to), WEB, true);
        probe("z/a", "x/a").becomes(true).await;

        cluster.label_namespace("z", json!({"team": "green"})).await;
        probe("z/a", "x/a").becomes(false).await;
        probe("y/a", "x/a")
            .check(true)
            .await
            .expect("not concerned");
        cluster
            .check_matrix("relabelled", &ExpectedReachability::read(cluster).await)
            .await;

        cluster.label_namespace("x", json!({"team": "blue"})).await;
        cluster.label_pod("x/b", json!({"pod": "a"})).await;
        // The pod is selected now, and may reach the other one.
        probe("z/b", "x/b").becomes(false).await;
        probe("x/b", "x/a").becomes(true).await;
        cluster
            .check_matrix("pod relabelled", &ExpectedReachability::read(cluster).await)
            .await;

        cluster.label_pod("x/b", json!({"pod": "b"})).await;
        cluster.label_namespace("z", json!({"team": "blue"})).await;
        probe("z/b", "x/b").becomes(true).await;
        probe("z/a", "x/a").becomes(true).await;
        probe("x/b", "x/a").becomes(false).await;
        cluster
            .check_matrix("as before", &ExpectedReachability::read(cluster).await)
            .await;
    });
}

#[test]
fn reused_address_of_a_finished_pod_inherits_no_access() {
    with_cluster(PodLinkType::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster
            .enforce(
                "x/p",
                "{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{
                    namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {pod: b}}}]}]}",
            )
            .await;
        let (first, target) = (cluster.pod("z/b"), cluster.pod("x/a"));
        ConnectionProbe::new(&first, &target, WEB, true)
            .becomes(true)
            .await;
        let neighbour = cluster.pod("z/a");
        let mut open_connections = Vec::new();
        for is_v4 in [true, false] {
            open_connections.push(LongLivedConnection::tcp(&first, &target, is_v4).await);
            open_connections.push(LongLivedConnection::stream(&neighbour, &first, is_v4).await);
        }
        cluster
            .patch_pod_status("z/b", json!({"phase": "Succeeded"}))
            .await;
        // Its processes still run; they lose access in both directions.
        for is_v4 in [true, false] {
            ConnectionProbe::new(&first, &target, WEB, is_v4)
                .becomes(false)
                .await;
            ConnectionProbe::new(&neighbour, &first, WEB, is_v4)
                .becomes(false)
                .await;
        }
        all_are_cut(&open_connections).await;

        let second = test_pod("z/q", PODS[6].node, PODS[6].host);
        cluster.network.remove_pod(&first);
        cluster.pods.remove("z/b");
        let netns = cluster
            .network
            .add_pod(second.node, second.name, second.host)
            .await;
        cluster.pods.insert(second.name.to_owned(), netns.clone());
        let knocking = DeniedTraffic::begin(&netns, &target);
        cluster.create_pod_object(second).await;
        for is_v4 in [true, false] {
            ConnectionProbe::new(&netns, &neighbour, WEB, is_v4)
                .becomes(true)
                .await;
        }
        knocking.wait_for_attempts(TRIES).await;
        cluster
            .check_matrix("used again", &ExpectedReachability::read(cluster).await)
            .await;
        // Deleting the first pod does not affect the second.
        cluster.delete_pod("z/b").await;
        cluster
            .check_matrix(
                "the first is gone",
                &ExpectedReachability::read(cluster).await,
            )
            .await;
        knocking.assert_nothing_arrived();

        cluster.label_pod("z/q", json!({"pod": "b"})).await;
        ConnectionProbe::new(&netns, &target, WEB, true)
            .becomes(true)
            .await;
    });
}

#[test]
fn new_pod_has_no_traffic_before_the_agent_knows_it() {
    with_cluster(PodLinkType::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        let new = test_pod("z/new", 0, 40);
        let netns = cluster.network.add_pod(new.node, new.name, new.host).await;
        let others = ["x/a", "y/a", "z/a"].map(|name| cluster.pod(name));
        for other in &others {
            let both_ways = [between(other, &netns), between(&netns, other)];
            all_are_closed("unknown", both_ways.concat()).await;
        }
        // The pod's own node may reach it.
        all_are_open("its node", between(&cluster.network.nodes[0], &netns)).await;

        cluster
            .create_policy(
                "z/p",
                "{podSelector: {matchLabels: {pod: new}}, ingress: [{from: [{podSelector: {}}]}]}",
            )
            .await;
        cluster.pods.insert(new.name.to_owned(), netns.clone());
        let knocking = DeniedTraffic::begin(&others[0], &netns);
        cluster.create_pod_object(new).await;
        ConnectionProbe::new(&cluster.pod("z/a"), &netns, WEB, true)
            .becomes(true)
            .await;
        cluster
            .check_matrix("known", &ExpectedReachability::read(cluster).await)
            .await;
        knocking.wait_for_attempts(TRIES).await;
        // It was isolated from the start.
        knocking.assert_nothing_arrived();
    });
}

#[test]
fn policies_of_a_terminating_namespace_isolate_its_pods_until_the_last_is_deleted() {
    with_cluster(PodLinkType::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster.enforce("x/p", "{podSelector: {}}").await;
        let knocking = DeniedTraffic::begin(&cluster.pod("y/b"), &cluster.pod("x/a"));
        cluster.set_finalizer("x/a", true).await;
        cluster.delete_namespace("x").await;
        for name in ["x/a", "x/b", "x/c"] {
            cluster.delete_pod(name).await;
        }
        cluster.wait_for_pod_deletion("x", &["b", "c"]).await;
        knocking.wait_for_attempts(TRIES).await;
        knocking.assert_nothing_arrived();
        cluster.set_finalizer("x/a", false).await;
        cluster.wait_for_pod_deletion("x", &["a"]).await;
        // Its address belongs to no pod now.
        knocking.wait_for_attempts(TRIES).await;
        knocking.assert_nothing_arrived();
    });
}
