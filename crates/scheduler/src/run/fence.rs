//! Fencing at the start of a leadership term. Binding requests of the previous leader may still be in flight. A binding
//! carries the resourceVersion it was decided on, so updating every pending pod makes the server reject such requests.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use kube::Api;
use kube::api::ListParams;
use rhumb_client::Error;
use tokio::time::{sleep, timeout};

use super::decode::WatchedObject;
use super::inbox::SchedulerInbox;
use super::leader_client::{LeaderClient, REQUEST_TIMEOUT, RequestError};
use crate::engine::SchedulerEvent;
use crate::model::Pod;

/// Concurrent status patches.
const CONCURRENT_PATCHES_MAX: usize = 64;
const LIST_PAGE_SIZE: u32 = 500;
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Attempts per pod before scheduling starts without it, and the interval of later attempts.
const ATTEMPTS_MAX: usize = 3;
const HELD_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Updates all pods of these schedulers that a request of the previous leader could still bind. Returns the pods that
/// could not be updated; they must be held back. `None` if this process is no longer leader.
pub(super) async fn fence_pending_pods(
    server: &LeaderClient,
    schedulers: &HashSet<Box<str>>,
) -> Option<Vec<Pod>> {
    let pods = loop {
        match list_pending_pods(server, schedulers).await {
            Ok(pods) => break pods,
            Err(error) => {
                tracing::warn!(%error, "failed to list pending pods for fencing; retrying");
            }
        }
        if !server.is_leading() {
            return None;
        }
        sleep(RETRY_DELAY).await;
    };
    if !pods.is_empty() {
        tracing::info!(
            pods = pods.len(),
            "fencing pending pods against in-flight bindings of the previous leader"
        );
    }
    fence_all(server, pods).await
}

/// Returns the pods that could not be updated.
async fn fence_all(server: &LeaderClient, pods: Vec<Pod>) -> Option<Vec<Pod>> {
    let mut fenced = stream::iter(pods)
        .map(|pod| async move { (fence_one(server, &pod).await, pod) })
        .buffer_unordered(CONCURRENT_PATCHES_MAX);
    let mut unfenced = Vec::new();
    let mut last = None;
    while let Some((fenced, pod)) = fenced.next().await {
        match fenced {
            Ok(()) => {}
            Err(RequestError::NotLeading) => return None,
            Err(failure) => {
                unfenced.push(pod);
                last = Some(failure);
            }
        }
    }
    if let (Some(failure), Some(pod)) = (last, unfenced.last()) {
        tracing::warn!(
            pods = unfenced.len(),
            pod = %pod.key,
            error = %failure,
            "failed to fence pods that the previous leader may still bind; holding them back and retrying"
        );
    }
    Some(unfenced)
}

/// Retries fencing for held pods in the background and releases those that succeed.
pub(super) async fn retry_fencing(
    server: LeaderClient,
    inbox: Arc<SchedulerInbox>,
    mut held: Vec<Pod>,
) {
    while !held.is_empty() {
        sleep(HELD_RETRY_INTERVAL).await;
        let held_uids: Vec<Box<str>> = held.iter().map(|pod| pod.uid.clone()).collect();
        let Some(unfenced) = fence_all(&server, held).await else {
            return;
        };
        held = unfenced;
        let still_held: HashSet<&str> = held.iter().map(|pod| &*pod.uid).collect();
        for uid in held_uids
            .into_iter()
            .filter(|uid| !still_held.contains(&**uid))
        {
            inbox.send_result(SchedulerEvent::ReleasePod { uid });
        }
    }
}

/// Lists unassigned pods. Pods that are gated, or created later, cannot have been decided on by the previous leader.
async fn list_pending_pods(
    server: &LeaderClient,
    schedulers: &HashSet<Box<str>>,
) -> Result<Vec<Pod>, Error> {
    let api: Api<WatchedObject<Pod>> = Api::all(server.client().clone());
    let mut params = ListParams::default()
        .fields("spec.nodeName=")
        .limit(LIST_PAGE_SIZE);
    let mut pods = Vec::new();
    loop {
        let page = timeout(REQUEST_TIMEOUT, api.list(&params)).await;
        let page = page.map_err(|_| Error::Other("request timed out".to_owned()))??;
        let decoded = page.items.into_iter().filter_map(|item| item.object);
        pods.extend(decoded.filter(|pod| {
            schedulers.contains(&pod.scheduler_name)
                && pod.scheduling_gates.is_empty()
                && !pod.is_terminal
                && !pod.is_terminating
        }));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(pods),
        }
    }
}

async fn fence_one(server: &LeaderClient, pod: &Pod) -> Result<(), RequestError> {
    let mut attempts = 1;
    loop {
        let bumped = server.bump_resource_version(&pod.key, &pod.uid, &pod.resource_version);
        match bumped.await {
            // The pod changed since it was listed, or is deleted: either way it is fenced.
            Err(RequestError::Rejected {
                code: 404 | 409, ..
            }) => return Ok(()),
            Err(RequestError::Rejected { .. } | RequestError::OutcomeUnknown(_))
                if attempts < ATTEMPTS_MAX => {}
            bumped => return bumped,
        }
        attempts += 1;
        sleep(RETRY_DELAY).await;
    }
}
