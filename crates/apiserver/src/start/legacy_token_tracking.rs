//! Writes the day on which a legacy service account token was last used as a label of its Secret, so that unused tokens
//! can be found (upstream: LegacyServiceAccountTokenTracking).

use std::sync::{Arc, Weak};

use rhumb_api::JsonObject;
use rhumb_auth::token::LAST_USED_LABEL;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use rhumb_registry::Registry;
use rhumb_registry::write::{BatchChange, BatchObjectRef, write_as_server};

/// Queue length. A use that does not fit is dropped; the next request with the token reports it again.
const QUEUE_MAX: usize = 64;

/// Queues token uses, so that requests do not wait for the write.
#[derive(Debug)]
pub(super) struct TokenUseSender(mpsc::Sender<TokenUse>);

/// Receives the queued token uses.
#[derive(Debug)]
pub(super) struct TokenUseReceiver(mpsc::Receiver<TokenUse>);

#[derive(Debug)]
struct TokenUse {
    namespace: String,
    secret: String,
    day: String,
}

pub(super) fn channel() -> (TokenUseSender, TokenUseReceiver) {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    (TokenUseSender(sender), TokenUseReceiver(receiver))
}

impl TokenUseSender {
    pub(super) fn send(&self, namespace: &str, secret: &str, day: &str) {
        // Fails if the queue is full or the server is shutting down; both may lose a use.
        let _ = self.0.try_send(TokenUse {
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            day: day.to_owned(),
        });
    }
}

/// Spawns the task that writes queued token uses. It ends with the server.
pub(super) fn spawn(registry: &Arc<Registry>, mut token_uses: TokenUseReceiver) {
    let registry: Weak<Registry> = Arc::downgrade(registry);
    tokio::spawn(async move {
        while let Some(used) = token_uses.0.recv().await {
            let Some(registry) = registry.upgrade() else {
                return;
            };
            if let Err(error) = write_last_used(&registry, &used).await {
                let TokenUse {
                    namespace, secret, ..
                } = used;
                tracing::warn!(
                    namespace,
                    secret,
                    error,
                    "failed to write the last use of a token into its secret; retrying with the next use"
                );
            }
        }
    });
}

/// After a conflict nothing is written; the next use is.
async fn write_last_used(registry: &Arc<Registry>, used: &TokenUse) -> Result<(), String> {
    let reference = BatchObjectRef {
        group: "",
        plural: "secrets",
        namespace: Some(&used.namespace),
        name: &used.secret,
    };
    let set_label = |secret: Option<&JsonObject>| {
        let secret = with_last_used_label(secret?.clone(), &used.day)?;
        Some(BatchChange::Update(secret))
    };
    write_as_server(registry, reference, set_label)
        .await
        .map(|_| ())
}

/// The secret with the label set; `None` if it already has that day.
fn with_last_used_label(mut secret: JsonObject, day: &str) -> Option<JsonObject> {
    let metadata = secret.get_mut("metadata")?.as_object_mut()?;
    let labels = metadata.entry("labels").or_insert(Value::Null);
    if labels.is_null() {
        *labels = json!({});
    }
    let previous = labels
        .as_object_mut()?
        .insert(LAST_USED_LABEL.to_owned(), day.into());
    previous
        .is_none_or(|previous| previous != day)
        .then_some(secret)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use http::Method;
    use rhumb_auth::token::{ServiceAccountIdentity, legacy_token};

    use super::*;
    use crate::testing::{TestServer, TestServerOptions};

    const CORE: &str = "/api/v1/namespaces/default";

    async fn create(server: &TestServer, plural: &str, body: Value) -> Value {
        let (code, created) = server.create(&format!("{CORE}/{plural}"), body).await;
        assert_eq!(code, 201, "{created}");
        created
    }

    /// Creates a service account and a token secret for it; returns the token.
    async fn create_legacy_token(server: &TestServer) -> String {
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}});
        let account = create(server, "serviceaccounts", account).await;
        let account = ServiceAccountIdentity {
            namespace: "default",
            name: "bot",
            uid: account["metadata"]["uid"]
                .as_str()
                .expect("object has a uid"),
        };
        let key = server.state.issuer.key();
        let token = legacy_token(key, account, "bot-token").expect("issue token");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {
                "name": "bot-token",
                "annotations": {"kubernetes.io/service-account.name": "bot"},
            },
            "data": {"token": STANDARD.encode(&token)},
        });
        create(server, "secrets", secret).await;
        token
    }

    async fn review(server: &TestServer, token: &str) -> Value {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
        });
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        server.create(path, review).await.1["status"].take()
    }

    #[tokio::test]
    async fn secret_tokens_are_valid_while_the_secret_exists_and_record_their_last_use() {
        let directory = tempfile::tempdir().expect("create temporary directory");
        let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
        let token = create_legacy_token(&server).await;
        let secret = format!("{CORE}/secrets/bot-token");

        let status = review(&server, &token).await;
        assert_eq!(status["authenticated"], true, "{status}");
        assert_eq!(
            status["user"]["username"],
            "system:serviceaccount:default:bot"
        );
        let today = server.state.registry.clock.wall().rfc3339().to_string()[..10].to_owned();
        let mut last_used = Value::Null;
        for _ in 0..500 {
            let (_, mut stored_secret) = server.get(&secret).await;
            last_used = stored_secret["metadata"]["labels"][LAST_USED_LABEL].take();
            if !last_used.is_null() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(last_used.as_str() >= Some(&today), "{last_used}");

        let invalidate = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}});
        assert_eq!(
            server.request(Method::PATCH, &secret, invalidate).await.0,
            200
        );
        let status = review(&server, &token).await;
        let error = status["error"].as_str().unwrap_or_default();
        assert!(error.contains("has been marked invalid"), "{status}");

        assert_eq!(server.delete(&secret).await.0, 200);
        let status = review(&server, &token).await;
        assert_eq!(
            status,
            json!({"user": {}, "error": "Token has been invalidated"})
        );
    }

    #[test]
    fn the_last_used_date_is_written_once_per_day() {
        let secret_with_labels = |labels: Value| {
            rhumb_registry::testing::object(json!({"metadata": {"labels": labels}}))
        };
        let today = json!({LAST_USED_LABEL: "2026-01-02"});
        let with_other_label = json!({LAST_USED_LABEL: "2026-01-02", "a": "b"});
        let table = [
            (Value::Null, Some(&today)),
            (json!({LAST_USED_LABEL: "2026-01-01"}), Some(&today)),
            (json!({"a": "b"}), Some(&with_other_label)),
            (today.clone(), None),
        ];
        for (labels, want) in table {
            let got = with_last_used_label(secret_with_labels(labels.clone()), "2026-01-02");
            let got = got.map(|secret| secret["metadata"]["labels"].clone());
            assert_eq!(got.as_ref(), want, "{labels}");
        }
    }
}
