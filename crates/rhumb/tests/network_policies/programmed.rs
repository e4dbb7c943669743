//! Traffic obeys a policy once its condition Programmed is true.

use std::process::Command;

use rhumb_netpol::Protocol;
use serde_json::{Value, json};

use crate::cluster::{NetpolTestCluster, with_cluster};
use crate::pod_links::PodLinkType;
use crate::probe::{ConnectionProbe, between, check_all};

const ROUNDS: usize = 20;

#[test]
fn traffic_obeys_a_policy_once_it_is_programmed() {
    with_cluster(PodLinkType::Bridged, async |cluster| {
        cluster.create_pods().await;
        cluster.start_agents().await;
        cluster.create_policy("x/p", "{podSelector: {}}").await;
        let pairs = [("x/b", "x/a"), ("x/c", "x/a"), ("y/a", "x/b")];
        let pairs = pairs.map(|(from, to)| (cluster.pod(from), cluster.pod(to)));
        for round in 0..ROUNDS {
            let is_open = round % 2 == 1;
            let rules: Value = if is_open { json!([{}]) } else { json!([]) };
            cluster
                .change_policy("x/p", json!({"ingress": rules}))
                .await;
            wait(cluster, round).await;
            for (from, to) in &pairs {
                for is_v4 in [true, false].into_iter().filter(|_| is_open) {
                    let probe = ConnectionProbe::new(from, to, (Protocol::Udp, 80), is_v4);
                    probe.first_packet().await;
                }
            }
            let probes = pairs.iter().flat_map(|(from, to)| between(from, to));
            let probes = probes.map(|probe| (probe, is_open)).collect();
            check_all(&format!("round {round}"), probes).await;
        }
    });
}

/// Waits with kubectl in half of the rounds, if available, like users do.
async fn wait(cluster: &NetpolTestCluster, round: usize) {
    let arguments = "wait --for=condition=Programmed netpol/p -n x --timeout=60s";
    if round % 4 >= 2 || !has_kubectl() {
        return cluster.wait_until_programmed("x/p").await;
    }
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(cluster.kubeconfig());
    let output = command
        .args(arguments.split(' '))
        .output()
        .expect("kubectl runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {arguments}: {stderr}");
}

fn has_kubectl() -> bool {
    Command::new("kubectl")
        .arg("version")
        .arg("--client")
        .output()
        .is_ok()
}
