//! What others do to an agent: take its rules away, or its rights.

use std::process::Output;

use rhumb_netpol::Protocol;
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

use crate::agent::{Agent, run_agent};
use crate::cluster::{Cluster, with_cluster};
use crate::probe::{Probe, all_are_closed, all_are_open, between};
use crate::wiring::Wiring;

const DENY: &str = "{podSelector: {}, policyTypes: [Ingress]}";

#[test]
fn rules_that_somebody_took_away_are_put_back() {
    with_cluster(Wiring::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster.enforce("x/p", DENY).await;
        for node in &cluster.network.nodes {
            node.nft("flush ruleset\n");
        }
        let pairs = [("y/b", "x/a"), ("y/a", "x/b"), ("x/a", "x/c")];
        let pairs = pairs.map(|(from, to)| (cluster.pod(from), cluster.pod(to)));
        for (from, to) in &pairs {
            Probe::new(from, to, (Protocol::Tcp, 80), true)
                .becomes(false)
                .await;
        }
        let probes = pairs.iter().flat_map(|(from, to)| between(from, to));
        all_are_closed("put back", probes).await;
        // And what changes later is in force as well.
        cluster
            .enforce("x/open", "{podSelector: {}, ingress: [{}]}")
            .await;
        let probes = pairs.iter().flat_map(|(from, to)| between(from, to));
        all_are_open("opened", probes).await;
    });
}

#[test]
fn cleanup_leaves_nothing() {
    with_cluster(Wiring::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster.enforce("x/p", DENY).await;
        let node = cluster.network.nodes[0].clone();
        node.nft("add table inet others\n");
        assert!(
            node.ruleset().contains("table inet rhumb"),
            "{}",
            node.ruleset()
        );
        cluster.agents.iter_mut().for_each(Agent::kill);
        // Twice: nothing is there the second time, and that is well.
        for _ in 0..2 {
            let output = run_agent(&node, &cluster.kubeconfig(), |command| {
                command.arg("--cleanup");
            });
            assert!(output.status.success(), "{output:?}");
            assert_eq!(node.ruleset().trim(), "table inet others {\n}");
        }
        let (from, to) = (cluster.pod("y/b"), cluster.pod("x/a"));
        all_are_open("no rules", between(&from, &to)).await;
    });
}

fn check_refusal(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it went on: {said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

async fn without(cluster: &mut Cluster) {
    let node = cluster.network.nodes[0].clone();
    let output = run_agent(&node, &cluster.kubeconfig(), |_| {
        // Of the thread that starts it, and of it.
        let removed = remove_capability_from_bounding_set(CapabilitySet::NET_ADMIN);
        removed.expect("rights can be given up");
    });
    check_refusal(&output, &["root", "CAP_NET_ADMIN"]);
    assert_eq!(node.ruleset(), "");
}

#[test]
fn without_the_right_to_change_rules_an_agent_says_so() {
    with_cluster(Wiring::Bridged, without);
}
