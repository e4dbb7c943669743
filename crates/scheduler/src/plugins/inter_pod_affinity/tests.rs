use serde_json::{Value, json};

use super::*;
use crate::cluster::PodChange;
use crate::model::{Node, Pod};
use crate::plugins::testing::{cluster, come, detail, id, node_with, pod_in, verdicts};

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
fn it_is_said_who_stands_in_the_way() {
    let plugin = InterPodAffinity::default();
    for (spec, there, expected) in [
        (
            near("web"),
            named("there", "other", json!({})),
            "no pod that the affinity is about (app=web) is in zone=z1",
        ),
        (
            term("podAffinity", "rack", "other", json!(null)),
            named("there", "other", json!({})),
            "the node has no label rack",
        ),
        (
            away_from("db"),
            named("there", "db", json!({})),
            "pod default/there is in zone=z1, and the pod's anti-affinity is about it (app=db)",
        ),
        (
            json!({}),
            named("there", "db", away_from("me")),
            "pod default/there is in zone=z1, and its anti-affinity is about this pod (app=me)",
        ),
    ] {
        let mut cluster = cluster([in_zone("a", "z1"), in_zone("b", "z1")], [on(there, "b")]);
        let pod = come(&mut cluster, named("p", "me", spec));
        assert_eq!(detail(&plugin, &cluster, pod, "a"), expected);
    }
}

/// Whether something helps a pod, told by what it is to do with another.
fn helps(cluster: &Cluster, pod: crate::cluster::PodId, event: Event<'_>) -> bool {
    let slot = cluster.pods().get(pod).unwrap();
    InterPodAffinity::default().may_help(&event, slot, cluster)
}

#[test]
fn pods_that_come_and_go_help_those_whom_they_concern() {
    for (app, spec, other, placed, left) in [
        ("me", near("web"), named("o", "web", json!({})), true, false),
        ("me", near("web"), named("o", "db", json!({})), false, false),
        // The first of its kind may go anywhere, once the last of them is gone.
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
        let pod = come(&mut cluster, named("p", app, spec.clone()));
        let uid = other.uid.clone();
        let other = come(&mut cluster, on(other, "a"));
        assert_eq!(
            helps(&cluster, pod, Event::PodPlaced(other)),
            placed,
            "{spec}"
        );
        let departed = cluster.remove_pod(&uid).unwrap();
        assert_eq!(
            helps(&cluster, pod, Event::PodLeft(&departed)),
            left,
            "{spec}"
        );
    }
}

#[test]
fn pods_that_are_relabelled_help_those_whom_they_concern() {
    for (spec, before, after, expected) in [
        (near("web"), "db", "web", true),
        (near("web"), "web", "db", false),
        (near("me"), "me", "db", true),
        (away_from("db"), "db", "web", true),
        (away_from("db"), "web", "db", false),
        (away_from("db"), "web", "api", false),
    ] {
        let mut cluster = cluster([in_zone("a", "z1")], []);
        let pod = come(&mut cluster, named("p", "me", spec.clone()));
        come(&mut cluster, on(named("o", before, json!({})), "a"));
        let change = cluster.set_pod(on(named("o", after, json!({})), "a"));
        let PodChange::Changed {
            id: other,
            before: facts,
            picked_by_before,
            ..
        } = change
        else {
            panic!("not changed: {change:?}");
        };
        let event = Event::PodChanged {
            pod: other,
            before: &facts,
            picked_by_before: &picked_by_before,
        };
        assert_eq!(
            helps(&cluster, pod, event),
            expected,
            "{spec} {before} {after}"
        );
    }
}

#[test]
fn namespaces_that_are_relabelled_help_those_whom_they_concern() {
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
        let pod = come(&mut cluster, named("p", "me", spec.clone()));
        come(
            &mut cluster,
            on(pod_in("other", "o", json!({"app": "db"}), other_spec), "a"),
        );
        let labels = [("team", "x")].into_iter().collect();
        let pickers = cluster.set_namespace(namespace, labels);
        let event = Event::NamespaceRelabelled {
            namespace,
            pickers: &pickers,
        };
        assert_eq!(helps(&cluster, pod, event), expected, "{spec} {namespace}");
    }
}

#[test]
fn nodes_that_come_change_and_go_help_where_they_have_the_label() {
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
        let pod = come(&mut cluster, named("p", "me", spec.clone()));
        come(&mut cluster, on(named("o", "db", there), "b"));
        let node = id(&cluster, "a");
        assert_eq!(
            helps(&cluster, pod, Event::NodeAdded(node)),
            added,
            "{spec}"
        );
        let before = plain();
        let event = Event::NodeChanged {
            node,
            before: &before,
        };
        assert_eq!(helps(&cluster, pod, event), moved, "{spec}");
        let before = in_zone("c", "z3");
        assert_eq!(
            helps(&cluster, pod, Event::NodeLeft { before: &before }),
            left,
            "{spec}"
        );
    }
}

#[test]
fn a_selector_of_namespaces_can_say_what_they_are_not() {
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
        let pod = come(&mut cluster, named("p", "me", spec));
        let said = verdicts(&InterPodAffinity::default(), &cluster, pod).unwrap();
        assert_eq!(said, [expected], "{selector}");
    }
}
