//! Test helpers: builds clusters from JSON and runs a single plugin on them.

use serde_json::{Value, json};

use super::{NodeFilter, Plugin, PreFilterRejection};
use crate::cluster::{ClusterState, NodeId, PodId, PodUpsertResult};
use crate::model::{Node, Pod};

/// A node with ample allocatable resources.
pub(crate) fn node(name: &str) -> Node {
    node_with(name, json!({}))
}

/// A node with the given `labels`, `spec` and `status`.
pub(crate) fn node_with(name: &str, parts: Value) -> Node {
    let mut status = json!({"allocatable": {"cpu": "32", "memory": "64Gi", "pods": "110"}});
    if let Some(own) = parts["status"].as_object() {
        status.as_object_mut().unwrap().extend(own.clone());
    }
    let node = json!({
        "metadata": {"name": name, "labels": parts["labels"]},
        "spec": parts["spec"],
        "status": status,
    });
    Node::from_json(node.to_string().as_bytes()).unwrap()
}

/// A pod in namespace `default`. Assigned if the spec has `nodeName`.
pub(crate) fn pod(name: &str, labels: Value, spec: Value) -> Pod {
    pod_in("default", name, labels, spec)
}

pub(crate) fn pod_in(namespace: &str, name: &str, labels: Value, mut spec: Value) -> Pod {
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c", "image": "i"}]);
    }
    let pod = json!({
        "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}/{name}"), "labels": labels},
        "spec": spec,
    });
    Pod::from_json(pod.to_string().as_bytes()).unwrap()
}

/// A `containers` list of one container with these requests.
pub(crate) fn requests(requests: Value) -> Value {
    json!([{"name": "c", "image": "i", "resources": {"requests": requests}}])
}

pub(crate) fn cluster(
    nodes: impl IntoIterator<Item = Node>,
    pods: impl IntoIterator<Item = Pod>,
) -> ClusterState {
    let mut cluster = ClusterState::default();
    for node in nodes {
        cluster.set_node(node);
    }
    for pod in pods {
        cluster.set_pod(pod);
    }
    cluster.refresh_node_order();
    cluster
}

/// Adds a new pod to the cluster.
pub(crate) fn add_pod(cluster: &mut ClusterState, pod: Pod) -> PodId {
    match cluster.set_pod(pod) {
        PodUpsertResult::Added(id) => id,
        other => panic!("expected a new pod, got {other:?}"),
    }
}

pub(crate) fn node_id(cluster: &ClusterState, node: &str) -> NodeId {
    cluster.nodes().find(node).unwrap()
}

/// A plugin's filter result for each node, in name order: empty if the node passes; otherwise the reasons, prefixed
/// with `!` if preemption cannot help; `-` if the node is not among the plugin's candidates.
pub(crate) fn filter_results(
    plugin: &dyn Plugin,
    cluster: &ClusterState,
    pod: PodId,
) -> Result<Vec<String>, PreFilterRejection> {
    let slot = cluster.pods().get(pod).unwrap();
    let filtering = plugin.pre_filter(slot, cluster)?;
    let verdict = |node: NodeId| match &filtering.filter {
        _ if filtering
            .candidate_nodes
            .as_ref()
            .is_some_and(|only| !only.contains(&node)) =>
        {
            "-".to_owned()
        }
        None => String::new(),
        Some(filter) => filter_result(&**filter, node),
    };
    Ok(nodes_by_name(cluster).into_iter().map(verdict).collect())
}

fn filter_result(filter: &dyn NodeFilter, node: NodeId) -> String {
    match filter.check(node) {
        Ok(()) => String::new(),
        Err(rejection) => {
            let mark = if rejection.is_resolvable { "" } else { "!" };
            format!("{mark}{}", filter.reasons(rejection).join(", "))
        }
    }
}

/// The plugin's explanation of why it rejects the node.
pub(crate) fn rejection_detail(
    plugin: &dyn Plugin,
    cluster: &ClusterState,
    pod: PodId,
    node: &str,
) -> String {
    let slot = cluster.pods().get(pod).unwrap();
    let filter = plugin.pre_filter(slot, cluster).unwrap().filter.unwrap();
    let node = node_id(cluster, node);
    let rejection = filter.check(node).unwrap_err();
    filter.detail(node, rejection).unwrap()
}

/// The normalized scores of all nodes, in name order.
pub(crate) fn scores(plugin: &dyn Plugin, cluster: &ClusterState, pod: PodId) -> Vec<i64> {
    scores_among(plugin, cluster, pod, &nodes_by_name(cluster))
}

/// The normalized scores of the given nodes.
pub(crate) fn scores_among(
    plugin: &dyn Plugin,
    cluster: &ClusterState,
    pod: PodId,
    nodes: &[NodeId],
) -> Vec<i64> {
    let slot = cluster.pods().get(pod).unwrap();
    match plugin.pre_score(slot, cluster, nodes) {
        None => vec![0; nodes.len()],
        Some(score) => {
            let mut scores: Vec<i64> = nodes.iter().map(|node| score.score(*node)).collect();
            score.normalise(nodes, &mut scores);
            scores
        }
    }
}

fn nodes_by_name(cluster: &ClusterState) -> Vec<NodeId> {
    let mut nodes = cluster.nodes().order().to_vec();
    nodes.sort_by_key(|node| &cluster.nodes().get(*node).name);
    nodes
}
