//! Store wrapper that simulates other servers on a shared store: it commits competing transactions and delays watch
//! events.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rhumb_meta::Revision;
use rhumb_store::{
    ChangeStream, ChangeStreamEvent, Error, RangePage, RangeRequest, Result, Store, StoreEntry,
    Transaction,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Returns the transaction that another server commits right before the given one, if any.
type CompetingTransaction = dyn Fn(&Transaction) -> Option<Transaction> + Send + Sync;

/// A shared store with competing transactions and delayed watch events.
pub(crate) struct InterferingStore {
    store: Arc<dyn Store>,
    competing: Box<CompetingTransaction>,
    /// Delay of watch events.
    delay: Duration,
    /// How often the store was asked for an object or its revision.
    reads: AtomicUsize,
}

impl InterferingStore {
    pub(crate) fn new(
        store: impl Store,
        meanwhile: impl Fn(&Transaction) -> Option<Transaction> + Send + Sync + 'static,
    ) -> Arc<InterferingStore> {
        Arc::new(InterferingStore {
            store: Arc::new(store),
            competing: Box::new(meanwhile),
            delay: Duration::ZERO,
            reads: AtomicUsize::new(0),
        })
    }

    /// A store whose watch events arrive after `delay`.
    pub(crate) fn delayed(store: Arc<dyn Store>, delay: Duration) -> Arc<InterferingStore> {
        Arc::new(InterferingStore {
            store,
            competing: Box::new(|_| None),
            delay,
            reads: AtomicUsize::new(0),
        })
    }

    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    fn count_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }
}

/// Delays each event by a fixed time, independent of how many there are.
#[derive(Debug)]
struct DelayedChangeStream {
    events: mpsc::UnboundedReceiver<(Result<ChangeStreamEvent>, Instant)>,
    requests: mpsc::UnboundedSender<()>,
    /// Received from the store, but not due yet.
    pending: Option<(Result<ChangeStreamEvent>, Instant)>,
}

impl DelayedChangeStream {
    fn new(mut changes: Box<dyn ChangeStream>, delay: Duration) -> DelayedChangeStream {
        let (sender, events) = mpsc::unbounded_channel();
        let (requests, mut requested) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    event = changes.next() => {
                        let has_ended = event.is_err();
                        if sender.send((event, Instant::now() + delay)).is_err() || has_ended {
                            return;
                        }
                    }
                    request = requested.recv() => {
                        if request.is_none() || changes.request_progress().await.is_err() {
                            return;
                        }
                    }
                }
            }
        });
        DelayedChangeStream {
            events,
            requests,
            pending: None,
        }
    }
}

#[async_trait]
impl ChangeStream for DelayedChangeStream {
    async fn next(&mut self) -> Result<ChangeStreamEvent> {
        if self.pending.is_none() {
            self.pending = self.events.recv().await;
        }
        let Some((_, due)) = &self.pending else {
            return Err(Error::Closed);
        };
        tokio::time::sleep_until(*due).await;
        match self.pending.take() {
            Some((event, _)) => event,
            None => Err(Error::Closed),
        }
    }

    async fn request_progress(&mut self) -> Result<()> {
        self.requests.send(()).map_err(|_| Error::Closed)
    }
}

impl fmt::Debug for InterferingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InterferingStore")
    }
}

#[async_trait]
impl Store for InterferingStore {
    fn is_shared(&self) -> bool {
        true
    }

    async fn get(&self, key: &str) -> Result<Option<StoreEntry>> {
        self.count_read();
        self.store.get(key).await
    }

    async fn range(&self, range: RangeRequest<'_>) -> Result<RangePage> {
        self.store.range(range).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Revision> {
        if let Some(first) = (self.competing)(&transaction) {
            self.store.commit(first).await?;
        }
        self.store.commit(transaction).await
    }

    async fn changes(&self, prefix: &str, after: Revision) -> Result<Box<dyn ChangeStream>> {
        let changes = self.store.changes(prefix, after).await?;
        Ok(Box::new(DelayedChangeStream::new(changes, self.delay)))
    }

    async fn revision(&self) -> Result<Revision> {
        self.count_read();
        self.store.revision().await
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.store.compact(revision).await
    }
}
