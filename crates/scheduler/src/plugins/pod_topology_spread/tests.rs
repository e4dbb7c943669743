use serde_json::{Value, json};

use super::*;
use crate::cluster::PodId;
use crate::model::{Node, Pod, SpreadOwner, SpreadOwnerKey, SpreadOwnerKind};
use crate::plugins::testing::{
    add_pod, cluster, filter_results, node_id, node_with, pod, pod_in, rejection_detail, scores,
    scores_among,
};

const NO: &str = "node(s) didn't match pod topology spread constraints";
const NO_LABEL: &str =
    "!node(s) didn't match pod topology spread constraints (missing required label)";

/// `a` and `b` in one zone, `x` and `y` in the other.
fn four_nodes() -> Vec<Node> {
    let zones = [
        ("a", "zone1"),
        ("b", "zone1"),
        ("x", "zone2"),
        ("y", "zone2"),
    ];
    let zones = zones.into_iter();
    zones
        .map(|(name, zone)| node_with(name, json!({"labels": {"zone": zone, HOSTNAME: name}})))
        .collect()
}

/// The given number of pods with label `foo` on each node.
fn existing_pods(counts: &[(&str, usize)]) -> Vec<Pod> {
    let all = counts.iter().flat_map(|(node, count)| {
        (0..*count).map(move |number| {
            let name = format!("{node}{number}");
            pod(&name, json!({"foo": ""}), json!({"nodeName": node}))
        })
    });
    all.collect()
}

const ON_FOUR: [&str; 4] = ["a", "b", "x", "y"];

fn existing_on_four(counts: [usize; 4]) -> Vec<Pod> {
    let counts: Vec<(&str, usize)> = ON_FOUR.into_iter().zip(counts).collect();
    existing_pods(&counts)
}

fn constraint(key: &str, max_skew: i32) -> Value {
    json!({
        "maxSkew": max_skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "foo", "operator": "Exists"}]},
    })
}

/// Adds fields to a JSON object.
fn merged(mut value: Value, more: Value) -> Value {
    let more = more.as_object().unwrap().clone();
    value.as_object_mut().unwrap().extend(more);
    value
}

fn soft_constraint_json(key: &str, max_skew: i32) -> Value {
    merged(
        constraint(key, max_skew),
        json!({"whenUnsatisfiable": "ScheduleAnyway"}),
    )
}

fn add_labelled_pod(cluster: &mut ClusterState, labels: Value, spec: Value) -> PodId {
    add_pod(cluster, pod("p", labels, spec))
}

fn plugin_with_defaults() -> PodTopologySpread {
    PodTopologySpread::new(DefaultConstraints::System)
}

fn check(counts: [usize; 4], labels: Value, constraints: Value, expected: [&str; 4]) {
    let mut cluster = cluster(four_nodes(), existing_on_four(counts));
    let spec = json!({"topologySpreadConstraints": constraints});
    let pod = add_labelled_pod(&mut cluster, labels, spec);
    let results = filter_results(&plugin_with_defaults(), &cluster, pod).unwrap();
    assert_eq!(results, expected, "{counts:?} {constraints}");
}

#[test]
fn domains_that_would_exceed_max_skew_are_rejected() {
    let (foo, other) = (json!({"foo": ""}), json!({"bar": ""}));
    let (zone, host) = (
        |skew| constraint("zone", skew),
        |skew| constraint(HOSTNAME, skew),
    );
    for (counts, labels, constraints, expected) in [
        ([0, 0, 0, 0], &foo, json!([zone(1)]), [""; 4]),
        ([2, 1, 0, 2], &foo, json!([zone(1)]), [NO, NO, "", ""]),
        ([2, 1, 0, 2], &foo, json!([zone(2)]), [""; 4]),
        ([2, 1, 0, 2], &other, json!([zone(1)]), [""; 4]),
        ([3, 1, 0, 2], &other, json!([zone(1)]), [NO, NO, "", ""]),
        ([2, 1, 0, 3], &foo, json!([host(1)]), [NO, NO, "", NO]),
        ([2, 1, 0, 3], &foo, json!([host(2)]), [NO, "", "", NO]),
        ([2, 1, 1, 3], &foo, json!([host(1)]), [NO, "", "", NO]),
        ([2, 1, 0, 3], &other, json!([host(1)]), [NO, "", "", NO]),
        // Both constraints must hold: zone2 may take one more pod, on node x only.
        (
            [2, 1, 0, 3],
            &foo,
            json!([zone(1), host(1)]),
            [NO, NO, "", NO],
        ),
        (
            [1, 0, 0, 4],
            &foo,
            json!([zone(1), host(1)]),
            [NO, "", NO, NO],
        ),
        (
            [2, 1, 2, 1],
            &foo,
            json!([zone(1), host(1)]),
            [NO, "", NO, ""],
        ),
        // A topology label that no node has.
        (
            [2, 1, 0, 3],
            &foo,
            json!([constraint("rack", 1)]),
            [NO_LABEL; 4],
        ),
    ] {
        check(counts, labels.clone(), constraints, expected);
    }
}

#[test]
fn fewer_domains_than_min_domains_make_the_minimum_zero() {
    let foo = json!({"foo": ""});
    let zone = |min: i32| json!([merged(constraint("zone", 2), json!({"minDomains": min}))]);
    check([2, 1, 0, 2], foo.clone(), zone(2), [""; 4]);
    check([2, 1, 0, 2], foo.clone(), zone(3), [NO; 4]);
    check([1, 0, 0, 2], foo, zone(3), ["", "", NO, NO]);
}

#[test]
fn missing_or_empty_selectors_match_no_pods() {
    let foo = json!({"foo": ""});
    let selector = |selector: Value| {
        json!([merged(
            constraint("zone", 1),
            json!({ "labelSelector": selector })
        )])
    };
    check([5, 0, 0, 0], foo.clone(), selector(json!(null)), [""; 4]);
    check([5, 0, 0, 0], foo.clone(), selector(json!({})), [""; 4]);
    let by_version = merged(
        constraint("zone", 1),
        json!({"matchLabelKeys": ["version"]}),
    );
    check(
        [5, 0, 0, 0],
        json!({"foo": "", "version": "2"}),
        json!([by_version]),
        [""; 4],
    );
    check([2, 0, 0, 0], foo, json!([by_version]), [NO, NO, "", ""]);
}

#[test]
fn only_running_pods_of_the_namespace_are_counted() {
    let mut pods = existing_pods(&[("a", 1)]);
    for number in 0..3 {
        let spec = json!({"nodeName": "a"});
        pods.push(pod_in(
            "other",
            &format!("o{number}"),
            json!({"foo": ""}),
            spec.clone(),
        ));
        let mut leaving = pod(&format!("l{number}"), json!({"foo": ""}), spec);
        leaving.is_terminating = true;
        pods.push(leaving);
    }
    let mut cluster = cluster(four_nodes(), pods);
    let spec = json!({"topologySpreadConstraints": [constraint("zone", 2)]});
    let pod = add_labelled_pod(&mut cluster, json!({"foo": ""}), spec);
    assert_eq!(
        filter_results(&plugin_with_defaults(), &cluster, pod).unwrap(),
        [""; 4]
    );
}

#[test]
fn node_inclusion_policies_decide_which_nodes_are_counted() {
    let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    let zoned = |name: &str, zone: &str, spec: Value| {
        let labels =
            json!({"zone": zone, HOSTNAME: name, "disk": if name == "c" { "hdd" } else { "ssd" }});
        node_with(name, json!({"labels": labels, "spec": spec}))
    };
    // zone3 is empty and is excluded only by the pod's node selector or by a taint.
    let nodes = |tainted: bool| {
        let spec = if tainted {
            json!({"taints": taint})
        } else {
            json!({})
        };
        [
            zoned("a", "zone1", json!({})),
            zoned("b", "zone2", json!({})),
            zoned("c", "zone3", spec),
        ]
    };
    let ssd = json!({"disk": "ssd"});
    for (tainted, selector, policies, expected) in [
        (false, json!({}), json!({}), [NO, NO, ""]),
        (false, ssd.clone(), json!({}), [NO, "", ""]),
        (
            false,
            ssd.clone(),
            json!({"nodeAffinityPolicy": "Honor"}),
            [NO, "", ""],
        ),
        (
            false,
            ssd,
            json!({"nodeAffinityPolicy": "Ignore"}),
            [NO, NO, ""],
        ),
        (true, json!({}), json!({}), [NO, NO, ""]),
        (
            true,
            json!({}),
            json!({"nodeTaintsPolicy": "Ignore"}),
            [NO, NO, ""],
        ),
        (
            true,
            json!({}),
            json!({"nodeTaintsPolicy": "Honor"}),
            [NO, "", ""],
        ),
    ] {
        let mut cluster = cluster(nodes(tainted), existing_pods(&[("a", 2), ("b", 1)]));
        let constraint = merged(constraint("zone", 1), policies.clone());
        let spec = json!({"topologySpreadConstraints": [constraint], "nodeSelector": selector});
        let pod = add_labelled_pod(&mut cluster, json!({"foo": ""}), spec);
        let results = filter_results(&plugin_with_defaults(), &cluster, pod).unwrap();
        assert_eq!(results, expected, "{selector} {policies}");
    }
}

#[test]
fn nodes_that_lack_a_topology_key_are_ignored() {
    let mut nodes = four_nodes();
    nodes.push(node_with("z", json!({"labels": {"zone": "zone3"}})));
    let mut cluster = cluster(nodes, existing_on_four([1, 0, 0, 1]));
    let constraints = json!([constraint("zone", 1), constraint(HOSTNAME, 2)]);
    let spec = json!({"topologySpreadConstraints": constraints});
    let pod = add_labelled_pod(&mut cluster, json!({"foo": ""}), spec);
    let results = filter_results(&plugin_with_defaults(), &cluster, pod).unwrap();
    assert_eq!(results, ["", "", "", "", NO_LABEL]);
}

#[test]
fn the_detail_names_domain_counts_and_skew() {
    let mut cluster = cluster(four_nodes(), existing_on_four([2, 1, 0, 1]));
    let zone = merged(constraint("zone", 1), json!({"minDomains": 2}));
    let spec = json!({"topologySpreadConstraints": [zone]});
    let pod = add_labelled_pod(&mut cluster, json!({"foo": ""}), spec);
    assert_eq!(
        rejection_detail(&plugin_with_defaults(), &cluster, pod, "a"),
        "zone=zone1 would have 4 matching pods, the minimum is 1 in zone=zone2, and maxSkew is 1"
    );
}

fn check_scores(counts: &[(&str, usize)], constraints: Value, among: &[&str], expected: &[i64]) {
    let mut cluster = cluster(four_nodes(), existing_pods(counts));
    let spec = json!({"topologySpreadConstraints": constraints});
    let pod = add_labelled_pod(&mut cluster, json!({"foo": ""}), spec);
    let nodes: Vec<_> = among.iter().map(|name| node_id(&cluster, name)).collect();
    let scores = scores_among(&plugin_with_defaults(), &cluster, pod, &nodes);
    assert_eq!(scores, expected, "{counts:?} {constraints}");
}

#[test]
fn nodes_in_domains_with_fewer_pods_score_higher() {
    let host = |skew| json!([soft_constraint_json(HOSTNAME, skew)]);
    let uneven = [("a", 2), ("b", 1), ("y", 3)];
    check_scores(&[], host(1), &ON_FOUR, &[100; 4]);
    check_scores(&uneven, host(1), &["a"], &[100]);
    check_scores(&[("a", 1), ("b", 1)], host(1), &["a", "b"], &[100, 100]);
    check_scores(&uneven, host(1), &ON_FOUR, &[20, 60, 100, 0]);
    check_scores(&uneven, host(2), &ON_FOUR, &[33, 66, 100, 16]);
    let falling = [("a", 4), ("b", 3), ("x", 2), ("y", 1)];
    check_scores(&falling, host(3), &ON_FOUR, &[44, 66, 77, 100]);
    let some = [("a", 4), ("b", 2), ("x", 1), ("y", 3)];
    check_scores(&some, host(1), &["a", "b", "x"], &[33, 83, 100]);
    check_scores(
        &some,
        json!([soft_constraint_json("zone", 1)]),
        &["a", "b", "x"],
        &[75, 75, 100],
    );
    let both = json!([
        soft_constraint_json("zone", 1),
        soft_constraint_json(HOSTNAME, 1)
    ]);
    let some = [("a", 2), ("b", 1), ("x", 2), ("y", 4)];
    check_scores(&some, both, &["a", "x"], &[100, 63]);
    let no_selector = json!([merged(
        soft_constraint_json(HOSTNAME, 1),
        json!({"labelSelector": null})
    )]);
    check_scores(&uneven, no_selector, &ON_FOUR, &[100; 4]);
    check_scores(&uneven, json!([constraint("zone", 9)]), &ON_FOUR, &[0; 4]);
}

#[test]
fn nodes_without_the_topology_key_score_zero() {
    let mut nodes = four_nodes();
    nodes[1] = node_with("b", json!({"labels": {"n": "b"}}));
    let pods = existing_pods(&[("a", 4), ("b", 2), ("x", 1), ("y", 3)]);
    let mut cluster = cluster(nodes, pods);
    let spec = json!({"topologySpreadConstraints": [soft_constraint_json(HOSTNAME, 1)]});
    let pod = add_labelled_pod(&mut cluster, json!({"foo": ""}), spec);
    let among = ["a", "b", "x"].map(|name| node_id(&cluster, name));
    assert_eq!(
        scores_among(&plugin_with_defaults(), &cluster, pod, &among),
        [16, 0, 100]
    );
}

fn group(kind: SpreadOwnerKind, name: &str, selector: &str) -> SpreadOwner {
    SpreadOwner {
        key: SpreadOwnerKey {
            kind,
            namespace: "default".into(),
            name: name.into(),
        },
        selector: selector.parse().unwrap(),
    }
}

#[test]
fn pods_of_services_and_controllers_are_spread_by_default() {
    let counts = [("a", 4), ("b", 3), ("x", 2), ("y", 1)];
    let hosts = ON_FOUR.map(|name| node_with(name, json!({"labels": {HOSTNAME: name}})));
    let mut cluster = cluster(hosts, existing_pods(&counts));
    let mut owned = pod("p", json!({"foo": "", "bar": ""}), json!({}));
    owned.controller = Some(crate::model::ControllerRef {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "set".into(),
        uid: "u".into(),
    });
    let pod = add_pod(&mut cluster, owned);
    let spread_by_foo = [44, 66, 77, 100];
    assert_eq!(
        scores(&plugin_with_defaults(), &cluster, pod),
        [0; 4],
        "no service or controller selects the pod"
    );
    for (kind, name, selector, expected) in [
        (SpreadOwnerKind::Service, "other", "app=x", [0; 4]),
        (SpreadOwnerKind::Service, "service", "foo=", spread_by_foo),
        (SpreadOwnerKind::ReplicaSet, "other", "app=x", spread_by_foo),
        // Counts only pods that both the service and the controller select: none.
        (SpreadOwnerKind::ReplicaSet, "set", "bar", [100; 4]),
        (SpreadOwnerKind::ReplicaSet, "set", "foo", spread_by_foo),
    ] {
        cluster.set_spread_owner(group(kind, name, selector));
        assert_eq!(
            scores(&plugin_with_defaults(), &cluster, pod),
            expected,
            "{name} {selector}"
        );
    }
    cluster.remove_spread_owner(&group(SpreadOwnerKind::Service, "service", "").key);
    assert_eq!(
        scores(&plugin_with_defaults(), &cluster, pod),
        spread_by_foo
    );
    cluster.remove_spread_owner(&group(SpreadOwnerKind::ReplicaSet, "set", "").key);
    assert_eq!(scores(&plugin_with_defaults(), &cluster, pod), [0; 4]);
}

#[test]
fn default_constraints_can_be_hard() {
    let own = pod(
        "d",
        json!({}),
        json!({"topologySpreadConstraints": [constraint("zone", 1)]}),
    );
    let plugin = PodTopologySpread::new(DefaultConstraints::List(own.spread_constraints.to_vec()));
    let mut cluster = cluster(four_nodes(), existing_on_four([2, 1, 0, 1]));
    for key in plugin.topology_keys() {
        cluster.register_topology(key);
    }
    let pod = add_labelled_pod(&mut cluster, json!({"foo": ""}), json!({}));
    assert_eq!(filter_results(&plugin, &cluster, pod).unwrap(), [""; 4]);
    cluster.set_spread_owner(group(SpreadOwnerKind::Service, "s", "foo="));
    assert_eq!(
        filter_results(&plugin, &cluster, pod).unwrap(),
        [NO, NO, "", ""]
    );
    let slot = cluster.pods().get(pod).unwrap();
    for (namespace, expected) in [("default", true), ("other", false)] {
        let event = ClusterEvent::SpreadOwnerChanged { namespace };
        assert_eq!(plugin.queueing_hint(&event, slot, &cluster), expected);
    }
}

#[test]
fn hints_on_changes_of_matching_pods() {
    let mut cluster = cluster(four_nodes(), []);
    let spec = json!({"topologySpreadConstraints": [constraint("zone", 1)]});
    let waiting = add_labelled_pod(&mut cluster, json!({"foo": ""}), spec);
    let requeues = |cluster: &ClusterState, event: ClusterEvent<'_>| {
        let slot = cluster.pods().get(waiting).unwrap();
        plugin_with_defaults().queueing_hint(&event, slot, cluster)
    };
    for (label, expected) in [("foo", true), ("bar", false)] {
        let other = add_pod(
            &mut cluster,
            pod("o", json!({label: ""}), json!({"nodeName": "a"})),
        );
        assert_eq!(
            requeues(&cluster, ClusterEvent::AssignedPodAdded(other)),
            expected
        );
        let removed = cluster.remove_pod("default/o").unwrap();
        assert_eq!(
            requeues(&cluster, ClusterEvent::AssignedPodDeleted(&removed)),
            expected
        );
    }
    let (same_zone, other_zone, no_zone) = (
        node_with("a", json!({"labels": {"zone": "zone1", "x": "y"}})),
        node_with("a", json!({"labels": {"zone": "zone9"}})),
        node_with("a", json!({})),
    );
    let node = node_id(&cluster, "a");
    assert!(requeues(&cluster, ClusterEvent::NodeAdded(node)));
    for (old, changed, left) in [
        (&same_zone, false, true),
        (&other_zone, true, true),
        (&no_zone, true, false),
    ] {
        assert_eq!(
            requeues(&cluster, ClusterEvent::NodeUpdated { node, old }),
            changed,
            "{old:?}"
        );
        assert_eq!(
            requeues(&cluster, ClusterEvent::NodeDeleted { old }),
            left,
            "{old:?}"
        );
    }
}
