//! Typed requests to the API server, with a timeout.

use std::time::Duration;

use http::Request as Http;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use rhumb_client::Error;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::node_objects::LEASE_NAMESPACE;
use crate::partial_objects;

const NODES_PATH: &str = "/api/v1/nodes";

/// Timeout of a request. Concurrency is limited, so requests that are never answered would block all others, and
/// leases expire soon after this time.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Response to a create request, of which only the uid is used.
#[derive(Debug, Deserialize)]
pub(crate) struct CreateResponse {
    metadata: CreatedMetadata,
}

#[derive(Debug, Deserialize)]
struct CreatedMetadata {
    #[serde(default)]
    uid: String,
}

impl CreateResponse {
    pub(crate) fn uid(self) -> String {
        self.metadata.uid
    }
}

type PreparedRequest = Result<Http<Vec<u8>>, kube::core::request::Error>;

#[derive(Clone)]
pub(crate) struct ApiClient(Client);

impl ApiClient {
    pub(crate) fn new(client: Client) -> ApiClient {
        ApiClient(client)
    }

    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        request: PreparedRequest,
    ) -> Result<T, Error> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        match timeout(ANSWER_MAX, self.0.request(request)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Error::Other(format!(
                "no response from the API server within {ANSWER_MAX:?}"
            ))),
        }
    }

    pub(crate) async fn create(
        &self,
        path: &str,
        object: &impl Serialize,
    ) -> Result<CreateResponse, Error> {
        let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
        let request = Request::new(path).create(&PostParams::default(), body);
        self.send(request).await
    }

    pub(crate) async fn create_node(&self, node: &Value) -> Result<CreateResponse, Error> {
        self.create(NODES_PATH, node).await
    }

    pub(crate) async fn node(&self, name: &str) -> Result<partial_objects::Node, Error> {
        let request = Request::new(NODES_PATH).get(name, &GetParams::default());
        self.send(request).await
    }

    pub(crate) async fn patch_node(&self, name: &str, patch: &Value) -> Result<(), Error> {
        let params = PatchParams::default();
        let request = Request::new(NODES_PATH).patch(name, &params, &Patch::Merge(patch));
        self.send::<IgnoredAny>(request).await.map(drop)
    }

    pub(crate) async fn patch_node_status(&self, name: &str, status: Value) -> Result<(), Error> {
        let params = PatchParams::default();
        let patch = Patch::Strategic(json!({"status": status}));
        let request = Request::new(NODES_PATH).patch_subresource("status", name, &params, &patch);
        self.send::<IgnoredAny>(request).await.map(drop)
    }

    pub(crate) async fn delete_node(&self, name: &str, uid: &str) -> Result<(), Error> {
        let request = Request::new(NODES_PATH).delete(name, &only(uid));
        self.send::<IgnoredAny>(request).await.map(drop)
    }

    pub(crate) async fn create_lease(&self, lease: &Value) -> Result<(), Error> {
        self.create(&leases(), lease).await.map(drop)
    }

    pub(crate) async fn renew_lease(&self, name: &str, renewal: &Value) -> Result<(), Error> {
        let params = PatchParams::default();
        let request = Request::new(leases()).patch(name, &params, &Patch::Merge(renewal));
        self.send::<IgnoredAny>(request).await.map(drop)
    }

    pub(crate) async fn delete_lease(&self, name: &str) -> Result<(), Error> {
        let request = Request::new(leases()).delete(name, &DeleteParams::default());
        self.send::<IgnoredAny>(request).await.map(drop)
    }

    pub(crate) async fn patch_pod_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<(), Error> {
        let params = PatchParams::default();
        let request = Request::new(pods(namespace)).patch_subresource(
            "status",
            name,
            &params,
            &Patch::Strategic(patch),
        );
        self.send::<IgnoredAny>(request).await.map(drop)
    }

    /// Deletes a stopped pod with grace period 0.
    pub(crate) async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), Error> {
        let request = Request::new(pods(namespace)).delete(name, &only(uid).grace_period(0));
        self.send::<IgnoredAny>(request).await.map(drop)
    }

    pub(crate) async fn create_event(&self, event: &Event) -> Result<(), Error> {
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/events");
        self.create(&path, event).await.map(drop)
    }
}

fn only(uid: &str) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    })
}

fn leases() -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases")
}

fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

#[cfg(test)]
mod tests {
    use rhumb_client::testing::recording_fake_client;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unresponsive_server_times_out() {
        let (client, _) = recording_fake_client(|_, _, _| None);
        let started = Instant::now();
        let renewed = ApiClient::new(client).renew_lease("n", &json!({})).await;
        let error = renewed.expect_err("the request must time out").to_string();
        assert_eq!(error, "no response from the API server within 10s");
        assert_eq!(started.elapsed(), ANSWER_MAX);
    }
}
