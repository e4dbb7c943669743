//! Agents that are killed, servers that are down: what the kernel has stays in force.

use serde_json::json;

use crate::agent::Agent;
use crate::cluster::{Cluster, with_cluster};
use crate::knocking::Knocking;
use crate::matrix::Meaning;
use crate::probe::{all_are_closed, all_are_open, between};
use crate::talk::{Talk, all_are_cut, all_go_on};
use crate::wiring::Wiring;

const ONLY_BLUE: &str = "{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}]}]}";

/// Some tries of each kind.
const TRIES: usize = 200;

/// What is allowed and goes on, and what is forbidden and is tried all the same, on one node and between nodes.
struct Traffic {
    allowed: Vec<Talk>,
    forbidden: Vec<Knocking>,
}

impl Traffic {
    async fn begin(cluster: &Cluster) -> Traffic {
        let mut allowed = Vec::new();
        for from in ["y/a", "y/b"].map(|name| cluster.pod(name)) {
            for is_v4 in [true, false] {
                allowed.push(Talk::tcp(&from, &cluster.pod("x/a"), is_v4).await);
                allowed.push(Talk::udp(&from, &cluster.pod("x/a"), is_v4).await);
            }
        }
        let knock = |name| Knocking::begin(&cluster.pod(name), &cluster.pod("x/a"));
        let forbidden = ["x/b", "x/c"].map(knock).to_vec();
        Traffic { allowed, forbidden }
    }

    /// For a while that is measured in packets.
    async fn obeys(&self, cluster: &Cluster) {
        for knocking in &self.forbidden {
            knocking.some_more(TRIES).await;
        }
        all_go_on(&self.allowed).await;
        let new = between(&cluster.pod("y/a"), &cluster.pod("x/a"));
        all_are_open("new connections", new).await;
        for knocking in &self.forbidden {
            knocking.was_in_vain();
        }
    }
}

#[test]
fn an_agent_that_is_killed_leaves_its_rules_and_one_that_starts_never_opens_them() {
    with_cluster(Wiring::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster.enforce("x/p", ONLY_BLUE).await;
        let traffic = Traffic::begin(cluster).await;
        for round in 0..3 {
            cluster.agents.iter_mut().for_each(Agent::kill);
            traffic.obeys(cluster).await;
            // Without a meaning; but who has applied it has started.
            cluster
                .change_policy("x/p", json!({"ingress": [rule_of_round(round)]}))
                .await;
            cluster.agents.iter_mut().for_each(Agent::start_again);
            cluster.programmed("x/p").await;
            traffic.obeys(cluster).await;
        }
    });
}

/// Allows teams that nobody is of too.
fn rule_of_round(round: usize) -> serde_json::Value {
    let teams = ["blue".to_owned(), format!("of-round-{round}")];
    let expression = json!({"key": "team", "operator": "In", "values": teams});
    json!({"from": [{"namespaceSelector": {"matchExpressions": [expression]}}]})
}

#[test]
fn what_changes_while_agents_are_dead_is_in_force_once_they_are_back() {
    with_cluster(Wiring::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster.enforce("x/p", ONLY_BLUE).await;
        cluster.enforce("y/gone", "{podSelector: {}}").await;
        let isolated = between(&cluster.pod("x/a"), &cluster.pod("y/a"));
        all_are_closed("isolated", isolated).await;
        cluster.agents.iter_mut().for_each(Agent::kill);
        cluster.label_namespace("z", json!({"team": "green"})).await;
        cluster.label_pod("x/b", json!({"pod": "a"})).await;
        cluster.delete_policy("y/gone").await;
        cluster
            .create_policy("z/new", "{podSelector: {}, policyTypes: [Egress]}")
            .await;
        cluster.agents.iter_mut().for_each(Agent::start_again);
        cluster.programmed("z/new").await;
        let meaning = Meaning::read(cluster).await;
        let (open, all) = cluster.check_matrix("after the restart", &meaning).await;
        assert!(0 < open && open < all, "{open} of {all}");
    });
}

#[test]
fn rules_hold_while_the_server_is_down_and_follow_it_when_it_is_back() {
    with_cluster(Wiring::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster.enforce("x/p", ONLY_BLUE).await;
        let traffic = Traffic::begin(cluster).await;
        cluster.server.kill();
        traffic.obeys(cluster).await;
        cluster.start_server_again();
        traffic.obeys(cluster).await;
        cluster
            .change_policy("x/p", json!({"ingress": [rule_of_round(0)]}))
            .await;
        cluster.programmed("x/p").await;
        traffic.obeys(cluster).await;
        cluster.change_policy("x/p", json!({"ingress": []})).await;
        cluster.programmed("x/p").await;
        all_are_cut(&traffic.allowed).await;
    });
}
