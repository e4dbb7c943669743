use serde_json::{Value, json};

use super::*;
use crate::cluster::PodId;
use crate::model::{Group, GroupKey, GroupKind, Node, Pod};
use crate::plugins::testing::{
    cluster, come, detail, id, node_with, pod, pod_in, scores, scores_of, verdicts,
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

/// So many pods with the label `foo` on each of the nodes.
fn existing(counts: &[(&str, usize)]) -> Vec<Pod> {
    let all = counts.iter().flat_map(|(node, count)| {
        (0..*count).map(move |number| {
            let name = format!("{node}{number}");
            pod(&name, json!({"foo": ""}), json!({"nodeName": node}))
        })
    });
    all.collect()
}

const ON_FOUR: [&str; 4] = ["a", "b", "x", "y"];

fn spread(cluster_of: [usize; 4]) -> Vec<Pod> {
    let counts: Vec<(&str, usize)> = ON_FOUR.into_iter().zip(cluster_of).collect();
    existing(&counts)
}

fn constraint(key: &str, max_skew: i32) -> Value {
    json!({
        "maxSkew": max_skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "foo", "operator": "Exists"}]},
    })
}

/// With fields added.
fn with(mut value: Value, more: Value) -> Value {
    let more = more.as_object().unwrap().clone();
    value.as_object_mut().unwrap().extend(more);
    value
}

fn wishes(key: &str, max_skew: i32) -> Value {
    with(
        constraint(key, max_skew),
        json!({"whenUnsatisfiable": "ScheduleAnyway"}),
    )
}

fn comes(cluster: &mut Cluster, labels: Value, spec: Value) -> PodId {
    come(cluster, pod("p", labels, spec))
}

fn usual() -> PodTopologySpread {
    PodTopologySpread::new(DefaultConstraints::System)
}

fn check(counts: [usize; 4], labels: Value, constraints: Value, expected: [&str; 4]) {
    let mut cluster = cluster(four_nodes(), spread(counts));
    let spec = json!({"topologySpreadConstraints": constraints});
    let pod = comes(&mut cluster, labels, spec);
    let said = verdicts(&usual(), &cluster, pod).unwrap();
    assert_eq!(said, expected, "{counts:?} {constraints}");
}

#[test]
fn domains_take_no_more_than_the_skew_allows() {
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
        // Both must hold: zone 2 may take one more, on node x only.
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
        // A label that no node has.
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
fn fewer_domains_than_there_should_be_count_as_an_empty_one() {
    let foo = json!({"foo": ""});
    let zone = |min: i32| json!([with(constraint("zone", 2), json!({"minDomains": min}))]);
    check([2, 1, 0, 2], foo.clone(), zone(2), [""; 4]);
    check([2, 1, 0, 2], foo.clone(), zone(3), [NO; 4]);
    check([1, 0, 0, 2], foo, zone(3), ["", "", NO, NO]);
}

#[test]
fn selectors_that_are_missing_or_empty_count_nobody() {
    let foo = json!({"foo": ""});
    let selector = |selector: Value| {
        json!([with(
            constraint("zone", 1),
            json!({ "labelSelector": selector })
        )])
    };
    check([5, 0, 0, 0], foo.clone(), selector(json!(null)), [""; 4]);
    check([5, 0, 0, 0], foo.clone(), selector(json!({})), [""; 4]);
    let by_version = with(
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
fn only_living_pods_of_the_namespace_count() {
    let mut pods = existing(&[("a", 1)]);
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
    let pod = comes(&mut cluster, json!({"foo": ""}), spec);
    assert_eq!(verdicts(&usual(), &cluster, pod).unwrap(), [""; 4]);
}

#[test]
fn nodes_that_the_pod_cannot_go_to_count_as_the_constraint_says() {
    let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    let zoned = |name: &str, zone: &str, spec: Value| {
        let labels =
            json!({"zone": zone, HOSTNAME: name, "disk": if name == "c" { "hdd" } else { "ssd" }});
        node_with(name, json!({"labels": labels, "spec": spec}))
    };
    // Zone 3 is empty, and only the pod's selector or a taint keeps it away.
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
        let mut cluster = cluster(nodes(tainted), existing(&[("a", 2), ("b", 1)]));
        let constraint = with(constraint("zone", 1), policies.clone());
        let spec = json!({"topologySpreadConstraints": [constraint], "nodeSelector": selector});
        let pod = comes(&mut cluster, json!({"foo": ""}), spec);
        let said = verdicts(&usual(), &cluster, pod).unwrap();
        assert_eq!(said, expected, "{selector} {policies}");
    }
}

#[test]
fn nodes_without_one_of_the_labels_count_for_none() {
    let mut nodes = four_nodes();
    nodes.push(node_with("z", json!({"labels": {"zone": "zone3"}})));
    let mut cluster = cluster(nodes, spread([1, 0, 0, 1]));
    let constraints = json!([constraint("zone", 1), constraint(HOSTNAME, 2)]);
    let spec = json!({"topologySpreadConstraints": constraints});
    let pod = comes(&mut cluster, json!({"foo": ""}), spec);
    let said = verdicts(&usual(), &cluster, pod).unwrap();
    assert_eq!(said, ["", "", "", "", NO_LABEL]);
}

#[test]
fn it_is_said_which_domain_has_too_many() {
    let mut cluster = cluster(four_nodes(), spread([2, 1, 0, 1]));
    let zone = with(constraint("zone", 1), json!({"minDomains": 2}));
    let spec = json!({"topologySpreadConstraints": [zone]});
    let pod = comes(&mut cluster, json!({"foo": ""}), spec);
    assert_eq!(
        detail(&usual(), &cluster, pod, "a"),
        "zone=zone1 would have 4 of these pods, the least is 1 in zone=zone2, and maxSkew is 1"
    );
}

fn check_scores(counts: &[(&str, usize)], constraints: Value, among: &[&str], expected: &[i64]) {
    let mut cluster = cluster(four_nodes(), existing(counts));
    let spec = json!({"topologySpreadConstraints": constraints});
    let pod = comes(&mut cluster, json!({"foo": ""}), spec);
    let nodes: Vec<_> = among.iter().map(|name| id(&cluster, name)).collect();
    let said = scores_of(&usual(), &cluster, pod, &nodes);
    assert_eq!(said, expected, "{counts:?} {constraints}");
}

#[test]
fn nodes_score_by_how_few_are_there() {
    let host = |skew| json!([wishes(HOSTNAME, skew)]);
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
        json!([wishes("zone", 1)]),
        &["a", "b", "x"],
        &[75, 75, 100],
    );
    let both = json!([wishes("zone", 1), wishes(HOSTNAME, 1)]);
    let some = [("a", 2), ("b", 1), ("x", 2), ("y", 4)];
    check_scores(&some, both, &["a", "x"], &[100, 63]);
    let nobody = json!([with(wishes(HOSTNAME, 1), json!({"labelSelector": null}))]);
    check_scores(&uneven, nobody, &ON_FOUR, &[100; 4]);
    check_scores(&uneven, json!([constraint("zone", 9)]), &ON_FOUR, &[0; 4]);
}

#[test]
fn nodes_without_the_label_score_nothing() {
    let mut nodes = four_nodes();
    nodes[1] = node_with("b", json!({"labels": {"n": "b"}}));
    let pods = existing(&[("a", 4), ("b", 2), ("x", 1), ("y", 3)]);
    let mut cluster = cluster(nodes, pods);
    let spec = json!({"topologySpreadConstraints": [wishes(HOSTNAME, 1)]});
    let pod = comes(&mut cluster, json!({"foo": ""}), spec);
    let among = ["a", "b", "x"].map(|name| id(&cluster, name));
    assert_eq!(scores_of(&usual(), &cluster, pod, &among), [16, 0, 100]);
}

fn group(kind: GroupKind, name: &str, selector: &str) -> Group {
    Group {
        key: GroupKey {
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
    let mut cluster = cluster(hosts, existing(&counts));
    let mut owned = pod("p", json!({"foo": "", "bar": ""}), json!({}));
    owned.controller = Some(crate::model::Controller {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "set".into(),
        uid: "u".into(),
    });
    let pod = come(&mut cluster, owned);
    let spread_by_foo = [44, 66, 77, 100];
    assert_eq!(
        scores(&usual(), &cluster, pod),
        [0; 4],
        "belongs to nothing"
    );
    for (kind, name, selector, expected) in [
        (GroupKind::Service, "other", "app=x", [0; 4]),
        (GroupKind::Service, "service", "foo=", spread_by_foo),
        (GroupKind::ReplicaSet, "other", "app=x", spread_by_foo),
        // Those that the service and the controller pick, of which there are none.
        (GroupKind::ReplicaSet, "set", "bar", [100; 4]),
        (GroupKind::ReplicaSet, "set", "foo", spread_by_foo),
    ] {
        cluster.set_group(group(kind, name, selector));
        assert_eq!(
            scores(&usual(), &cluster, pod),
            expected,
            "{name} {selector}"
        );
    }
    cluster.remove_group(&group(GroupKind::Service, "service", "").key);
    assert_eq!(scores(&usual(), &cluster, pod), spread_by_foo);
    cluster.remove_group(&group(GroupKind::ReplicaSet, "set", "").key);
    assert_eq!(scores(&usual(), &cluster, pod), [0; 4]);
}

#[test]
fn default_constraints_can_be_hard() {
    let own = pod(
        "d",
        json!({}),
        json!({"topologySpreadConstraints": [constraint("zone", 1)]}),
    );
    let plugin = PodTopologySpread::new(DefaultConstraints::List(own.spread.to_vec()));
    let mut cluster = cluster(four_nodes(), spread([2, 1, 0, 1]));
    for key in plugin.topology_keys() {
        cluster.learn_topology(key);
    }
    let pod = comes(&mut cluster, json!({"foo": ""}), json!({}));
    assert_eq!(verdicts(&plugin, &cluster, pod).unwrap(), [""; 4]);
    cluster.set_group(group(GroupKind::Service, "s", "foo="));
    assert_eq!(verdicts(&plugin, &cluster, pod).unwrap(), [NO, NO, "", ""]);
    let slot = cluster.pods().get(pod).unwrap();
    for (namespace, expected) in [("default", true), ("other", false)] {
        let event = Event::GroupChanged { namespace };
        assert_eq!(plugin.may_help(&event, slot, &cluster), expected);
    }
}

#[test]
fn what_changes_the_counts_may_help() {
    let mut cluster = cluster(four_nodes(), []);
    let spec = json!({"topologySpreadConstraints": [constraint("zone", 1)]});
    let waiting = comes(&mut cluster, json!({"foo": ""}), spec);
    let helps = |cluster: &Cluster, event: Event<'_>| {
        let slot = cluster.pods().get(waiting).unwrap();
        usual().may_help(&event, slot, cluster)
    };
    for (label, expected) in [("foo", true), ("bar", false)] {
        let other = come(
            &mut cluster,
            pod("o", json!({label: ""}), json!({"nodeName": "a"})),
        );
        assert_eq!(helps(&cluster, Event::PodPlaced(other)), expected);
        let departed = cluster.remove_pod("default/o").unwrap();
        assert_eq!(helps(&cluster, Event::PodLeft(&departed)), expected);
    }
    let (here, there, nowhere) = (
        node_with("a", json!({"labels": {"zone": "zone1", "x": "y"}})),
        node_with("a", json!({"labels": {"zone": "zone9"}})),
        node_with("a", json!({})),
    );
    let node = id(&cluster, "a");
    assert!(helps(&cluster, Event::NodeAdded(node)));
    for (before, changed, left) in [
        (&here, false, true),
        (&there, true, true),
        (&nowhere, true, false),
    ] {
        assert_eq!(
            helps(&cluster, Event::NodeChanged { node, before }),
            changed,
            "{before:?}"
        );
        assert_eq!(
            helps(&cluster, Event::NodeLeft { before }),
            left,
            "{before:?}"
        );
    }
}
