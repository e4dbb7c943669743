//! Rules stay enforced while agents are killed or servers are down.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::agent::AgentProcess;
use crate::cluster::{NetpolTestCluster, with_cluster};
use crate::denied_traffic::DeniedTraffic;
use crate::long_lived_connection::{LongLivedConnection, all_are_cut, all_go_on};
use crate::matrix::ExpectedReachability;
use crate::pod_links::PodLinkType;
use crate::probe::{all_are_closed, all_are_open, between};

const ONLY_BLUE: &str = "{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}]}]}";

/// A sample of attempts of each kind.
const TRIES: usize = 200;

/// Allowed traffic that must continue, and denied traffic that is attempted, on one node and between nodes.
struct OngoingTraffic {
    allowed: Vec<LongLivedConnection>,
    forbidden: Vec<DeniedTraffic>,
}

impl OngoingTraffic {
    async fn begin(cluster: &NetpolTestCluster) -> OngoingTraffic {
        let mut allowed = Vec::new();
        for from in ["y/a", "y/b"].map(|name| cluster.pod(name)) {
            for is_v4 in [true, false] {
                allowed.push(LongLivedConnection::tcp(&from, &cluster.pod("x/a"), is_v4).await);
                allowed.push(LongLivedConnection::udp(&from, &cluster.pod("x/a"), is_v4).await);
            }
        }
        let knock = |name| DeniedTraffic::begin(&cluster.pod(name), &cluster.pod("x/a"));
        let forbidden = ["x/b", "x/c"].map(knock).to_vec();
        OngoingTraffic { allowed, forbidden }
    }

    /// Waits for a number of packets.
    async fn check_traffic(&self, cluster: &NetpolTestCluster) {
        for knocking in &self.forbidden {
            knocking.wait_for_attempts(TRIES).await;
        }
        all_go_on(&self.allowed).await;
        let new = between(&cluster.pod("y/a"), &cluster.pod("x/a"));
        all_are_open("new connections", new).await;
        for knocking in &self.forbidden {
            knocking.assert_nothing_arrived();
        }
    }
}

#[test]
fn rules_stay_enforced_while_an_agent_is_killed_and_restarted() {
    with_cluster(PodLinkType::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster.enforce("x/p", ONLY_BLUE).await;
        let traffic = OngoingTraffic::begin(cluster).await;
        for round in 0..3 {
            cluster.agents.iter_mut().for_each(AgentProcess::kill);
            traffic.check_traffic(cluster).await;
            // A policy without effect; an agent that has applied it has started.
            cluster
                .change_policy("x/p", json!({"ingress": [rule_of_round(round)]}))
                .await;
            cluster
                .agents
                .iter_mut()
                .for_each(AgentProcess::start_again);
            cluster.wait_until_programmed("x/p").await;
            traffic.check_traffic(cluster).await;
        }
    });
}

/// Also allows teams without members.
fn rule_of_round(round: usize) -> serde_json::Value {
    let teams = ["blue".to_owned(), format!("of-round-{round}")];
    let expression = json!({"key": "team", "operator": "In", "values": teams});
    json!({"from": [{"namespaceSelector": {"matchExpressions": [expression]}}]})
}

#[test]
fn policy_is_not_programmed_on_a_pod_that_was_relabelled_while_the_agent_is_dead() {
    with_cluster(PodLinkType::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster.label_pod("x/a", json!({"iso": "yes"})).await;
        cluster
            .enforce("x/p", "{podSelector: {matchLabels: {iso: 'yes'}}}")
            .await;
        let isolated = between(&cluster.pod("y/a"), &cluster.pod("x/a"));
        all_are_closed("isolated", isolated).await;
        cluster.agents.iter_mut().for_each(AgentProcess::kill);
        cluster.label_pod("x/c", json!({"iso": "yes"})).await;
        let revoked = Instant::now();
        let reason = cluster.wait_until_not_programmed("x/p").await;
        assert_eq!(reason, "Pending");
        let took = revoked.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}");
        let open = between(&cluster.pod("y/a"), &cluster.pod("x/c"));
        all_are_open("not isolated yet", open).await;
        cluster
            .agents
            .iter_mut()
            .for_each(AgentProcess::start_again);
        cluster.wait_until_programmed("x/p").await;
        let isolated = between(&cluster.pod("y/a"), &cluster.pod("x/c"));
        all_are_closed("isolated", isolated).await;
    });
}

#[test]
fn changes_during_agent_downtime_are_applied_on_restart() {
    with_cluster(PodLinkType::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster.enforce("x/p", ONLY_BLUE).await;
        cluster.enforce("y/gone", "{podSelector: {}}").await;
        let isolated = between(&cluster.pod("x/a"), &cluster.pod("y/a"));
        all_are_closed("isolated", isolated).await;
        cluster.agents.iter_mut().for_each(AgentProcess::kill);
        cluster.label_namespace("z", json!({"team": "green"})).await;
        cluster.label_pod("x/b", json!({"pod": "a"})).await;
        cluster.delete_policy("y/gone").await;
        cluster
            .create_policy("z/new", "{podSelector: {}, policyTypes: [Egress]}")
            .await;
        cluster
            .agents
            .iter_mut()
            .for_each(AgentProcess::start_again);
        cluster.wait_until_programmed("z/new").await;
        let expected = ExpectedReachability::read(cluster).await;
        let (open, all) = cluster.check_matrix("after the restart", &expected).await;
        assert!(0 < open && open < all, "{open} of {all}");
    });
}

#[test]
fn rules_stay_enforced_while_the_server_is_down_and_resume_following_it() {
    with_cluster(PodLinkType::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster.enforce("x/p", ONLY_BLUE).await;
        let traffic = OngoingTraffic::begin(cluster).await;
        cluster.server.kill();
        traffic.check_traffic(cluster).await;
        cluster.restart_server();
        traffic.check_traffic(cluster).await;
        cluster
            .change_policy("x/p", json!({"ingress": [rule_of_round(0)]}))
            .await;
        cluster.wait_until_programmed("x/p").await;
        traffic.check_traffic(cluster).await;
        cluster.change_policy("x/p", json!({"ingress": []})).await;
        cluster.wait_until_programmed("x/p").await;
        all_are_cut(&traffic.allowed).await;
    });
}
