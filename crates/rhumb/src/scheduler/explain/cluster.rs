//! The cluster as a server has it, read once.

use anyhow::Result;
use kube::Client;
use rhumb_scheduler::cluster::Cluster;
use rhumb_scheduler::model::{Group, GroupKind, Labels, Node, Pod};
use serde::Deserialize;

use crate::listing::list;

#[derive(Deserialize)]
struct Namespace {
    metadata: NamespaceMetadata,
}

#[derive(Deserialize)]
struct NamespaceMetadata {
    name: String,
    #[serde(default)]
    labels: std::collections::BTreeMap<String, String>,
}

/// What pods belong to, which says how they are spread where they do not.
const GROUPS: [(GroupKind, &str); 4] = [
    (GroupKind::Service, "/api/v1/services"),
    (
        GroupKind::ReplicationController,
        "/api/v1/replicationcontrollers",
    ),
    (GroupKind::ReplicaSet, "/apis/apps/v1/replicasets"),
    (GroupKind::StatefulSet, "/apis/apps/v1/statefulsets"),
];

/// Reads nodes, namespaces and pods. They are of almost one moment, as a scheduler's are. What cannot be read is left out
/// and noted: a scheduler goes on without it, too.
pub(super) async fn read(
    client: &Client,
    namespace_selectors: bool,
) -> Result<(Cluster, Vec<String>)> {
    let mut cluster = Cluster::default();
    let mut notes = Vec::new();
    list(client, "/api/v1/nodes", &mut notes, |json| {
        cluster.set_node(Node::from_json(json)?);
        Ok(())
    })
    .await?;
    list(client, "/api/v1/namespaces", &mut notes, |json| {
        let Namespace { metadata } = serde_json::from_slice(json)?;
        let labels: Labels = metadata.labels.into_iter().collect();
        cluster.set_namespace(&metadata.name, labels);
        Ok(())
    })
    .await?;
    for (kind, path) in GROUPS {
        list(client, path, &mut notes, |json| {
            cluster.set_group(Group::from_json(kind, json)?);
            Ok(())
        })
        .await?;
    }
    list(client, "/api/v1/pods", &mut notes, |json| {
        let mut pod = Pod::from_json(json)?;
        if !namespace_selectors {
            pod.forget_namespace_selectors();
        }
        cluster.set_pod(pod);
        Ok(())
    })
    .await?;
    Ok((cluster, notes))
}

#[cfg(test)]
mod tests {
    use rhumb_client::testing::{client, list};
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, node: &Value) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name},
            "spec": {"nodeName": node, "containers": [], "affinity": {"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}},
                ],
            }}},
        })
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_noted_and_left_out() {
        let client = client(|request| {
            let (_, answer) = match request.uri().path() {
                "/api/v1/pods" => list(&[pod("odd", &json!([])), pod("even", &json!("n"))]),
                "/api/v1/nodes" => list(&[json!({"metadata": {"name": 7}})]),
                _ => list(&[]),
            }?;
            Some(answer)
        });
        let (cluster, notes) = read(&client, true).await.expect("a cluster");
        assert_eq!(cluster.pods().len(), 1);
        assert!(cluster.pods().find("even").is_some());
        let [node, pod] = notes.as_slice() else {
            panic!("{notes:?}");
        };
        assert!(
            node.starts_with("/api/v1/nodes: an object is left out: "),
            "{node}"
        );
        assert!(
            pod.starts_with("/api/v1/pods: ns/odd is left out: "),
            "{pod}"
        );
    }

    #[tokio::test]
    async fn terms_are_read_as_the_scheduler_reads_them() {
        let client = client(|request| {
            let (_, answer) = match request.uri().path() {
                "/api/v1/pods" => list(&[pod("a", &json!("n"))]),
                _ => list(&[]),
            }?;
            Some(answer)
        });
        let mut terms = Vec::new();
        for namespace_selectors in [true, false] {
            let (cluster, _) = read(&client, namespace_selectors).await.expect("a cluster");
            let pod = cluster
                .pods()
                .find("a")
                .and_then(|id| cluster.pods().get(id));
            terms.push(pod.expect("a pod").facts.anti_affinity.clone());
        }
        assert_ne!(terms[0], terms[1]);
    }
}
