//! A server with a webhook server.

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::metric_value::metric_value;
use crate::support::{CONFIG_MAPS, ClientCredentials, HttpResponse, TestServer};
use crate::webhook::WebhookServer;
use crate::webhook_builder::WebhookBuilder;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// The two kinds of webhook configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WebhookKind {
    Mutating,
    Validating,
}

pub(crate) use WebhookKind::{Mutating, Validating};

impl WebhookKind {
    fn kind(self) -> &'static str {
        match self {
            Mutating => "MutatingWebhookConfiguration",
            Validating => "ValidatingWebhookConfiguration",
        }
    }

    pub(crate) fn path(self) -> String {
        let resource = self.kind().to_lowercase();
        format!("{CONFIGURATIONS}/{resource}s")
    }
}

pub(crate) struct WebhookTestCluster {
    pub(crate) server: TestServer,
    pub(crate) webhook: WebhookServer,
}

impl WebhookTestCluster {
    pub(crate) async fn start() -> WebhookTestCluster {
        WebhookTestCluster::start_with(&[]).await
    }

    pub(crate) async fn start_with(flags: &[&str]) -> WebhookTestCluster {
        WebhookTestCluster {
            server: TestServer::start(flags),
            webhook: WebhookServer::start().await,
        }
    }

    /// A webhook that is called at the path `/<name>` of the webhook server.
    pub(crate) fn hook(&self, name: &str) -> WebhookBuilder {
        WebhookBuilder::new(name, self.webhook.client_config(&format!("/{name}")))
    }

    pub(crate) async fn register<const N: usize>(
        &self,
        webhook_kind: WebhookKind,
        name: &str,
        hooks: [WebhookBuilder; N],
    ) -> HttpResponse {
        let configuration = configuration(webhook_kind, name, hooks);
        let response = self.post(&webhook_kind.path(), &configuration).await;
        assert_eq!(response.code, StatusCode::CREATED, "{}", response.text());
        response
    }

    /// Replaces the webhooks of a configuration.
    pub(crate) async fn replace<const N: usize>(
        &self,
        webhook_kind: WebhookKind,
        name: &str,
        hooks: [WebhookBuilder; N],
    ) {
        let path = format!("{}/{name}", webhook_kind.path());
        let patched = self
            .merge(&path, &configuration(webhook_kind, name, hooks))
            .await;
        assert_eq!(patched.code, StatusCode::OK, "{}", patched.text());
    }

    pub(crate) async fn remove(&self, webhook_kind: WebhookKind, name: &str) {
        let path = format!("{}/{name}", webhook_kind.path());
        let removed = self.delete(&path).await;
        assert_eq!(removed.code, StatusCode::OK, "{}", removed.text());
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> HttpResponse {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        self.server
            .send_request(ClientCredentials::Admin, method, path, &body)
            .await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let got = self.send(Method::GET, path, &Value::Null).await;
        assert_eq!(got.code, StatusCode::OK, "{}", got.text());
        got.json()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> HttpResponse {
        self.send(Method::POST, path, body).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> HttpResponse {
        self.send(Method::PUT, path, body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> HttpResponse {
        self.send(Method::DELETE, path, &Value::Null).await
    }

    /// Sends a JSON merge patch (RFC 7396).
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> HttpResponse {
        let mut client = self.server.http1(ClientCredentials::Admin).await;
        let mut request = client.request(Method::PATCH, path, &patch.to_string());
        let merge = "application/merge-patch+json".parse().unwrap();
        request.headers_mut().insert("content-type", merge);
        HttpResponse::read(client.send(request).await.unwrap()).await
    }

    /// Creates a config map in the namespace `default`.
    pub(crate) async fn create_config_map(&self, name: &str) -> HttpResponse {
        self.post(CONFIG_MAPS, &config_map(name)).await
    }

    /// Creates an object; the create must succeed.
    pub(crate) async fn must_create(&self, path: &str, object: Value) -> Value {
        let response = self.post(path, &object).await;
        assert_eq!(response.code, StatusCode::CREATED, "{}", response.text());
        response.json()
    }

    pub(crate) async fn create_namespace(&self, name: &str, labels: Value) {
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        self.must_create("/api/v1/namespaces", namespace).await;
    }

    /// Waits for the default service account of a namespace, which pods need.
    pub(crate) async fn wait_for_default_account(&self, namespace: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        for _ in 0..500 {
            if self.server.get(&path).await.code == StatusCode::OK {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("there is no account in {namespace}");
    }

    /// Kills the server and restarts it on the same data.
    pub(crate) fn restart(self) -> WebhookTestCluster {
        let WebhookTestCluster { server, webhook } = self;
        let directory = server.directory.clone();
        drop(server);
        WebhookTestCluster {
            server: TestServer::start_in(directory, &[]),
            webhook,
        }
    }

    /// The value of a metric with exactly these labels, in any order; 0 if absent.
    pub(crate) async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let metrics = self.server.get("/metrics").await.text();
        metric_value(&metrics, name, labels)
    }
}

fn configuration<const N: usize>(
    webhook_kind: WebhookKind,
    name: &str,
    hooks: [WebhookBuilder; N],
) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": webhook_kind.kind(),
        "metadata": {"name": name},
        "webhooks": hooks.map(WebhookBuilder::into_value).to_vec(),
    })
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"a": "b"},
    })
}

/// The message of a Status response.
pub(crate) fn message(response: &HttpResponse) -> String {
    response.json()["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// The warnings of a response.
pub(crate) fn warnings(response: &HttpResponse) -> Vec<String> {
    let warnings = response.headers.get_all("warning").iter();
    warnings
        .map(|warning| String::from_utf8(warning.as_bytes().into()).unwrap())
        .collect()
}
