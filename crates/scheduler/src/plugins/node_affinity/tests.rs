use serde_json::{Value, json};

use super::*;
use crate::model::Pod;
use crate::plugins::testing::{
    add_pod, cluster, filter_results, node_id, node_with, pod, rejection_detail, scores,
};

const NO: &str = "!node(s) didn't match Pod's node affinity/selector";
const NOT_ENFORCED: &str = "!node(s) didn't match scheduler-enforced node affinity";

fn with_labels(name: &str, labels: Value) -> Node {
    node_with(name, json!({ "labels": labels }))
}

fn requiring(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
    }}})
}

fn wanting(spec: Value) -> Pod {
    pod("p", json!({}), spec)
}

fn expressions(key: &str, operator: &str, values: Value) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

#[test]
fn nodes_are_matched_by_labels_and_names() {
    for (spec, expected) in [
        (json!({}), ""),
        (json!({"nodeSelector": {"foo": "bar"}}), ""),
        (json!({"nodeSelector": {"foo": "bar", "baz": "blah"}}), NO),
        (json!({"nodeSelector": {}}), ""),
        (
            requiring(json!([expressions("foo", "In", json!(["bar", "value2"]))])),
            "",
        ),
        (
            requiring(json!([expressions("foo", "NotIn", json!(["bar"]))])),
            NO,
        ),
        (
            requiring(json!([expressions("other", "NotIn", json!(["bar"]))])),
            "",
        ),
        (
            requiring(json!([expressions("kernel", "Gt", json!(["0204"]))])),
            "",
        ),
        (
            requiring(json!([expressions("kernel", "Lt", json!(["0204"]))])),
            NO,
        ),
        (
            requiring(json!([expressions("foo", "Exists", json!(null))])),
            "",
        ),
        (
            requiring(json!([expressions("foo", "DoesNotExist", json!(null))])),
            NO,
        ),
        (requiring(json!([])), NO),
        (requiring(json!([{}])), NO),
        (
            requiring(json!([{}, expressions("foo", "Exists", json!(null))])),
            "",
        ),
        (
            requiring(json!([
                expressions("foo", "In", json!(["x"])),
                expressions("kernel", "Exists", json!(null)),
            ])),
            "",
        ),
        (
            requiring(json!([{"matchExpressions": [
                {"key": "foo", "operator": "Exists"}, {"key": "x", "operator": "Exists"},
            ]}])),
            NO,
        ),
        (
            requiring(
                json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]),
            ),
            "",
        ),
        (
            requiring(
                json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]),
            ),
            "-",
        ),
        (
            requiring(
                json!([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}]),
            ),
            NO,
        ),
        (
            requiring(json!([{
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}],
                "matchExpressions": [{"key": "foo", "operator": "In", "values": ["x"]}],
            }])),
            NO,
        ),
        (
            requiring(json!([
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]},
                expressions("foo", "In", json!(["bar"])),
            ])),
            "",
        ),
    ] {
        let labels = json!({"foo": "bar", "kernel": "0206"});
        let mut cluster = cluster([with_labels("a", labels)], []);
        let pod = add_pod(&mut cluster, wanting(spec.clone()));
        let plugin = NodeAffinity::default();
        let results = filter_results(&plugin, &cluster, pod).unwrap();
        assert_eq!(results, [expected], "{spec}");
    }
}

#[test]
fn contradicting_name_requirements_match_no_node() {
    let is = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
    let mut cluster = cluster(
        [with_labels("a", json!({})), with_labels("b", json!({}))],
        [],
    );
    let both = requiring(json!([{"matchFields": [is("a"), is("b")]}]));
    let pod = add_pod(&mut cluster, wanting(both));
    let plugin = NodeAffinity::default();
    let rejection = filter_results(&plugin, &cluster, pod).unwrap_err();
    assert_eq!(rejection.reason, "pod affinity terms conflict");
}

fn selector(spec: Value) -> Arc<NodeSelector> {
    wanting(spec).node_selector
}

#[test]
fn the_profiles_added_affinity_is_checked_first() {
    let added = AddedAffinity {
        required: Some(selector(requiring(json!([expressions(
            "zone",
            "In",
            json!(["bar"])
        )])))),
        preferred: Arc::default(),
    };
    let nodes = [
        with_labels("a", json!({"zone": "bar"})),
        with_labels("b", json!({"zone": "bar", "disk": "ssd"})),
        with_labels("c", json!({"zone": "foo", "disk": "ssd"})),
    ];
    for (spec, expected) in [
        (json!({}), ["", "", NOT_ENFORCED]),
        (
            json!({"nodeSelector": {"disk": "ssd"}}),
            [NO, "", NOT_ENFORCED],
        ),
    ] {
        let mut cluster = cluster(nodes.clone(), []);
        let pod = add_pod(&mut cluster, wanting(spec));
        let plugin = NodeAffinity::new(added.clone());
        assert_eq!(filter_results(&plugin, &cluster, pod).unwrap(), expected);
        let c = rejection_detail(&plugin, &cluster, pod, "c");
        assert_eq!(c, "requires zone in (bar), but the node has zone=foo");
    }
}

fn preferring(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}})
}

#[test]
fn weights_of_preferred_terms_are_summed() {
    let nodes = [
        with_labels("a", json!({"foo": "bar"})),
        with_labels("b", json!({"key": "value"})),
        with_labels("c", json!({"foo": "bar", "key": "value", "az": "az1"})),
    ];
    let one = json!([{"weight": 2, "preference": expressions("foo", "In", json!(["bar"]))}]);
    let three = json!([
        {"weight": 2, "preference": expressions("foo", "In", json!(["bar"]))},
        {"weight": 4, "preference": expressions("key", "In", json!(["value"]))},
        {"weight": 5, "preference": {"matchExpressions": [
            {"key": "foo", "operator": "In", "values": ["bar"]},
            {"key": "key", "operator": "In", "values": ["value"]},
            {"key": "az", "operator": "In", "values": ["az1"]},
        ]}},
    ]);
    let no_node = json!([{"weight": 2, "preference": expressions("foo", "In", json!(["x"]))}]);
    let added = wanting(preferring(json!([
        {"weight": 3, "preference": expressions("key", "Exists", json!(null))},
    ])));
    for (terms, added, expected) in [
        (json!([]), None, [0, 0, 0]),
        (one.clone(), None, [100, 0, 100]),
        (three, None, [18, 36, 100]),
        (no_node, None, [0, 0, 0]),
        (json!([{"weight": 3, "preference": {}}]), None, [0, 0, 0]),
        (one, Some(&added), [40, 60, 100]),
        (json!([]), Some(&added), [0, 100, 100]),
    ] {
        let mut cluster = cluster(nodes.clone(), []);
        let pod = add_pod(&mut cluster, wanting(preferring(terms.clone())));
        let plugin = NodeAffinity::new(AddedAffinity {
            required: None,
            preferred: added.map_or_else(Arc::default, |added| added.preferred_nodes.clone()),
        });
        assert_eq!(scores(&plugin, &cluster, pod), expected, "{terms}");
    }
}

#[test]
fn hints_on_nodes_that_now_match() {
    let (other, same) = (
        with_labels("a", json!({"foo": "bar", "x": "1"})),
        with_labels("a", json!({"foo": "baz"})),
    );
    let mut cluster = cluster([other.clone()], []);
    let pod = add_pod(
        &mut cluster,
        wanting(json!({"nodeSelector": {"foo": "bar"}})),
    );
    let slot = cluster.pods().get(pod).unwrap();
    let node = node_id(&cluster, "a");
    let plugin = NodeAffinity::default();
    for (event, requeues) in [
        (ClusterEvent::NodeAdded(node), true),
        (ClusterEvent::NodeUpdated { node, old: &same }, true),
        (ClusterEvent::NodeUpdated { node, old: &other }, false),
        (
            ClusterEvent::PendingPodUpdated {
                old: &wanting(json!({})),
            },
            true,
        ),
        (ClusterEvent::PendingPodUpdated { old: &slot.pod }, false),
    ] {
        assert_eq!(
            plugin.queueing_hint(&event, slot, &cluster),
            requeues,
            "{event:?}"
        );
    }
}
