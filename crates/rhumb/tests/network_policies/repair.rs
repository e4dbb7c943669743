//! Repair of rules that others remove, and agents without permission.

use std::process::Output;

use rhumb_netpol::Protocol;
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

use crate::agent::{AgentProcess, run_agent};
use crate::cluster::{NetpolTestCluster, with_cluster};
use crate::pod_links::PodLinkType;
use crate::probe::{ConnectionProbe, all_are_closed, all_are_open, between};

const DENY: &str = "{podSelector: {}, policyTypes: [Ingress]}";

#[test]
fn removed_rules_are_restored() {
    with_cluster(PodLinkType::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster.enforce("x/p", DENY).await;
        for node in &cluster.network.nodes {
            node.nft("flush ruleset\n");
        }
        let pairs = [("y/b", "x/a"), ("y/a", "x/b"), ("x/a", "x/c")];
        let pairs = pairs.map(|(from, to)| (cluster.pod(from), cluster.pod(to)));
        for (from, to) in &pairs {
            ConnectionProbe::new(from, to, (Protocol::Tcp, 80), true)
                .becomes(false)
                .await;
        }
        let probes = pairs.iter().flat_map(|(from, to)| between(from, to));
        all_are_closed("put back", probes).await;
        // Later changes are applied as well.
        cluster
            .enforce("x/open", "{podSelector: {}, ingress: [{}]}")
            .await;
        let probes = pairs.iter().flat_map(|(from, to)| between(from, to));
        all_are_open("opened", probes).await;
    });
}

#[test]
fn cleanup_removes_all_rules() {
    with_cluster(PodLinkType::Bridged, async |cluster| {
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
        cluster.agents.iter_mut().for_each(AgentProcess::kill);
        // The second cleanup finds nothing, and succeeds.
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it went on: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{word:?} is not in: {stderr}");
    }
}

async fn without(cluster: &mut NetpolTestCluster) {
    let node = cluster.network.nodes[0].clone();
    let output = run_agent(&node, &cluster.kubeconfig(), |_| {
        // Drops the capability of the starting thread and of the process.
        let removed = remove_capability_from_bounding_set(CapabilitySet::NET_ADMIN);
        removed.expect("rights can be given up");
    });
    check_refusal(&output, &["root", "CAP_NET_ADMIN"]);
    assert_eq!(node.ruleset(), "");
}

#[test]
fn agent_without_cap_net_admin_reports_it() {
    with_cluster(PodLinkType::Bridged, without);
}
