//! Requests of a leader that did not give its lease back may still be under way. Before anything is decided, every pod
//! that it may have decided about is changed: a binding names the version it was decided on, and is refused then.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use kube::Api;
use kube::api::ListParams;
use tokio::time::sleep;

use super::requests::{Failure, Server};
use super::watched::Watched;
use crate::model::Pod;

/// How many pods are changed at a time.
const AT_ONCE_MAX: usize = 64;
const PAGE: u32 = 500;
const PAUSE: Duration = Duration::from_secs(1);

/// Goes on until no pod of these schedulers is left that a request on an old version could still bind. `false` if this
/// process leads no longer.
pub(super) async fn fence(server: &Server, schedulers: &HashSet<Box<str>>) -> bool {
    let pods = loop {
        match waiting(server, schedulers).await {
            Ok(pods) => break pods,
            Err(error) => tracing::warn!(%error, "the pods that wait cannot be listed"),
        }
        if !server.leads() {
            return false;
        }
        sleep(PAUSE).await;
    };
    if !pods.is_empty() {
        tracing::info!(
            pods = pods.len(),
            "the last leader may still be heard of: what it decided is made void"
        );
    }
    let fenced = stream::iter(pods)
        .map(|pod| async move { fence_one(server, &pod).await })
        .buffer_unordered(AT_ONCE_MAX);
    fenced.all(std::future::ready).await
}

/// Pods without a node. What is created later, nobody has decided about.
async fn waiting(server: &Server, schedulers: &HashSet<Box<str>>) -> Result<Vec<Pod>, kube::Error> {
    let api: Api<Watched<Pod>> = Api::all(server.client().clone());
    let mut params = ListParams::default().fields("spec.nodeName=").limit(PAGE);
    let mut pods = Vec::new();
    loop {
        let page = api.list(&params).await?;
        let read = page.items.into_iter().filter_map(|watched| watched.object);
        pods.extend(read.filter(|pod| {
            schedulers.contains(&pod.scheduler_name) && !pod.is_terminal && !pod.is_terminating
        }));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(pods),
        }
    }
}

async fn fence_one(server: &Server, pod: &Pod) -> bool {
    loop {
        match server
            .touch(&pod.key, &pod.uid, &pod.resource_version)
            .await
        {
            // It is another version than the one that was listed, by whomever, or it is no more.
            Ok(())
            | Err(Failure::Refused {
                code: 404 | 409, ..
            }) => return true,
            Err(Failure::NotLeading) => return false,
            Err(failure) => {
                tracing::warn!(pod = %pod.key, %failure, "it cannot be changed; it is tried on");
            }
        }
        sleep(PAUSE).await;
    }
}
