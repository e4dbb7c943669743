//! The etcd backend: the [`Store`] guarantees on top of an etcd cluster. Entry point: [`EtcdStore::connect`].
//!
//! Reads and watches that fail are retried on another member. A transaction whose response is lost is retried only when
//! it is certain that it was not applied and never will be; `outcome.rs` describes how that is determined.
//!
//! The keys below `/rhumb/outcomes/` are outcome slots used for that purpose. Ranges and change streams hide them.

mod change_assembler;
mod cluster_client;
mod commit;
mod connect;
mod convert;
mod event_queue;
mod jittered_backoff;
mod members;
mod open_watch;
mod options;
mod outcome;
mod outcome_slots;
mod read;
mod slot_gc;
mod version;
mod watch;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

pub use connect::EtcdConnectError;
pub use options::{ClientCertificateFiles, EtcdOptions, EtcdTlsOptions, EtcdUserCredentials};

use crate::{
    ChangeStream, RangePage, RangeRequest, Result, Revision, Store, StoreEntry, Transaction,
};
use cluster_client::ClusterClient;
use outcome_slots::OutcomeSlotPool;
use slot_gc::SlotGarbageCollector;

/// The key prefix of the outcome slots.
const OUTCOMES_PREFIX: &str = "/rhumb/outcomes/";

/// A store in an etcd cluster.
pub struct EtcdStore {
    cluster: ClusterClient,
    slots: Arc<OutcomeSlotPool>,
    _slot_gc: SlotGarbageCollector,
}

impl EtcdStore {
    /// Connects, and checks that the cluster responds and accepts the credentials.
    pub async fn connect(options: EtcdOptions) -> Result<EtcdStore, EtcdConnectError> {
        let abandoned_after = options.abandoned_after;
        let client = connect::connect(options).await?;
        Ok(EtcdStore {
            _slot_gc: SlotGarbageCollector::start(client.clone(), abandoned_after),
            cluster: client,
            slots: Arc::new(OutcomeSlotPool::new()),
        })
    }

    /// Whether change streams support progress requests; older servers do not order progress with changes.
    pub fn supports_progress(&self) -> bool {
        self.cluster.keeps_progress_in_order()
    }

    /// Waits for in-flight transactions, rejects new ones, and removes the outcome slots of this instance.
    ///
    /// Without it, other instances remove the slots after [`EtcdOptions::abandoned_after`].
    pub async fn close(&self) {
        outcome_slots::close(&self.cluster, &self.slots).await;
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore")
            .field("link", &self.cluster)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for EtcdStore {
    fn is_shared(&self) -> bool {
        true
    }

    async fn get(&self, key: &str) -> Result<Option<StoreEntry>> {
        read::get(&self.cluster, key).await
    }

    async fn range(&self, range: RangeRequest<'_>) -> Result<RangePage> {
        read::range(&self.cluster, range).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Revision> {
        commit::commit(&self.cluster, &self.slots, transaction).await
    }

    async fn changes(&self, prefix: &str, after: Revision) -> Result<Box<dyn ChangeStream>> {
        watch::changes(&self.cluster, prefix, after).await
    }

    async fn revision(&self) -> Result<Revision> {
        read::revision(&self.cluster).await
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        read::compact(&self.cluster, revision).await
    }
}
