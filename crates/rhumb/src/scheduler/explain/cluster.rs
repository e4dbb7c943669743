//! Reads the scheduler's view of a cluster from an API server, once.

use anyhow::Result;
use kube::Client;
use rhumb_scheduler::cluster::ClusterState;
use rhumb_scheduler::model::{Labels, Node, Pod, SpreadOwner, SpreadOwnerKind};
use serde::Deserialize;

use crate::paged_list::list;

#[derive(Deserialize)]
struct NamespaceObject {
    metadata: NamespaceMetadata,
}

#[derive(Deserialize)]
struct NamespaceMetadata {
    name: String,
    #[serde(default)]
    labels: std::collections::BTreeMap<String, String>,
}

/// Owners by which pods are spread unless they have topology spread constraints of their own (upstream: default
/// constraints of PodTopologySpread).
const SPREAD_OWNERS: [(SpreadOwnerKind, &str); 4] = [
    (SpreadOwnerKind::Service, "/api/v1/services"),
    (
        SpreadOwnerKind::ReplicationController,
        "/api/v1/replicationcontrollers",
    ),
    (SpreadOwnerKind::ReplicaSet, "/apis/apps/v1/replicasets"),
    (SpreadOwnerKind::StatefulSet, "/apis/apps/v1/statefulsets"),
];

/// Lists nodes, namespaces, owners and pods. The lists are not from one revision, as in a scheduler. Objects that cannot
/// be decoded are skipped and noted, as a scheduler skips them.
pub(super) async fn read(
    client: &Client,
    namespace_selectors: bool,
) -> Result<(ClusterState, Vec<String>)> {
    let mut cluster = ClusterState::default();
    let mut notes = Vec::new();
    list(client, "/api/v1/nodes", &mut notes, |json| {
        cluster.set_node(Node::from_json(json)?);
        Ok(())
    })
    .await?;
    list(client, "/api/v1/namespaces", &mut notes, |json| {
        let NamespaceObject { metadata } = serde_json::from_slice(json)?;
        let labels: Labels = metadata.labels.into_iter().collect();
        cluster.set_namespace(&metadata.name, labels);
        Ok(())
    })
    .await?;
    for (kind, path) in SPREAD_OWNERS {
        list(client, path, &mut notes, |json| {
            cluster.set_spread_owner(SpreadOwner::from_json(kind, json)?);
            Ok(())
        })
        .await?;
    }
    list(client, "/api/v1/pods", &mut notes, |json| {
        let mut pod = Pod::from_json(json)?;
        if !namespace_selectors {
            pod.drop_namespace_selectors();
        }
        cluster.set_pod(pod);
        Ok(())
    })
    .await?;
    Ok((cluster, notes))
}

#[cfg(test)]
mod tests {
    use rhumb_client::testing::{fake_client, list_response};
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
    async fn undecodable_objects_are_noted_and_skipped() {
        let client = fake_client(|request| {
            let (_, answer) = match request.uri().path() {
                "/api/v1/pods" => {
                    list_response(&[pod("odd", &json!([])), pod("even", &json!("n"))])
                }
                "/api/v1/nodes" => list_response(&[json!({"metadata": {"name": 7}})]),
                _ => list_response(&[]),
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
            node.starts_with("/api/v1/nodes: an object is skipped: "),
            "{node}"
        );
        assert!(
            pod.starts_with("/api/v1/pods: ns/odd is skipped: "),
            "{pod}"
        );
    }

    #[tokio::test]
    async fn affinity_terms_are_decoded_like_in_the_scheduler() {
        let client = fake_client(|request| {
            let (_, answer) = match request.uri().path() {
                "/api/v1/pods" => list_response(&[pod("a", &json!("n"))]),
                _ => list_response(&[]),
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
            terms.push(pod.expect("a pod").pod.anti_affinity.clone());
        }
        assert_ne!(terms[0], terms[1]);
    }
}
