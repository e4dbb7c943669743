//! Tests of `explain`: nominated nodes, and pods that are already assigned.

use serde_json::{Value, json};

use super::*;
use crate::plugins::testing::{add_pod, cluster, node, node_with, pod, pod_in, requests};
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

fn namespaced(namespace: &str, name: &str, svc: &str, spec: Value) -> crate::model::Pod {
    pod_in(namespace, name, json!({ "svc": svc }), spec)
}

/// A required term about pods with label `svc`.
fn term(kind: &str, svc: &str, namespaces: Value) -> Value {
    let mut term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"svc": svc}}});
    if !namespaces.is_null() {
        term["namespaceSelector"] = namespaces;
    }
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn names(pods: &[PodLocation]) -> Vec<String> {
    let text = |pod: &PodLocation| match &pod.node {
        Some(node) => format!("{}/{} on {node}", pod.namespace, pod.name),
        None => format!("{}/{}", pod.namespace, pod.name),
    };
    pods.iter().map(text).collect()
}

#[test]
fn both_directions_of_affinity_terms_are_explained() {
    let zoned = node_with("n", json!({"labels": {"zone": "z"}}));
    let mut cluster = cluster([zoned], []);
    for (name, team) in [("blue", "x"), ("red", "y"), ("own", "z")] {
        cluster.set_namespace(name, [("team", team)].into_iter().collect());
    }
    let on_node = json!({"nodeName": "n"});
    add_pod(&mut cluster, namespaced("red", "db", "db", on_node));
    let mut repelling = term(
        "podAntiAffinity",
        "web",
        json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}),
    );
    add_pod(
        &mut cluster,
        namespaced("blue", "b", "b", repelling.clone()),
    );
    repelling["nodeName"] = json!("n");
    add_pod(&mut cluster, namespaced("blue", "a", "a", repelling));
    // Only in its own namespace, which is another.
    let own_only = term("podAntiAffinity", "web", json!(null));
    add_pod(&mut cluster, namespaced("blue", "c", "c", own_only));

    let attracted = term("podAffinity", "db", json!({"matchLabels": {"team": "x"}}));
    let id = add_pod(&mut cluster, namespaced("own", "web", "web", attracted));
    let explanation = explain(&mut cluster, &default_profile(), id).expect("pod is known");

    let [term] = explanation.affinity_terms.as_slice() else {
        panic!("{explanation:?}");
    };
    assert_eq!(term.term.matches, "svc=db in namespaces with team=x");
    assert_eq!(term.selected_namespaces, ["blue"]);
    assert!(term.matching_pods.is_empty() && !term.matches_itself);
    assert_eq!(names(&term.pods_in_other_namespaces), ["red/db on n"]);
    let details = explanation.nodes[0].rejections.iter();
    let details: Vec<_> = details.filter_map(|one| one.detail.as_deref()).collect();
    assert_eq!(
        details,
        ["no pod matching the affinity (svc=db in namespaces with team=x) is in zone=z"]
    );

    let [matching] = explanation.matching_terms.as_slice() else {
        panic!("{explanation:?}");
    };
    assert_eq!(matching.term.kind, AffinityTermKind::RequiredAntiAffinity);
    assert_eq!(
        matching.term.matches,
        "svc=web in namespaces with team notin (x)"
    );
    assert_eq!(names(&matching.pods), ["blue/a on n", "blue/b"]);

    // The other way around, after the namespace is selected.
    cluster.set_namespace("red", [("team", "x")].into_iter().collect());
    let explanation = explain(&mut cluster, &default_profile(), id).expect("pod is known");
    let term = &explanation.affinity_terms[0];
    assert_eq!(term.selected_namespaces, ["blue", "red"]);
    assert_eq!(names(&term.matching_pods), ["red/db on n"]);
    assert!(term.pods_in_other_namespaces.is_empty());
}

#[test]
fn matchers_are_described_with_their_namespaces() {
    for (term, expected) in [
        (json!({}), "no pods: labelSelector is missing"),
        (json!({"labelSelector": {}}), "all pods in namespace own"),
        (
            json!({"labelSelector": {}, "namespaces": ["b", "a"]}),
            "all pods in namespaces a, b",
        ),
        (
            json!({"labelSelector": {}, "namespaceSelector": {}}),
            "all pods in all namespaces",
        ),
        (
            json!({"labelSelector": {}, "namespaces": ["b"],
                "namespaceSelector": {"matchLabels": {"team": "x"}}}),
            "all pods in namespaces b and those with team=x",
        ),
    ] {
        let terms = json!([{"weight": 1, "podAffinityTerm": term}]);
        let spec = json!({"affinity": {"podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": terms,
        }}});
        let pod = namespaced("own", "p", "p", spec);
        let matcher = &pod.affinity.preferred[0].term.matcher;
        assert_eq!(matcher.to_string(), expected, "{term}");
    }
}
