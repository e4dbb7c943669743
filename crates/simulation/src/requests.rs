//! What is asked of the API server.

use http::Request as Http;
use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use crate::nodes::LEASES;
use crate::wire;

const NODES: &str = "/api/v1/nodes";

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[error("{}", said(.0))]
pub struct Error(#[from] kube::Error);

fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

impl Error {
    fn code(&self) -> Option<u16> {
        match &self.0 {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    pub(crate) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }
}

/// What is read of an answer in which only the identity matters.
#[derive(Debug, Deserialize)]
pub(crate) struct Made {
    metadata: Identity,
}

#[derive(Debug, Deserialize)]
struct Identity {
    #[serde(default)]
    uid: String,
}

impl Made {
    pub(crate) fn uid(self) -> String {
        self.metadata.uid
    }
}

type Prepared = Result<Http<Vec<u8>>, kube::core::request::Error>;

#[derive(Clone)]
pub(crate) struct Server(Client);

impl Server {
    pub(crate) fn new(client: Client) -> Server {
        Server(client)
    }

    pub(crate) async fn send<T: DeserializeOwned>(&self, request: Prepared) -> Result<T, Error> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        Ok(self.0.request(request).await?)
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Made, Error> {
        let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
        let request = Request::new(path).create(&PostParams::default(), body);
        self.send(request).await
    }

    pub(crate) async fn create_node(&self, node: &Value) -> Result<Made, Error> {
        self.create(NODES, node).await
    }

    pub(crate) async fn node(&self, name: &str) -> Result<wire::Node, Error> {
        let request = Request::new(NODES).get(name, &GetParams::default());
        self.send(request).await
    }

    pub(crate) async fn patch_node(&self, name: &str, patch: &Value) -> Result<(), Error> {
        let params = PatchParams::default();
        let request = Request::new(NODES).patch(name, &params, &Patch::Merge(patch));
        self.send::<IgnoredAny>(request).await.map(drop)
    }

    pub(crate) async fn patch_node_status(&self, name: &str, status: Value) -> Result<(), Error> {
        let params = PatchParams::default();
        let patch = Patch::Strategic(json!({"status": status}));
        let request = Request::new(NODES).patch_subresource("status", name, &params, &patch);
        self.send::<IgnoredAny>(request).await.map(drop)
    }

    pub(crate) async fn delete_node(&self, name: &str, uid: &str) -> Result<(), Error> {
        let request = Request::new(NODES).delete(name, &only(uid));
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

    /// At once: whatever its grace is, it has stopped.
    pub(crate) async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), Error> {
        let request = Request::new(pods(namespace)).delete(name, &only(uid).grace_period(0));
        self.send::<IgnoredAny>(request).await.map(drop)
    }

    pub(crate) async fn create_event(&self, namespace: &str, event: &Value) -> Result<(), Error> {
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
    format!("/apis/coordination.k8s.io/v1/namespaces/{LEASES}/leases")
}

fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}
