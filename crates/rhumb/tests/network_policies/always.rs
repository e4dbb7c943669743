//! What is allowed whatever policies say, and what the network itself needs.

use crate::cluster::{Cluster, with_each_wiring};
use crate::objects::PODS;
use crate::probe::{all_are_closed, all_are_open, between};

const DENY_ALL: &str = "{podSelector: {}, policyTypes: [Ingress, Egress]}";

async fn always(cluster: &mut Cluster) {
    cluster.create_pods().await;
    cluster.start_agents().await;
    for policy in ["x/deny", "y/deny", "z/deny"] {
        cluster.enforce(policy, DENY_ALL).await;
    }
    let mut probes = Vec::new();
    for plan in PODS {
        let (pod, node) = (cluster.pod(plan.name), &cluster.network.nodes[plan.node]);
        probes.extend(
            [
                between(&pod, &pod),
                between(node, &pod),
                between(&pod, node),
            ]
            .concat(),
        );
    }
    all_are_open("deny all", probes).await;
    // Who is allowed is found anew: neighbour discovery is not for policies to stop.
    let all = "[{from: [{namespaceSelector: {}}]}]".to_owned();
    let spec = format!(
        "{{podSelector: {{}}, ingress: {all}, egress: {}}}",
        all.replace("from", "to")
    );
    for policy in ["x/allow", "y/allow"] {
        cluster.enforce(policy, &spec).await;
    }
    let pods = cluster.pods.values().chain(&cluster.network.nodes);
    for site in pods {
        site.ip("neigh flush all\n");
    }
    let pairs = [
        ("x/a", "x/b"),
        ("x/a", "x/c"),
        ("y/a", "x/c"),
        ("x/a", "y/b"),
    ];
    let pairs = pairs.map(|(from, to)| (cluster.pod(from), cluster.pod(to)));
    let allowed = pairs.iter().flat_map(|(from, to)| between(from, to));
    all_are_open("allowed", allowed).await;
    let (from, to) = (cluster.pod("x/a"), cluster.pod("z/a"));
    all_are_closed("denied", between(&from, &to)).await;
}

#[test]
fn pods_reach_themselves_and_their_node_under_any_policy() {
    with_each_wiring(always);
}
