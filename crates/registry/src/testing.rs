//! Helpers for tests, of this crate and of those above it.

#![allow(clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use rhumb_api::{FeatureGates, JsonObject};
use rhumb_cache::{CacheManager, CacheOptions};
use rhumb_meta::key::DEFAULT_ROOT;
use rhumb_schema::{ObjectDefaulter, Table};
use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore};
use rhumb_store::{ExpectedRevision, Store, Transaction};
use serde_json::Value;

use crate::{KindSet, ResourceTable, cache_configs};

/// The object in a JSON value; panics if it is none.
pub fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is not a JSON object"),
    }
}

/// A store with the caches of all resources, without a server.
#[derive(Debug)]
pub struct TestCaches {
    store: Arc<EmbeddedStore>,
    cache_manager: CacheManager,
    pub resources: ResourceTable,
}

impl TestCaches {
    pub async fn open(directory: &Path) -> TestCaches {
        let store = EmbeddedStore::open(&directory.join("store"), EmbeddedOptions::default())
            .await
            .expect("open the store");
        let store = Arc::new(store);
        let (kinds, table) = (rhumb_api::kinds::all(), Table::builtin());
        let gates = FeatureGates::default();
        let defaults = ObjectDefaulter::new(table, rhumb_api::defaults::enabled_by_type(&gates));
        let set = KindSet {
            kinds: kinds.clone(),
            table: Arc::clone(table),
            defaults: Arc::new(defaults.expect("defaults are of known types")),
            openapi_schemas: Arc::default(),
        };
        let configs =
            cache_configs(&kinds, table, &gates, |_, _| Vec::new()).expect("kinds can be cached");
        let root = format!("{DEFAULT_ROOT}/");
        let cache_manager =
            CacheManager::start(store.clone(), &root, configs, CacheOptions::default())
                .await
                .expect("start the caches");
        let resources = ResourceTable::new(set, &gates, |prefix| cache_manager.cache(prefix))
            .expect("kinds can be registered");
        TestCaches {
            store,
            cache_manager,
            resources,
        }
    }

    /// Stores an object under a path below the root, such as `services/specs/default/web`, and waits for its cache.
    pub async fn put(&self, path: &str, object: &Value) {
        let key = format!("{DEFAULT_ROOT}/{path}");
        self.commit(Transaction::new().put(key, object.to_string(), ExpectedRevision::Any))
            .await;
    }

    pub async fn delete(&self, path: &str) {
        let key = format!("{DEFAULT_ROOT}/{path}");
        self.commit(Transaction::new().delete(key, ExpectedRevision::Any))
            .await;
    }

    async fn commit(&self, transaction: Transaction) {
        let revision = self.store.commit(transaction).await.expect("commit");
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
        self.cache_manager
            .wait_for_revision(revision, deadline)
            .await
            .expect("the caches follow the store");
    }

    pub async fn close(self) {
        self.cache_manager.close().await;
    }
}
