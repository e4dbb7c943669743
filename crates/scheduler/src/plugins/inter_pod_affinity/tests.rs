use serde_json::{Value, json};

use super::*;
use crate::cluster::PodUpsertResult;
use crate::model::{Node, Pod};
use crate::plugins::testing::{
    add_pod, cluster, filter_results, node_id, node_with, pod_in, rejection_detail,
};

const ZONE: &str = "zone";

fn in_zone(name: &str, zone: &str) -> Node {
    node_with(name, json!({"labels": {"zone": zone, "host": name}}))
}

fn term(kind: &str, key: &str, app: &str, namespaces: Value) -> Value {
    let mut term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
    if !namespaces.is_null() {
        term["namespaceSelector"] = namespaces;
    }
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn away_from(app: &str) -> Value {
    term("podAntiAffinity", ZONE, app, json!(null))
}

fn near(app: &str) -> Value {
    term("podAffinity", ZONE, app, json!(null))
}

fn named(name: &str, app: &str, spec: Value) -> Pod {
    pod_in("default", name, json!({ "app": app }), spec)
}

fn on(mut pod: Pod, node: &str) -> Pod {
    pod.node_name = Some(node.into());
    pod
}

#[test]
fn the_detail_names_the_conflicting_pod_or_the_unmet_term() {
    let plugin = InterPodAffinity::default();
    for (spec, there, expected) in [
        (
            near("web"),
            named("there", "other", json!({})),
            "no pod matching the affinity (app=web in namespace default) is in zone=z1",
        ),
        (
            term("podAffinity", "rack", "other", json!(null)),
            named("there", "other", json!({})),
            "the node has no label rack",
        ),
        (
            away_from("db"),
            named("there", "db", json!({})),
            "pod default/there in zone=z1 matches the pod's anti-affinity (app=db in namespace default)",
        ),
        (
            json!({}),
            named("there", "db", away_from("me")),
            "pod default/there in zone=z1 has an anti-affinity that matches the pod (app=me in namespace default)",
        ),
    ] {
        let mut cluster = cluster([in_zone("a", "z1"), in_zone("b", "z1")], [on(there, "b")]);
        let pod = add_pod(&mut cluster, named("p", "me", spec));
        assert_eq!(rejection_detail(&plugin, &cluster, pod, "a"), expected);
    }
}

/// The plugin's queueing hint for a pod and an event.
fn hint(cluster: &ClusterState, pod: crate::cluster::PodId, event: ClusterEvent<'_>) -> bool {
    let slot = cluster.pods().get(pod).unwrap();
    InterPodAffinity::default().queueing_hint(&event, slot, cluster)
}

#[test]
fn hints_on_pod_addition_and_deletion() {
    for (app, spec, other, placed, left) in [
        ("me", near("web"), named("o", "web", json!({})), true, false),
        ("me", near("web"), named("o", "db", json!({})), false, false),
        // The pod matches its own affinity: once the last match is deleted it may go anywhere.
        ("web", near("web"), named("o", "web", json!({})), true, true),
        (
            "me",
            away_from("db"),
            named("o", "db", json!({})),
            false,
            true,
        ),
        (
            "me",
            away_from("db"),
            named("o", "web", json!({})),
            false,
            false,
        ),
        (
            "me",
            json!({}),
            named("o", "db", away_from("me")),
            false,
            true,
        ),
        (
            "me",
            json!({}),
            named("o", "db", away_from("you")),
            false,
            false,
        ),
        (
            "me",
            term(
                "podAntiAffinity",
                ZONE,
                "db",
                json!({"matchLabels": {"team": "x"}}),
            ),
            pod_in("team", "o", json!({"app": "db"}), json!({})),
            false,
            true,
        ),
        (
            "me",
            term(
                "podAffinity",
                ZONE,
                "db",
                json!({"matchLabels": {"team": "x"}}),
            ),
            pod_in("team", "o", json!({"app": "db"}), json!({})),
            true,
            false,
        ),
    ] {
        let mut cluster = cluster([in_zone("a", "z1")], []);
        cluster.set_namespace("team", [("team", "x")].into_iter().collect());
        let pod = add_pod(&mut cluster, named("p", app, spec.clone()));
        let uid = other.uid.clone();
        let other = add_pod(&mut cluster, on(other, "a"));
        assert_eq!(
            hint(&cluster, pod, ClusterEvent::AssignedPodAdded(other)),
            placed,
            "{spec}"
        );
        let removed = cluster.remove_pod(&uid).unwrap();
        assert_eq!(
            hint(&cluster, pod, ClusterEvent::AssignedPodDeleted(&removed)),
            left,
            "{spec}"
        );
    }
}

#[test]
fn hints_on_pod_label_changes() {
    for (spec, old, new, expected) in [
        (near("web"), "db", "web", true),
        (near("web"), "web", "db", false),
        (near("me"), "me", "db", true),
        (away_from("db"), "db", "web", true),
        (away_from("db"), "web", "db", false),
        (away_from("db"), "web", "api", false),
    ] {
        let mut cluster = cluster([in_zone("a", "z1")], []);
        let pod = add_pod(&mut cluster, named("p", "me", spec.clone()));
        add_pod(&mut cluster, on(named("o", old, json!({})), "a"));
        let change = cluster.set_pod(on(named("o", new, json!({})), "a"));
        let PodUpsertResult::Updated {
            id: other,
            old_pod,
            old_matched_by,
            ..
        } = change
        else {
            panic!("expected PodChange::Changed, got {change:?}");
        };
        let event = ClusterEvent::AssignedPodUpdated {
            pod: other,
            old: &old_pod,
            old_matched_by: &old_matched_by,
        };
        assert_eq!(hint(&cluster, pod, event), expected, "{spec} {old} {new}");
    }
}

#[test]
fn hints_on_namespace_label_changes() {
    let team = json!({"matchLabels": {"team": "x"}});
    for (spec, other_spec, namespace, expected) in [
        (
            term("podAffinity", ZONE, "db", team.clone()),
            json!({}),
            "other",
            true,
        ),
        (
            term("podAntiAffinity", ZONE, "db", team.clone()),
            json!({}),
            "other",
            true,
        ),
        (near("db"), json!({}), "other", false),
        (
            json!({}),
            term("podAntiAffinity", ZONE, "me", team.clone()),
            "default",
            true,
        ),
        (
            json!({}),
            term("podAntiAffinity", ZONE, "me", team.clone()),
            "other",
            false,
        ),
    ] {
        let mut cluster = cluster([in_zone("a", "z1")], []);
        let pod = add_pod(&mut cluster, named("p", "me", spec.clone()));
        add_pod(
            &mut cluster,
            on(pod_in("other", "o", json!({"app": "db"}), other_spec), "a"),
        );
        let labels = [("team", "x")].into_iter().collect();
        let matchers = cluster.set_namespace(namespace, labels);
        let event = ClusterEvent::NamespaceRelabelled {
            namespace,
            matchers: &matchers,
        };
        assert_eq!(hint(&cluster, pod, event), expected, "{spec} {namespace}");
    }
}

#[test]
fn hints_on_node_changes_require_the_topology_label() {
    let plain = || node_with("a", json!({}));
    for (spec, there, added, moved, left) in [
        (near("web"), json!({}), true, true, true),
        (
            term("podAffinity", "rack", "web", json!(null)),
            json!({}),
            false,
            false,
            false,
        ),
        (away_from("db"), json!({}), true, true, true),
        (json!({}), away_from("me"), true, true, true),
        (json!({}), json!({}), true, false, false),
    ] {
        let mut cluster = cluster([in_zone("a", "z1"), in_zone("b", "z2")], []);
        let pod = add_pod(&mut cluster, named("p", "me", spec.clone()));
        add_pod(&mut cluster, on(named("o", "db", there), "b"));
        let node = node_id(&cluster, "a");
        assert_eq!(
            hint(&cluster, pod, ClusterEvent::NodeAdded(node)),
            added,
            "{spec}"
        );
        let old = plain();
        let event = ClusterEvent::NodeUpdated { node, old: &old };
        assert_eq!(hint(&cluster, pod, event), moved, "{spec}");
        let old = in_zone("c", "z3");
        assert_eq!(
            hint(&cluster, pod, ClusterEvent::NodeDeleted { old: &old }),
            left,
            "{spec}"
        );
    }
}

#[test]
fn namespace_selectors_support_negative_operators() {
    const NO: &str = "node(s) didn't match pod anti-affinity rules";
    for (selector, expected) in [
        (
            json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}),
            "",
        ),
        (
            json!({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}),
            "",
        ),
        (
            json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]}),
            NO,
        ),
        (json!({}), NO),
    ] {
        let other = pod_in("other", "o", json!({"app": "db"}), json!({}));
        let mut cluster = cluster([in_zone("a", "z1")], [on(other, "a")]);
        cluster.set_namespace("other", [("team", "x")].into_iter().collect());
        let spec = term("podAntiAffinity", ZONE, "db", selector.clone());
        let pod = add_pod(&mut cluster, named("p", "me", spec));
        let results = filter_results(&InterPodAffinity::default(), &cluster, pod).unwrap();
        assert_eq!(results, [expected], "{selector}");
    }
}
