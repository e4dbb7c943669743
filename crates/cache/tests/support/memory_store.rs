//! An in-memory `Store` for tests with fault injection, fast enough for many thousands of changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use rhumb_store::{
    ChangeSet, ChangeStream, ChangeStreamEvent, Error, Key, KeyChange, RangePage, RangeRequest,
    Result, Revision, Store, StoreEntry, Transaction, TransactionOp,
};
use tokio::sync::watch;

/// An in-memory store that keeps its complete change log and can be made to fail.
#[derive(Debug)]
pub struct MemoryStore {
    state: Arc<Mutex<MemoryStoreState>>,
    /// The revision, and the number of injected stream failures.
    advanced: watch::Sender<(Revision, u64)>,
}

/// The contents, the change log and the injected faults.
#[derive(Debug, Default)]
struct MemoryStoreState {
    log: Vec<ChangeSet>,
    entries: BTreeMap<Key, StoreEntry>,
    revision: Revision,
    compacted: Revision,
    /// Error that every read and stream returns.
    failure: Option<Error>,
    breaks: u64,
    /// Number of calls of `revision`.
    revision_requests: usize,
    /// A key whose reads fail as damaged.
    damaged: Option<String>,
}

impl MemoryStore {
    pub fn new() -> Arc<Self> {
        let memory = MemoryStore {
            state: Arc::default(),
            advanced: watch::Sender::new((Revision::ZERO, 0)),
        };
        Arc::new(memory)
    }

    /// Fails all streams with this error; reads fail with it until [`MemoryStore::clear_failure`].
    pub fn fail_with(&self, error: Error) {
        let mut state = self.state();
        state.failure = Some(error);
        state.breaks += 1;
        let now = (state.revision, state.breaks);
        drop(state);
        self.advanced.send_replace(now);
    }

    pub fn clear_failure(&self) {
        self.state().failure = None;
    }

    /// Restores the state of an earlier revision, as from a backup: the changes after it are lost. Call it between
    /// [`MemoryStore::fail_with`] and [`MemoryStore::clear_failure`], so that no stream is open.
    pub fn restore(&self, revision: Revision) {
        let mut state = self.state();
        state.entries = state.entries_at(revision);
        state.log.retain(|set| set.revision <= revision);
        state.revision = revision;
    }

    pub fn revision_requests(&self) -> usize {
        self.state().revision_requests
    }

    pub fn damage_key(&self, key: &str) {
        self.state().damaged = Some(key.to_owned());
    }

    fn state(&self) -> MutexGuard<'_, MemoryStoreState> {
        self.state.lock().expect("the lock is not poisoned")
    }

    fn healthy(&self) -> Result<MutexGuard<'_, MemoryStoreState>> {
        let state = self.state();
        match state.failure.clone() {
            Some(error) => Err(error),
            None => Ok(state),
        }
    }
}

impl MemoryStoreState {
    /// The entries as of a revision, rebuilt from the log.
    fn entries_at(&self, revision: Revision) -> BTreeMap<Key, StoreEntry> {
        if revision >= self.revision {
            return self.entries.clone();
        }
        let mut entries = BTreeMap::new();
        for set in self.log.iter().filter(|set| set.revision <= revision) {
            set.changes
                .iter()
                .for_each(|change| apply(&mut entries, change, set.revision));
        }
        entries
    }
}

fn apply(entries: &mut BTreeMap<Key, StoreEntry>, change: &KeyChange, revision: Revision) {
    match change {
        KeyChange::Delete { key } => {
            entries.remove(key);
        }
        KeyChange::Put {
            key,
            value,
            created,
        } => {
            let entry = StoreEntry {
                key: key.clone(),
                value: value.clone(),
                created: *created,
                modified: revision,
            };
            entries.insert(key.clone(), entry);
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &str) -> Result<Option<StoreEntry>> {
        Ok(self.healthy()?.entries.get(key).cloned())
    }

    async fn range(&self, range: RangeRequest<'_>) -> Result<RangePage> {
        let state = self.healthy()?;
        let revision = range.at.unwrap_or(state.revision);
        if revision < state.compacted {
            return Err(Error::Compacted {
                requested: revision,
                oldest: state.compacted,
            });
        }
        let below: Vec<StoreEntry> = state
            .entries_at(revision)
            .into_values()
            .filter(|entry| entry.key.starts_with(range.prefix))
            .filter(|entry| range.after.is_none_or(|after| &*entry.key > after))
            .collect();
        let limit = range.limit.map_or(usize::MAX, usize::from);
        let more = below.len() > limit;
        let entries: Vec<StoreEntry> = below.into_iter().take(limit).collect();
        if let Some(damaged) = &state.damaged
            && entries.iter().any(|entry| *entry.key == **damaged)
        {
            return Err(Error::Damaged {
                key: damaged.clone(),
                reason: "a bit was flipped".to_owned(),
            });
        }
        Ok(RangePage {
            entries,
            revision,
            more,
        })
    }

    async fn commit(&self, transaction: Transaction) -> Result<Revision> {
        // Writes succeed during an injected failure: other clients of the store can still write.
        let mut state = self.state();
        let revision = state.revision.next();
        let mut changes = Vec::new();
        for operation in transaction.operations() {
            match operation {
                TransactionOp::Put { key, value, .. } => changes.push(KeyChange::Put {
                    key: key.clone(),
                    value: value.clone(),
                    created: state.entries.get(key).map_or(revision, |old| old.created),
                }),
                TransactionOp::Delete { key, .. } if state.entries.contains_key(key) => {
                    changes.push(KeyChange::Delete { key: key.clone() });
                }
                _ => {}
            }
        }
        if changes.is_empty() {
            return Ok(state.revision);
        }
        for change in &changes {
            apply(&mut state.entries, change, revision);
        }
        state.revision = revision;
        let changes = changes.into();
        state.log.push(ChangeSet { revision, changes });
        let now = (revision, state.breaks);
        drop(state);
        self.advanced.send_replace(now);
        Ok(revision)
    }

    async fn changes(&self, prefix: &str, after: Revision) -> Result<Box<dyn ChangeStream>> {
        let state = self.healthy()?;
        if after < state.compacted {
            return Err(Error::Compacted {
                requested: after,
                oldest: state.compacted,
            });
        }
        Ok(Box::new(MemoryChangeStream {
            state: Arc::clone(&self.state),
            moved: self.advanced.subscribe(),
            prefix: prefix.to_owned(),
            cursor: after,
            breaks: state.breaks,
            progress_requested: false,
        }))
    }

    async fn revision(&self) -> Result<Revision> {
        let revision = {
            let mut state = self.healthy()?;
            state.revision_requests += 1;
            state.revision
        };
        // Delay the response, so that it can be stale when it arrives.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        Ok(revision)
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.state().compacted = revision;
        Ok(())
    }
}

/// A change stream that reads the log.
#[derive(Debug)]
struct MemoryChangeStream {
    state: Arc<Mutex<MemoryStoreState>>,
    moved: watch::Receiver<(Revision, u64)>,
    prefix: String,
    cursor: Revision,
    breaks: u64,
    progress_requested: bool,
}

impl MemoryChangeStream {
    fn step(&mut self) -> Result<Option<ChangeStreamEvent>> {
        let state = self.state.lock().expect("the lock is not poisoned");
        if state.breaks > self.breaks {
            let closed = Error::Unavailable {
                reason: "the stream broke".to_owned(),
            };
            return Err(state.failure.clone().unwrap_or(closed));
        }
        let first = state.log.partition_point(|set| set.revision <= self.cursor);
        for set in &state.log[first..] {
            self.cursor = set.revision;
            let inside = |change: &&KeyChange| change.key().starts_with(&self.prefix);
            let changes: Vec<KeyChange> = set.changes.iter().filter(inside).cloned().collect();
            if !changes.is_empty() {
                return Ok(Some(ChangeStreamEvent::Changes(ChangeSet {
                    revision: set.revision,
                    changes: changes.into(),
                })));
            }
        }
        if std::mem::take(&mut self.progress_requested) {
            return Ok(Some(ChangeStreamEvent::Progress(state.revision)));
        }
        Ok(None)
    }
}

#[async_trait]
impl ChangeStream for MemoryChangeStream {
    async fn next(&mut self) -> Result<ChangeStreamEvent> {
        loop {
            self.moved.borrow_and_update();
            if let Some(event) = self.step()? {
                return Ok(event);
            }
            self.moved.changed().await.map_err(|_| Error::Closed)?;
        }
    }

    async fn request_progress(&mut self) -> Result<()> {
        self.progress_requested = true;
        Ok(())
    }
}
