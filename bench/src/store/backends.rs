//! Backends of the store benchmark: rhumb's embedded store, rhumb's etcd store, and etcd used directly.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore};
use rhumb_store::{ExpectedRevision, Store, Transaction, etcd};

#[async_trait]
pub(super) trait StoreBackend: Send + Sync {
    async fn create(&self, key: &str, value: Bytes) -> Result<()>;
}

pub(super) async fn embedded(directory: &Path) -> Result<Arc<dyn StoreBackend>> {
    let store = EmbeddedStore::open(directory, EmbeddedOptions::default()).await?;
    Ok(Arc::new(StoreTraitBackend(store)))
}

pub(super) async fn etcd_backend(endpoint: &str) -> Result<Arc<dyn StoreBackend>> {
    let store = etcd::EtcdStore::connect(etcd::EtcdOptions::new([endpoint])).await?;
    Ok(Arc::new(StoreTraitBackend(store)))
}

/// etcd at its fastest: an unconditional put.
pub(super) async fn plain_etcd(endpoint: &str) -> Result<Arc<dyn StoreBackend>> {
    let client = etcd_client::Client::connect([endpoint], None).await?;
    Ok(Arc::new(EtcdPutBackend(client)))
}

/// etcd as kube-apiserver uses it: a transaction that creates the key if absent, else reads it.
pub(super) async fn etcd_transactions(endpoint: &str) -> Result<Arc<dyn StoreBackend>> {
    let client = etcd_client::Client::connect([endpoint], None).await?;
    Ok(Arc::new(EtcdTransactionBackend(client)))
}

struct StoreTraitBackend<S>(S);

#[async_trait]
impl<S: Store> StoreBackend for StoreTraitBackend<S> {
    async fn create(&self, key: &str, value: Bytes) -> Result<()> {
        let create = Transaction::new().put(key, value, ExpectedRevision::Absent);
        self.0.commit(create).await?;
        Ok(())
    }
}

struct EtcdPutBackend(etcd_client::Client);

#[async_trait]
impl StoreBackend for EtcdPutBackend {
    async fn create(&self, key: &str, value: Bytes) -> Result<()> {
        self.0.kv_client().put(key, value, None).await?;
        Ok(())
    }
}

struct EtcdTransactionBackend(etcd_client::Client);

#[async_trait]
impl StoreBackend for EtcdTransactionBackend {
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
