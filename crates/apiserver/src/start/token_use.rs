//! Secrets say on which day their token was last used, so that those nobody uses can be found.

use std::sync::{Arc, Weak};

use rhumb_api::Object;
use rhumb_auth::token::LAST_USED_LABEL;
use rhumb_meta::ObjectKey;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::amend::amend;
use crate::Api;

/// A use that finds no room is noted by the next request with that token.
const WAITING_MAX: usize = 64;

/// Where requests leave a note without waiting for the write.
#[derive(Debug)]
pub(super) struct Uses(mpsc::Sender<Use>);

/// The notes that wait to be written.
#[derive(Debug)]
pub(super) struct Notes(mpsc::Receiver<Use>);

#[derive(Debug)]
struct Use {
    namespace: String,
    secret: String,
    day: String,
}

pub(super) fn notes() -> (Uses, Notes) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Uses(sender), Notes(receiver))
}

impl Uses {
    pub(super) fn note(&self, namespace: &str, secret: &str, day: &str) {
        // There is no room, or the server ends: see above.
        let _ = self.0.try_send(Use {
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            day: day.to_owned(),
        });
    }
}

/// Writes the notes for as long as there is a server.
pub(super) fn keep(api: &Arc<Api>, mut notes: Notes) {
    let api: Weak<Api> = Arc::downgrade(api);
    tokio::spawn(async move {
        while let Some(used) = notes.0.recv().await {
            let Some(api) = api.upgrade() else { return };
            if let Err(problem) = write(&api, &used).await {
                let Use {
                    namespace, secret, ..
                } = used;
                tracing::warn!(
                    namespace,
                    secret,
                    problem,
                    "a secret does not say when its token was last used"
                );
            }
        }
    });
}

/// Should somebody change the secret meanwhile, the next use is noted.
async fn write(api: &Arc<Api>, used: &Use) -> Result<(), String> {
    let key = ObjectKey::new(Some(&used.namespace), &used.secret).map_err(|it| it.to_string())?;
    amend(api, ("", "secrets"), &key, |secret| {
        labelled(secret, &used.day)
    })
    .await
    .map(|_| ())
}

/// `None` if the secret says so already.
fn labelled(mut secret: Object, day: &str) -> Option<Object> {
    let metadata = secret.get_mut("metadata")?.as_object_mut()?;
    let labels = metadata.entry("labels").or_insert(Value::Null);
    if labels.is_null() {
        *labels = json!({});
    }
    let before = labels
        .as_object_mut()?
        .insert(LAST_USED_LABEL.to_owned(), day.into());
    before.is_none_or(|before| before != day).then_some(secret)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use http::Method;
    use rhumb_auth::token::{Account, legacy_token};

    use super::*;
    use crate::testing::{Server, Setup};

    const CORE: &str = "/api/v1/namespaces/default";

    async fn create(server: &Server, plural: &str, body: Value) -> Value {
        let (code, made) = server.create(&format!("{CORE}/{plural}"), body).await;
        assert_eq!(code, 201, "{made}");
        made
    }

    /// An account, and a secret with the token that is given.
    async fn with_token(server: &Server) -> String {
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}});
        let account = create(server, "serviceaccounts", account).await;
        let account = Account {
            namespace: "default",
            name: "bot",
            uid: account["metadata"]["uid"].as_str().expect("a uid"),
        };
        let key = server.api.issuer.key();
        let token = legacy_token(key, account, "bot-token").expect("a token");
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

    async fn review(server: &Server, token: &str) -> Value {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
        });
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        server.create(path, review).await.1["status"].take()
    }

    #[tokio::test]
    async fn a_token_in_a_secret_is_good_until_the_secret_is_gone_and_says_when_it_was_used() {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::open(directory.path(), Setup::default()).await;
        let token = with_token(&server).await;
        let secret = format!("{CORE}/secrets/bot-token");

        let status = review(&server, &token).await;
        assert_eq!(status["authenticated"], true, "{status}");
        assert_eq!(
            status["user"]["username"],
            "system:serviceaccount:default:bot"
        );
        let today = server.api.clock.wall().rfc3339().to_string()[..10].to_owned();
        let mut last_used = Value::Null;
        for _ in 0..500 {
            let (_, mut seen) = server.get(&secret).await;
            last_used = seen["metadata"]["labels"][LAST_USED_LABEL].take();
            if !last_used.is_null() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(last_used.as_str() >= Some(&today), "{last_used}");

        let mark = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}});
        assert_eq!(server.ask(Method::PATCH, &secret, mark).await.0, 200);
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
    fn a_day_is_written_once() {
        let of = |labels: Value| crate::testing::object(json!({"metadata": {"labels": labels}}));
        let today = json!({LAST_USED_LABEL: "2026-01-02"});
        let both = json!({LAST_USED_LABEL: "2026-01-02", "a": "b"});
        let table = [
            (Value::Null, Some(&today)),
            (json!({LAST_USED_LABEL: "2026-01-01"}), Some(&today)),
            (json!({"a": "b"}), Some(&both)),
            (today.clone(), None),
        ];
        for (labels, want) in table {
            let got = labelled(of(labels.clone()), "2026-01-02");
            let got = got.map(|secret| secret["metadata"]["labels"].clone());
            assert_eq!(got.as_ref(), want, "{labels}");
        }
    }
}
