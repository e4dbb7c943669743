//! etcd's limits: space quota, request size and number of operations.

use std::sync::Arc;

use etcd_client::{AlarmAction, AlarmOptions, AlarmType, Client};
use rhumb_store::{Error, ExpectedRevision, OPERATIONS_MAX, Store, Transaction};

use crate::{connect, eventually, get, put};
use rhumb_etcd_harness::EtcdServer;

/// The transaction that exceeds the quota is applied, although etcd responds with an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_reports_actual_outcomes_and_recovers_without_a_restart() {
    let quota_bytes = 8 * 1024 * 1024;
    let quota = quota_bytes.to_string();
    let server = EtcdServer::start_with("http", &["--quota-backend-bytes", &quota]).await;
    let store = Arc::new(connect(&server.endpoint()).await);
    let value = "x".repeat(400_000);
    let mut kept = Vec::new();
    let mut refused = 0;
    for batch in 0.. {
        // The server checks its size only periodically.
        assert!(batch < 30, "the quota is not enforced");
        // Concurrently, so that some are accepted while there is space and applied when there is none.
        let under_way: Vec<_> = (0..16)
            .map(|index| {
                let (store, key) = (store.clone(), format!("/a/{batch}-{index}"));
                let transaction = put(&key, &value);
                tokio::spawn(async move { (key, store.commit(transaction).await) })
            })
            .collect();
        for commit in under_way {
            let (key, result) = commit.await.unwrap();
            let found = get(&store, &key).await.map(|entry| entry.modified);
            match result {
                Ok(revision) => {
                    assert_eq!(found, Some(revision), "{key}");
                    kept.push((key, revision));
                }
                Err(Error::StorageFull { .. }) => {
                    assert_eq!(found, None, "{key}");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        if refused > 5 {
            break;
        }
    }
    assert!(!kept.is_empty());

    for (key, revision) in kept {
        let delete = Transaction::new().delete(key, ExpectedRevision::At(revision));
        store.commit(delete.clone()).await.unwrap();
        let again = store.commit(delete).await;
        assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
    }
    store
        .compact(store.revision().await.unwrap())
        .await
        .unwrap();
    let mut client = Client::connect([server.endpoint()], None).await.unwrap();
    // The compaction runs in the background.
    eventually("space is available again", async || {
        client.defragment().await.unwrap();
        disarm(&mut client).await;
        store.commit(put("/a/0", &value)).await.is_ok()
    })
    .await;
}

async fn disarm(client: &mut Client) {
    let raised = client
        .alarm(AlarmAction::Get, AlarmType::None, None)
        .await
        .unwrap();
    for alarm in raised.alarms() {
        let mut member = AlarmOptions::new();
        member.with_member(alarm.member_id());
        let (action, kind) = (AlarmAction::Deactivate, alarm.alarm());
        client.alarm(action, kind, Some(member)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_too_large_for_the_server_is_reported_as_too_large() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    for bytes in [1_700_000, 2_500_000] {
        let refused = store.commit(put("/a", &"x".repeat(bytes))).await;
        assert!(
            matches!(refused, Err(Error::TooLarge { .. })),
            "{bytes}: {refused:?}"
        );
    }
    assert_eq!(get(&store, "/a").await, None);
    store
        .commit(put("/a", &"x".repeat(1_400_000)))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn more_operations_than_the_server_allows_are_not_retryable() {
    let server = EtcdServer::start_with("http", &["--max-txn-ops", "64"]).await;
    let store = connect(&server.endpoint()).await;
    let all = (0..OPERATIONS_MAX).fold(Transaction::new(), |all, index| {
        all.put(format!("/a/{index}"), "1", ExpectedRevision::Any)
    });
    match store.commit(all).await {
        Err(error @ Error::Refused { .. }) => {
            assert!(!error.retryable());
            let text = error.to_string();
            assert!(text.contains("too many operations"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_of_maximum_size_fits_default_server_settings() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let all = (0..OPERATIONS_MAX).fold(Transaction::new(), |all, index| {
        all.put(format!("/a/{index}"), "1", ExpectedRevision::Absent)
    });
    let revision = store.commit(all.clone()).await.unwrap();
    let again = store.commit(all).await;
    match again {
        Err(Error::Conflict(conflict)) => {
            assert_eq!(&*conflict.key, "/a/0");
            assert_eq!(conflict.found.unwrap().modified, revision);
        }
        other => panic!("{other:?}"),
    }
}
