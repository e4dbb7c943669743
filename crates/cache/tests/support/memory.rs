//! A store in memory, fast enough for many thousands of changes, that breaks when it is told to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use rhumb_store::{
    Change, ChangeEvent, ChangeSet, ChangeStream, Entry, Error, Key, Operation, Page, Range,
    Result, Revision, Store, Transaction,
};
use tokio::sync::watch;

#[derive(Debug)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    /// The revision, and how often streams have been broken.
    moved: watch::Sender<(Revision, u64)>,
}

#[derive(Debug, Default)]
struct State {
    log: Vec<ChangeSet>,
    entries: BTreeMap<Key, Entry>,
    revision: Revision,
    compacted: Revision,
    /// What every read and stream answers.
    failure: Option<Error>,
    breaks: u64,
    /// How often it was asked for its revision.
    questions: usize,
    /// A key that cannot be read.
    damaged: Option<String>,
}

impl Memory {
    pub fn new() -> Arc<Self> {
        let memory = Memory {
            state: Arc::default(),
            moved: watch::Sender::new((Revision::ZERO, 0)),
        };
        Arc::new(memory)
    }

    /// Ends all streams with this error; reads fail with it until [`Memory::mend`].
    pub fn break_with(&self, error: Error) {
        let mut state = self.state();
        state.failure = Some(error);
        state.breaks += 1;
        let now = (state.revision, state.breaks);
        drop(state);
        self.moved.send_replace(now);
    }

    pub fn mend(&self) {
        self.state().failure = None;
    }

    pub fn questions(&self) -> usize {
        self.state().questions
    }

    pub fn damage(&self, key: &str) {
        self.state().damaged = Some(key.to_owned());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics here")
    }

    fn healthy(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state();
        match state.failure.clone() {
            Some(error) => Err(error),
            None => Ok(state),
        }
    }
}

impl State {
    /// The entries as of a revision, by telling the log again.
    fn at(&self, revision: Revision) -> BTreeMap<Key, Entry> {
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

fn apply(entries: &mut BTreeMap<Key, Entry>, change: &Change, revision: Revision) {
    match change {
        Change::Delete { key } => {
            entries.remove(key);
        }
        Change::Put {
            key,
            value,
            created,
        } => {
            let entry = Entry {
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
impl Store for Memory {
    async fn get(&self, key: &str) -> Result<Option<Entry>> {
        Ok(self.healthy()?.entries.get(key).cloned())
    }

    async fn range(&self, range: Range<'_>) -> Result<Page> {
        let state = self.healthy()?;
        let revision = range.at.unwrap_or(state.revision);
        if revision < state.compacted {
            return Err(Error::Compacted {
                requested: revision,
                oldest: state.compacted,
            });
        }
        let below: Vec<Entry> = state
            .at(revision)
            .into_values()
            .filter(|entry| entry.key.starts_with(range.prefix))
            .filter(|entry| range.after.is_none_or(|after| &*entry.key > after))
            .collect();
        let limit = range.limit.map_or(usize::MAX, usize::from);
        let more = below.len() > limit;
        let entries: Vec<Entry> = below.into_iter().take(limit).collect();
        if let Some(damaged) = &state.damaged
            && entries.iter().any(|entry| *entry.key == **damaged)
        {
            return Err(Error::Damaged {
                key: damaged.clone(),
                reason: "a bit was flipped".to_owned(),
            });
        }
        Ok(Page {
            entries,
            revision,
            more,
        })
    }

    async fn commit(&self, transaction: Transaction) -> Result<Revision> {
        // Others write on while this reader is cut off.
        let mut state = self.state();
        let revision = state.revision.next();
        let mut changes = Vec::new();
        for operation in transaction.operations() {
            match operation {
                Operation::Put { key, value, .. } => changes.push(Change::Put {
                    key: key.clone(),
                    value: value.clone(),
                    created: state.entries.get(key).map_or(revision, |old| old.created),
                }),
                Operation::Delete { key, .. } if state.entries.contains_key(key) => {
                    changes.push(Change::Delete { key: key.clone() });
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
        self.moved.send_replace(now);
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
        Ok(Box::new(Stream {
            state: Arc::clone(&self.state),
            moved: self.moved.subscribe(),
            prefix: prefix.to_owned(),
            cursor: after,
            breaks: state.breaks,
            is_asked: false,
        }))
    }

    async fn revision(&self) -> Result<Revision> {
        let revision = {
            let mut state = self.healthy()?;
            state.questions += 1;
            state.revision
        };
        // An answer takes its time, and may be old when it arrives.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        Ok(revision)
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.state().compacted = revision;
        Ok(())
    }
}

#[derive(Debug)]
struct Stream {
    state: Arc<Mutex<State>>,
    moved: watch::Receiver<(Revision, u64)>,
    prefix: String,
    cursor: Revision,
    breaks: u64,
    is_asked: bool,
}

impl Stream {
    fn step(&mut self) -> Result<Option<ChangeEvent>> {
        let state = self.state.lock().expect("no test panics here");
        if state.breaks > self.breaks {
            let closed = Error::Unavailable {
                reason: "the stream broke".to_owned(),
            };
            return Err(state.failure.clone().unwrap_or(closed));
        }
        let first = state.log.partition_point(|set| set.revision <= self.cursor);
        for set in &state.log[first..] {
            self.cursor = set.revision;
            let inside = |change: &&Change| change.key().starts_with(&self.prefix);
            let changes: Vec<Change> = set.changes.iter().filter(inside).cloned().collect();
            if !changes.is_empty() {
                return Ok(Some(ChangeEvent::Changes(ChangeSet {
                    revision: set.revision,
                    changes: changes.into(),
                })));
            }
        }
        if std::mem::take(&mut self.is_asked) {
            return Ok(Some(ChangeEvent::Progress(state.revision)));
        }
        Ok(None)
    }
}

#[async_trait]
impl ChangeStream for Stream {
    async fn next(&mut self) -> Result<ChangeEvent> {
        loop {
            self.moved.borrow_and_update();
            if let Some(event) = self.step()? {
                return Ok(event);
            }
            self.moved.changed().await.map_err(|_| Error::Closed)?;
        }
    }

    async fn request_progress(&mut self) -> Result<()> {
        self.is_asked = true;
        Ok(())
    }
}
