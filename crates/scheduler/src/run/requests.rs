//! What is asked of the server, each request only while this process leads.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use rhumb_api::partial::{Text, or_default};
use rhumb_client::leader::Lead;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::model::{Pod, PodKey};

/// A request that takes longer has been lost, or may as well have been.
pub(super) const REQUEST_MAX: Duration = Duration::from_secs(10);
/// A server that has too much to do is asked again after this, and then after twice as long each time.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
const BUSY_PAUSE_MAX: Duration = Duration::from_secs(1);
/// One that says so for longer means this request and not its own state: webhooks can say the same.
const BUSY_MAX: Duration = Duration::from_secs(60);
/// Between the first two attempts to find out what became of one, and between later ones.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Between two times that the same trouble is told.
const COMPLAINTS: Duration = Duration::from_secs(60);
/// How often a pod is told to go that somebody else wrote at the same time.
const EVICTIONS_MAX: usize = 3;
/// What a condition says of its time is no finer than this.
const CONDITION_TICK: Duration = Duration::from_secs(1);
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Speaks to the server as the leader.
#[derive(Clone)]
pub(super) struct Server {
    client: Client,
    lead: Lead,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("lead", &self.lead).finish()
    }
}

/// Why a request has no good answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// Nothing was sent: another process may lead.
    #[error("this process does not lead any more")]
    NotLeading,
    /// The server did not do it.
    #[error("{message}")]
    Refused { code: u16, message: String },
    /// Nobody knows whether the server did it, does it, or will.
    #[error("{0}")]
    Unknown(String),
}

impl Failure {
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Failure::Refused { code: 404, .. })
    }

    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Failure::Refused { code: 409, .. })
    }
}

/// What became of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bound {
    Yes,
    /// It is not, and the request can have no effect any more: the pod is another one by now, or no more.
    No(String),
    /// The server does not want it, and will not the next time if nobody does anything about it.
    Refused(String),
    /// It may be, or may still be going to be: see [`Server::settle`].
    Unknown(String),
    NotLeading,
}

/// A pod as far as writers look at it again.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wire<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: Spec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(borrow)]
    resource_version: Text<'a>,
    #[serde(borrow)]
    deletion_timestamp: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    node_name: Text<'a>,
}

/// How a pod is now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Current {
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) node: String,
    pub(super) is_terminating: bool,
}

impl Server {
    pub(super) fn new(client: Client, lead: Lead) -> Server {
        Server { client, lead }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn leads(&self) -> bool {
        self.lead.is_sure(Instant::now())
    }

    /// Puts a pod of this version on a node.
    pub(super) async fn bind(&self, pod: &Pod, version: &str, node: &str) -> Bound {
        let path = format!("{}/binding", path_of(&pod.key));
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
            Ok(_) => Bound::Yes,
            // Whatever lies between may have sent it twice: then its own effect is in its way.
            Err(Failure::Refused { code: 409, message }) => self.find_out(pod, node, message).await,
            Err(Failure::Refused { code: 404, message }) => Bound::No(message),
            Err(Failure::Refused { message, .. }) => Bound::Refused(message),
            Err(Failure::NotLeading) => Bound::NotLeading,
            Err(Failure::Unknown(problem)) => Bound::Unknown(problem),
        }
    }

    /// After a binding without an answer: either it has taken effect, or the pod is changed so that it cannot. It takes
    /// as long as it takes, and is never unknown then.
    pub(super) async fn settle(
        &self,
        pod: &Pod,
        version: &str,
        node: &str,
        problem: String,
    ) -> Bound {
        tracing::warn!(pod = %pod.key, problem, "whether it is bound is not known");
        let mut complained = Instant::now();
        let mut pause = PAUSE;
        loop {
            let failure = match self.touch(&pod.key, &pod.uid, version).await {
                Ok(()) => return Bound::No(problem),
                Err(Failure::NotLeading) => return Bound::NotLeading,
                Err(failure) if failure.is_not_found() => return Bound::No(problem),
                Err(failure) if failure.is_conflict() => {
                    match self.find_out(pod, node, problem.clone()).await {
                        Bound::Unknown(_) => failure,
                        known => return known,
                    }
                }
                Err(failure) => failure,
            };
            if complained.elapsed() >= COMPLAINTS {
                tracing::warn!(pod = %pod.key, node, %failure,
                    "whether it is bound is still not known: its place is kept");
                complained = Instant::now();
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// What became of a binding that can have no effect any more.
    async fn find_out(&self, pod: &Pod, node: &str, problem: String) -> Bound {
        match self.look(&pod.key).await {
            Ok(Some(now)) if now.uid == *pod.uid && now.node == node => Bound::Yes,
            Ok(_) => Bound::No(problem),
            Err(Failure::NotLeading) => Bound::NotLeading,
            Err(_) => Bound::Unknown(problem),
        }
    }

    /// Changes a pod that has this version in a way that nobody minds, so that whatever was decided on that version
    /// is refused from now on. A conflict says that it has changed already.
    ///
    /// What is changed is when its condition was last looked at: nobody reads that, upstream leaves it empty, and the
    /// binding takes it away. A pod that nobody looked at yet gets a condition that says what is true: no node.
    pub(super) async fn touch(
        &self,
        pod: &PodKey,
        uid: &str,
        version: &str,
    ) -> Result<(), Failure> {
        loop {
            let patch = json!({
                "metadata": {"uid": uid, "resourceVersion": version},
                "status": {"conditions": [{
                    "type": "PodScheduled", "status": "False", "lastProbeTime": now(),
                }]},
            });
            let touched = self.patch_status(pod, &patch).await?;
            if touched.version != version {
                return Ok(());
            }
            // It was touched in the same second already.
            sleep(CONDITION_TICK).await;
        }
    }

    /// How a pod is now; `None` if it is not.
    pub(super) async fn look(&self, pod: &PodKey) -> Result<Option<Current>, Failure> {
        match self
            .send(Method::GET, &path_of(pod), JSON, &Value::Null)
            .await
        {
            Ok(answer) => current(&answer).map(Some),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    pub(super) async fn patch_status(
        &self,
        pod: &PodKey,
        patch: &Value,
    ) -> Result<Current, Failure> {
        let path = format!("{}/status", path_of(pod));
        let answer = self.send(Method::PATCH, &path, STRATEGIC, patch).await?;
        current(&answer)
    }

    /// Takes a pod away to make room, and has it say why. One that is gone already is what was wanted.
    pub(super) async fn evict(&self, victim: &Pod, scheduler: &str) -> Result<(), Failure> {
        let mut attempts = 1;
        loop {
            match self.evict_once(victim, scheduler).await {
                Err(failure) if failure.is_not_found() => return Ok(()),
                // It is another pod by now, or somebody wrote at the same time.
                Err(failure) if failure.is_conflict() => {
                    let current = self.look(&victim.key).await?;
                    if current.is_none_or(|now| now.uid != *victim.uid) {
                        return Ok(());
                    }
                    if attempts == EVICTIONS_MAX {
                        return Err(failure);
                    }
                }
                evicted => return evicted,
            }
            attempts += 1;
        }
    }

    /// Has a pod say why it goes, and takes it away.
    async fn evict_once(&self, victim: &Pod, scheduler: &str) -> Result<(), Failure> {
        let message = format!("{scheduler}: preempting to accommodate a higher priority pod");
        let mut condition = json!({
            "type": "DisruptionTarget", "status": "True",
            "reason": "PreemptionByScheduler", "message": message,
            "lastTransitionTime": now(),
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
        let path = path_of(&victim.key);
        self.send(Method::DELETE, &path, JSON, &options).await?;
        Ok(())
    }

    /// Sends a request, again while the server says that it has too much to do: then nothing was done, and whoever waits
    /// here asks for nothing else.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Vec<u8>, Failure> {
        let body = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let until = Instant::now() + BUSY_MAX;
        let mut pause = BUSY_PAUSE;
        loop {
            let body = body.clone();
            let sent = self.send_once(method.clone(), path, content_type, body);
            match sent.await {
                Err(Failure::Refused { code: 429, .. }) if Instant::now() < until => {
                    sleep(pause).await;
                    pause = (pause * 2).min(BUSY_PAUSE_MAX);
                }
                answer => return answer,
            }
        }
    }

    /// Sends a request now, or never.
    async fn send_once(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, content_type)
            .header(ACCEPT, JSON)
            .body(Body::from(body))
            .map_err(|error| Failure::Refused {
                code: 400,
                message: error.to_string(),
            })?;
        if !self.leads() {
            return Err(Failure::NotLeading);
        }
        match timeout(REQUEST_MAX, self.answer(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::Unknown("the server does not answer".to_owned())),
        }
    }

    async fn answer(&self, request: Request<Body>) -> Result<Vec<u8>, Failure> {
        use http_body_util::BodyExt as _;
        let unknown = |error: &dyn std::error::Error| Failure::Unknown(error.to_string());
        let sent = self.client.send(request).await;
        let response = sent.map_err(|error| unknown(&error))?;
        let status = response.status();
        let body = http_body_util::Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        let body = body.collect().await;
        let body = body.map_err(|error| Failure::Unknown(error.to_string()))?;
        let body = body.to_bytes();
        if status.is_success() {
            return Ok(body.to_vec());
        }
        let message = message(&body);
        Err(if status.is_client_error() {
            Failure::Refused {
                code: status.as_u16(),
                message,
            }
        } else {
            Failure::Unknown(message)
        })
    }
}

pub(super) const JSON: &str = "application/json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

fn path_of(pod: &PodKey) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// Now, as conditions have it.
pub(super) fn now() -> String {
    Timestamp::now().strftime("%FT%TZ").to_string()
}

fn current(json: &[u8]) -> Result<Current, Failure> {
    let wire: Wire<'_> = serde_json::from_slice(json)
        .map_err(|error| Failure::Unknown(format!("the answer is no pod: {error}")))?;
    Ok(Current {
        uid: wire.metadata.uid.to_string(),
        version: wire.metadata.resource_version.to_string(),
        node: wire.spec.node_name.to_string(),
        is_terminating: !wire.metadata.deletion_timestamp.is_empty(),
    })
}

/// What a Status says.
fn message(json: &[u8]) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status<'a> {
        #[serde(borrow)]
        message: Text<'a>,
    }
    let status: Status<'_> = serde_json::from_slice(json).unwrap_or_default();
    status.message.to_string()
}
