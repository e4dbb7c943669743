//! A connection lost in the middle of a transaction: what `commit` says is what happened.

use std::sync::Arc;
use std::time::Duration;

use rhumb_store::etcd::{Etcd, Options};
use rhumb_store::{Error, Expect, Result, Revision, Store, Transaction};
use tokio::task::JoinHandle;

use crate::auth::{Certificates, with_tls};
use crate::etcd_server::EtcdServer;
use crate::proxy::Proxy;
use crate::{connect, eventually, get, next_set, put};

/// A store behind a proxy, and one that is not, to see what really happens.
pub(crate) struct Scene {
    pub(crate) store: Arc<Etcd>,
    pub(crate) witness: Etcd,
    pub(crate) proxy: Proxy,
    pub(crate) server: EtcdServer,
}

impl Scene {
    pub(crate) async fn new() -> Scene {
        let scene = Scene::without_slots().await;
        // A slot exists: its first use is another case.
        scene.store.commit(put("/warm", "x")).await.unwrap();
        scene
    }

    pub(crate) async fn without_slots() -> Scene {
        let server = EtcdServer::start().await;
        let proxy = Proxy::to(server.client_address()).await;
        Scene {
            store: Arc::new(connect(&proxy.endpoint()).await),
            witness: connect(&server.endpoint()).await,
            proxy,
            server,
        }
    }

    pub(crate) fn commit(&self, transaction: Transaction) -> JoinHandle<Result<Revision>> {
        let store = self.store.clone();
        tokio::spawn(async move { store.commit(transaction).await })
    }

    /// The transaction reaches the server, its answer does not come back.
    async fn lose_answer(&self, transaction: Transaction) -> Result<Revision> {
        let before = self.witness.revision().await.unwrap();
        self.proxy.hold_responses();
        let commit = self.commit(transaction);
        eventually("the transaction is applied", async || {
            self.witness.revision().await.unwrap() > before
        })
        .await;
        self.proxy.cut().await;
        commit.await.unwrap()
    }

    /// The transaction never reaches the server.
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
async fn an_applied_put_whose_answer_is_lost_is_a_success() {
    let scene = Scene::new().await;
    let transaction = Transaction::new().put("/a", "1", Expect::Absent);
    let revision = scene.lose_answer(transaction).await.unwrap();
    assert_eq!(get(&scene.witness, "/a").await.unwrap().modified, revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applied_delete_whose_answer_is_lost_is_a_success() {
    let scene = Scene::new().await;
    let written = scene.store.commit(put("/a", "1")).await.unwrap();
    let mut stream = scene.witness.changes("/a", written).await.unwrap();
    let transaction = Transaction::new().delete("/a", Expect::At(written));
    let revision = scene.lose_answer(transaction).await.unwrap();
    assert_eq!(get(&scene.witness, "/a").await, None);
    assert_eq!(next_set(&mut *stream).await.revision, revision);
}

/// All that was written to a key.
async fn history_of(store: &Etcd, key: &str, until: Revision) -> Vec<Revision> {
    let mut stream = store.changes(key, Revision::ZERO).await.unwrap();
    let mut revisions = Vec::new();
    while revisions.last().is_none_or(|last| *last < until) {
        revisions.push(next_set(&mut *stream).await.revision);
    }
    revisions
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_lost_is_sent_again_and_happens_once() {
    let scene = Scene::new().await;
    let put = Transaction::new().put("/a", "1", Expect::Absent);
    let written = scene.lose_request("/a", put).await.unwrap();
    let delete = Transaction::new().delete("/a", Expect::At(written));
    let deleted = scene.lose_request("/a", delete).await.unwrap();
    assert_eq!(
        history_of(&scene.witness, "/a", deleted).await,
        [written, deleted]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_equal_value_by_another_writer_is_not_taken_for_ours() {
    let scene = Scene::new().await;
    let ours = Transaction::new().put("/a", "same", Expect::Absent);
    scene.proxy.hold_requests();
    let commit = scene.commit(ours);
    scene.proxy.holds_request_with("/a").await;
    let theirs = scene.witness.commit(put("/a", "same")).await.unwrap();
    scene.proxy.cut().await;
    match commit.await.unwrap() {
        Err(Error::Conflict(conflict)) => assert_eq!(conflict.found.unwrap().modified, theirs),
        other => panic!("{other:?}"),
    }
    assert_eq!(get(&scene.witness, "/a").await.unwrap().modified, theirs);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_value_overwritten_by_an_equal_one_is_still_a_success() {
    let scene = Scene::new().await;
    scene.proxy.hold_responses();
    let commit = scene.commit(Transaction::new().put("/a", "same", Expect::Absent));
    let mut stream = scene.witness.changes("/a", Revision::ZERO).await.unwrap();
    let ours = next_set(&mut *stream).await.revision;
    scene.witness.commit(put("/a", "same")).await.unwrap();
    scene.proxy.cut().await;
    assert_eq!(commit.await.unwrap().unwrap(), ours);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_delete_followed_by_a_new_entry_is_still_a_success() {
    let scene = Scene::new().await;
    let written = scene.store.commit(put("/a", "1")).await.unwrap();
    let mut stream = scene.witness.changes("/a", written).await.unwrap();
    scene.proxy.hold_responses();
    let commit = scene.commit(Transaction::new().delete("/a", Expect::At(written)));
    let ours = next_set(&mut *stream).await.revision;
    scene.witness.commit(put("/a", "1")).await.unwrap();
    scene.proxy.cut().await;
    assert_eq!(commit.await.unwrap().unwrap(), ours);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_arrives_after_we_gave_it_up_changes_nothing() {
    let scene = Scene::new().await;
    scene.proxy.hold_requests();
    let commit = scene.commit(put("/late", "1"));
    scene.proxy.holds_request_with("/late").await;
    let late = scene.proxy.cut_clients().await;
    let revision = commit.await.unwrap().unwrap();
    // A refused transaction is answered with what its slot holds.
    late.deliver_until_answered_with("/rhumb/outcomes/").await;
    assert_eq!(
        get(&scene.witness, "/late").await.unwrap().modified,
        revision
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_it_after_the_store_is_closed_and_its_slots_are_gone() {
    let scene = Scene::new().await;
    let written = scene.store.commit(put("/seen", "x")).await.unwrap();
    scene.proxy.hold_requests();
    let transaction = put("/late", "1").check("/seen", Expect::At(written));
    let commit = scene.commit(transaction);
    scene.proxy.holds_request_with("/late").await;
    let late = scene.proxy.cut_clients().await;
    let revision = commit.await.unwrap().unwrap();
    scene.store.close().await;
    // A refused transaction is answered with what it depends on.
    late.deliver_until_answered_with("/seen").await;
    assert_eq!(
        get(&scene.witness, "/late").await.unwrap().modified,
        revision
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_found_a_connection_is_not_in_doubt() {
    // The connection is accepted here, but its TLS handshake fails.
    let certificates = Certificates::new();
    let server = certificates.server().await;
    let proxy = Proxy::to(server.client_address()).await;
    let store = with_tls(&proxy.tls_endpoint(), certificates.tls())
        .await
        .unwrap();
    proxy.close().await;
    eventually("the loss of the connection is noticed", async || {
        store.revision().await.is_err()
    })
    .await;
    assert_nothing_changed(store.commit(put("/a", "1")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_answer_in_time_the_outcome_is_unknown_and_later_ones_are_not_harmed() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::to(server.client_address()).await;
    let options = Options {
        request_timeout: Duration::from_secs(1),
        settle_timeout: Duration::from_secs(1),
        ..Options::new([proxy.endpoint()])
    };
    let store = Etcd::connect(options).await.unwrap();
    store.commit(put("/warm", "x")).await.unwrap();
    proxy.hold_responses();
    let result = store.commit(put("/a", "1")).await;
    assert!(
        matches!(result, Err(Error::OutcomeUnknown { .. })),
        "{result:?}"
    );
    proxy.cut().await;
    eventually("the connection is back", async || {
        store.revision().await.is_ok()
    })
    .await;
    let revision = store.commit(put("/a", "2")).await.unwrap();
    assert_eq!(get(&store, "/a").await.unwrap().modified, revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_nobody_waits_for_any_more_harms_no_later_one() {
    let scene = Scene::new().await;
    scene.proxy.hold_responses();
    let commit = scene.commit(put("/a", "1"));
    eventually("the transaction is applied", async || {
        get(&scene.witness, "/a").await.is_some()
    })
    .await;
    commit.abort();
    scene.proxy.cut().await;
    // A read is asked again until there is a connection; a transaction would not be.
    scene.store.revision().await.unwrap();
    for round in 0..20 {
        let revision = scene
            .store
            .commit(put("/b", &round.to_string()))
            .await
            .unwrap();
        assert_eq!(get(&scene.witness, "/b").await.unwrap().modified, revision);
    }
}

/// The task goes on when its caller is gone: what it began it brings to an end, here with a second attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_nobody_waits_for_any_more_is_still_carried_out() {
    let scene = Scene::new().await;
    scene.proxy.hold_requests();
    let commit = scene.commit(put("/a", "1"));
    scene.proxy.holds_request_with("/a").await;
    commit.abort();
    assert!(commit.await.unwrap_err().is_cancelled());
    scene.proxy.cut().await;
    eventually("the transaction happens", async || {
        get(&scene.witness, "/a").await.is_some()
    })
    .await;
}
