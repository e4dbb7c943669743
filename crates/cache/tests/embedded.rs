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

/// A store that can answers its writers when the caches hold what they wrote: nobody has to wait a second time.
#[tokio::test(flavor = "multi_thread")]
async fn an_answered_write_is_in_the_cache() {
    let harness = InADirectory::start().await;
    let store = harness.store();
    let hub = support::start(&store, rhumb_cache::Options::default()).await;
    // From when the caches read changes.
    let first = support::put(&*store, "pods/a/first", "app=web;node-1;x").await;
    support::wait(&hub, first).await;
    let writers = (0..4).map(|writer| {
        let (store, hub) = (Arc::clone(&store), hub.clone());
        tokio::spawn(async move {
            for index in 0..100 {
                let key = format!("pods/a/{writer}-{index}");
                let revision = support::put(&*store, &key, "app=web;node-1;x").await;
                assert!(hub.revision() >= revision);
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer");
    }
}
