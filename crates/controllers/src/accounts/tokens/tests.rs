//! What is remembered of secrets, and what follows when they and their accounts go.

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

fn deleted(account: &str) -> Event<PartialObjectMeta<ServiceAccount>> {
    let metadata = json!({"name": account, "namespace": "a"});
    Event::Delete(serde_json::from_value(json!({"metadata": metadata})).unwrap())
}

fn name(name: &str) -> Name {
    ("a".to_owned(), name.to_owned())
}

fn check(secret: &str) -> Task {
    Task::Check(name(secret))
}

fn unlist(secret: &str, account: &str) -> Task {
    Task::Unlist {
        secret: name(secret),
        account: Account {
            name: account.to_owned(),
            uid: Some("u".to_owned()),
        },
    }
}

#[test]
fn secrets_are_looked_at_when_their_account_goes() {
    let mut known = Known::default();
    assert_eq!(
        known.secret(Event::Apply(secret("s", "robot"))),
        [check("s")]
    );
    assert_eq!(known.account(deleted("other")), []);
    assert_eq!(known.account(deleted("robot")), [check("s")]);
    assert_eq!(known.account(Event::InitDone), [check("s")]);
    // It names another account now.
    known.secret(Event::Apply(secret("s", "other")));
    assert_eq!(known.account(deleted("robot")), []);
    assert_eq!(known.account(deleted("other")), [check("s")]);
    let gone = known.secret(Event::Delete(secret("s", "other")));
    assert_eq!(gone, [unlist("s", "other")]);
    assert!(known.by_account.is_empty() && known.accounts.is_empty());
}

#[test]
fn what_a_new_list_does_not_have_is_gone() {
    let mut known = Known::default();
    known.secret(Event::Apply(secret("stays", "robot")));
    known.secret(Event::Apply(secret("goes", "robot")));
    // The first list breaks off.
    for _ in 0..2 {
        assert_eq!(known.secret(Event::Init), []);
        let listed = known.secret(Event::InitApply(secret("stays", "robot")));
        assert_eq!(listed, [check("stays")]);
    }
    assert_eq!(known.secret(Event::InitDone), [unlist("goes", "robot")]);
    assert_eq!(known.account(deleted("robot")), [check("stays")]);
    assert_eq!(known.account(Event::InitDone), [check("stays")]);
}

/// Has the account `robot`, whose uid is `u` and which names `gone` and `other`, lose a secret; returns what it
/// names then, if it was written.
async fn after_unlisting(uid: Option<&str>, is_there: bool) -> Option<Value> {
    let written = Arc::new(Mutex::new(None));
    let writes = written.clone();
    let client = testing::client(move |request| {
        let path = request.uri().path();
        if request.method() == "PUT" {
            let body: Value = serde_json::from_slice(request.body()).unwrap();
            *writes.lock().unwrap() = Some(body["secrets"].clone());
            return Some(body);
        }
        match path {
            "/api/v1/namespaces/a/serviceaccounts/robot" => Some(json!({
                "metadata": {"name": "robot", "uid": "u"},
                "secrets": [{"name": "gone"}, {"name": "other"}],
            })),
            _ if is_there => Some(json!({"metadata": {"name": "gone"}})),
            _ => None,
        }
    });
    let account = Account {
        name: "robot".to_owned(),
        uid: uid.map(str::to_owned),
    };
    super::unlist(&client, name("gone"), account).await.unwrap();
    written.lock().unwrap().take()
}

#[tokio::test]
async fn an_account_does_not_name_a_secret_that_is_gone() {
    let left = Some(json!([{"name": "other"}]));
    assert_eq!(after_unlisting(Some("u"), false).await, left);
    assert_eq!(after_unlisting(None, false).await, left);
    assert_eq!(after_unlisting(Some("another"), false).await, None);
    assert_eq!(after_unlisting(Some("u"), true).await, None);
}
