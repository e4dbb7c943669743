//! Nodes and pods for scheduler tests, and their scheduling results.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::make::object;
use crate::program::poll_until;

pub(crate) async fn make_node(client: &Client, name: &str, cpu: &str) {
    make_node_in(client, name, cpu, "zone").await;
}

pub(crate) async fn make_node_in(client: &Client, name: &str, cpu: &str, zone: &str) {
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
    let nodes: Api<Node> = Api::all(client.clone());
    let amounts = json!({"cpu": cpu, "memory": "8Gi", "pods": "110"});
    let node = object(json!({
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }));
    let created = nodes.create(&PostParams::default(), &node).await;
    created.expect("a node");
}

/// Creates a namespace and waits until pods can be created in it.
pub(crate) async fn make_namespace(client: &Client, name: &str, labels: Value) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = object(json!({"metadata": {"name": name, "labels": labels}}));
    let created = namespaces.create(&PostParams::default(), &namespace).await;
    created.expect("a namespace");
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    poll_until("an account", async || {
        accounts.get_opt("default").await.expect("a read")
    })
    .await;
}

/// A pod for any node; `more` is merged into its spec.
pub(crate) fn pod(name: &str, app: &str, more: Value) -> Pod {
    let mut spec = json!({
        "containers": [{"name": "c", "image": "i"}],
        "tolerations": [{"operator": "Exists"}],
    });
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    object(json!({"metadata": {"name": name, "labels": {"app": app}}, "spec": spec}))
}

/// Anti-affinity to pods of the same app on a node.
pub(crate) fn anti_affinity_to_app(app: &str) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
    }]}}})
}

/// Inter-pod affinity terms about pods of an app in namespaces with a label `team`.
pub(crate) fn about_team(app: &str, team: &str) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
        "namespaceSelector": {"matchLabels": {"team": team}},
    }]})
}

/// Node affinity for one node.
pub(crate) fn on(node: &str) -> Value {
    json!({"nodeSelector": {"kubernetes.io/hostname": node}})
}

pub(crate) async fn make_pod(pods: &Api<Pod>, pod: &Pod) {
    let created = pods.create(&PostParams::default(), pod).await;
    created.expect("a pod");
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The pod once it is bound.
pub(crate) async fn placed(pods: &Api<Pod>, name: &str) -> String {
    poll_until(&format!("a node for {name}"), async || {
        let pod = pods.get(name).await.expect("a read");
        node_of(&pod).map(str::to_owned)
    })
    .await
}

/// The message of the pod's unschedulable condition.
pub(crate) fn unschedulable_condition(pod: &Pod) -> Option<(String, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|one| one.type_ == "PodScheduled")?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (condition.status == "False").then(|| (text(&condition.reason), text(&condition.message)))
}

/// The nodes of all pods of an app. Checks that no two share a node, so that no constraint was violated.
pub(crate) async fn check_anti_affinity(pods: &Api<Pod>, app: &str) -> BTreeMap<String, String> {
    let params = ListParams::default().labels(&format!("app={app}"));
    let list = pods.list(&params).await.expect("a list");
    let mut nodes = BTreeSet::new();
    let mut places = BTreeMap::new();
    for pod in &list {
        if let Some(node) = node_of(pod) {
            let name = pod.metadata.name.clone().unwrap_or_default();
            assert!(
                nodes.insert(node.to_owned()),
                "{name} is not alone on {node}"
            );
            places.insert(name, node.to_owned());
        }
    }
    places
}
