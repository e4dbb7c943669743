//! Node lifecycle: silent nodes, recovery, and taint-based eviction.

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
use crate::program::poll_until;
use crate::support::TestServer;
use crate::waiting::wait_for;

/// A node as registered by a kubelet.
pub(crate) async fn create_node(client: &Client, name: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let node: Node = object(json!({"metadata": {"name": name}}));
    let created = nodes.create(&PostParams::default(), &node).await;
    created.expect("a node");
    set_conditions(client, name, &[("Ready", "True")]).await;
}

/// Sets node conditions like a kubelet.
pub(crate) async fn set_conditions(client: &Client, node: &str, conditions: &[(&str, &str)]) {
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

/// Renews the lease of a node while polled, and sets it ready again, because on a busy machine it may have been marked
/// unknown.
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
        set_conditions(client, node, &[("Ready", "True")]).await;
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

/// The sorted taints as key:effect, without the common key prefix.
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

async fn wait_for_taints(nodes: &Api<Node>, name: &str, expect: &[&str]) -> Node {
    wait_for(nodes, name, |node| taints(node) == expect).await
}

/// The number of events with this reason and message.
async fn count_events(client: &Client, reason: &str, message: &str) -> usize {
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let is_it = |event: &&Event| {
        event.reason.as_deref() == Some(reason) && event.message.as_deref() == Some(message)
    };
    let listed = events.list(&ListParams::default()).await.expect("a list");
    listed.items.iter().filter(is_it).count()
}

/// Waits for an event with this reason and message.
async fn wait_for_event(client: &Client, reason: &str, message: &str) {
    poll_until(message, async || {
        (count_events(client, reason, message).await > 0).then_some(())
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
async fn silent_node_is_unreachable_until_it_recovers() {
    let server = TestServer::start_with(&["--node-monitor-grace-period", "2s"]);
    let client = server.client().await;
    create_node(&client, "silent").await;
    create_node(&client, "well").await;
    let test = async {
        let nodes: Api<Node> = Api::all(client.clone());
        let pods = create_pod(&client, "p", json!({"nodeName": "silent"})).await;
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        set_pod_status(&pods, "p", ready).await;
        let lost = wait_for_taints(
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
        wait_for(&pods, "p", |pod| {
            pod_condition(pod, "Ready").is_some_and(|(status, _)| status == "False")
        })
        .await;
        let message = "Node silent status is now: NodeNotReady";
        wait_for_event(&client, "NodeNotReady", message).await;
        wait_for_event(&client, "NodeNotReady", "Node is not ready").await;
        wait_for_taints(&nodes, "well", &[]).await;
        set_conditions(&client, "silent", &[("Ready", "True")]).await;
        wait_for_taints(&nodes, "silent", &[]).await;
    };
    tokio::select! {
        () = test => {}
        () = keep_alive(&client, "well") => {}
    }
}

#[tokio::test]
async fn no_pod_is_evicted_while_all_nodes_are_silent() {
    let server = TestServer::start_with(&["--node-monitor-grace-period", "2s"]);
    let client = server.client().await;
    create_node(&client, "lost").await;
    let nodes: Api<Node> = Api::all(client.clone());
    wait_for_taints(&nodes, "lost", &["unreachable:NoSchedule"]).await;
    // Nodes are checked twice a second: any check could evict the pods.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        let lost = nodes.get("lost").await.expect("a node");
        assert_eq!(taints(&lost), ["unreachable:NoSchedule"]);
        sleep(Duration::from_millis(50)).await;
    }
    create_node(&client, "well").await;
    let test = async {
        let taints = ["unreachable:NoExecute", "unreachable:NoSchedule"];
        wait_for_taints(&nodes, "lost", &taints).await;
    };
    tokio::select! {
        () = test => {}
        () = keep_alive(&client, "well") => {}
    }
}

#[tokio::test]
async fn unhealthy_nodes_get_no_schedule_taints() {
    let server = TestServer::start_with(&[]);
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
    set_conditions(&client, "n", &trouble).await;
    let patch = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    let params = PatchParams::default();
    nodes.patch("n", &params, &patch).await.expect("a cordon");
    wait_for_taints(
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
    set_conditions(&client, "n", &well).await;
    let patch = Patch::Merge(json!({"spec": {"unschedulable": null}}));
    nodes.patch("n", &params, &patch).await.expect("no cordon");
    wait_for_taints(&nodes, "n", &["mine:NoSchedule"]).await;
}

#[tokio::test]
async fn pods_are_evicted_by_untolerated_no_execute_taints() {
    let server = TestServer::start_with(&[]);
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
        let going = wait_for(&pods, name, |pod| pod.metadata.deletion_timestamp.is_some()).await;
        assert_eq!(
            pod_condition(&going, "DisruptionTarget"),
            Some(("True", "DeletionByTaintManager")),
        );
    }
    let reason = "TaintManagerEviction";
    wait_for_event(&client, reason, "Marking for deletion Pod default/now").await;
    // A pod bound later to a tainted node is evicted as well.
    create_pod(&client, "later", json!({"nodeName": "n"})).await;
    wait_for_event(&client, reason, "Marking for deletion Pod default/later").await;
    set_taints(&client, "n", json!(null)).await;
    wait_for_event(&client, reason, "Cancelling deletion of Pod default/late").await;
    for name in ["ever", "late", "never"] {
        let pod = pods.get(name).await.expect("it stays");
        assert_eq!(pod.metadata.deletion_timestamp, None);
    }
    for name in ["now", "soon", "later"] {
        let message = format!("Marking for deletion Pod default/{name}");
        assert_eq!(count_events(&client, reason, &message).await, 1, "{name}");
    }
}
