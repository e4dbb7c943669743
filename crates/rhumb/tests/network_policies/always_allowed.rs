//! Traffic that is allowed regardless of policies, and that the network itself needs.

use crate::cluster::{NetpolTestCluster, with_each_link_type};
use crate::objects::PODS;
use crate::probe::{all_are_closed, all_are_open, between};

const DENY_ALL: &str = "{podSelector: {}, policyTypes: [Ingress, Egress]}";

async fn always(cluster: &mut NetpolTestCluster) {
    cluster.create_pods().await;
    cluster.start_agents().await;
    for policy in ["x/deny", "y/deny", "z/deny"] {
        cluster.enforce(policy, DENY_ALL).await;
    }
    let mut probes = Vec::new();
    for test_pod in PODS {
        let (pod, node) = (
            cluster.pod(test_pod.name),
            &cluster.network.nodes[test_pod.node],
        );
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
    // Neighbor discovery runs again; policies must not block it.
    let all = "[{from: [{namespaceSelector: {}}]}]".to_owned();
    let spec = format!(
        "{{podSelector: {{}}, ingress: {all}, egress: {}}}",
        all.replace("from", "to")
    );
    for policy in ["x/allow", "y/allow"] {
        cluster.enforce(policy, &spec).await;
    }
    let pods = cluster.pods.values().chain(&cluster.network.nodes);
    for netns in pods {
        netns.ip("neigh flush all\n");
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
    with_each_link_type(always);
}
