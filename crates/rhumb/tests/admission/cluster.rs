//! A server, a webhook server, and what is between them.

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::hook::Hook;
use crate::support::{Answer, As, CONFIG_MAPS, Server};
use crate::webhook::Webhook;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// The two kinds of configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    Mutating,
    Validating,
}

pub(crate) use Flavor::{Mutating, Validating};

impl Flavor {
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

pub(crate) struct Cluster {
    pub(crate) server: Server,
    pub(crate) webhook: Webhook,
}

impl Cluster {
    pub(crate) async fn start() -> Cluster {
        Cluster::start_with(&[]).await
    }

    pub(crate) async fn start_with(flags: &[&str]) -> Cluster {
        Cluster {
            server: Server::start(flags),
            webhook: Webhook::start().await,
        }
    }

    /// A webhook that is called at the path `/<name>` of the webhook server.
    pub(crate) fn hook(&self, name: &str) -> Hook {
        Hook::new(name, self.webhook.client_config(&format!("/{name}")))
    }

    pub(crate) async fn register<const N: usize>(
        &self,
        flavor: Flavor,
        name: &str,
        hooks: [Hook; N],
    ) -> Answer {
        let configuration = configuration(flavor, name, hooks);
        let made = self.post(&flavor.path(), &configuration).await;
        assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
        made
    }

    /// Puts other webhooks into a configuration.
    pub(crate) async fn replace<const N: usize>(
        &self,
        flavor: Flavor,
        name: &str,
        hooks: [Hook; N],
    ) {
        let path = format!("{}/{name}", flavor.path());
        let patched = self.merge(&path, &configuration(flavor, name, hooks)).await;
        assert_eq!(patched.code, StatusCode::OK, "{}", patched.text());
    }

    pub(crate) async fn remove(&self, flavor: Flavor, name: &str) {
        let path = format!("{}/{name}", flavor.path());
        let removed = self.delete(&path).await;
        assert_eq!(removed.code, StatusCode::OK, "{}", removed.text());
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: &Value) -> Answer {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        self.server.ask(As::Admin, method, path, &body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let got = self.ask(Method::GET, path, &Value::Null).await;
        assert_eq!(got.code, StatusCode::OK, "{}", got.text());
        got.json()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::POST, path, body).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::PUT, path, body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, &Value::Null).await
    }

    /// A patch by the rules of RFC 7396.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Answer {
        let mut client = self.server.http1(As::Admin).await;
        let mut request = client.request(Method::PATCH, path, &patch.to_string());
        let merge = "application/merge-patch+json".parse().unwrap();
        request.headers_mut().insert("content-type", merge);
        Answer::read(client.send(request).await.unwrap()).await
    }

    /// Makes a config map in the namespace `default`.
    pub(crate) async fn make(&self, name: &str) -> Answer {
        self.post(CONFIG_MAPS, &config_map(name)).await
    }

    /// Makes an object that must come about.
    pub(crate) async fn must_make(&self, path: &str, object: Value) -> Value {
        let made = self.post(path, &object).await;
        assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
        made.json()
    }

    pub(crate) async fn make_namespace(&self, name: &str, labels: Value) {
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        self.must_make("/api/v1/namespaces", namespace).await;
    }

    /// Pods need the account of their namespace, which is there a moment after the namespace.
    pub(crate) async fn until_accounts(&self, namespace: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        for _ in 0..500 {
            if self.server.get(&path).await.code == StatusCode::OK {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("there is no account in {namespace}");
    }

    /// Kills the server and starts it on the same data.
    pub(crate) fn restart(self) -> Cluster {
        let Cluster { server, webhook } = self;
        let directory = server.directory.clone();
        drop(server);
        Cluster {
            server: Server::start_in(directory, &[]),
            webhook,
        }
    }

    /// The value of a metric, or 0 if there is none with exactly these labels, in any order.
    pub(crate) async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let metrics = self.server.get("/metrics").await.text();
        let mut wanted: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}=\"{value}\""))
            .collect();
        wanted.sort_unstable();
        let of_line = |line: &str| {
            let (head, value) = line.rsplit_once(' ')?;
            let inside = head.strip_prefix(name)?.strip_prefix('{')?;
            let mut found: Vec<&str> = inside.strip_suffix('}')?.split(',').collect();
            found.sort_unstable();
            (found == wanted).then(|| value.parse().unwrap())
        };
        metrics.lines().find_map(of_line).unwrap_or(0.0)
    }
}

fn configuration<const N: usize>(flavor: Flavor, name: &str, hooks: [Hook; N]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": flavor.kind(),
        "metadata": {"name": name},
        "webhooks": hooks.map(Hook::into_value).to_vec(),
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

/// The message of a Status.
pub(crate) fn message(answer: &Answer) -> String {
    answer.json()["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// What the server warned of.
pub(crate) fn warnings(answer: &Answer) -> Vec<String> {
    let warnings = answer.headers.get_all("warning").iter();
    warnings
        .map(|warning| String::from_utf8(warning.as_bytes().into()).unwrap())
        .collect()
}
