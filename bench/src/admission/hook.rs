//! Configurations of webhooks, as they are written to a server.

use anyhow::{Result, bail};
use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde_json::{Value, json};

use crate::client::Connection;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Flavor {
    Validating,
    Mutating,
}

impl Flavor {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Flavor::Validating => "validating",
            Flavor::Mutating => "mutating",
        }
    }

    fn collection(self) -> String {
        format!("{GROUP}/{}webhookconfigurations", self.name())
    }

    /// Makes a configuration with one webhook, which is required: what it cannot be asked about fails.
    pub(super) async fn add(
        self,
        connection: &mut Connection,
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
            .ask(Method::POST, &self.collection(), body)
            .await?;
        Ok(())
    }

    /// Deletes all configurations.
    pub(super) async fn clear(self, connection: &mut Connection) -> Result<()> {
        let collection = self.collection();
        connection
            .ask(Method::DELETE, &collection, Bytes::new())
            .await?;
        Ok(())
    }
}

/// Tries a write that only a webhook could have something against; tells whether there was one.
pub(super) async fn is_stopped(
    connection: &mut Connection,
    path: &str,
    body: Bytes,
) -> Result<bool> {
    match connection.ask(Method::POST, path, body).await {
        Ok(_) => Ok(false),
        Err(error) if error.to_string().contains("webhook") => Ok(true),
        Err(error) => bail!(error),
    }
}
