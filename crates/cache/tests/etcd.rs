//! The cache guarantees on a real etcd server.

#[path = "../../store/tests/etcd_server/mod.rs"]
mod etcd_server;
mod guarantees;
mod support;

use std::sync::Arc;

use async_trait::async_trait;
use etcd_server::EtcdServer;
use rhumb_store::Store;
use rhumb_store::etcd::{EtcdOptions, EtcdStore};
use rhumb_store_conformance::Harness;

/// An etcd server process and a client of it.
struct EtcdStoreHarness {
    server: EtcdServer,
    store: Arc<EtcdStore>,
}

async fn connect(server: &EtcdServer) -> Arc<EtcdStore> {
    let store = EtcdStore::connect(EtcdOptions::new([server.endpoint()])).await;
    Arc::new(store.expect("the server answers"))
}

#[async_trait]
impl Harness for EtcdStoreHarness {
    async fn start() -> Self {
        let server = EtcdServer::start().await;
        let store = connect(&server).await;
        EtcdStoreHarness { server, store }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    async fn restart(&mut self) {
        self.server.stop();
        self.server.restart().await;
        self.store = connect(&self.server).await;
    }

    fn supports_progress(&self) -> bool {
        self.store.supports_progress()
    }
}

guarantees!(EtcdStoreHarness);
