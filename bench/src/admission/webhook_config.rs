//! Creates and deletes webhook configurations (`admissionregistration.k8s.io/v1`) on a server.

use anyhow::{Result, bail};
use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde_json::{Value, json};

use crate::client::ApiConnection;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum WebhookType {
    Validating,
    Mutating,
}

impl WebhookType {
    pub(super) const fn name(self) -> &'static str {
        match self {
            WebhookType::Validating => "validating",
            WebhookType::Mutating => "mutating",
        }
    }

    fn collection(self) -> String {
        format!("{GROUP}/{}webhookconfigurations", self.name())
    }

    /// Creates a configuration with one webhook and failurePolicy `Fail`.
    pub(super) async fn add(
        self,
        connection: &mut ApiConnection,
        name: &str,
        webhook: Value,
    ) -> Result<()> {
        let mut webhook = webhook;
        webhook["name"] = format!("{name}.bench.example.com").into();
        webhook["failurePolicy"] = "Fail".into();
        webhook["sideEffects"] = "None".into();
        webhook["admissionReviewVersions"] = json!(["v1"]);
        let configuration = json!({"metadata": {"name": name}, "webhooks": [webhook]});
        let body = configuration.to_string().into();
        connection
            .execute(Method::POST, &self.collection(), body)
            .await?;
        Ok(())
    }

    /// Deletes all configurations of this type.
    pub(super) async fn clear(self, connection: &mut ApiConnection) -> Result<()> {
        let collection = self.collection();
        connection
            .execute(Method::DELETE, &collection, Bytes::new())
            .await?;
        Ok(())
    }
}

/// Sends a create and returns whether a webhook rejected it.
pub(super) async fn is_stopped(
    connection: &mut ApiConnection,
    path: &str,
    body: Bytes,
) -> Result<bool> {
    match connection.execute(Method::POST, path, body).await {
        Ok(_) => Ok(false),
        Err(error) if error.to_string().contains("webhook") => Ok(true),
        Err(error) => bail!(error),
    }
}
