//! The guarantees of a watch, on a real etcd server.

#[path = "../../store/tests/etcd_server/mod.rs"]
mod etcd_server;
mod guarantees;
mod support;

use std::sync::Arc;

use async_trait::async_trait;
use etcd_server::EtcdServer;
use rhumb_store::Store;
use rhumb_store::etcd::{Etcd, Options};
use rhumb_store_conformance::Harness;

struct OnAServer {
    server: EtcdServer,
    store: Arc<Etcd>,
}

async fn connect(server: &EtcdServer) -> Arc<Etcd> {
    let store = Etcd::connect(Options::new([server.endpoint()])).await;
    Arc::new(store.expect("the server answers"))
}

#[async_trait]
impl Harness for OnAServer {
    async fn start() -> Self {
        let server = EtcdServer::start().await;
        let store = connect(&server).await;
        OnAServer { server, store }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    async fn restart(&mut self) {
        self.server.stop();
        self.server.restart().await;
        self.store = connect(&self.server).await;
    }

    fn tells_progress(&self) -> bool {
        self.store.tells_progress()
    }
}

guarantees!(OnAServer);
