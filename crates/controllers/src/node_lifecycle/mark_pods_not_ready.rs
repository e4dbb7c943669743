//! Marks the pods of an unreachable node as not ready, because their state is unknown.

use futures_util::stream::{self, TryStreamExt};
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;

use crate::Error;
use crate::partial_objects::Pod;
use crate::pod_writes;
use rhumb_client::events::EventRecorder;

/// Pods that are patched concurrently.
const CONCURRENCY: usize = 8;

pub(super) async fn mark_pods_not_ready(
    client: &Client,
    recorder: &EventRecorder,
    node: &str,
) -> Result<(), Error> {
    let pods: Api<Pod> = Api::all(client.clone());
    let of_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = pods.list(&of_node).await?;
    stream::iter(pods.items.into_iter().filter(is_ready).map(Ok))
        .try_for_each_concurrent(CONCURRENCY, |pod| mark_pod_not_ready(client, recorder, pod))
        .await
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.conditions.iter();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status != "False")
}

async fn mark_pod_not_ready(
    client: &Client,
    recorder: &EventRecorder,
    pod: Pod,
) -> Result<(), Error> {
    let status = json!({"conditions": [{
        "type": "Ready",
        "status": "False",
        "lastTransitionTime": Timestamp::now().strftime("%FT%TZ").to_string(),
    }]});
    if pod_writes::patch_status(client, &pod, &status).await? {
        let message = "Node is not ready".to_owned();
        recorder.warning(&pod, "NodeNotReady", message);
    }
    Ok(())
}
