//! Tests of the token secret index and of the removal of references to deleted secrets.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::testing;

fn secret(name: &str, account: &str) -> PartialObjectMeta<Secret> {
    let metadata = json!({
        "name": name, "namespace": "a", "annotations": {ACCOUNT_NAME: account, ACCOUNT_UID: "u"},
    });
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn deleted(account: &str) -> Event<PartialObjectMeta<ServiceAccount>, NamespacedName> {
    Event::Deleted(name(account))
}

fn accounts_listed() -> Event<PartialObjectMeta<ServiceAccount>, NamespacedName> {
    Event::Replaced(HashSet::new())
}

fn name(name: &str) -> NamespacedName {
    ("a".to_owned(), name.to_owned())
}

fn check(secret: &str) -> TokenSecretTask {
    TokenSecretTask::Check(name(secret))
}

fn unlist(secret: &str, account: &str) -> TokenSecretTask {
    TokenSecretTask::RemoveReference {
        secret: name(secret),
        account: ServiceAccountRef {
            name: account.to_owned(),
            uid: Some("u".to_owned()),
        },
    }
}

#[test]
fn secrets_are_checked_when_their_account_is_deleted() {
    let mut known = TokenSecretIndex::default();
    assert_eq!(
        known.handle_secret_event(Event::Applied(secret("s", "robot"))),
        [check("s")]
    );
    assert_eq!(known.handle_account_event(deleted("other")), []);
    assert_eq!(known.handle_account_event(deleted("robot")), [check("s")]);
    assert_eq!(known.handle_account_event(accounts_listed()), [check("s")]);
    // The secret now names another account.
    known.handle_secret_event(Event::Applied(secret("s", "other")));
    assert_eq!(known.handle_account_event(deleted("robot")), []);
    assert_eq!(known.handle_account_event(deleted("other")), [check("s")]);
    let gone = known.handle_secret_event(Event::Deleted(name("s")));
    assert_eq!(gone, [unlist("s", "other")]);
    assert!(known.by_account.is_empty() && known.accounts.is_empty());
}

#[test]
fn secrets_missing_from_a_relist_are_removed() {
    let mut known = TokenSecretIndex::default();
    known.handle_secret_event(Event::Applied(secret("stays", "robot")));
    known.handle_secret_event(Event::Applied(secret("goes", "robot")));
    let listed = known.handle_secret_event(Event::Applied(secret("stays", "robot")));
    assert_eq!(listed, [check("stays")]);
    assert_eq!(
        known.handle_secret_event(Event::Replaced([name("stays")].into())),
        [unlist("goes", "robot")]
    );
    assert_eq!(
        known.handle_account_event(deleted("robot")),
        [check("stays")]
    );
    assert_eq!(
        known.handle_account_event(accounts_listed()),
        [check("stays")]
    );
}

/// Removes the secret `gone` from the account `robot` (uid `u`, secrets `gone` and `other`). Returns the `secrets`
/// that were written, if any.
async fn after_unlisting(uid: Option<&str>, exists: bool) -> Option<Value> {
    let written = Arc::new(Mutex::new(None));
    let writes = written.clone();
    let client = testing::fake_client(move |request| {
        let path = request.uri().path();
        if request.method() == "PUT" {
            let body: Value = serde_json::from_slice(request.body()).unwrap();
            *writes.lock() = Some(body["secrets"].clone());
            return Some(body);
        }
        match path {
            "/api/v1/namespaces/a/serviceaccounts/robot" => Some(json!({
                "metadata": {"name": "robot", "uid": "u"},
                "secrets": [{"name": "gone"}, {"name": "other"}],
            })),
            _ if exists => Some(json!({"metadata": {"name": "gone"}})),
            _ => None,
        }
    });
    let account = ServiceAccountRef {
        name: "robot".to_owned(),
        uid: uid.map(str::to_owned),
    };
    super::unlist(&client, name("gone"), account).await.unwrap();
    written.lock().take()
}

#[tokio::test]
async fn a_deleted_secret_is_removed_from_its_account() {
    let left = Some(json!([{"name": "other"}]));
    assert_eq!(after_unlisting(Some("u"), false).await, left);
    assert_eq!(after_unlisting(None, false).await, left);
    assert_eq!(after_unlisting(Some("another"), false).await, None);
    assert_eq!(after_unlisting(Some("u"), true).await, None);
}
