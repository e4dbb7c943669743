//! A store that others write to as well, at the worst of times.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use rhumb_meta::Revision;
use rhumb_store::{ChangeStream, Entry, Page, Range, Result, Store, Transaction};

type Meanwhile = dyn Fn(&Transaction) -> Option<Transaction> + Send + Sync;

/// Before each commit, `meanwhile` says what somebody else commits, if they do.
pub(crate) struct Others {
    store: Arc<dyn Store>,
    meanwhile: Box<Meanwhile>,
}

impl Others {
    pub(crate) fn new(
        store: impl Store,
        meanwhile: impl Fn(&Transaction) -> Option<Transaction> + Send + Sync + 'static,
    ) -> Arc<Others> {
        Arc::new(Others {
            store: Arc::new(store),
            meanwhile: Box::new(meanwhile),
        })
    }
}

impl fmt::Debug for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Others")
    }
}

#[async_trait]
impl Store for Others {
    async fn get(&self, key: &str) -> Result<Option<Entry>> {
        self.store.get(key).await
    }

    async fn range(&self, range: Range<'_>) -> Result<Page> {
        self.store.range(range).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Revision> {
        if let Some(first) = (self.meanwhile)(&transaction) {
            self.store.commit(first).await?;
        }
        self.store.commit(transaction).await
    }

    async fn changes(&self, prefix: &str, after: Revision) -> Result<Box<dyn ChangeStream>> {
        self.store.changes(prefix, after).await
    }

    async fn revision(&self) -> Result<Revision> {
        self.store.revision().await
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.store.compact(revision).await
    }
}
