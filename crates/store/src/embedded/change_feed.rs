//! Delivers committed changes to change streams.
//!
//! The committer pushes each change set into a bounded buffer and advances a watched revision; its cost does not depend
//! on the number of streams. Each stream keeps a cursor and reads from the buffer, or from the log on disk if it has
//! fallen behind the buffer.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use rhumb_meta::Revision;
use tokio::sync::watch;

use super::commit_ack::{CommitAckGate, CommitResponse};
use super::read::EmbeddedReader;
use crate::{ChangeSet, ChangeStream, ChangeStreamEvent, Error, KeyChange, Result};

/// How many sets a stream takes from the buffer at a time; they are shared, so this costs little memory.
const RECENT_READ_SETS_MAX: usize = 256;

/// How many bytes of the log a stream reads from disk at a time; each stream holds its own copy.
const LOG_READ_BYTES_MAX: usize = 256 * 1024;

/// Recent changes, the current revision, and the gate for commit responses; shared by committer and streams.
#[derive(Debug)]
pub(super) struct ChangeFeed {
    recent_changes: Mutex<RecentChanges>,
    revision: watch::Sender<Revision>,
    pub(super) ack_gate: CommitAckGate,
}

/// A bounded buffer of recent change sets, complete for every revision after `after`.
#[derive(Debug)]
struct RecentChanges {
    after: Revision,
    sets: VecDeque<ChangeSet>,
    bytes: usize,
    bytes_max: usize,
}

impl ChangeFeed {
    pub(super) fn new(revision: Revision, bytes_max: usize) -> Self {
        ChangeFeed {
            recent_changes: Mutex::new(RecentChanges {
                after: revision,
                sets: VecDeque::new(),
                bytes: 0,
                bytes_max,
            }),
            revision: watch::Sender::new(revision),
            ack_gate: CommitAckGate::default(),
        }
    }

    pub(super) fn revision(&self) -> Revision {
        *self.revision.borrow()
    }

    /// Makes durable change sets visible to streams; they must be in revision order. Returns the responses to send now;
    /// the others are deferred until the gating stream has processed the changes.
    pub(super) fn publish(
        &self,
        sets: Vec<ChangeSet>,
        responses: Vec<CommitResponse>,
    ) -> Vec<CommitResponse> {
        let due = self.ack_gate.defer(responses);
        if let Some(last) = sets.last().map(|set| set.revision) {
            let mut ring = self.recent_changes.lock();
            sets.into_iter().for_each(|set| ring.push(set));
            drop(ring);
            self.revision.send_replace(last);
        }
        due
    }

    /// Wakes all streams, so that they notice that the store is closed, and sends all deferred responses.
    pub(super) fn close(&self) {
        self.ack_gate.disable();
        self.revision.send_modify(|_| ());
    }

    /// The next sets after `cursor`, or `None` if the buffer no longer reaches back that far.
    fn recent_after(&self, cursor: Revision) -> Option<Vec<ChangeSet>> {
        let ring = self.recent_changes.lock();
        if cursor < ring.after {
            return None;
        }
        let first = ring.sets.partition_point(|set| set.revision <= cursor);
        Some(
            ring.sets
                .iter()
                .skip(first)
                .take(RECENT_READ_SETS_MAX)
                .cloned()
                .collect(),
        )
    }

    pub(super) fn ring_bytes(&self) -> usize {
        let ring = self.recent_changes.lock();
        ring.bytes
    }
}

impl RecentChanges {
    fn push(&mut self, set: ChangeSet) {
        self.bytes += memory_bytes(&set);
        self.sets.push_back(set);
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.sets.pop_front()
        {
            self.bytes -= memory_bytes(&oldest);
            self.after = oldest.revision;
        }
    }
}

/// The approximate memory use of a set.
fn memory_bytes(set: &ChangeSet) -> usize {
    let overhead = size_of::<ChangeSet>() + set.changes.len() * size_of::<KeyChange>();
    overhead + set.changes.iter().map(KeyChange::size).sum::<usize>()
}

/// The change stream of an embedded store.
#[derive(Debug)]
pub(super) struct EmbeddedChangeStream {
    reader: EmbeddedReader,
    feed: Arc<ChangeFeed>,
    revision: watch::Receiver<Revision>,
    prefix: String,
    /// Everything up to here has been delivered or is in `ready`.
    cursor: Revision,
    pending_sets: VecDeque<ChangeSet>,
    progress_requested: bool,
    ack_gating: AckGating,
}

/// Whether commit responses wait for the reader of a stream.
#[derive(Debug, PartialEq)]
enum AckGating {
    Disabled,
    /// Gating starts when the reader asks for the first event.
    Requested,
    /// The stream is registered with the gate under this number.
    Active(u64),
}

impl EmbeddedChangeStream {
    pub(super) fn new(
        reader: EmbeddedReader,
        feed: Arc<ChangeFeed>,
        prefix: &str,
        after: Revision,
    ) -> Self {
        EmbeddedChangeStream {
            revision: feed.revision.subscribe(),
            reader,
            feed,
            prefix: prefix.to_owned(),
            cursor: after,
            pending_sets: VecDeque::new(),
            progress_requested: false,
            ack_gating: AckGating::Disabled,
        }
    }

    /// Makes commit responses wait until the reader of this stream has processed the changes, that is, asks for the
    /// next event.
    pub(super) fn with_ack_gating(mut self) -> Self {
        self.ack_gating = AckGating::Requested;
        self
    }

    fn acknowledge_processed(&mut self) {
        let number = match self.ack_gating {
            AckGating::Disabled => return,
            AckGating::Requested => self.feed.ack_gate.register_stream(),
            AckGating::Active(number) => number,
        };
        self.ack_gating = AckGating::Active(number);
        let next = self.pending_sets.front().map(|set| set.revision.get() - 1);
        let processed = next.map_or(self.cursor, Revision::new);
        self.feed.ack_gate.acknowledge(number, processed);
    }

    fn stop_ack_gating(&mut self) {
        if let AckGating::Active(number) =
            std::mem::replace(&mut self.ack_gating, AckGating::Disabled)
        {
            self.feed.ack_gate.unregister_stream(number);
        }
    }

    /// Advances the cursor and queues the change sets that it passed.
    async fn fetch_next(&mut self) -> Result<()> {
        if let Some(sets) = self.feed.recent_after(self.cursor) {
            if let Some(last) = sets.last() {
                self.cursor = last.revision;
            }
            let below = sets
                .into_iter()
                .filter_map(|set| filter_by_prefix(set, &self.prefix));
            self.pending_sets.extend(below);
            return Ok(());
        }
        let (prefix, after) = (self.prefix.clone(), self.cursor);
        let (sets, reached) = self
            .reader
            .run(move |reader| reader.changes(&prefix, after, LOG_READ_BYTES_MAX))
            .await?;
        self.cursor = reached;
        self.pending_sets.extend(sets);
        Ok(())
    }
}

/// The changes of a set below the prefix; `None` if there are none.
fn filter_by_prefix(set: ChangeSet, prefix: &str) -> Option<ChangeSet> {
    let inside = |change: &&KeyChange| change.key().starts_with(prefix);
    let count = set.changes.iter().filter(inside).count();
    if count == 0 {
        return None;
    }
    if count == set.changes.len() {
        return Some(set);
    }
    Some(ChangeSet {
        revision: set.revision,
        changes: set.changes.iter().filter(inside).cloned().collect(),
    })
}

impl Drop for EmbeddedChangeStream {
    fn drop(&mut self) {
        self.stop_ack_gating();
    }
}

impl EmbeddedChangeStream {
    async fn next_event(&mut self) -> Result<ChangeStreamEvent> {
        loop {
            self.acknowledge_processed();
            if let Some(set) = self.pending_sets.pop_front() {
                return Ok(ChangeStreamEvent::Changes(set));
            }
            let current = *self.revision.borrow_and_update();
            if current > self.cursor {
                self.fetch_next().await?;
                continue;
            }
            // Report the revision of the store, not the cursor: a stream that begins in the future has a cursor that
            // the store has not reached.
            if std::mem::take(&mut self.progress_requested) {
                return Ok(ChangeStreamEvent::Progress(current));
            }
            if self.reader.is_closed() || self.revision.changed().await.is_err() {
                return Err(Error::Closed);
            }
        }
    }
}

#[async_trait]
impl ChangeStream for EmbeddedChangeStream {
    async fn next(&mut self) -> Result<ChangeStreamEvent> {
        let next = self.next_event().await;
        if next.is_err() {
            self.stop_ack_gating();
        }
        next
    }

    async fn request_progress(&mut self) -> Result<()> {
        self.progress_requested = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(revision: u64, keys: &[&str]) -> ChangeSet {
        let delete = |key: &&str| KeyChange::Delete { key: (*key).into() };
        ChangeSet {
            revision: Revision::new(revision),
            changes: keys.iter().map(delete).collect(),
        }
    }

    #[test]
    fn the_ring_is_bounded_and_knows_its_oldest_revision() {
        let one = memory_bytes(&set(2, &["/a/x"]));
        let feed = ChangeFeed::new(Revision::new(1), 10 * one);
        feed.publish((2..=101).map(|r| set(r, &["/a/x"])).collect(), Vec::new());
        assert!(feed.ring_bytes() <= 10 * one);
        assert_eq!(feed.revision(), Revision::new(101));
        assert_eq!(feed.recent_after(Revision::new(90)), None);
        let recent = feed
            .recent_after(Revision::new(91))
            .expect("still buffered");
        let revisions: Vec<_> = recent.iter().map(|set| set.revision.get()).collect();
        assert_eq!(revisions, (92..=101).collect::<Vec<_>>());
        assert_eq!(feed.recent_after(Revision::new(101)), Some(vec![]));
    }

    #[test]
    fn a_stream_sees_only_changes_under_its_prefix() {
        let both = set(5, &["/a/x", "/b/y"]);
        assert_eq!(
            filter_by_prefix(both.clone(), "/a/"),
            Some(set(5, &["/a/x"]))
        );
        assert_eq!(filter_by_prefix(both.clone(), "/"), Some(both.clone()));
        assert_eq!(filter_by_prefix(both, "/c/"), None);
    }
}
