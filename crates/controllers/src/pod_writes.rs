//! Pod writes shared by several controllers: patch the status, delete. Each has a uid precondition, so that a new pod
//! of the same name is never changed.

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::Error;
use crate::partial_objects::{Pod, PodKey};
use rhumb_client::error::none_if_not_found;

/// Merges `status` into the pod's status. Returns whether the pod exists.
pub(crate) async fn patch_status(
    client: &Client,
    pod: &Pod,
    status: &Value,
) -> Result<bool, Error> {
    let PodKey { namespace, name } = pod.key();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let patch = Patch::Strategic(json!({
        "metadata": {"uid": pod.metadata.uid},
        "status": status,
    }));
    let patched = pods
        .patch_status(&name, &PatchParams::default(), &patch)
        .await;
    Ok(none_if_not_found(patched)?.is_some())
}

/// Deletes the pod, by default with the grace period from its spec. Returns whether it existed.
pub(crate) async fn delete(
    client: &Client,
    key: &PodKey,
    uid: Option<String>,
    grace_period_seconds: Option<u32>,
) -> Result<bool, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let params = DeleteParams {
        grace_period_seconds,
        preconditions: Some(Preconditions {
            uid,
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match none_if_not_found(pods.delete(&key.name, &params).await) {
        // The name belongs to a new pod already.
        Err(error) if error.is_conflict() => Ok(false),
        deleted => Ok(deleted?.is_some()),
    }
}
