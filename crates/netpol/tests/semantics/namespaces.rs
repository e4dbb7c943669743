//! Namespace labels, and namespaces that are created and deleted.

use serde_json::{Value, json};

use crate::cluster::{ClusterHarness, two_by_two};
use crate::objects::{app, expression, ingress, namespace, pod};

fn from_namespaces(selector: Value) -> ClusterHarness {
    two_by_two().with(ingress(
        "a/p",
        json!([{"from": [{"namespaceSelector": selector}]}]),
    ))
}

fn named(name: &str) -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": name}})
}

#[test]
fn every_namespace_has_its_name_label() {
    let mut cluster = from_namespaces(named("b"));
    cluster.allows(&["b/x -> a/x:80/TCP"]);
    cluster.denies(&["a/y -> a/x:80/TCP"]);
    let mut cluster = from_namespaces(expression(
        "kubernetes.io/metadata.name",
        "NotIn",
        &["b", "c"],
    ));
    cluster.allows(&["a/y -> a/x:80/TCP"]);
    cluster.denies(&["b/x -> a/x:80/TCP"]);
}

#[test]
fn a_namespace_cannot_forge_its_name_label() {
    let forged = namespace("b", json!({"kubernetes.io/metadata.name": "c"}));
    let mut cluster = from_namespaces(named("c")).with(forged.clone());
    cluster.denies(&["b/x -> a/x:80/TCP"]);
    let mut cluster = from_namespaces(named("b")).with(forged);
    cluster.allows(&["b/x -> a/x:80/TCP"]);
}

#[test]
fn an_unknown_namespace_has_only_its_name_label() {
    let with_c =
        |selector: Value| from_namespaces(selector).with(pod("c/x", "10.0.3.1", json!({})));
    with_c(named("c")).allows(&["c/x -> a/x:80/TCP"]);
    with_c(expression("team", "DoesNotExist", &[])).allows(&["c/x -> a/x:80/TCP"]);
    with_c(expression("team", "Exists", &[])).denies(&["c/x -> a/x:80/TCP"]);
    with_c(json!({})).allows(&["c/x -> a/x:80/TCP"]);
}

#[test]
fn a_namespace_added_after_its_pods_is_selected_by_its_labels() {
    let mut cluster = from_namespaces(json!({"matchLabels": {"team": "green"}})).with(pod(
        "c/x",
        "10.0.3.1",
        json!({}),
    ));
    cluster.denies(&["c/x -> a/x:80/TCP"]);
    cluster.set(namespace("c", json!({"team": "green"})));
    cluster.allows(&["c/x -> a/x:80/TCP"]);
}

#[test]
fn a_relabelled_namespace_is_selected_by_its_new_labels_only() {
    let mut cluster = from_namespaces(json!({"matchLabels": {"team": "blue"}}));
    cluster.allows(&["b/x -> a/x:80/TCP", "b/y -> a/x:80/TCP"]);
    cluster.set(namespace("b", json!({"team": "green"})));
    cluster.denies(&["b/x -> a/x:80/TCP", "b/y -> a/x:80/TCP"]);
    cluster.set(namespace("a", json!({"team": "blue"})));
    cluster.allows(&["a/y -> a/x:80/TCP"]);
}

#[test]
fn a_deleted_namespace_loses_all_labels_but_its_name() {
    let mut cluster = from_namespaces(json!({"matchLabels": {"team": "blue"}}));
    cluster.remove_namespace("b");
    cluster.denies(&["b/x -> a/x:80/TCP"]);
    let mut cluster = from_namespaces(named("b"));
    cluster.remove_namespace("b");
    cluster.allows(&["b/x -> a/x:80/TCP"]);
}

#[test]
fn pods_of_a_deleted_namespace_stay_isolated() {
    let mut cluster = from_namespaces(named("a"));
    cluster.remove_namespace("a");
    cluster.denies(&["b/x -> a/x:80/TCP", "b/x -> a/y:80/TCP"]);
    cluster.remove_pod("a/x");
    cluster.denies(&["b/x -> a/y:80/TCP"]);
    cluster.allows(&["b/x -> 10.0.1.1:80/TCP"]);
}

#[test]
fn equal_policy_names_in_two_namespaces_are_distinct() {
    let mut cluster = two_by_two().with(ingress("a/p", json!([]))).with(ingress(
        "b/p",
        json!([{"from": [{"podSelector": app("y")}]}]),
    ));
    cluster.denies(&["a/y -> a/x:80/TCP", "a/y -> b/x:80/TCP"]);
    cluster.allows(&["b/y -> b/x:80/TCP"]);
    cluster.remove_policy("a/p");
    cluster.allows(&["a/y -> a/x:80/TCP"]);
    cluster.denies(&["a/y -> b/x:80/TCP"]);
}

#[test]
fn pod_and_namespace_labels_are_matched_separately() {
    let labels = json!({"metadata": {"labels": {"team": "blue"}}});
    let mut cluster = from_namespaces(json!({"matchLabels": {"team": "blue"}})).with(pod(
        "a/z",
        "10.0.1.3",
        labels.clone(),
    ));
    cluster.denies(&["a/z -> a/x:80/TCP"]);
    let mut cluster = two_by_two()
        .with(pod("a/z", "10.0.1.3", labels))
        .with(namespace("a", json!({"app": "z"})))
        .with(ingress(
            "a/p",
            json!([{"from": [{"podSelector": {"matchLabels": {"team": "blue", "app": "z"}}}]}]),
        ));
    cluster.allows(&["a/z -> a/x:80/TCP"]);
    cluster.denies(&["a/y -> a/x:80/TCP"]);
}

#[test]
fn objects_without_a_namespace_are_in_the_default_namespace() {
    let without = |mut object: Value| {
        object["metadata"]["namespace"] = Value::Null;
        object
    };
    let mut cluster = two_by_two()
        .with(without(pod("default/z", "10.0.9.1", json!({}))))
        .with(without(ingress("default/p", json!([]))));
    cluster.denies(&["a/x -> default/z:80/TCP"]);
    cluster.set(ingress("default/p", json!([{}])));
    cluster.allows(&["a/x -> default/z:80/TCP"]);
}
