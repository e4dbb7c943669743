//! What the writers write to.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use rhumb_store::embedded::{Embedded, Options};
use rhumb_store::{Expect, Store, Transaction, etcd};

#[async_trait]
pub(super) trait Target: Send + Sync {
    async fn create(&self, key: &str, value: Bytes) -> Result<()>;
}

pub(super) async fn embedded(directory: &Path) -> Result<Arc<dyn Target>> {
    let store = Embedded::open(directory, Options::default()).await?;
    Ok(Arc::new(OfStore(store)))
}

pub(super) async fn etcd_backend(endpoint: &str) -> Result<Arc<dyn Target>> {
    let store = etcd::Etcd::connect(etcd::Options::new([endpoint])).await?;
    Ok(Arc::new(OfStore(store)))
}

/// The etcd server at its fastest: a put, with no condition and no answer to ask for.
pub(super) async fn plain_etcd(endpoint: &str) -> Result<Arc<dyn Target>> {
    let client = etcd_client::Client::connect([endpoint], None).await?;
    Ok(Arc::new(PlainEtcd(client)))
}

/// The etcd server as upstream's API server uses it: created if absent, else read.
pub(super) async fn etcd_transactions(endpoint: &str) -> Result<Arc<dyn Target>> {
    let client = etcd_client::Client::connect([endpoint], None).await?;
    Ok(Arc::new(EtcdTransactions(client)))
}

struct OfStore<S>(S);

#[async_trait]
impl<S: Store> Target for OfStore<S> {
    async fn create(&self, key: &str, value: Bytes) -> Result<()> {
        let create = Transaction::new().put(key, value, Expect::Absent);
        self.0.commit(create).await?;
        Ok(())
    }
}

struct PlainEtcd(etcd_client::Client);

#[async_trait]
impl Target for PlainEtcd {
    async fn create(&self, key: &str, value: Bytes) -> Result<()> {
        self.0.kv_client().put(key, value, None).await?;
        Ok(())
    }
}

struct EtcdTransactions(etcd_client::Client);

#[async_trait]
impl Target for EtcdTransactions {
    async fn create(&self, key: &str, value: Bytes) -> Result<()> {
        let create = Txn::new()
            .when([Compare::mod_revision(key, CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key, value, None)])
            .or_else([TxnOp::get(key, None)]);
        let created = self.0.kv_client().txn(create).await?.succeeded();
        ensure!(created, "{key} exists");
        Ok(())
    }
}
