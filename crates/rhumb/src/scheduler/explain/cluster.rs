//! The cluster as a server has it, read once.

use anyhow::{Context, Result};
use kube::Client;
use rhumb_scheduler::cluster::Cluster;
use rhumb_scheduler::model::{Group, GroupKind, Labels, Node, Pod};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Objects of one answer.
const PAGE: usize = 2000;

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    metadata: ListMetadata<'a>,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListMetadata<'a> {
    #[serde(borrow, rename = "continue")]
    more: std::borrow::Cow<'a, str>,
}

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

/// Reads nodes, namespaces and pods. They are of almost one moment, as a scheduler's are.
pub(super) async fn read(client: &Client) -> Result<Cluster> {
    let mut cluster = Cluster::default();
    list(client, "/api/v1/nodes", |json| {
        cluster.set_node(Node::from_json(json)?);
        Ok(())
    })
    .await?;
    list(client, "/api/v1/namespaces", |json| {
        let Namespace { metadata } = serde_json::from_slice(json)?;
        let labels: Labels = metadata.labels.into_iter().collect();
        cluster.set_namespace(&metadata.name, labels);
        Ok(())
    })
    .await?;
    for (kind, path) in GROUPS {
        list(client, path, |json| {
            cluster.set_group(Group::from_json(kind, json)?);
            Ok(())
        })
        .await?;
    }
    list(client, "/api/v1/pods", |json| {
        cluster.set_pod(Pod::from_json(json)?);
        Ok(())
    })
    .await?;
    Ok(cluster)
}

async fn list(
    client: &Client,
    path: &str,
    mut each: impl FnMut(&[u8]) -> Result<(), serde_json::Error>,
) -> Result<()> {
    let mut more = String::new();
    loop {
        let query = match more.as_str() {
            "" => format!("{path}?limit={PAGE}"),
            more => format!("{path}?limit={PAGE}&continue={more}"),
        };
        let request = http::Request::get(query).body(Vec::new())?;
        let text = client
            .request_text(request)
            .await
            .with_context(|| format!("{path} cannot be read"))?;
        let page: List<'_> =
            serde_json::from_str(&text).with_context(|| format!("{path} is no list"))?;
        for item in page.items {
            each(item.get().as_bytes())
                .with_context(|| format!("an object of {path} cannot be read"))?;
        }
        if page.metadata.more.is_empty() {
            return Ok(());
        }
        more = page.metadata.more.into_owned();
    }
}
