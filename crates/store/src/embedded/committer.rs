//! The single writer thread: commits all queued transactions in one durable write (group commit).
//!
//! ```text
//! wait for a transaction ─► drain the queue ─► check and stage each ─► append + fsync ─► publish ─► respond
//! ```
//!
//! Transactions queue up while a batch is synced, so they share the cost of the next sync. Under load the committer
//! waits a little longer for a larger batch ([`super::group_commit`]).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rhumb_meta::Revision;
use tokio::sync::oneshot;

use super::apply::CommitBatchBuilder;
use super::change_feed::ChangeFeed;
use super::commit_ack::{CommitResponder, CommitResponse};
use super::disk_error::catch_panic;
use super::group_commit::{self, GroupCommitDelay};
use super::index::{KeyIndex, KeyVersion, SharedKeyIndex};
use super::log::{FrameBuilder, LogAppender, RevisionBounds, SegmentedLog};
use super::retention::CompactionSchedule;
use super::segment_cleaner::SegmentCleanerHandle;
use crate::{ChangeSet, Error, Key, Result, Transaction};

/// The maximum number of transactions in one write; bounds the latency of each.
const BATCH_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How often an idle committer runs its background work: automatic compaction and recovery from a full disk.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// How many compacted versions are pruned from the index at a time; readers are blocked meanwhile.
const PRUNED_VERSIONS_MAX: usize = 512;

/// How long writes are rejected without an attempt after the disk was full.
const FULL_DISK_PAUSE: Duration = Duration::from_millis(100);

pub(super) enum CommitterRequest {
    Commit {
        transaction: Transaction,
        waiter: CommitResponder,
    },
    Compact {
        revision: Revision,
        reply: oneshot::Sender<Result<()>>,
    },
}

pub(super) struct Committer {
    log: Arc<SegmentedLog>,
    tail: LogAppender,
    index: SharedKeyIndex,
    feed: Arc<ChangeFeed>,
    requests: Receiver<CommitterRequest>,
    group_commit: Arc<GroupCommitDelay>,
    last_batch: Option<group_commit::LastBatchStats>,
    retention: CompactionSchedule,
    cleaner: SegmentCleanerHandle,
    started: Instant,
    /// The frame of the next write; kept to reuse its buffers.
    frame: FrameBuilder,
    /// Writes are rejected until this time because the disk was full.
    refuse_until: Option<Instant>,
}

type CommitBatch = Vec<(Transaction, CommitResponder)>;

/// The effects of a write on the index and the change streams; applied once the write is durable.
#[derive(Default)]
struct StagedWrite {
    change_sets: Vec<ChangeSet>,
    new_versions: Vec<(Key, KeyVersion)>,
    revision: u64,
    compacted: u64,
}

impl Committer {
    pub(super) fn new(
        (log, tail): (Arc<SegmentedLog>, LogAppender),
        index: SharedKeyIndex,
        feed: Arc<ChangeFeed>,
        (requests, group_commit): (Receiver<CommitterRequest>, Arc<GroupCommitDelay>),
        retention: CompactionSchedule,
        cleaner: SegmentCleanerHandle,
    ) -> Self {
        Committer {
            log,
            tail,
            index,
            feed,
            requests,
            group_commit,
            last_batch: None,
            retention,
            cleaner,
            started: Instant::now(),
            frame: FrameBuilder::default(),
            refuse_until: None,
        }
    }

    /// Serves requests until all senders are dropped, then closes the log.
    pub(super) fn run(mut self) {
        self.cleaner.wake_if_needed();
        loop {
            let done = match self.requests.recv_timeout(self.idle_timeout()) {
                Ok(request) => catch_panic(|| self.serve(request)),
                Err(RecvTimeoutError::Timeout) => catch_panic(|| self.run_idle_work()),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Err(error) = done {
                self.log.halt(error);
            }
        }
        self.log.close();
        self.feed.close();
        self.cleaner.stop();
        if self.log.check_writable().is_ok() {
            self.tail.close();
        }
    }

    /// How long to wait for a request before running idle work: no time at all while there is garbage to prune.
    fn idle_timeout(&self) -> Duration {
        // After a storage failure nothing is pruned.
        if self.log.check_writable().is_ok() && self.index.read().has_garbage() {
            Duration::ZERO
        } else {
            IDLE_INTERVAL
        }
    }

    /// Serves a request together with all transactions queued behind it.
    fn serve(&mut self, first: CommitterRequest) {
        // Idle work does not run while requests keep coming, and failing writes do not reach `CommitAckGate::defer`.
        self.feed.ack_gate.release_overdue();
        let mut batch = CommitBatch::new();
        let mut bytes = 0;
        if let (CommitterRequest::Commit { .. }, Some(last)) = (&first, &self.last_batch) {
            self.group_commit.wait_for_batch_like(last);
        }
        let mut next = Some(first);
        while let Some(request) = next.take() {
            match request {
                CommitterRequest::Commit {
                    transaction,
                    waiter: writer,
                } => {
                    bytes += transaction.size();
                    batch.push((transaction, writer));
                }
                CommitterRequest::Compact { revision, reply } => {
                    self.commit_and_measure(std::mem::take(&mut batch));
                    // The caller may have dropped its future; the compaction is done anyway.
                    let _ = reply.send(self.compact(revision));
                    return;
                }
            }
            if batch.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
                next = self.requests.try_recv().ok();
            }
        }
        self.commit_and_measure(batch);
    }

    /// Commits a batch and records its size and duration for group commit.
    fn commit_and_measure(&mut self, batch: CommitBatch) {
        let (transactions, started) = (batch.len(), Instant::now());
        self.group_commit.transactions_dequeued(transactions);
        self.commit_batch(batch);
        let ended = Instant::now();
        self.last_batch = Some(group_commit::LastBatchStats {
            transactions,
            commit_time: ended - started,
            finished_at: ended,
        });
    }

    /// Applies the transactions of the batch whose expectations hold, makes them durable, then visible.
    fn commit_batch(&mut self, batch: CommitBatch) {
        if let Err(error) = self.check_writable() {
            return fail_all(batch.into_iter().map(|(_, writer)| writer), &error);
        }
        let (mut responses, written) = self.stage(batch);
        if written.change_sets.is_empty() {
            let due = self.feed.ack_gate.defer(responses);
            return due.into_iter().for_each(CommitResponse::send);
        }
        if let Err(error) = self.persist(written, &mut responses) {
            fail_all(responses.into_iter().map(|answer| answer.waiter), &error);
        }
    }

    /// Rejects writes after a storage failure, and for a short time after the disk was full.
    fn check_writable(&self) -> Result<()> {
        self.log.check_writable()?;
        match self.refuse_until {
            Some(time) if Instant::now() < time => Err(Error::StorageFull {
                reason: "no space left for the last write".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn stage(&mut self, batch: CommitBatch) -> (Vec<CommitResponse>, StagedWrite) {
        let index = self.index.read();
        let mut written = StagedWrite::starting_from(&index);
        let segments = self.log.segments();
        self.frame.clear();
        let mut builder = CommitBatchBuilder::new(&index, &segments, &mut self.frame);
        let mut responses = Vec::with_capacity(batch.len());
        for (transaction, writer) in batch {
            let next = written.revision + 1;
            let result = builder.apply(&transaction, next).map(|set| {
                if let Some(set) = set {
                    written.revision = next;
                    written.change_sets.push(set);
                }
                Revision::new(written.revision)
            });
            responses.push(CommitResponse {
                result,
                waiter: writer,
            });
        }
        written.new_versions = builder.new_versions;
        (responses, written)
    }

    /// Makes a write durable, then visible. If the disk is full, nothing was changed; after any other disk error all
    /// further writes are rejected.
    fn persist(
        &mut self,
        mut written: StagedWrite,
        responses: &mut Vec<CommitResponse>,
    ) -> Result<()> {
        let now = self.started.elapsed();
        let due = self
            .retention
            .compaction_due(now, written.revision, written.compacted);
        written.compacted = written.compacted.max(due.unwrap_or(0));
        let reached = RevisionBounds {
            revision: written.revision,
            compacted: written.compacted,
        };
        match self.tail.append(&mut self.frame, reached) {
            Ok(()) => {
                if due.is_some() {
                    self.retention.compaction_done(now);
                }
                self.publish(written, std::mem::take(responses));
                Ok(())
            }
            Err(error @ (Error::StorageFull { .. } | Error::OutcomeUnknown { .. })) => {
                tracing::warn!(%error, "write failed for lack of space; rejecting writes for a moment");
                self.refuse_until = Some(Instant::now() + FULL_DISK_PAUSE);
                self.log.set_full(true);
                Err(error)
            }
            Err(error) => Err(self.log.halt(error)),
        }
    }

    /// Makes a durable write visible: first to reads, then to change streams, then to its writers.
    fn publish(&mut self, written: StagedWrite, responses: Vec<CommitResponse>) {
        if self.refuse_until.take().is_some() {
            self.log.set_full(false);
        }
        let mut index = self.index.write();
        let mut droppable = Vec::new();
        for (key, version) in &written.new_versions {
            droppable.extend(index.add(key, *version));
        }
        index.advance_revisions(written.revision, written.compacted);
        // Prune more than this write adds, or garbage would grow without bound.
        let forgotten_max = PRUNED_VERSIONS_MAX.max(2 * written.new_versions.len());
        droppable.extend(index.prune(forgotten_max));
        let any_droppable = !droppable.is_empty();
        self.log.mark_dead(droppable);
        // Before the index lock is released, or a read could return a revision that `revision()` does not report yet.
        let due = self.feed.publish(written.change_sets, responses);
        drop(index);
        due.into_iter().for_each(CommitResponse::send);
        self.retention
            .record_revision(self.started.elapsed(), written.revision);
        if any_droppable {
            self.cleaner.wake_if_needed();
        }
    }

    fn compact(&mut self, revision: Revision) -> Result<()> {
        let (current, compacted) = self.index.read().revision_bounds();
        if revision > current {
            return Err(Error::FutureRevision {
                requested: revision,
                current,
            });
        }
        if revision <= compacted {
            return Ok(());
        }
        self.check_writable()?;
        self.advance_compaction(revision.get())
    }

    /// Idle work: compacts history that exceeds the retention, retries after a full disk, prunes the index.
    fn run_idle_work(&mut self) {
        self.feed.ack_gate.release_overdue();
        if self.log.check_writable().is_err() {
            return;
        }
        let now = self.started.elapsed();
        let (revision, compacted) = self.index.read().revision_bounds();
        let (revision, compacted) = (revision.get(), compacted.get());
        self.retention.record_revision(now, revision);
        let tended = match self.retention.compaction_due(now, revision, compacted) {
            Some(begin) => self.advance_compaction(begin),
            None => self.truncate_unacknowledged(),
        };
        if let Err(error) = tended {
            tracing::warn!(%error, "failed to compact or truncate the log; retrying in a second");
        }
        self.prune_index();
        self.cleaner.wake_if_needed();
    }

    /// Truncates an incomplete write left by a full disk; any other disk error stops all writes.
    fn truncate_unacknowledged(&mut self) -> Result<()> {
        let cut = self.tail.truncate_unacknowledged();
        cut.map_err(|error| match error {
            Error::StorageFull { .. } => error,
            error => self.log.halt(error),
        })
    }

    /// Moves the compaction revision to `begin`. Changes no entry.
    fn advance_compaction(&mut self, begin: u64) -> Result<()> {
        self.frame.clear();
        let mut written = StagedWrite::starting_from(&self.index.read());
        written.compacted = begin;
        self.persist(written, &mut Vec::new())
    }

    fn prune_index(&mut self) {
        let mut index = self.index.write();
        let droppable = index.prune(PRUNED_VERSIONS_MAX);
        self.log.mark_dead(droppable);
    }
}

impl StagedWrite {
    fn starting_from(index: &KeyIndex) -> Self {
        StagedWrite {
            revision: index.revision().get(),
            compacted: index.compacted().get(),
            ..StagedWrite::default()
        }
    }
}

fn fail_all(writers: impl Iterator<Item = CommitResponder>, error: &Error) {
    writers.for_each(|writer| writer.respond(Err(error.clone())));
}
