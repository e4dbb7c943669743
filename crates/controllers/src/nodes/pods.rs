//! Pods on a node that is lost: nobody knows whether they are ready, so they are not.

use futures_util::stream::{self, TryStreamExt};
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;

use crate::Error;
use crate::pods;
use crate::views::Pod;
use rhumb_client::events::Recorder;

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
    let status = json!({"conditions": [{
        "type": "Ready",
        "status": "False",
        "lastTransitionTime": Timestamp::now().strftime("%FT%TZ").to_string(),
    }]});
    if pods::patch_status(client, &pod, &status).await? {
        let message = "Node is not ready".to_owned();
        recorder.warning(&pod, "NodeNotReady", message);
    }
    Ok(())
}
