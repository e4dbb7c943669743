//! A store that withholds the list pages of one prefix until the test lets them pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use rhumb_store::{
    ChangeStream, RangePage, RangeRequest, Result, Revision, Store, StoreEntry, Transaction,
};
use tokio::sync::watch;

/// Delegates to another store. Pages below the prefix are read at once and returned when the gate is open.
#[derive(Debug)]
pub struct GatedStore {
    inner: Arc<dyn Store>,
    prefix: String,
    is_open: watch::Sender<bool>,
    pages_read: AtomicUsize,
}

impl GatedStore {
    /// The gate is closed at first.
    pub fn new(inner: Arc<dyn Store>, prefix: &str) -> Arc<GatedStore> {
        Arc::new(GatedStore {
            inner,
            prefix: prefix.to_owned(),
            is_open: watch::Sender::new(false),
            pages_read: AtomicUsize::new(0),
        })
    }

    pub fn open(&self) {
        self.is_open.send_replace(true);
    }

    /// How many pages below the prefix were read, returned or not.
    pub fn pages_read(&self) -> usize {
        self.pages_read.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Store for GatedStore {
    async fn get(&self, key: &str) -> Result<Option<StoreEntry>> {
        self.inner.get(key).await
    }

    async fn range(&self, range: RangeRequest<'_>) -> Result<RangePage> {
        let is_gated = range.prefix == self.prefix;
        let page = self.inner.range(range).await;
        if is_gated {
            self.pages_read.fetch_add(1, Ordering::SeqCst);
            let mut is_open = self.is_open.subscribe();
            let _ = is_open.wait_for(|is_open| *is_open).await;
        }
        page
    }

    async fn commit(&self, transaction: Transaction) -> Result<Revision> {
        self.inner.commit(transaction).await
    }

    async fn changes(&self, prefix: &str, after: Revision) -> Result<Box<dyn ChangeStream>> {
        self.inner.changes(prefix, after).await
    }

    async fn changes_gating_commits(
        &self,
        prefix: &str,
        after: Revision,
    ) -> Result<Box<dyn ChangeStream>> {
        self.inner.changes_gating_commits(prefix, after).await
    }

    async fn revision(&self) -> Result<Revision> {
        self.inner.revision().await
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.inner.compact(revision).await
    }
}
