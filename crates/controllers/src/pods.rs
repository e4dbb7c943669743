//! What controllers write to pods. Each write names the pod by its uid: another pod of the same name is not meant.

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::Error;
use crate::views::{Pod, PodKey};
use rhumb_client::error::found;

/// Merges into the pod's status. Tells whether the pod was there.
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
    Ok(found(patched)?.is_some())
}

/// Deletes the pod, with as much time to end as it asks for itself unless the caller says how much. Tells whether
/// it was there.
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
    match found(pods.delete(&key.name, &params).await) {
        // Another pod has its name already.
        Err(error) if error.is_conflict() => Ok(false),
        deleted => Ok(deleted?.is_some()),
    }
}
