//! Hands committed changes to streams.
//!
//! The committer pushes each change set into a ring and moves the revision on; that is all it ever does for
//! streams, however many there are. Each stream keeps a cursor and reads from the ring when it is ready, or
//! from the log on disk when it has fallen out of the ring.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rhumb_meta::Revision;
use tokio::sync::watch;

use super::leader::{Answer, Leader};
use super::read::Reader;
use crate::{Change, ChangeEvent, ChangeSet, ChangeStream, Error, Result};

/// How many sets a stream takes at a time from the ring, where they are shared.
const SETS_MAX: usize = 256;

/// How much of the log a stream reads at a time from the disk, which is its own to keep.
const BYTES_MAX: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Feed {
    ring: Mutex<Ring>,
    revision: watch::Sender<Revision>,
    pub(super) leader: Leader,
}

/// Recent change sets: complete for every revision after `after`.
#[derive(Debug)]
struct Ring {
    after: Revision,
    sets: VecDeque<ChangeSet>,
    bytes: usize,
    bytes_max: usize,
}

impl Feed {
    pub(super) fn new(revision: Revision, bytes_max: usize) -> Self {
        Feed {
            ring: Mutex::new(Ring {
                after: revision,
                sets: VecDeque::new(),
                bytes: 0,
                bytes_max,
            }),
            revision: watch::Sender::new(revision),
            leader: Leader::default(),
        }
    }

    pub(super) fn revision(&self) -> Revision {
        *self.revision.borrow()
    }

    /// Makes durable changes visible. Every set has its own revision, in order. Gives those of the answers back that
    /// are to be sent; the others wait for the stream that leads.
    pub(super) fn publish(&self, sets: Vec<ChangeSet>, answers: Vec<Answer>) -> Vec<Answer> {
        let due = self.leader.hold(answers);
        if let Some(last) = sets.last().map(|set| set.revision) {
            let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            sets.into_iter().for_each(|set| ring.push(set));
            drop(ring);
            self.revision.send_replace(last);
        }
        due
    }

    /// Wakes all streams, so that they notice the end of the store, and lets no writer wait for them.
    pub(super) fn end(&self) {
        self.leader.end();
        self.revision.send_modify(|_| ());
    }

    /// The next sets after `cursor`, or `None` if the ring no longer reaches back that far.
    fn recent(&self, cursor: Revision) -> Option<Vec<ChangeSet>> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if cursor < ring.after {
            return None;
        }
        let first = ring.sets.partition_point(|set| set.revision <= cursor);
        Some(
            ring.sets
                .iter()
                .skip(first)
                .take(SETS_MAX)
                .cloned()
                .collect(),
        )
    }

    pub(super) fn ring_bytes(&self) -> usize {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.bytes
    }
}

impl Ring {
    fn push(&mut self, set: ChangeSet) {
        self.bytes += weight(&set);
        self.sets.push_back(set);
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.sets.pop_front()
        {
            self.bytes -= weight(&oldest);
            self.after = oldest.revision;
        }
    }
}

/// About what a set costs in memory.
fn weight(set: &ChangeSet) -> usize {
    let overhead = size_of::<ChangeSet>() + set.changes.len() * size_of::<Change>();
    overhead + set.changes.iter().map(Change::size).sum::<usize>()
}

#[derive(Debug)]
pub(super) struct Stream {
    reader: Reader,
    feed: Arc<Feed>,
    revision: watch::Receiver<Revision>,
    prefix: String,
    /// Everything up to here has been delivered or is in `ready`.
    cursor: Revision,
    ready: VecDeque<ChangeSet>,
    progress_requested: bool,
    lead: Lead,
}

/// Whether answers to writers wait for a stream.
#[derive(Debug, PartialEq)]
enum Lead {
    Never,
    /// They will, once its reader asks for changes.
    Soon,
    Now(u64),
}

impl Stream {
    pub(super) fn new(reader: Reader, feed: Arc<Feed>, prefix: &str, after: Revision) -> Self {
        Stream {
            revision: feed.revision.subscribe(),
            reader,
            feed,
            prefix: prefix.to_owned(),
            cursor: after,
            ready: VecDeque::new(),
            progress_requested: false,
            lead: Lead::Never,
        }
    }

    /// Lets answers to writers wait until the reader of this stream has dealt with what they wrote, which it has when
    /// it asks for more.
    pub(super) fn leading(mut self) -> Self {
        self.lead = Lead::Soon;
        self
    }

    fn note_dealt_with(&mut self) {
        let number = match self.lead {
            Lead::Never => return,
            Lead::Soon => self.feed.leader.take_lead(),
            Lead::Now(number) => number,
        };
        self.lead = Lead::Now(number);
        let next = self.ready.front().map(|set| set.revision.get() - 1);
        let dealt_with = next.map_or(self.cursor, Revision::new);
        self.feed.leader.has_dealt_with(number, dealt_with);
    }

    fn stop_leading(&mut self) {
        if let Lead::Now(number) = std::mem::replace(&mut self.lead, Lead::Never) {
            self.feed.leader.give_up(number);
        }
    }

    /// Moves the cursor on, and what it passed into `ready`.
    async fn advance(&mut self) -> Result<()> {
        if let Some(sets) = self.feed.recent(self.cursor) {
            if let Some(last) = sets.last() {
                self.cursor = last.revision;
            }
            let below = sets.into_iter().filter_map(|set| narrow(set, &self.prefix));
            self.ready.extend(below);
            return Ok(());
        }
        let (prefix, after) = (self.prefix.clone(), self.cursor);
        let (sets, reached) = self
            .reader
            .run(move |reader| reader.changes(&prefix, after, BYTES_MAX))
            .await?;
        self.cursor = reached;
        self.ready.extend(sets);
        Ok(())
    }
}

/// The part of a set that falls below the prefix.
fn narrow(set: ChangeSet, prefix: &str) -> Option<ChangeSet> {
    let inside = |change: &&Change| change.key().starts_with(prefix);
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

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop_leading();
    }
}

impl Stream {
    async fn next_event(&mut self) -> Result<ChangeEvent> {
        loop {
            self.note_dealt_with();
            if let Some(set) = self.ready.pop_front() {
                return Ok(ChangeEvent::Changes(set));
            }
            let current = *self.revision.borrow_and_update();
            if current > self.cursor {
                self.advance().await?;
                continue;
            }
            // A stream that begins in the future has delivered all there is, which is not all there
            // will be before its beginning: what it can vouch for is where the store is.
            if std::mem::take(&mut self.progress_requested) {
                return Ok(ChangeEvent::Progress(current));
            }
            if self.reader.is_closed() || self.revision.changed().await.is_err() {
                return Err(Error::Closed);
            }
        }
    }
}

#[async_trait]
impl ChangeStream for Stream {
    async fn next(&mut self) -> Result<ChangeEvent> {
        let next = self.next_event().await;
        if next.is_err() {
            self.stop_leading();
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
        let delete = |key: &&str| Change::Delete { key: (*key).into() };
        ChangeSet {
            revision: Revision::new(revision),
            changes: keys.iter().map(delete).collect(),
        }
    }

    #[test]
    fn the_ring_is_bounded_and_knows_where_it_begins() {
        let one = weight(&set(2, &["/a/x"]));
        let feed = Feed::new(Revision::new(1), 10 * one);
        feed.publish((2..=101).map(|r| set(r, &["/a/x"])).collect(), Vec::new());
        assert!(feed.ring_bytes() <= 10 * one);
        assert_eq!(feed.revision(), Revision::new(101));
        assert_eq!(feed.recent(Revision::new(90)), None);
        let recent = feed.recent(Revision::new(91)).expect("within the ring");
        let revisions: Vec<_> = recent.iter().map(|set| set.revision.get()).collect();
        assert_eq!(revisions, (92..=101).collect::<Vec<_>>());
        assert_eq!(feed.recent(Revision::new(101)), Some(vec![]));
    }

    #[test]
    fn a_stream_sees_only_what_is_below_its_prefix() {
        let both = set(5, &["/a/x", "/b/y"]);
        assert_eq!(narrow(both.clone(), "/a/"), Some(set(5, &["/a/x"])));
        assert_eq!(narrow(both.clone(), "/"), Some(both.clone()));
        assert_eq!(narrow(both, "/c/"), None);
    }
}
