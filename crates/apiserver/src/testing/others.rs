//! A store that others write to as well, at the worst of times.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rhumb_meta::Revision;
use rhumb_store::{
    ChangeEvent, ChangeStream, Entry, Error, Page, Range, Result, Store, Transaction,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

type Meanwhile = dyn Fn(&Transaction) -> Option<Transaction> + Send + Sync;

/// Before each commit, `meanwhile` says what somebody else commits, if they do.
pub(crate) struct Others {
    store: Arc<dyn Store>,
    meanwhile: Box<Meanwhile>,
    /// How late changes are told.
    delay: Duration,
}

impl Others {
    pub(crate) fn new(
        store: impl Store,
        meanwhile: impl Fn(&Transaction) -> Option<Transaction> + Send + Sync + 'static,
    ) -> Arc<Others> {
        Arc::new(Others {
            store: Arc::new(store),
            meanwhile: Box::new(meanwhile),
            delay: Duration::ZERO,
        })
    }

    /// A store whose changes come late: another server has seen them already.
    pub(crate) fn late(store: Arc<dyn Store>, delay: Duration) -> Arc<Others> {
        Arc::new(Others {
            store,
            meanwhile: Box::new(|_| None),
            delay,
        })
    }
}

/// Every event comes so much later than it was told, however many there are.
#[derive(Debug)]
struct Late {
    events: mpsc::UnboundedReceiver<(Result<ChangeEvent>, Instant)>,
    requests: mpsc::UnboundedSender<()>,
    /// Taken, and not due yet.
    pending: Option<(Result<ChangeEvent>, Instant)>,
}

impl Late {
    fn new(mut changes: Box<dyn ChangeStream>, delay: Duration) -> Late {
        let (tell, events) = mpsc::unbounded_channel();
        let (requests, mut requested) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    event = changes.next() => {
                        let is_over = event.is_err();
                        if tell.send((event, Instant::now() + delay)).is_err() || is_over {
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
        Late {
            events,
            requests,
            pending: None,
        }
    }
}

#[async_trait]
impl ChangeStream for Late {
    async fn next(&mut self) -> Result<ChangeEvent> {
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

impl fmt::Debug for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Others")
    }
}

#[async_trait]
impl Store for Others {
    fn is_shared(&self) -> bool {
        true
    }

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
        let changes = self.store.changes(prefix, after).await?;
        Ok(Box::new(Late::new(changes, self.delay)))
    }

    async fn revision(&self) -> Result<Revision> {
        self.store.revision().await
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.store.compact(revision).await
    }
}
