//! Clusters for tests, as JSON says them.

use serde_json::{Value, json};

use super::{NodeFilter, Plugin, Unschedulable};
use crate::cluster::{Cluster, NodeId, PodChange, PodId};
use crate::model::{Node, Pod};

/// A node with room for anything.
pub(crate) fn node(name: &str) -> Node {
    node_with(name, json!({}))
}

/// A node with parts of its own: `labels`, `spec` and `status`.
pub(crate) fn node_with(name: &str, parts: Value) -> Node {
    let mut status = json!({"allocatable": {"cpu": "32", "memory": "64Gi", "pods": "110"}});
    if let Some(own) = parts["status"].as_object() {
        status
            .as_object_mut()
            .unwrap()
            .extend(own.clone().into_iter());
    }
    let node = json!({
        "metadata": {"name": name, "labels": parts["labels"]},
        "spec": parts["spec"],
        "status": status,
    });
    Node::from_json(node.to_string().as_bytes()).unwrap()
}

/// A pod of the namespace `default` with labels and a spec. On a node, if the spec says so.
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

/// Requests of one container.
pub(crate) fn requests(requests: Value) -> Value {
    json!([{"name": "c", "image": "i", "resources": {"requests": requests}}])
}

pub(crate) fn cluster(
    nodes: impl IntoIterator<Item = Node>,
    pods: impl IntoIterator<Item = Pod>,
) -> Cluster {
    let mut cluster = Cluster::default();
    for node in nodes {
        cluster.set_node(node);
    }
    for pod in pods {
        cluster.set_pod(pod);
    }
    cluster.prepare();
    cluster
}

/// A pod that has come.
pub(crate) fn come(cluster: &mut Cluster, pod: Pod) -> PodId {
    match cluster.set_pod(pod) {
        PodChange::Added(id) => id,
        other => panic!("not a new pod: {other:?}"),
    }
}

pub(crate) fn id(cluster: &Cluster, node: &str) -> NodeId {
    cluster.nodes().find(node).unwrap()
}

/// What a plugin says about each node, in the order of their names: nothing if it will do, or the reasons, with a `!`
/// before them where preemption cannot help.
pub(crate) fn verdicts(
    plugin: &dyn Plugin,
    cluster: &Cluster,
    pod: PodId,
) -> Result<Vec<String>, Unschedulable> {
    let slot = cluster.pods().get(pod).unwrap();
    let filtering = plugin.filter(slot, cluster)?;
    let verdict = |node: NodeId| match &filtering.filter {
        _ if filtering
            .only
            .as_ref()
            .is_some_and(|only| !only.contains(&node)) =>
        {
            "-".to_owned()
        }
        None => String::new(),
        Some(filter) => in_words(&**filter, node),
    };
    Ok(by_name(cluster).into_iter().map(verdict).collect())
}

fn in_words(filter: &dyn NodeFilter, node: NodeId) -> String {
    match filter.check(node) {
        Ok(()) => String::new(),
        Err(refusal) => {
            let mark = if refusal.is_resolvable { "" } else { "!" };
            format!("{mark}{}", filter.reasons(refusal).join(", "))
        }
    }
}

/// What stands behind the refusal of a node.
pub(crate) fn detail(plugin: &dyn Plugin, cluster: &Cluster, pod: PodId, node: &str) -> String {
    let slot = cluster.pods().get(pod).unwrap();
    let filter = plugin.filter(slot, cluster).unwrap().filter.unwrap();
    let node = id(cluster, node);
    let refusal = filter.check(node).unwrap_err();
    filter.detail(node, refusal).unwrap()
}

/// What all nodes score, in the order of their names.
pub(crate) fn scores(plugin: &dyn Plugin, cluster: &Cluster, pod: PodId) -> Vec<i64> {
    scores_of(plugin, cluster, pod, &by_name(cluster))
}

/// What those nodes score that a pod could go to.
pub(crate) fn scores_of(
    plugin: &dyn Plugin,
    cluster: &Cluster,
    pod: PodId,
    nodes: &[NodeId],
) -> Vec<i64> {
    let slot = cluster.pods().get(pod).unwrap();
    match plugin.score(slot, cluster, nodes) {
        None => vec![0; nodes.len()],
        Some(score) => {
            let mut scores: Vec<i64> = nodes.iter().map(|node| score.score(*node)).collect();
            score.normalise(nodes, &mut scores);
            scores
        }
    }
}

fn by_name(cluster: &Cluster) -> Vec<NodeId> {
    let mut nodes = cluster.nodes().order().to_vec();
    nodes.sort_by_key(|node| &cluster.nodes().get(*node).name);
    nodes
}
