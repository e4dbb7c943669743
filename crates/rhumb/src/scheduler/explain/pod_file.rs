//! A pod from a file, as the server would create it.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use kube::Client;
use rhumb_scheduler::cluster::{ClusterState, PodId, PodUpsertResult};
use rhumb_scheduler::model::Pod;
use serde_json::Value;

use crate::manifests::{self, UnstructuredObject};

/// Lets the server apply defaults, priority classes, limit ranges, webhooks and quotas to the only pod of a file, by a
/// dry run of its creation.
pub(super) async fn complete(client: &Client, path: &Path, namespace: Option<&str>) -> Result<Pod> {
    let mut objects = manifests::read(path)?;
    let (location, mut object) = match objects.pop() {
        Some(object) if objects.is_empty() => object,
        _ => bail!("{}: expected one pod", path.display()),
    };
    let is = |field: &str, value: &str| object.get(field).is_some_and(|found| found == value);
    if !(is("apiVersion", "v1") && is("kind", "Pod")) {
        bail!(
            "{location}: expected a Pod of apiVersion v1; of a workload, explain the pod in its template"
        );
    }
    let namespace = set_namespace(&mut object, namespace).with_context(|| location.clone())?;
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All&fieldValidation=Strict");
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(serde_json::to_vec(&object)?)?;
    let text = client
        .request_text(request)
        .await
        .map_err(|error| match error {
            kube::Error::Api(status) if status.reason == "AlreadyExists" => {
                anyhow!(
                    "{}; to explain the existing pod, name it instead of the file",
                    status.message
                )
            }
            kube::Error::Api(status) => {
                anyhow!("the server would not create the pod: {}", status.message)
            }
            error => error.into(),
        });
    let text = text.with_context(|| location.clone())?;
    Pod::from_json(text.as_bytes())
        .with_context(|| format!("{location}: the pod in the server's response cannot be decoded"))
}

/// The namespace of the request; the file and the flag must agree, as with kubectl.
fn set_namespace(object: &mut UnstructuredObject, flag: Option<&str>) -> Result<String> {
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(UnstructuredObject::new()));
    let Value::Object(metadata) = metadata else {
        bail!("metadata: must be an object");
    };
    let in_file = metadata
        .get("namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let namespace = match (in_file, flag) {
        ("", flag) => flag.unwrap_or("default").to_owned(),
        (in_file, Some(flag)) if in_file != flag => {
            bail!("metadata.namespace is {in_file:?}, but --namespace is {flag:?}")
        }
        (in_file, _) => in_file.to_owned(),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !namespace.chars().all(is_name) {
        bail!("invalid namespace {namespace:?}");
    }
    metadata.insert("namespace".to_owned(), namespace.clone().into());
    Ok(namespace)
}

/// Adds the pod to the state that was read from the server.
pub(super) fn add(cluster: &mut ClusterState, pod: Pod) -> Result<PodId> {
    match cluster.set_pod(pod) {
        PodUpsertResult::Added(id) | PodUpsertResult::Unchanged(id) => Ok(id),
        PodUpsertResult::Updated { id, .. } => Ok(id),
        PodUpsertResult::Removed(_) => {
            bail!("the pod has terminated: its status has phase Succeeded or Failed")
        }
    }
}
