//! Nodes that fall silent and come back, and what their taints do to pods.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::make::{object, pod_spec};
use crate::support::Server;
use crate::waiting::{found, until};

/// A node as its kubelet would register it.
pub(crate) async fn create_node(client: &Client, name: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let node: Node = object(json!({"metadata": {"name": name}}));
    let created = nodes.create(&PostParams::default(), &node).await;
    created.expect("a node");
    say(client, name, &[("Ready", "True")]).await;
}

/// What a kubelet says of its node.
pub(crate) async fn say(client: &Client, node: &str, conditions: &[(&str, &str)]) {
    let now = Timestamp::now().strftime("%FT%TZ").to_string();
    let condition = |&(type_, status): &(&str, &str)| {
        json!({
            "type": type_,
            "status": status,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
            "reason": "Said",
            "message": "",
        })
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
    let nodes: Api<Node> = Api::all(client.clone());
    let said = nodes
        .patch_status(node, &PatchParams::default(), &patch)
        .await;
    said.expect("a status");
}

/// Renews the lease of a node for as long as it is polled, and says that it is ready: on a busy machine it may have
/// been taken for lost meanwhile.
async fn keep_alive(client: &Client, node: &str) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let lease: Lease =
        object(json!({"metadata": {"name": node}, "spec": {"holderIdentity": node}}));
    let created = leases.create(&PostParams::default(), &lease).await;
    created.expect("a lease");
    loop {
        let now = MicroTime(Timestamp::now());
        let patch = Patch::Merge(json!({"spec": {"renewTime": now}}));
        let renewed = leases.patch(node, &PatchParams::default(), &patch).await;
        renewed.expect("a renewal");
        say(client, node, &[("Ready", "True")]).await;
        sleep(Duration::from_millis(300)).await;
    }
}

pub(crate) async fn create_pod(client: &Client, name: &str, spec: Value) -> Api<Pod> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": pod_spec(),
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    let created = pods.create(&PostParams::default(), &object(pod)).await;
    created.expect("a pod");
    pods
}

pub(crate) async fn set_pod_status(pods: &Api<Pod>, name: &str, status: Value) {
    let patch = Patch::Strategic(json!({"status": status}));
    let said = pods
        .patch_status(name, &PatchParams::default(), &patch)
        .await;
    said.expect("a status");
}

pub(crate) async fn set_taints(client: &Client, node: &str, taints: Value) {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
    let tainted = nodes.patch(node, &PatchParams::default(), &patch).await;
    tainted.expect("a taint");
}

/// Its taints as key:effect, in order, without what their keys have in common.
fn taints(node: &Node) -> Vec<String> {
    let spec = node.spec.as_ref();
    let taints = spec.and_then(|spec| spec.taints.as_ref());
    let text = |taint: &k8s_openapi::api::core::v1::Taint| {
        let key = taint.key.trim_start_matches("node.kubernetes.io/");
        format!("{key}:{}", taint.effect)
    };
    let mut taints: Vec<String> = taints.into_iter().flatten().map(text).collect();
    taints.sort();
    taints
}

async fn until_tainted(nodes: &Api<Node>, name: &str, expect: &[&str]) -> Node {
    found(nodes, name, |node| taints(node) == expect).await
}

/// How many events have this reason and message.
async fn count_told(client: &Client, reason: &str, message: &str) -> usize {
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let is_it = |event: &&Event| {
        event.reason.as_deref() == Some(reason) && event.message.as_deref() == Some(message)
    };
    let told = events.list(&ListParams::default()).await.expect("a list");
    told.items.iter().filter(is_it).count()
}

/// Waits for an event with this reason and message.
async fn until_told(client: &Client, reason: &str, message: &str) {
    until(message, async || {
        (count_told(client, reason, message).await > 0).then_some(())
    })
    .await;
}

fn pod_condition<'a>(pod: &'a Pod, type_: &str) -> Option<(&'a str, &'a str)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|own| own.type_ == type_)?;
    Some((
        &condition.status,
        condition.reason.as_deref().unwrap_or_default(),
    ))
}

#[tokio::test]
async fn a_silent_node_is_unreachable_until_it_comes_back() {
    let server = Server::start_with(&["--node-monitor-grace-period", "2s"]);
    let client = server.client().await;
    create_node(&client, "silent").await;
    create_node(&client, "well").await;
    let test = async {
        let nodes: Api<Node> = Api::all(client.clone());
        let pods = create_pod(&client, "p", json!({"nodeName": "silent"})).await;
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        set_pod_status(&pods, "p", ready).await;
        let lost = until_tainted(
            &nodes,
            "silent",
            &["unreachable:NoExecute", "unreachable:NoSchedule"],
        )
        .await;
        let spec = lost.spec.expect("a spec");
        let taints = spec.taints.expect("taints");
        assert!(taints.iter().all(|taint| taint.time_added.is_some()));
        let said = lost.status.and_then(|status| status.conditions);
        let said: Vec<_> = said
            .into_iter()
            .flatten()
            .map(|condition| (condition.type_, condition.status, condition.reason))
            .collect();
        let unknown = |type_: &str, reason: &str| {
            let reason = Some(reason.to_owned());
            (type_.to_owned(), "Unknown".to_owned(), reason)
        };
        assert_eq!(
            said,
            [
                unknown("Ready", "NodeStatusUnknown"),
                unknown("MemoryPressure", "NodeStatusNeverUpdated"),
                unknown("DiskPressure", "NodeStatusNeverUpdated"),
                unknown("PIDPressure", "NodeStatusNeverUpdated"),
            ]
        );
        found(&pods, "p", |pod| {
            pod_condition(pod, "Ready").is_some_and(|(status, _)| status == "False")
        })
        .await;
        let message = "Node silent status is now: NodeNotReady";
        until_told(&client, "NodeNotReady", message).await;
        until_told(&client, "NodeNotReady", "Node is not ready").await;
        until_tainted(&nodes, "well", &[]).await;
        say(&client, "silent", &[("Ready", "True")]).await;
        until_tainted(&nodes, "silent", &[]).await;
    };
    tokio::select! {
        () = test => {}
        () = keep_alive(&client, "well") => {}
    }
}

#[tokio::test]
async fn while_all_nodes_are_silent_no_pod_has_to_go() {
    let server = Server::start_with(&["--node-monitor-grace-period", "2s"]);
    let client = server.client().await;
    create_node(&client, "lost").await;
    let nodes: Api<Node> = Api::all(client.clone());
    until_tainted(&nodes, "lost", &["unreachable:NoSchedule"]).await;
    // All nodes are looked at twice a second: each look could be the one at which its pods have to go.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        let lost = nodes.get("lost").await.expect("a node");
        assert_eq!(taints(&lost), ["unreachable:NoSchedule"]);
        sleep(Duration::from_millis(50)).await;
    }
    create_node(&client, "well").await;
    let test = async {
        let taints = ["unreachable:NoExecute", "unreachable:NoSchedule"];
        until_tainted(&nodes, "lost", &taints).await;
    };
    tokio::select! {
        () = test => {}
        () = keep_alive(&client, "well") => {}
    }
}

#[tokio::test]
async fn new_pods_are_kept_away_from_nodes_in_trouble() {
    let server = Server::start_with(&[]);
    let client = server.client().await;
    create_node(&client, "n").await;
    let nodes: Api<Node> = Api::all(client.clone());
    set_taints(
        &client,
        "n",
        json!([{"key": "mine", "effect": "NoSchedule"}]),
    )
    .await;
    let trouble = [
        ("Ready", "False"),
        ("MemoryPressure", "True"),
        ("NetworkUnavailable", "True"),
    ];
    say(&client, "n", &trouble).await;
    let patch = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    let params = PatchParams::default();
    nodes.patch("n", &params, &patch).await.expect("a cordon");
    until_tainted(
        &nodes,
        "n",
        &[
            "memory-pressure:NoSchedule",
            "mine:NoSchedule",
            "network-unavailable:NoSchedule",
            "not-ready:NoSchedule",
            "unschedulable:NoSchedule",
        ],
    )
    .await;
    let well = trouble.map(|(type_, _)| (type_, if type_ == "Ready" { "True" } else { "False" }));
    say(&client, "n", &well).await;
    let patch = Patch::Merge(json!({"spec": {"unschedulable": null}}));
    nodes.patch("n", &params, &patch).await.expect("no cordon");
    until_tainted(&nodes, "n", &["mine:NoSchedule"]).await;
}

#[tokio::test]
async fn pods_leave_nodes_whose_taints_they_do_not_tolerate() {
    let server = Server::start_with(&[]);
    let client = server.client().await;
    create_node(&client, "n").await;
    let bears = |seconds: Option<i64>| {
        json!({"nodeName": "n", "tolerations": [
            {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds},
        ]})
    };
    let pods = create_pod(&client, "now", json!({"nodeName": "n"})).await;
    create_pod(&client, "soon", bears(Some(2))).await;
    create_pod(&client, "late", bears(Some(3600))).await;
    create_pod(&client, "ever", bears(Some(9_223_372_036_854_775_807))).await;
    create_pod(&client, "never", bears(None)).await;
    set_taints(&client, "n", json!([{"key": "k", "effect": "NoExecute"}])).await;
    for name in ["now", "soon"] {
        let going = found(&pods, name, |pod| pod.metadata.deletion_timestamp.is_some()).await;
        assert_eq!(
            pod_condition(&going, "DisruptionTarget"),
            Some(("True", "DeletionByTaintManager")),
        );
    }
    let reason = "TaintManagerEviction";
    until_told(&client, reason, "Marking for deletion Pod default/now").await;
    // A pod that comes to a tainted node later is treated alike.
    create_pod(&client, "later", json!({"nodeName": "n"})).await;
    until_told(&client, reason, "Marking for deletion Pod default/later").await;
    set_taints(&client, "n", json!(null)).await;
    until_told(&client, reason, "Cancelling deletion of Pod default/late").await;
    for name in ["ever", "late", "never"] {
        let pod = pods.get(name).await.expect("it stays");
        assert_eq!(pod.metadata.deletion_timestamp, None);
    }
    for name in ["now", "soon", "later"] {
        let message = format!("Marking for deletion Pod default/{name}");
        assert_eq!(count_told(&client, reason, &message).await, 1, "{name}");
    }
}
