//! Connections lost in the middle of a transaction: `commit` must report the true outcome.

use std::sync::Arc;
use std::time::Duration;

use rhumb_store::etcd::{EtcdOptions, EtcdStore};
use rhumb_store::{Error, ExpectedRevision, Result, Revision, Store, Transaction};
use tokio::task::JoinHandle;

use crate::auth::{TestCertificates, with_tls};
use crate::proxy::TcpFaultProxy;
use crate::{connect, eventually, get, next_set, put};
use rhumb_etcd_harness::EtcdServer;

/// A store behind a fault-injecting proxy, and a direct one to observe the true state.
pub(crate) struct ProxiedStoreFixture {
    pub(crate) store: Arc<EtcdStore>,
    pub(crate) direct_store: EtcdStore,
    pub(crate) proxy: TcpFaultProxy,
    pub(crate) server: EtcdServer,
}

impl ProxiedStoreFixture {
    pub(crate) async fn new() -> ProxiedStoreFixture {
        let fixture = ProxiedStoreFixture::without_slots().await;
        // Create a slot now; the first use of a slot is tested separately.
        fixture.store.commit(put("/warm", "x")).await.unwrap();
        fixture
    }

    pub(crate) async fn without_slots() -> ProxiedStoreFixture {
        let server = EtcdServer::start().await;
        let proxy = TcpFaultProxy::to(server.client_address()).await;
        ProxiedStoreFixture {
            store: Arc::new(connect(&proxy.endpoint()).await),
            direct_store: connect(&server.endpoint()).await,
            proxy,
            server,
        }
    }

    pub(crate) fn commit(&self, transaction: Transaction) -> JoinHandle<Result<Revision>> {
        let store = self.store.clone();
        tokio::spawn(async move { store.commit(transaction).await })
    }

    /// Commits a transaction that is applied by the server, but whose response is lost.
    async fn lose_response(&self, transaction: Transaction) -> Result<Revision> {
        let before = self.direct_store.revision().await.unwrap();
        self.proxy.hold_responses();
        let commit = self.commit(transaction);
        eventually("the transaction is applied", async || {
            self.direct_store.revision().await.unwrap() > before
        })
        .await;
        self.proxy.cut().await;
        commit.await.unwrap()
    }

    /// Commits a transaction whose first request never reaches the server.
    pub(crate) async fn lose_request(
        &self,
        marker: &str,
        transaction: Transaction,
    ) -> Result<Revision> {
        self.proxy.hold_requests();
        let commit = self.commit(transaction);
        self.proxy.holds_request_with(marker).await;
        self.proxy.cut().await;
        commit.await.unwrap()
    }
}

#[track_caller]
fn assert_nothing_changed(result: Result<Revision>) {
    assert!(
        matches!(result, Err(Error::Unavailable { .. })),
        "{result:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applied_put_with_a_lost_response_succeeds() {
    let fixture = ProxiedStoreFixture::new().await;
    let transaction = Transaction::new().put("/a", "1", ExpectedRevision::Absent);
    let revision = fixture.lose_response(transaction).await.unwrap();
    assert_eq!(
        get(&fixture.direct_store, "/a").await.unwrap().modified,
        revision
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applied_delete_with_a_lost_response_succeeds() {
    let fixture = ProxiedStoreFixture::new().await;
    let written = fixture.store.commit(put("/a", "1")).await.unwrap();
    let mut stream = fixture.direct_store.changes("/a", written).await.unwrap();
    let transaction = Transaction::new().delete("/a", ExpectedRevision::At(written));
    let revision = fixture.lose_response(transaction).await.unwrap();
    assert_eq!(get(&fixture.direct_store, "/a").await, None);
    assert_eq!(next_set(&mut *stream).await.revision, revision);
}

/// The revisions of all changes of a key.
async fn history_of(store: &EtcdStore, key: &str, until: Revision) -> Vec<Revision> {
    let mut stream = store.changes(key, Revision::ZERO).await.unwrap();
    let mut revisions = Vec::new();
    while revisions.last().is_none_or(|last| *last < until) {
        revisions.push(next_set(&mut *stream).await.revision);
    }
    revisions
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_request_is_retried_and_applied_once() {
    let fixture = ProxiedStoreFixture::new().await;
    let put = Transaction::new().put("/a", "1", ExpectedRevision::Absent);
    let written = fixture.lose_request("/a", put).await.unwrap();
    let delete = Transaction::new().delete("/a", ExpectedRevision::At(written));
    let deleted = fixture.lose_request("/a", delete).await.unwrap();
    assert_eq!(
        history_of(&fixture.direct_store, "/a", deleted).await,
        [written, deleted]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_equal_value_of_another_writer_is_not_mistaken_for_ours() {
    let fixture = ProxiedStoreFixture::new().await;
    let ours = Transaction::new().put("/a", "same", ExpectedRevision::Absent);
    fixture.proxy.hold_requests();
    let commit = fixture.commit(ours);
    fixture.proxy.holds_request_with("/a").await;
    let theirs = fixture
        .direct_store
        .commit(put("/a", "same"))
        .await
        .unwrap();
    fixture.proxy.cut().await;
    match commit.await.unwrap() {
        Err(Error::Conflict(conflict)) => assert_eq!(conflict.found.unwrap().modified, theirs),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        get(&fixture.direct_store, "/a").await.unwrap().modified,
        theirs
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_overwritten_by_an_equal_value_still_succeeds() {
    let fixture = ProxiedStoreFixture::new().await;
    fixture.proxy.hold_responses();
    let commit = fixture.commit(Transaction::new().put("/a", "same", ExpectedRevision::Absent));
    let mut stream = fixture
        .direct_store
        .changes("/a", Revision::ZERO)
        .await
        .unwrap();
    let ours = next_set(&mut *stream).await.revision;
    fixture
        .direct_store
        .commit(put("/a", "same"))
        .await
        .unwrap();
    fixture.proxy.cut().await;
    assert_eq!(commit.await.unwrap().unwrap(), ours);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_followed_by_a_new_entry_still_succeeds() {
    let fixture = ProxiedStoreFixture::new().await;
    let written = fixture.store.commit(put("/a", "1")).await.unwrap();
    let mut stream = fixture.direct_store.changes("/a", written).await.unwrap();
    fixture.proxy.hold_responses();
    let commit = fixture.commit(Transaction::new().delete("/a", ExpectedRevision::At(written)));
    let ours = next_set(&mut *stream).await.revision;
    fixture.direct_store.commit(put("/a", "1")).await.unwrap();
    fixture.proxy.cut().await;
    assert_eq!(commit.await.unwrap().unwrap(), ours);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_arrives_after_it_was_abandoned_has_no_effect() {
    let fixture = ProxiedStoreFixture::new().await;
    fixture.proxy.hold_requests();
    let commit = fixture.commit(put("/late", "1"));
    fixture.proxy.holds_request_with("/late").await;
    let late = fixture.proxy.cut_clients().await;
    let revision = commit.await.unwrap().unwrap();
    // The response to the rejected transaction contains its slot.
    late.deliver_until_answered_with("/rhumb/outcomes/").await;
    assert_eq!(
        get(&fixture.direct_store, "/late").await.unwrap().modified,
        revision
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_request_has_no_effect_after_the_store_is_closed() {
    let fixture = ProxiedStoreFixture::new().await;
    let written = fixture.store.commit(put("/seen", "x")).await.unwrap();
    fixture.proxy.hold_requests();
    let transaction = put("/late", "1").check("/seen", ExpectedRevision::At(written));
    let commit = fixture.commit(transaction);
    fixture.proxy.holds_request_with("/late").await;
    let late = fixture.proxy.cut_clients().await;
    let revision = commit.await.unwrap().unwrap();
    fixture.store.close().await;
    // The response to the rejected transaction contains the checked keys.
    late.deliver_until_answered_with("/seen").await;
    assert_eq!(
        get(&fixture.direct_store, "/late").await.unwrap().modified,
        revision
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_connection_has_a_known_outcome() {
    // The proxy accepts the connection, but the TLS handshake fails.
    let certificates = TestCertificates::new();
    let server = certificates.server().await;
    let proxy = TcpFaultProxy::to(server.client_address()).await;
    let store = with_tls(&proxy.tls_endpoint(), certificates.tls())
        .await
        .unwrap();
    proxy.close().await;
    eventually("the connection loss is detected", async || {
        store.revision().await.is_err()
    })
    .await;
    assert_nothing_changed(store.commit(put("/a", "1")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_timeout_the_outcome_is_unknown_and_later_commits_work() {
    let server = EtcdServer::start().await;
    let proxy = TcpFaultProxy::to(server.client_address()).await;
    let options = EtcdOptions {
        request_timeout: Duration::from_secs(1),
        settle_timeout: Duration::from_secs(1),
        ..EtcdOptions::new([proxy.endpoint()])
    };
    let store = EtcdStore::connect(options).await.unwrap();
    store.commit(put("/warm", "x")).await.unwrap();
    proxy.hold_responses();
    let result = store.commit(put("/a", "1")).await;
    assert!(
        matches!(result, Err(Error::OutcomeUnknown { .. })),
        "{result:?}"
    );
    proxy.cut().await;
    eventually("the connection is restored", async || {
        store.revision().await.is_ok()
    })
    .await;
    let revision = store.commit(put("/a", "2")).await.unwrap();
    assert_eq!(get(&store, "/a").await.unwrap().modified, revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_commit_does_not_affect_later_ones() {
    let fixture = ProxiedStoreFixture::new().await;
    fixture.proxy.hold_responses();
    let commit = fixture.commit(put("/a", "1"));
    eventually("the transaction is applied", async || {
        get(&fixture.direct_store, "/a").await.is_some()
    })
    .await;
    commit.abort();
    fixture.proxy.cut().await;
    // A read is retried until there is a connection; a transaction would fail.
    fixture.store.revision().await.unwrap();
    for round in 0..20 {
        let revision = fixture
            .store
            .commit(put("/b", &round.to_string()))
            .await
            .unwrap();
        assert_eq!(
            get(&fixture.direct_store, "/b").await.unwrap().modified,
            revision
        );
    }
}

/// The commit task finishes after its caller is gone, here with a second attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_commit_is_still_completed() {
    let fixture = ProxiedStoreFixture::new().await;
    fixture.proxy.hold_requests();
    let commit = fixture.commit(put("/a", "1"));
    fixture.proxy.holds_request_with("/a").await;
    commit.abort();
    assert!(commit.await.unwrap_err().is_cancelled());
    fixture.proxy.cut().await;
    eventually("the transaction is applied", async || {
        get(&fixture.direct_store, "/a").await.is_some()
    })
    .await;
}
