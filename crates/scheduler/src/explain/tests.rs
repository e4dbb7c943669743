use serde_json::json;

use super::*;
use crate::plugins::testing::{cluster, come, node, node_with, pod, requests};
use crate::tests::agreement::usual;

fn on_four_processors(name: &str) -> crate::model::Node {
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    node_with(name, json!({"status": {"allocatable": amounts}}))
}

#[test]
fn room_that_is_kept_for_others_is_not_free() {
    for (priority, cpu, kept_for) in [
        (9, "1", &[][..]),
        (9, "2", &["default/p"]),
        (10, "2", &["default/p"]),
        (11, "2", &[]),
    ] {
        let mut cluster = cluster([on_four_processors("n"), on_four_processors("o")], []);
        let spec = json!({"priority": 10, "containers": requests(json!({"cpu": "3"}))});
        let mut preemptor = pod("p", json!({}), spec);
        preemptor.nominated_node_name = Some("n".into());
        come(&mut cluster, preemptor);
        let spec = json!({"priority": priority, "containers": requests(json!({"cpu": cpu}))});
        let id = come(&mut cluster, pod("q", json!({}), spec));
        let profile = Profile::usual("default-scheduler");
        profile.introduce(&mut cluster);
        for _ in 0..2 {
            let explanation = explain(&mut cluster, &profile, id).expect("a pod");
            let [n, o] = explanation.nodes.as_slice() else {
                panic!("{explanation:?}");
            };
            let about = format!("{priority} {cpu}: {n:?}");
            assert_eq!(n.kept_for, kept_for, "{about}");
            assert_eq!(n.fits, kept_for.is_empty(), "{about}");
            assert_eq!(n.score.is_some(), n.fits, "{about}");
            let reasons = n.against.iter().flat_map(|against| &against.reasons);
            let reasons: Vec<&String> = reasons.collect();
            let expected: &[&str] = if n.fits { &[] } else { &["Insufficient cpu"] };
            assert_eq!(reasons, expected, "{about}");
            assert!(o.fits && o.kept_for.is_empty());
        }
    }
}

#[test]
fn a_pod_that_others_make_room_for_is_not_in_its_own_way() {
    let mut cluster = cluster([on_four_processors("n")], []);
    let spec = json!({"priority": 10, "containers": requests(json!({"cpu": "3"}))});
    let mut preemptor = pod("p", json!({}), spec);
    preemptor.nominated_node_name = Some("n".into());
    let id = come(&mut cluster, preemptor);
    let profile = Profile::usual("default-scheduler");
    profile.introduce(&mut cluster);
    let explanation = explain(&mut cluster, &profile, id).expect("a pod");
    assert_eq!(explanation.nominated_node.as_deref(), Some("n"));
    assert!(explanation.nodes[0].fits, "{explanation:?}");
}

#[test]
fn a_pod_that_has_a_node_is_explained_as_if_it_had_none() {
    let shut = node_with("c", json!({"spec": {"unschedulable": true}}));
    let mut cluster = cluster([node("a"), node("b"), shut], []);
    let spec = json!({"nodeName": "b"});
    let id = come(&mut cluster, pod("p", json!({}), spec));
    let explanation = explain(&mut cluster, &usual(), id).unwrap();
    assert_eq!(explanation.node.as_deref(), Some("b"));
    let fits: Vec<bool> = explanation.nodes.iter().map(|node| node.fits).collect();
    assert_eq!(fits, [true, true, false]);
}
