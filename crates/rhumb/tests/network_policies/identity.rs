//! Labels that change, pods that come and go, addresses that are used again.

use rhumb_netpol::Protocol;
use serde_json::json;

use crate::cluster::with_cluster;
use crate::knocking::Knocking;
use crate::matrix::Meaning;
use crate::objects::{PODS, plan};
use crate::probe::{Probe, all_are_closed, all_are_open, between};
use crate::talk::{Talk, all_are_cut};
use crate::wiring::Wiring;

const WEB: (Protocol, u16) = (Protocol::Tcp, 80);
/// Some of each kind.
const TRIES: usize = 200;

#[test]
fn who_reaches_whom_follows_the_labels_of_namespaces_and_pods() {
    with_cluster(Wiring::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster
            .enforce(
                "x/p",
                "{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{
                    namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {pod: a}}}]}]}",
            )
            .await;
        let probe = |from, to| Probe::new(&cluster.pod(from), &cluster.pod(to), WEB, true);
        probe("z/a", "x/a").becomes(true).await;

        cluster.label_namespace("z", json!({"team": "green"})).await;
        probe("z/a", "x/a").becomes(false).await;
        probe("y/a", "x/a")
            .check(true)
            .await
            .expect("not concerned");
        cluster
            .check_matrix("relabelled", &Meaning::read(cluster).await)
            .await;

        cluster.label_namespace("x", json!({"team": "blue"})).await;
        cluster.label_pod("x/b", json!({"pod": "a"})).await;
        // It is a target now, and may reach the other one.
        probe("z/b", "x/b").becomes(false).await;
        probe("x/b", "x/a").becomes(true).await;
        cluster
            .check_matrix("pod relabelled", &Meaning::read(cluster).await)
            .await;

        cluster.label_pod("x/b", json!({"pod": "b"})).await;
        cluster.label_namespace("z", json!({"team": "blue"})).await;
        probe("z/b", "x/b").becomes(true).await;
        probe("z/a", "x/a").becomes(true).await;
        probe("x/b", "x/a").becomes(false).await;
        cluster
            .check_matrix("as before", &Meaning::read(cluster).await)
            .await;
    });
}

#[test]
fn a_pod_that_has_an_address_of_one_that_finished_has_none_of_its_rights() {
    with_cluster(Wiring::Bridged, async |cluster| {
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
        Probe::new(&first, &target, WEB, true).becomes(true).await;
        let neighbour = cluster.pod("z/a");
        let mut talks = Vec::new();
        for is_v4 in [true, false] {
            talks.push(Talk::tcp(&first, &target, is_v4).await);
            talks.push(Talk::stream(&neighbour, &first, is_v4).await);
        }
        cluster
            .patch_pod_status("z/b", json!({"phase": "Succeeded"}))
            .await;
        // Its processes are still there, and lose what it was allowed, and what they were asked for.
        for is_v4 in [true, false] {
            Probe::new(&first, &target, WEB, is_v4).becomes(false).await;
            Probe::new(&neighbour, &first, WEB, is_v4)
                .becomes(false)
                .await;
        }
        all_are_cut(&talks).await;

        let second = plan("z/q", PODS[6].node, PODS[6].host);
        cluster.network.remove_pod(&first);
        cluster.pods.remove("z/b");
        let site = cluster
            .network
            .add_pod(second.node, second.name, second.host)
            .await;
        cluster.pods.insert(second.name.to_owned(), site.clone());
        let knocking = Knocking::begin(&site, &target);
        cluster.announce(second).await;
        for is_v4 in [true, false] {
            Probe::new(&site, &neighbour, WEB, is_v4)
                .becomes(true)
                .await;
        }
        knocking.some_more(TRIES).await;
        cluster
            .check_matrix("used again", &Meaning::read(cluster).await)
            .await;
        // The end of the first one takes nothing from the second.
        cluster.delete_pod("z/b").await;
        cluster
            .check_matrix("the first is gone", &Meaning::read(cluster).await)
            .await;
        knocking.was_in_vain();

        cluster.label_pod("z/q", json!({"pod": "b"})).await;
        Probe::new(&site, &target, WEB, true).becomes(true).await;
    });
}

#[test]
fn nothing_reaches_a_new_pod_nor_leaves_it_before_the_agent_knows_it() {
    with_cluster(Wiring::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        let new = plan("z/new", 0, 40);
        let site = cluster.network.add_pod(new.node, new.name, new.host).await;
        let others = ["x/a", "y/a", "z/a"].map(|name| cluster.pod(name));
        for other in &others {
            let both_ways = [between(other, &site), between(&site, other)];
            all_are_closed("unknown", both_ways.concat()).await;
        }
        // Its own node may look after it.
        all_are_open("its node", between(&cluster.network.nodes[0], &site)).await;

        cluster
            .create_policy(
                "z/p",
                "{podSelector: {matchLabels: {pod: new}}, ingress: [{from: [{podSelector: {}}]}]}",
            )
            .await;
        cluster.pods.insert(new.name.to_owned(), site.clone());
        let knocking = Knocking::begin(&others[0], &site);
        cluster.announce(new).await;
        Probe::new(&cluster.pod("z/a"), &site, WEB, true)
            .becomes(true)
            .await;
        cluster
            .check_matrix("known", &Meaning::read(cluster).await)
            .await;
        knocking.some_more(TRIES).await;
        // From the first moment it was isolated.
        knocking.was_in_vain();
    });
}

#[test]
fn policies_of_a_deleted_namespace_isolate_its_pods_until_the_last_is_gone() {
    with_cluster(Wiring::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster.enforce("x/p", "{podSelector: {}}").await;
        let knocking = Knocking::begin(&cluster.pod("y/b"), &cluster.pod("x/a"));
        cluster.hold_pod("x/a", true).await;
        cluster.delete_namespace("x").await;
        for name in ["x/a", "x/b", "x/c"] {
            cluster.delete_pod(name).await;
        }
        cluster.pods_are_gone("x", &["b", "c"]).await;
        knocking.some_more(TRIES).await;
        knocking.was_in_vain();
        cluster.hold_pod("x/a", false).await;
        cluster.pods_are_gone("x", &["a"]).await;
        // It has an address that is nobody's now.
        knocking.some_more(TRIES).await;
        knocking.was_in_vain();
    });
}
