//! Raw requests and responses, for details that typed clients hide.

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

pub(crate) const JSON: &str = "application/json";
pub(crate) const YAML: &str = "application/yaml";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const OPERATIONS: &str = "application/json-patch+json";
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// A raw response.
#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

impl RawResponse {
    #[track_caller]
    pub(crate) fn object(self) -> Value {
        assert!((200..300).contains(&self.code), "{self:?}");
        self.body
    }

    /// Code and message of an error response.
    #[track_caller]
    pub(crate) fn refusal(&self) -> (u16, &str) {
        assert!(self.code >= 400, "{self:?}");
        (self.code, self.body["message"].as_str().unwrap_or_default())
    }
}

pub(crate) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    media: &str,
    body: impl Into<Vec<u8>>,
) -> RawResponse {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .header("accept", JSON);
    let request = request.body(Body::from(body.into()));
    answer(client, request.expect("a request")).await
}

/// Reads a path with an `Accept` header.
pub(crate) async fn get_as(client: &Client, path: &str, media: &str) -> RawResponse {
    let request = Request::builder().uri(path).header("accept", media);
    let request = request.body(Body::empty());
    answer(client, request.expect("a request")).await
}

async fn answer(client: &Client, request: Request<Body>) -> RawResponse {
    let response = client.send(request).await.expect("an answer");
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|value| value.to_str().expect("a text").to_owned());
    let (code, warnings) = (response.status().as_u16(), warnings.collect());
    let body = response.into_body().collect_bytes().await.expect("a body");
    RawResponse {
        code,
        warnings,
        body: serde_json::from_slice(&body).expect("JSON"),
    }
}
