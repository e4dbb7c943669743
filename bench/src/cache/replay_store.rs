//! In-memory store that replays prepared changes as fast as the cache reads them.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use rhumb_cache::{
    CacheEntry as Cached, ObjectProjection, ObjectProjector, ProjectionError, StringInterner,
};
use rhumb_meta::ObjectKey;
use rhumb_store::{
    ChangeSet, ChangeStream, ChangeStreamEvent, Key, KeyChange, RangePage, RangeRequest, Result,
    Revision, Store, StoreEntry, Transaction,
};
use tokio::sync::watch;

/// Number of different label values.
const LABELS: usize = 10_000;

/// Revision of the initial objects.
const INITIAL_REVISION: Revision = Revision::new(1);

#[derive(Debug)]
pub(crate) struct ReplayStore {
    entries: Vec<StoreEntry>,
    changes: Arc<Vec<ChangeSet>>,
    changes_by_label: Vec<usize>,
    /// Set to true to start the replay.
    started: watch::Sender<bool>,
}

impl ReplayStore {
    pub(crate) fn new(objects: usize, changes: usize, value_bytes: usize) -> Self {
        let body = "x".repeat(value_bytes);
        let value = |index: usize| Bytes::from(format!("app-{};{body}", index % LABELS));
        let entries: Vec<StoreEntry> = (0..objects)
            .map(|index| StoreEntry {
                key: Key::from(format!(
                    "/registry/pods/ns-{:03}/pod-{index:08}",
                    index % 100
                )),
                value: value(index),
                created: INITIAL_REVISION,
                modified: INITIAL_REVISION,
            })
            .collect();
        let change = |number: usize| {
            let index = object_of(number, objects);
            let put = KeyChange::Put {
                key: entries[index].key.clone(),
                value: entries[index].value.clone(),
                created: INITIAL_REVISION,
            };
            ChangeSet {
                revision: Revision::new(INITIAL_REVISION.get() + 1 + number as u64),
                changes: Arc::from([put]),
            }
        };
        let mut changes_by_label = vec![0; LABELS];
        for number in 0..changes {
            changes_by_label[object_of(number, objects) % LABELS] += 1;
        }
        let changes = Arc::new((0..changes).map(change).collect());
        let mut entries = entries;
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        ReplayStore {
            entries,
            changes,
            changes_by_label,
            started: watch::Sender::new(false),
        }
    }

    /// Number of changes to objects with this label value.
    pub(crate) fn changes_of(&self, label: usize) -> usize {
        self.changes_by_label
            .get(label)
            .copied()
            .unwrap_or_default()
    }

    pub(crate) fn release(&self) {
        self.started.send_replace(true);
    }

    pub(crate) fn last(&self) -> Revision {
        self.changes
            .last()
            .map_or(INITIAL_REVISION, |set| set.revision)
    }
}

/// Object of a change; the large stride spreads changes over the whole key space.
fn object_of(change: usize, objects: usize) -> usize {
    change.wrapping_mul(7919) % objects
}

#[async_trait]
impl Store for ReplayStore {
    async fn get(&self, _: &str) -> Result<Option<StoreEntry>> {
        Ok(None)
    }

    async fn range(&self, range: RangeRequest<'_>) -> Result<RangePage> {
        let first = range.after.map_or(0, |after| {
            self.entries.partition_point(|entry| &*entry.key <= after)
        });
        let limit = range.limit.map_or(usize::MAX, usize::from);
        let rest = &self.entries[first..];
        Ok(RangePage {
            entries: rest.iter().take(limit).cloned().collect(),
            revision: INITIAL_REVISION,
            more: rest.len() > limit,
        })
    }

    async fn commit(&self, _: Transaction) -> Result<Revision> {
        Ok(INITIAL_REVISION)
    }

    async fn changes(&self, _: &str, _: Revision) -> Result<Box<dyn ChangeStream>> {
        Ok(Box::new(ReplayStream {
            changes: Arc::clone(&self.changes),
            started: self.started.subscribe(),
            next: 0,
        }))
    }

    async fn revision(&self) -> Result<Revision> {
        Ok(INITIAL_REVISION)
    }

    async fn compact(&self, _: Revision) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct ReplayStream {
    changes: Arc<Vec<ChangeSet>>,
    started: watch::Receiver<bool>,
    next: usize,
}

#[async_trait]
impl ChangeStream for ReplayStream {
    async fn next(&mut self) -> Result<ChangeStreamEvent> {
        if self.next == 0 && self.started.wait_for(|started| *started).await.is_err() {
            return std::future::pending().await;
        }
        let Some(set) = self.changes.get(self.next) else {
            return std::future::pending().await;
        };
        self.next += 1;
        Ok(ChangeStreamEvent::Changes(set.clone()))
    }

    async fn request_progress(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Projector for values of the form `label;rest`; the JSON is the value itself.
#[derive(Debug, Default)]
pub(crate) struct LabelOnlyProjector([Arc<str>; 0]);

impl ObjectProjector for LabelOnlyProjector {
    fn field_names(&self) -> &[Arc<str>] {
        &self.0
    }

    fn project(
        &self,
        _: &ObjectKey,
        stored: &Bytes,
        _: Revision,
        texts: &mut StringInterner,
    ) -> Result<ObjectProjection, ProjectionError> {
        let end = stored.iter().position(|&byte| byte == b';');
        let label = std::str::from_utf8(&stored[..end.unwrap_or_default()]);
        let label = label.map_err(|error| ProjectionError(error.to_string()))?;
        Ok(ObjectProjection {
            json: stored.clone(),
            labels: vec![(texts.intern("app"), texts.intern(label))],
            fields: Vec::new(),
        })
    }

    fn with_revision(&self, entry: &Cached, _: Revision) -> Bytes {
        entry.json()
    }
}
