//! The embedded backend keeps the promises of a store.

use std::sync::Arc;

use async_trait::async_trait;
use rhumb_store::Store;
use rhumb_store::embedded::{Embedded, Options};
use rhumb_store_conformance::Harness;
use tempfile::TempDir;

struct InADirectory {
    directory: TempDir,
    store: Option<Arc<Embedded>>,
}

async fn open(directory: &TempDir) -> Option<Arc<Embedded>> {
    // Little memory for streams, so that slow ones are served from the disk.
    let options = Options {
        recent_changes_bytes: 100_000,
        ..Options::default()
    };
    let store = Embedded::open(directory.path(), options).await;
    Some(Arc::new(store.expect("the store opens")))
}

#[async_trait]
impl Harness for InADirectory {
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(&directory).await;
        InADirectory { directory, store }
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().expect("the store is open")
    }

    async fn restart(&mut self) {
        let store = self.store.take().expect("the store is open");
        let store = Arc::into_inner(store).expect("nobody else holds the store");
        store.close().await;
        self.store = open(&self.directory).await;
    }
}

rhumb_store_conformance::suite!(InADirectory);
