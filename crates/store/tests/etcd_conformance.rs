//! Runs the store conformance suite on the etcd backend with a real etcd server.

mod etcd_server;

use std::sync::Arc;

use async_trait::async_trait;
use etcd_server::EtcdServer;
use rhumb_store::Store;
use rhumb_store::etcd::{EtcdOptions, EtcdStore};
use rhumb_store_conformance::Harness;

struct EtcdHarness {
    server: EtcdServer,
    store: Arc<EtcdStore>,
}

async fn connect(server: &EtcdServer) -> Arc<EtcdStore> {
    let store = EtcdStore::connect(EtcdOptions::new([server.endpoint()])).await;
    Arc::new(store.expect("connect to etcd"))
}

#[async_trait]
impl Harness for EtcdHarness {
    async fn start() -> Self {
        let server = EtcdServer::start().await;
        let store = connect(&server).await;
        EtcdHarness { server, store }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    /// Restarts the server and reconnects.
    async fn restart(&mut self) {
        self.server.stop();
        self.server.restart().await;
        self.store = connect(&self.server).await;
    }

    fn supports_progress(&self) -> bool {
        self.store.supports_progress()
    }
}

rhumb_store_conformance::suite!(EtcdHarness);
