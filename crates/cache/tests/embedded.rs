//! The cache guarantees on the embedded store.

mod guarantees;
mod support;

use std::sync::Arc;

use async_trait::async_trait;
use rhumb_store::Store;
use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore};
use rhumb_store_conformance::ConformanceBackend;
use tempfile::TempDir;

/// An embedded store in a temporary directory.
struct EmbeddedStoreHarness {
    directory: TempDir,
    store: Option<Arc<EmbeddedStore>>,
}

async fn open(directory: &TempDir) -> Option<Arc<EmbeddedStore>> {
    let store = EmbeddedStore::open(directory.path(), EmbeddedOptions::default()).await;
    Some(Arc::new(store.expect("the store opens")))
}

#[async_trait]
impl ConformanceBackend for EmbeddedStoreHarness {
    async fn start() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let store = open(&directory).await;
        EmbeddedStoreHarness { directory, store }
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().expect("open")
    }

    async fn restart(&mut self) {
        let store = self.store.take().and_then(Arc::into_inner);
        store.expect("nobody else holds it").close().await;
        self.store = open(&self.directory).await;
    }
}

guarantees!(EmbeddedStoreHarness);

/// The embedded store answers a write after the caches have applied it, so that writers need not wait for the cache.
#[tokio::test(flavor = "multi_thread")]
async fn a_committed_write_is_in_the_cache() {
    let harness = EmbeddedStoreHarness::start().await;
    let store = harness.store();
    let manager = support::start(&store, rhumb_cache::CacheOptions::default()).await;
    // Wait until the caches read the change stream.
    let first = support::put(&*store, "pods/a/first", "app=web;node-1;x").await;
    support::wait(&manager, first).await;
    let writers = (0..4).map(|writer| {
        let (store, manager) = (Arc::clone(&store), manager.clone());
        tokio::spawn(async move {
            for index in 0..100 {
                let key = format!("pods/a/{writer}-{index}");
                let revision = support::put(&*store, &key, "app=web;node-1;x").await;
                assert!(manager.applied_revision() >= revision);
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer");
    }
}
