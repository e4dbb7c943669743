//! Tests of `explain`: nominated nodes, and pods that are already assigned.

use serde_json::json;

use super::*;
use crate::plugins::testing::{add_pod, cluster, node, node_with, pod, requests};
use crate::tests::oracle_agreement::default_profile;

fn four_cpu_node(name: &str) -> crate::model::Node {
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    node_with(name, json!({"status": {"allocatable": amounts}}))
}

#[test]
fn resources_reserved_for_nominated_pods_are_not_free() {
    for (priority, cpu, reserved_for) in [
        (9, "1", &[][..]),
        (9, "2", &["default/p"]),
        (10, "2", &["default/p"]),
        (11, "2", &[]),
    ] {
        let mut cluster = cluster([four_cpu_node("n"), four_cpu_node("o")], []);
        let spec = json!({"priority": 10, "containers": requests(json!({"cpu": "3"}))});
        let mut preemptor = pod("p", json!({}), spec);
        preemptor.nominated_node_name = Some("n".into());
        add_pod(&mut cluster, preemptor);
        let spec = json!({"priority": priority, "containers": requests(json!({"cpu": cpu}))});
        let id = add_pod(&mut cluster, pod("q", json!({}), spec));
        let profile = Profile::with_default_plugins("default-scheduler");
        profile.register_topologies(&mut cluster);
        for _ in 0..2 {
            let explanation = explain(&mut cluster, &profile, id).expect("pod is known");
            let [n, o] = explanation.nodes.as_slice() else {
                panic!("{explanation:?}");
            };
            let about = format!("{priority} {cpu}: {n:?}");
            assert_eq!(n.reserved_for, reserved_for, "{about}");
            assert_eq!(n.fits, reserved_for.is_empty(), "{about}");
            assert_eq!(n.score.is_some(), n.fits, "{about}");
            let reasons = n.rejections.iter().flat_map(|rejection| &rejection.reasons);
            let reasons: Vec<&String> = reasons.collect();
            let expected: &[&str] = if n.fits { &[] } else { &["Insufficient cpu"] };
            assert_eq!(reasons, expected, "{about}");
            assert!(o.fits && o.reserved_for.is_empty());
        }
    }
}

#[test]
fn a_nominated_pod_does_not_block_itself() {
    let mut cluster = cluster([four_cpu_node("n")], []);
    let spec = json!({"priority": 10, "containers": requests(json!({"cpu": "3"}))});
    let mut preemptor = pod("p", json!({}), spec);
    preemptor.nominated_node_name = Some("n".into());
    let id = add_pod(&mut cluster, preemptor);
    let profile = Profile::with_default_plugins("default-scheduler");
    profile.register_topologies(&mut cluster);
    let explanation = explain(&mut cluster, &profile, id).expect("pod is known");
    assert_eq!(explanation.nominated_node.as_deref(), Some("n"));
    assert!(explanation.nodes[0].fits, "{explanation:?}");
}

#[test]
fn an_assigned_pod_is_explained_as_if_unassigned() {
    let shut = node_with("c", json!({"spec": {"unschedulable": true}}));
    let mut cluster = cluster([node("a"), node("b"), shut], []);
    let spec = json!({"nodeName": "b"});
    let id = add_pod(&mut cluster, pod("p", json!({}), spec));
    let explanation = explain(&mut cluster, &default_profile(), id).unwrap();
    assert_eq!(explanation.node.as_deref(), Some("b"));
    let fits: Vec<bool> = explanation.nodes.iter().map(|node| node.fits).collect();
    assert_eq!(fits, [true, true, false]);
}
