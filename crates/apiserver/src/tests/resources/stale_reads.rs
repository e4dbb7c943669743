//! Writes on a server whose cache is behind the store, because another server has just written.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use rhumb_store::Store;
use serde_json::{Value, json};

use crate::testing::{InterferingStore, TestServer, TestServerOptions};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/a";

/// Long enough that a request is answered before its server has observed the last write of the other one.
const DELAY: Duration = Duration::from_millis(300);

/// Two servers on one store: the cache of `behind` lags.
struct Servers {
    ahead: TestServer,
    behind: TestServer,
    store: Arc<InterferingStore>,
    _directory: tempfile::TempDir,
}

impl Servers {
    async fn start() -> Servers {
        let directory = tempfile::tempdir().expect("create temporary directory");
        let shared: Arc<dyn Store> = Arc::new(TestServer::open_store(directory.path()).await);
        let ahead = InterferingStore::delayed(Arc::clone(&shared), Duration::ZERO);
        let store = InterferingStore::delayed(shared, DELAY);
        let options = TestServerOptions::default;
        Servers {
            ahead: TestServer::with_store(ahead, options()).await,
            behind: TestServer::with_store(Arc::clone(&store) as Arc<dyn Store>, options()).await,
            store,
            _directory: directory,
        }
    }

    /// Creates the config map, and waits until both servers have observed it.
    async fn create(&self) -> Value {
        let (code, created) = self.ahead.create(CONFIG_MAPS, config_map("1")).await;
        assert_eq!(code, 201, "{created}");
        // A get is a consistent read.
        assert_eq!(self.behind.get(CONFIG_MAP).await.0, 200);
        created
    }

    async fn put(server: &TestServer, object: Value) -> (u16, Value) {
        server.request(Method::PUT, CONFIG_MAP, object).await
    }
}

fn config_map(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}})
}

#[tokio::test]
async fn an_object_that_the_cache_does_not_show_yet_is_found() {
    let servers = Servers::start().await;
    let (code, _) = servers.ahead.create(CONFIG_MAPS, config_map("1")).await;
    assert_eq!(code, 201);
    let patch = json!({"data": {"k": "2"}});
    let (code, patched) = servers
        .behind
        .request(Method::PATCH, CONFIG_MAP, patch)
        .await;
    assert_eq!(
        (code, &patched["data"]["k"]),
        (200, &json!("2")),
        "{patched}"
    );
}

#[tokio::test]
async fn a_deleted_object_that_the_cache_still_shows_is_not_found() {
    let servers = Servers::start().await;
    let created = servers.create().await;
    assert_eq!(servers.ahead.delete(CONFIG_MAP).await.0, 200);
    let (code, response) = Servers::put(&servers.behind, created).await;
    assert_eq!((code, &response["reason"]), (404, &json!("NotFound")));
    assert_eq!(servers.behind.delete(CONFIG_MAP).await.0, 404);
    let (code, response) = Servers::put(&servers.behind, config_map("2")).await;
    assert_eq!((code, &response["reason"]), (404, &json!("NotFound")));
}

#[tokio::test]
async fn a_deletion_that_changes_nothing_in_a_stale_object_is_confirmed() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    const POD: &str = "/api/v1/namespaces/default/pods/p";
    let servers = Servers::start().await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    assert_eq!(servers.ahead.create(PODS, pod).await.0, 201);
    // The pod terminates for 30 s, so another deletion changes nothing.
    assert_eq!(servers.ahead.delete(POD).await.0, 200);
    assert_eq!(servers.behind.get(POD).await.0, 200);
    assert_eq!(servers.behind.delete(POD).await.0, 200);
    let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    assert_eq!(servers.ahead.request(Method::DELETE, POD, now).await.0, 200);
    assert_eq!(servers.behind.delete(POD).await.0, 404);
}

#[tokio::test]
async fn a_conditional_update_of_the_latest_version_succeeds_on_a_stale_cache() {
    let servers = Servers::start().await;
    let created = servers.create().await;
    let (_, latest) = Servers::put(&servers.ahead, config_map("2")).await;
    // The cache shows the created version, but the update is for the latest one.
    let (code, updated) = Servers::put(&servers.behind, latest.clone()).await;
    assert_eq!((code, &updated), (200, &latest));
    let (code, rejected) = Servers::put(&servers.behind, created).await;
    assert_eq!((code, &rejected["reason"]), (409, &json!("Conflict")));
}

#[tokio::test]
async fn an_update_that_changes_nothing_in_a_stale_object_is_written() {
    let servers = Servers::start().await;
    servers.create().await;
    let (code, _) = Servers::put(&servers.ahead, config_map("2")).await;
    assert_eq!(code, 200);
    // For the cache, this changes nothing.
    let (code, updated) = Servers::put(&servers.behind, config_map("1")).await;
    assert_eq!((code, &updated["data"]["k"]), (200, &json!("1")));
    let (_, stored) = servers.ahead.get(CONFIG_MAP).await;
    assert_eq!(stored, updated);
}

#[tokio::test]
async fn a_rejection_of_a_stale_object_is_confirmed() {
    let servers = Servers::start().await;
    let mut created = servers.create().await;
    created["immutable"] = json!(true);
    let (code, immutable) = Servers::put(&servers.ahead, created).await;
    assert_eq!(code, 200, "{immutable}");
    assert_eq!(servers.behind.get(CONFIG_MAP).await.0, 200);
    assert_eq!(servers.ahead.delete(CONFIG_MAP).await.0, 200);
    let (code, _) = servers.ahead.create(CONFIG_MAPS, config_map("1")).await;
    assert_eq!(code, 201);
    // The cache shows the immutable object, which would reject this.
    let (code, updated) = Servers::put(&servers.behind, config_map("2")).await;
    assert_eq!(
        (code, &updated["data"]["k"]),
        (200, &json!("2")),
        "{updated}"
    );
}

#[tokio::test]
async fn a_successful_update_reads_only_the_cache() {
    let servers = Servers::start().await;
    servers.create().await;
    let before = servers.store.reads();
    for value in ["2", "3"] {
        let (code, updated) = Servers::put(&servers.behind, config_map(value)).await;
        assert_eq!((code, &updated["data"]["k"]), (200, &json!(value)));
    }
    assert_eq!(servers.store.reads(), before);
    let rejected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"/": ""}});
    assert_eq!(Servers::put(&servers.behind, rejected).await.0, 422);
    assert_eq!(servers.store.reads(), before + 1, "confirms the rejection");
}
