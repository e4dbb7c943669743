//! The guarantees of a watch, on the embedded store.

mod guarantees;
mod support;

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
    let store = Embedded::open(directory.path(), Options::default()).await;
    Some(Arc::new(store.expect("the store opens")))
}

#[async_trait]
impl Harness for InADirectory {
    async fn start() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let store = open(&directory).await;
        InADirectory { directory, store }
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

guarantees!(InADirectory);
