//! The etcd backend with a real etcd server.

use std::sync::Arc;

use async_trait::async_trait;
use rhumb_etcd_harness::EtcdServer;
use rhumb_store::Store;
use rhumb_store::etcd::{EtcdOptions, EtcdStore};

use crate::ConformanceBackend;

/// An etcd server process and a client of it.
#[derive(Debug)]
pub struct EtcdBackend {
    server: EtcdServer,
    store: Arc<EtcdStore>,
}

async fn connect(server: &EtcdServer) -> Arc<EtcdStore> {
    let store = EtcdStore::connect(EtcdOptions::new([server.endpoint()])).await;
    Arc::new(store.expect("connect to etcd"))
}

#[async_trait]
impl ConformanceBackend for EtcdBackend {
    async fn start() -> Self {
        let server = EtcdServer::start().await;
        let store = connect(&server).await;
        EtcdBackend { server, store }
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
