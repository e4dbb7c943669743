//! Runs the store conformance suite on the embedded backend.

use std::sync::Arc;

use async_trait::async_trait;
use rhumb_store::Store;
use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore};
use rhumb_store_conformance::ConformanceBackend;
use tempfile::TempDir;

struct EmbeddedBackend {
    directory: TempDir,
    store: Option<Arc<EmbeddedStore>>,
}

async fn open(directory: &TempDir) -> Option<Arc<EmbeddedStore>> {
    // A small change buffer, so that slow streams read from disk.
    let options = EmbeddedOptions {
        recent_changes_bytes: 100_000,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(directory.path(), options).await;
    Some(Arc::new(store.expect("open store")))
}

#[async_trait]
impl ConformanceBackend for EmbeddedBackend {
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("create temporary directory");
        let store = open(&directory).await;
        EmbeddedBackend { directory, store }
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().expect("store is open")
    }

    async fn restart(&mut self) {
        let store = self.store.take().expect("store is open");
        let store = Arc::into_inner(store).expect("no other reference to the store");
        store.close().await;
        self.store = open(&self.directory).await;
    }
}

rhumb_store_conformance::suite!(EmbeddedBackend);
