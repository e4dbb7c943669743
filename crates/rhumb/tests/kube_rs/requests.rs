//! Requests and answers as they are, where typed clients would hide what a test is about.

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

/// What the server said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

impl Answer {
    #[track_caller]
    pub(crate) fn object(self) -> Value {
        assert!((200..300).contains(&self.code), "{self:?}");
        self.body
    }

    /// The code and the message of a refusal.
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
) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .header("accept", JSON);
    let request = request.body(Body::from(body.into()));
    answer(client, request.expect("a request")).await
}

/// What is at a path, in a form.
pub(crate) async fn get_as(client: &Client, path: &str, media: &str) -> Answer {
    let request = Request::builder().uri(path).header("accept", media);
    let request = request.body(Body::empty());
    answer(client, request.expect("a request")).await
}

async fn answer(client: &Client, request: Request<Body>) -> Answer {
    let response = client.send(request).await.expect("an answer");
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|value| value.to_str().expect("a text").to_owned());
    let (code, warnings) = (response.status().as_u16(), warnings.collect());
    let body = response.into_body().collect_bytes().await.expect("a body");
    Answer {
        code,
        warnings,
        body: serde_json::from_slice(&body).expect("JSON"),
    }
}
