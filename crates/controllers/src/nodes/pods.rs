//! Pods on a node that is lost: nobody knows whether they are ready, so they are not.

use futures_util::stream::{self, TryStreamExt};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::Error;
use crate::error::found;
use crate::events::Recorder;
use crate::views::Pod;

/// Pods that are written at the same time.
const AT_ONCE: usize = 8;

pub(super) async fn mark_not_ready(
    client: &Client,
    recorder: &Recorder,
    node: &str,
) -> Result<(), Error> {
    let pods: Api<Pod> = Api::all(client.clone());
    let of_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = pods.list(&of_node).await?;
    stream::iter(pods.items.into_iter().filter(is_ready).map(Ok))
        .try_for_each_concurrent(AT_ONCE, |pod| mark(client, recorder, pod))
        .await
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.conditions.iter();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status != "False")
}

async fn mark(client: &Client, recorder: &Recorder, pod: Pod) -> Result<(), Error> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let patch = Patch::Strategic(json!({
        "metadata": {"uid": pod.metadata.uid},
        "status": {"conditions": [{
            "type": "Ready",
            "status": "False",
            "lastTransitionTime": Timestamp::now().strftime("%FT%TZ").to_string(),
        }]},
    }));
    let params = PatchParams::default();
    let marked = pods.patch_status(&pod.name_any(), &params, &patch).await;
    if found(marked)?.is_some() {
        let message = "Node is not ready".to_owned();
        recorder.warning(&pod, "NodeNotReady", message).await;
    }
    Ok(())
}
