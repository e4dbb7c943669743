//! Requests of a leader that did not give its lease back may still be under way. Before anything is decided, every pod
//! that it may have decided about is changed: a binding names the version it was decided on, and is refused then.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use kube::Api;
use kube::api::ListParams;
use rhumb_client::Error;
use tokio::time::{sleep, timeout};

use super::mailbox::Mailbox;
use super::requests::{Failure, REQUEST_MAX, Server};
use super::watched::Watched;
use crate::engine::Change;
use crate::model::Pod;

/// How many pods are changed at a time.
const AT_ONCE_MAX: usize = 64;
const PAGE: u32 = 500;
const PAUSE: Duration = Duration::from_secs(1);
/// How often a pod that cannot be changed is tried before all others go on without it, and when it is tried again then.
const ATTEMPTS_MAX: usize = 3;
const PAUSE_BESIDE: Duration = Duration::from_secs(60);

/// Changes all pods of these schedulers that a request on an old version could still bind. Those that cannot be changed
/// are returned: they are to be held. `None` if this process leads no longer.
pub(super) async fn fence(server: &Server, schedulers: &HashSet<Box<str>>) -> Option<Vec<Pod>> {
    let pods = loop {
        match waiting(server, schedulers).await {
            Ok(pods) => break pods,
            Err(error) => tracing::warn!(%error, "the pods that wait cannot be listed"),
        }
        if !server.leads() {
            return None;
        }
        sleep(PAUSE).await;
    };
    if !pods.is_empty() {
        tracing::info!(
            pods = pods.len(),
            "the last leader may still be heard of: what it decided is made void"
        );
    }
    fence_all(server, pods).await
}

/// Those that cannot be changed.
async fn fence_all(server: &Server, pods: Vec<Pod>) -> Option<Vec<Pod>> {
    let mut fenced = stream::iter(pods)
        .map(|pod| async move { (fence_one(server, &pod).await, pod) })
        .buffer_unordered(AT_ONCE_MAX);
    let mut left = Vec::new();
    let mut last = None;
    while let Some((fenced, pod)) = fenced.next().await {
        match fenced {
            Ok(()) => {}
            Err(Failure::NotLeading) => return None,
            Err(failure) => {
                left.push(pod);
                last = Some(failure);
            }
        }
    }
    if let (Some(failure), Some(pod)) = (last, left.last()) {
        tracing::warn!(
            pods = left.len(),
            pod = %pod.key,
            %failure,
            "pods cannot be changed that the last leader may still bind: they are not scheduled"
        );
    }
    Some(left)
}

/// Tries on with those that are held, beside everything else, and lets them in.
pub(super) async fn fence_beside(server: Server, mailbox: Arc<Mailbox>, mut held: Vec<Pod>) {
    while !held.is_empty() {
        sleep(PAUSE_BESIDE).await;
        let before: Vec<Box<str>> = held.iter().map(|pod| pod.uid.clone()).collect();
        let Some(left) = fence_all(&server, held).await else {
            return;
        };
        held = left;
        let left: HashSet<&str> = held.iter().map(|pod| &*pod.uid).collect();
        for uid in before.into_iter().filter(|uid| !left.contains(&**uid)) {
            mailbox.answer(Change::Release { uid });
        }
    }
}

/// Pods without a node. What is created later, or still has gates, nobody has decided about.
async fn waiting(server: &Server, schedulers: &HashSet<Box<str>>) -> Result<Vec<Pod>, Error> {
    let api: Api<Watched<Pod>> = Api::all(server.client().clone());
    let mut params = ListParams::default().fields("spec.nodeName=").limit(PAGE);
    let mut pods = Vec::new();
    loop {
        let page = timeout(REQUEST_MAX, api.list(&params)).await;
        let page = page.map_err(|_| Error::Other("the server does not answer".to_owned()))??;
        let read = page.items.into_iter().filter_map(|watched| watched.object);
        pods.extend(read.filter(|pod| {
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

async fn fence_one(server: &Server, pod: &Pod) -> Result<(), Failure> {
    let mut attempts = 1;
    loop {
        let touched = server.touch(&pod.key, &pod.uid, &pod.resource_version);
        match touched.await {
            // It is another version than the one that was listed, by whomever, or it is no more.
            Err(Failure::Refused {
                code: 404 | 409, ..
            }) => return Ok(()),
            Err(Failure::Refused { .. } | Failure::Unknown(_)) if attempts < ATTEMPTS_MAX => {}
            touched => return touched,
        }
        attempts += 1;
        sleep(PAUSE).await;
    }
}
