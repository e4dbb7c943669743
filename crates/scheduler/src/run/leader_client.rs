//! API requests of the leader. Every request is sent only while the lease is certainly held.
//! Bindings are exactly-once: an unknown outcome is resolved by [`LeaderClient::resolve_binding`].

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use rhumb_api::partial_decode::{BorrowedStr, or_default};
use rhumb_client::leader::LeadershipDeadline;
use rhumb_meta::Backoff;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::model::{NamespacedName, Pod};

/// Timeout of a request; after it the outcome is unknown.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Retry delay after 429 Too Many Requests, doubled up to the maximum.
const THROTTLED_RETRY_DELAY: Duration = Duration::from_millis(50);
const THROTTLED_RETRY_DELAY_MAX: Duration = Duration::from_secs(1);
/// A 429 that persists longer concerns the request and not the server's load: webhooks can return it, too.
const THROTTLED_RETRY_PERIOD: Duration = Duration::from_secs(60);
/// Retry delay while a binding's outcome is unknown, doubled up to the maximum.
const RESOLVE_RETRY_DELAY: Duration = Duration::from_millis(500);
const RESOLVE_RETRY_DELAY_MAX: Duration = Duration::from_secs(10);
/// Interval between repeated warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// Attempts to preempt a pod that is modified concurrently.
const PREEMPTION_ATTEMPTS_MAX: usize = 3;
/// Resolution of timestamps in conditions.
const CONDITION_TIME_RESOLUTION: Duration = Duration::from_secs(1);
const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// API client that sends requests only while this process is leader.
#[derive(Clone)]
pub(super) struct LeaderClient {
    client: Client,
    leadership: LeadershipDeadline,
}

impl std::fmt::Debug for LeaderClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaderClient")
            .field("lead", &self.leadership)
            .finish()
    }
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestError {
    /// Nothing was sent: another process may be leader.
    #[error("this process is no longer leader")]
    NotLeading,
    /// The server rejected the request (4xx): it had no effect.
    #[error("{message}")]
    Rejected { code: u16, message: String },
    /// Timeout, connection failure or 5xx: the request may have taken effect, or still may.
    #[error("{0}")]
    OutcomeUnknown(String),
}

impl RequestError {
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, RequestError::Rejected { code: 404, .. })
    }

    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, RequestError::Rejected { code: 409, .. })
    }
}

/// The outcome of a binding request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BindingResult {
    Bound,
    /// Not bound, and the request can have no effect any more: the pod was changed, replaced or deleted.
    NotBound(String),
    /// Rejected for a reason that is likely to persist.
    Rejected(String),
    /// May be bound, or may still become bound: see [`LeaderClient::resolve_binding`].
    OutcomeUnknown(String),
    NotLeading,
}

/// The parts of a pod that are read from responses.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodResponse<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: PodResponseMetadata<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: PodResponseSpec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodResponseMetadata<'a> {
    #[serde(borrow)]
    uid: BorrowedStr<'a>,
    #[serde(borrow)]
    resource_version: BorrowedStr<'a>,
    #[serde(borrow)]
    deletion_timestamp: BorrowedStr<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodResponseSpec<'a> {
    #[serde(borrow)]
    node_name: BorrowedStr<'a>,
}

/// The current state of a pod on the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CurrentPodState {
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) node: String,
    pub(super) is_terminating: bool,
}

impl LeaderClient {
    pub(super) fn new(client: Client, leadership: LeadershipDeadline) -> LeaderClient {
        LeaderClient { client, leadership }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn is_leading(&self) -> bool {
        self.leadership.is_leader_at(Instant::now())
    }

    /// Binds a pod to a node, on condition that it still has this resourceVersion.
    pub(super) async fn bind(&self, pod: &Pod, version: &str, node: &str) -> BindingResult {
        let path = format!("{}/binding", pod_path(&pod.key));
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": pod.key.name, "namespace": pod.key.namespace,
                "uid": pod.uid, "resourceVersion": version,
            },
            "target": {"kind": "Node", "name": node},
        });
        match self.send(Method::POST, &path, JSON, &body).await {
            Ok(_) => BindingResult::Bound,
            // A proxy may have sent the request twice; the second then conflicts with the effect of the first.
            Err(RequestError::Rejected { code: 409, message }) => {
                self.read_binding_result(pod, node, message).await
            }
            Err(RequestError::Rejected { code: 404, message }) => BindingResult::NotBound(message),
            Err(RequestError::Rejected { message, .. }) => BindingResult::Rejected(message),
            Err(RequestError::NotLeading) => BindingResult::NotLeading,
            Err(RequestError::OutcomeUnknown(problem)) => BindingResult::OutcomeUnknown(problem),
        }
    }

    /// Resolves a binding of unknown outcome: it either took effect, or the pod is updated so that it no longer can.
    /// Retries until the outcome is known.
    pub(super) async fn resolve_binding(
        &self,
        pod: &Pod,
        version: &str,
        node: &str,
        problem: String,
    ) -> BindingResult {
        tracing::warn!(pod = %pod.key, node, error = problem, "binding outcome unknown; resolving it");
        let mut last_warning = Instant::now();
        let mut backoff = Backoff::new(RESOLVE_RETRY_DELAY, RESOLVE_RETRY_DELAY_MAX);
        loop {
            let failure = match self
                .bump_resource_version(&pod.key, &pod.uid, version)
                .await
            {
                Ok(()) => return BindingResult::NotBound(problem),
                Err(RequestError::NotLeading) => return BindingResult::NotLeading,
                Err(failure) if failure.is_not_found() => return BindingResult::NotBound(problem),
                Err(failure) if failure.is_conflict() => {
                    match self.read_binding_result(pod, node, problem.clone()).await {
                        BindingResult::OutcomeUnknown(_) => failure,
                        outcome => return outcome,
                    }
                }
                Err(failure) => failure,
            };
            if last_warning.elapsed() >= WARNING_INTERVAL {
                tracing::warn!(pod = %pod.key, node, error = %failure,
                    "binding outcome still unknown; the pod stays assumed, retrying");
                last_warning = Instant::now();
            }
            sleep(backoff.next_delay()).await;
        }
    }

    /// Reads the outcome of a binding request that can have no further effect.
    async fn read_binding_result(&self, pod: &Pod, node: &str, problem: String) -> BindingResult {
        match self.get_pod(&pod.key).await {
            Ok(Some(current)) if current.uid == *pod.uid && current.node == node => {
                BindingResult::Bound
            }
            Ok(_) => BindingResult::NotBound(problem),
            Err(RequestError::NotLeading) => BindingResult::NotLeading,
            Err(_) => BindingResult::OutcomeUnknown(problem),
        }
    }

    /// Updates a pod of this resourceVersion harmlessly, so that the server rejects bindings decided on that version.
    /// A conflict means that the pod has already changed.
    ///
    /// Writes `lastProbeTime` of the `PodScheduled` condition: nothing reads it, upstream leaves it empty, and a
    /// binding clears it. A pod without the condition gets it with status False, which is true.
    pub(super) async fn bump_resource_version(
        &self,
        pod: &NamespacedName,
        uid: &str,
        version: &str,
    ) -> Result<(), RequestError> {
        loop {
            let patch = json!({
                "metadata": {"uid": uid, "resourceVersion": version},
                "status": {"conditions": [{
                    "type": "PodScheduled", "status": "False", "lastProbeTime": timestamp_now(),
                }]},
            });
            let bumped = self.patch_status(pod, &patch).await?;
            if bumped.version != version {
                return Ok(());
            }
            // A no-op: the same timestamp was already written in this second.
            sleep(CONDITION_TIME_RESOLUTION).await;
        }
    }

    /// Reads a pod; `None` if it does not exist.
    pub(super) async fn get_pod(
        &self,
        pod: &NamespacedName,
    ) -> Result<Option<CurrentPodState>, RequestError> {
        match self
            .send(Method::GET, &pod_path(pod), JSON, &Value::Null)
            .await
        {
            Ok(body) => parse_pod(&body).map(Some),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    pub(super) async fn patch_status(
        &self,
        pod: &NamespacedName,
        patch: &Value,
    ) -> Result<CurrentPodState, RequestError> {
        let path = format!("{}/status", pod_path(pod));
        let body = self
            .send(Method::PATCH, &path, STRATEGIC_MERGE_PATCH, patch)
            .await?;
        parse_pod(&body)
    }

    /// Preempts a pod: sets its `DisruptionTarget` condition and deletes it. Succeeds if it is already gone.
    pub(super) async fn preempt_pod(
        &self,
        victim: &Pod,
        scheduler: &str,
    ) -> Result<(), RequestError> {
        let mut attempts = 1;
        loop {
            match self.preempt_pod_once(victim, scheduler).await {
                Err(failure) if failure.is_not_found() => return Ok(()),
                // The pod was replaced, or modified concurrently.
                Err(failure) if failure.is_conflict() => {
                    let current = self.get_pod(&victim.key).await?;
                    if current.is_none_or(|current| current.uid != *victim.uid) {
                        return Ok(());
                    }
                    if attempts == PREEMPTION_ATTEMPTS_MAX {
                        return Err(failure);
                    }
                }
                result => return result,
            }
            attempts += 1;
        }
    }

    /// Sets the `DisruptionTarget` condition and deletes the pod.
    async fn preempt_pod_once(&self, victim: &Pod, scheduler: &str) -> Result<(), RequestError> {
        let message = format!("{scheduler}: preempting to accommodate a higher priority pod");
        let mut condition = json!({
            "type": "DisruptionTarget", "status": "True",
            "reason": "PreemptionByScheduler", "message": message,
            "lastTransitionTime": timestamp_now(),
        });
        if victim.generation > 0 {
            condition["observedGeneration"] = json!(victim.generation);
        }
        let patch = json!({
            "metadata": {"uid": victim.uid},
            "status": {"conditions": [condition]},
        });
        self.patch_status(&victim.key, &patch).await?;
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": victim.uid},
        });
        let path = pod_path(&victim.key);
        self.send(Method::DELETE, &path, JSON, &options).await?;
        Ok(())
    }

    /// Sends a request; retries with backoff while the server answers 429, which means that it had no effect.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Vec<u8>, RequestError> {
        let body = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let until = Instant::now() + THROTTLED_RETRY_PERIOD;
        let mut backoff = Backoff::new(THROTTLED_RETRY_DELAY, THROTTLED_RETRY_DELAY_MAX);
        loop {
            let body = body.clone();
            let sent = self.send_once(method.clone(), path, content_type, body);
            match sent.await {
                Err(RequestError::Rejected { code: 429, .. }) if Instant::now() < until => {
                    sleep(backoff.next_delay()).await;
                }
                result => return result,
            }
        }
    }

    /// Sends a request if this process is leader now.
    async fn send_once(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, RequestError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, content_type)
            .header(ACCEPT, JSON)
            .body(Body::from(body))
            .map_err(|error| RequestError::Rejected {
                code: 400,
                message: error.to_string(),
            })?;
        if !self.is_leading() {
            return Err(RequestError::NotLeading);
        }
        match timeout(REQUEST_TIMEOUT, self.exchange(request)).await {
            Ok(result) => result,
            Err(_) => Err(RequestError::OutcomeUnknown("request timed out".to_owned())),
        }
    }

    async fn exchange(&self, request: Request<Body>) -> Result<Vec<u8>, RequestError> {
        use http_body_util::BodyExt as _;
        let unknown =
            |error: &dyn std::error::Error| RequestError::OutcomeUnknown(error.to_string());
        let sent = self.client.send(request).await;
        let response = sent.map_err(|error| unknown(&error))?;
        let status = response.status();
        let body = http_body_util::Limited::new(response.into_body(), RESPONSE_BYTES_MAX);
        let body = body.collect().await;
        let body = body.map_err(|error| RequestError::OutcomeUnknown(error.to_string()))?;
        let body = body.to_bytes();
        if status.is_success() {
            return Ok(body.to_vec());
        }
        let message = status_message(&body);
        Err(if status.is_client_error() {
            RequestError::Rejected {
                code: status.as_u16(),
                message,
            }
        } else {
            RequestError::OutcomeUnknown(message)
        })
    }
}

pub(super) const JSON: &str = "application/json";
pub(super) const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

fn pod_path(pod: &NamespacedName) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// The current time in the format of conditions.
pub(super) fn timestamp_now() -> String {
    Timestamp::now().strftime("%FT%TZ").to_string()
}

fn parse_pod(json: &[u8]) -> Result<CurrentPodState, RequestError> {
    let wire: PodResponse<'_> = serde_json::from_slice(json).map_err(|error| {
        RequestError::OutcomeUnknown(format!("failed to decode the pod in the response: {error}"))
    })?;
    Ok(CurrentPodState {
        uid: wire.metadata.uid.to_string(),
        version: wire.metadata.resource_version.to_string(),
        node: wire.spec.node_name.to_string(),
        is_terminating: !wire.metadata.deletion_timestamp.is_empty(),
    })
}

/// The message of a Status response.
fn status_message(json: &[u8]) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct StatusResponse<'a> {
        #[serde(borrow)]
        message: BorrowedStr<'a>,
    }
    let status: StatusResponse<'_> = serde_json::from_slice(json).unwrap_or_default();
    status.message.to_string()
}
