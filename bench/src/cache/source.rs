//! A store that plays back prepared changes as fast as they are taken.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use rhumb_cache::{Entry as Cached, Projection, ProjectionError, Projector, Texts};
use rhumb_meta::ObjectKey;
use rhumb_store::{
    Change, ChangeEvent, ChangeSet, ChangeStream, Entry, Key, Page, Range, Result, Revision, Store,
    Transaction,
};
use tokio::sync::watch;

/// How many different label values there are.
const LABELS: usize = 10_000;

/// What is there before the first change.
const FIRST: Revision = Revision::new(1);

#[derive(Debug)]
pub(crate) struct Source {
    entries: Vec<Entry>,
    changes: Arc<Vec<ChangeSet>>,
    changes_by_label: Vec<usize>,
    /// Whether the changes may begin.
    begun: watch::Sender<bool>,
}

impl Source {
    pub(crate) fn new(objects: usize, changes: usize, value_bytes: usize) -> Self {
        let body = "x".repeat(value_bytes);
        let value = |index: usize| Bytes::from(format!("app-{};{body}", index % LABELS));
        let entries: Vec<Entry> = (0..objects)
            .map(|index| Entry {
                key: Key::from(format!(
                    "/registry/pods/ns-{:03}/pod-{index:08}",
                    index % 100
                )),
                value: value(index),
                created: FIRST,
                modified: FIRST,
            })
            .collect();
        let change = |number: usize| {
            let index = object_of(number, objects);
            let put = Change::Put {
                key: entries[index].key.clone(),
                value: entries[index].value.clone(),
                created: FIRST,
            };
            ChangeSet {
                revision: Revision::new(FIRST.get() + 1 + number as u64),
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
        Source {
            entries,
            changes,
            changes_by_label,
            begun: watch::Sender::new(false),
        }
    }

    /// How many changes concern the objects with this label value.
    pub(crate) fn changes_of(&self, label: usize) -> usize {
        self.changes_by_label
            .get(label)
            .copied()
            .unwrap_or_default()
    }

    pub(crate) fn go(&self) {
        self.begun.send_replace(true);
    }

    pub(crate) fn last(&self) -> Revision {
        self.changes.last().map_or(FIRST, |set| set.revision)
    }
}

/// Which object a change concerns: a large stride, so that changes fall all over the tree.
fn object_of(change: usize, objects: usize) -> usize {
    change.wrapping_mul(7919) % objects
}

#[async_trait]
impl Store for Source {
    async fn get(&self, _: &str) -> Result<Option<Entry>> {
        Ok(None)
    }

    async fn range(&self, range: Range<'_>) -> Result<Page> {
        let first = range.after.map_or(0, |after| {
            self.entries.partition_point(|entry| &*entry.key <= after)
        });
        let limit = range.limit.map_or(usize::MAX, usize::from);
        let rest = &self.entries[first..];
        Ok(Page {
            entries: rest.iter().take(limit).cloned().collect(),
            revision: FIRST,
            more: rest.len() > limit,
        })
    }

    async fn commit(&self, _: Transaction) -> Result<Revision> {
        Ok(FIRST)
    }

    async fn changes(&self, _: &str, _: Revision) -> Result<Box<dyn ChangeStream>> {
        Ok(Box::new(Playback {
            changes: Arc::clone(&self.changes),
            begun: self.begun.subscribe(),
            next: 0,
        }))
    }

    async fn revision(&self) -> Result<Revision> {
        Ok(FIRST)
    }

    async fn compact(&self, _: Revision) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Playback {
    changes: Arc<Vec<ChangeSet>>,
    begun: watch::Receiver<bool>,
    next: usize,
}

#[async_trait]
impl ChangeStream for Playback {
    async fn next(&mut self) -> Result<ChangeEvent> {
        if self.next == 0 && self.begun.wait_for(|begun| *begun).await.is_err() {
            return std::future::pending().await;
        }
        let Some(set) = self.changes.get(self.next) else {
            return std::future::pending().await;
        };
        self.next += 1;
        Ok(ChangeEvent::Changes(set.clone()))
    }

    async fn request_progress(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Values are `label;rest`; the JSON is the value as it is.
#[derive(Debug, Default)]
pub(crate) struct Label([Arc<str>; 0]);

impl Projector for Label {
    fn fields(&self) -> &[Arc<str>] {
        &self.0
    }

    fn project(
        &self,
        _: &ObjectKey,
        stored: &Bytes,
        _: Revision,
        texts: &mut Texts,
    ) -> Result<Projection, ProjectionError> {
        let end = stored.iter().position(|&byte| byte == b';');
        let label = std::str::from_utf8(&stored[..end.unwrap_or_default()]);
        let label = label.map_err(|error| ProjectionError(error.to_string()))?;
        Ok(Projection {
            json: stored.clone(),
            labels: vec![(texts.text("app"), texts.text(label))],
            fields: Vec::new(),
        })
    }

    fn with_revision(&self, entry: &Cached, _: Revision) -> Bytes {
        entry.json()
    }
}
