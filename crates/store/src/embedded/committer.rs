//! The one writer: gathers all waiting transactions into one durable write.
//!
//! ```text
//! wait for a transaction ─► take all that wait with it ─► check and write each ─► fsync ─► publish ─► answer
//! ```
//!
//! While one batch is synced the next one gathers, so the cost of a sync is shared by all who wait for it.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use redb::{Database, Durability, WriteTransaction};
use rhumb_meta::Revision;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::apply::{Draft, Failure, Tables};
use super::engine::Engine;
use super::fault::{damaged, from_redb, guarded, is_echo, short};
use super::feed::Feed;
use super::index::{Index, Version};
use super::read::Snapshot;
use super::retention::Ages;
use crate::{ChangeSet, Error, Key, Result, Transaction};

/// At most this many transactions share one write, which bounds how long any of them waits.
const BATCH_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How often an idle committer looks after the history and a full disk.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// How many versions must be removable before a busy committer removes them, and how many an idle one
/// removes at a time. Removing many that lie together touches far fewer pages than one by one.
const SWEEP_MIN: usize = 4096;

/// For how long writes are refused on a full disk, as a multiple of what opening the database took.
const REFUSAL_FACTOR: u32 = 10;
const REFUSAL_MAX: Duration = Duration::from_secs(5);

pub(super) enum Request {
    Commit {
        transaction: Transaction,
        reply: oneshot::Sender<Result<Revision>>,
        /// The request's share of the queue, given back when it is answered.
        permit: OwnedSemaphorePermit,
    },
    Compact {
        revision: Revision,
        reply: oneshot::Sender<Result<()>>,
    },
}

/// The index, shared with readers. It shows only what is durable.
pub(super) type SharedIndex = Arc<RwLock<Index>>;

pub(super) struct Committer {
    engine: Arc<Engine>,
    index: SharedIndex,
    feed: Arc<Feed>,
    requests: Receiver<Request>,
    ages: Ages,
    started: Instant,
    /// A write of which nobody knows whether it became durable before the disk was too full to look.
    limbo: Option<Written>,
    /// Whether the last write failed.
    troubled: bool,
    /// Until when writes are refused because the last one found no room.
    refuse_until: Option<Instant>,
}

type Batch = Vec<(
    Transaction,
    oneshot::Sender<Result<Revision>>,
    OwnedSemaphorePermit,
)>;

/// What a write means for the index and the streams, once it is durable.
#[derive(Default)]
struct Written {
    answers: Vec<Result<Revision>>,
    sets: Vec<ChangeSet>,
    added: Vec<(Key, Version)>,
    /// How many of the index's removable versions are gone from the log.
    removed: usize,
    revision: u64,
    compacted: u64,
}

impl Committer {
    pub(super) fn new(
        engine: Arc<Engine>,
        index: SharedIndex,
        feed: Arc<Feed>,
        requests: Receiver<Request>,
        ages: Ages,
    ) -> Self {
        Committer {
            engine,
            index,
            feed,
            requests,
            ages,
            started: Instant::now(),
            limbo: None,
            troubled: false,
            refuse_until: None,
        }
    }

    /// Serves until all senders are gone, then closes the database.
    pub(super) fn run(mut self) {
        loop {
            match self.requests.recv_timeout(self.patience()) {
                Ok(request) => self.serve(request),
                Err(RecvTimeoutError::Timeout) => self.tend(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.engine.close();
        self.feed.wake();
    }

    /// How long to wait for a request before the database is tended: not at all while there is garbage,
    /// unless the disk does not take writes anyway.
    fn patience(&self) -> Duration {
        if !self.troubled && self.read_index(|index| index.has_garbage(1)) {
            Duration::ZERO
        } else {
            IDLE_INTERVAL
        }
    }

    fn read_index<T>(&self, read: impl FnOnce(&Index) -> T) -> T {
        read(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Carries out a request, and with it all transactions that wait behind it.
    fn serve(&mut self, first: Request) {
        let mut batch = Batch::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(request) = next.take() {
            match request {
                Request::Commit {
                    transaction,
                    reply,
                    permit,
                } => {
                    bytes += transaction.size();
                    batch.push((transaction, reply, permit));
                }
                Request::Compact { revision, reply } => {
                    self.commit(std::mem::take(&mut batch));
                    // Whoever asked may have gone; the compaction stands.
                    let _ = reply.send(self.compact(revision));
                    return;
                }
            }
            if batch.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
                next = self.requests.try_recv().ok();
            }
        }
        self.commit(batch);
    }

    fn commit(&mut self, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        let result = self.write_durably(|committer, database| committer.write(database, &batch));
        let answers = result.unwrap_or_else(|error| vec![Err(error); batch.len()]);
        for ((_, reply, permit), answer) in batch.into_iter().zip(answers) {
            drop(permit);
            // A caller that gave up waiting does not undo its transaction.
            let _ = reply.send(answer);
        }
    }

    /// Runs a write, makes it durable and then visible.
    fn write_durably(
        &mut self,
        write: impl FnOnce(&mut Self, &Database) -> Result<(Option<WriteTransaction>, Written)>,
    ) -> Result<Vec<Result<Revision>>> {
        let result = self.try_to_write(write);
        self.troubled = result.is_err();
        result
    }

    /// Takes care of what a failing disk needs.
    fn try_to_write(
        &mut self,
        write: impl FnOnce(&mut Self, &Database) -> Result<(Option<WriteTransaction>, Written)>,
    ) -> Result<Vec<Result<Revision>>> {
        self.engine.check_writable()?;
        self.check_room()?;
        self.ensure_open()?;
        let engine = Arc::clone(&self.engine);
        let mut planned = None;
        let outcome = guarded(|| {
            engine.with_database(|database| {
                let (transaction, written) = write(self, database)?;
                planned = Some(written);
                match transaction {
                    Some(transaction) => transaction.commit().map_err(from_redb),
                    None => Ok(()),
                }
            })
        });
        match (outcome, planned) {
            (Ok(()), Some(written)) => Ok(self.show(written)),
            (Ok(()), None) => Err(Error::Closed),
            (Err(error @ Error::StorageFull { .. }), planned) => self.recover(error, planned),
            // A read has failed meanwhile, which says nothing about the write.
            (Err(error), planned) if is_echo(&error) => {
                let reason = short(&error);
                self.recover(Error::Unavailable { reason }, planned)
            }
            // A read has failed meanwhile, and the database could not be opened again at once.
            (Err(error @ Error::Unavailable { .. }), None) => Err(error),
            (Err(error), _) => Err(self.engine.halt(error)),
        }
    }

    /// Opening the database anew takes a while, during which nobody can read. So for some time after a
    /// write that found no room, others are refused without trying.
    fn check_room(&self) -> Result<()> {
        match self.refuse_until {
            Some(time) if Instant::now() < time => Err(Error::StorageFull {
                reason: "the last write found no room".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Makes a durable write visible: first to reads, then to streams, then to its writers.
    fn show(&mut self, written: Written) -> Vec<Result<Revision>> {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        index.forget(written.removed);
        for (key, version) in &written.added {
            index.add(key, *version);
        }
        index.compact(written.compacted);
        // Before the index is let go, or a reader could see more than streams and the revision admit.
        self.feed.publish(written.sets);
        drop(index);
        self.ages.note(self.started.elapsed(), written.revision);
        written.answers
    }

    /// Opens the database as the disk has it. A write that failed late may have become durable all the
    /// same: what is stored tells, and then its writers hear the truth.
    fn recover(&mut self, error: Error, planned: Option<Written>) -> Result<Vec<Result<Revision>>> {
        tracing::warn!("a write failed: {error}");
        self.limbo = planned;
        let begun = Instant::now();
        let reopened = self.engine.reopen();
        if matches!(error, Error::StorageFull { .. }) {
            let pause = (begun.elapsed() * REFUSAL_FACTOR).min(REFUSAL_MAX);
            self.refuse_until = Some(Instant::now() + pause);
        }
        match reopened {
            Ok(()) => match self.settle() {
                Ok(shown) => shown.ok_or(error),
                Err(unread) => Err(Error::OutcomeUnknown {
                    reason: short(&unread),
                }),
            },
            Err(Error::StorageFull { .. }) if self.limbo.is_some() => Err(Error::OutcomeUnknown {
                reason: "the disk is too full to open the database again".to_owned(),
            }),
            Err(Error::StorageFull { .. }) => Err(error),
            Err(reopening) => Err(self.engine.halt(reopening)),
        }
    }

    /// Finds out what became of the write in limbo, and shows it if the database holds it. Until that can be
    /// read, it stays there. A write that only removed garbage cannot be told from its absence, and need not
    /// be: removing it again does no harm.
    fn settle(&mut self) -> Result<Option<Vec<Result<Revision>>>> {
        let Some(planned) = &self.limbo else {
            return Ok(None);
        };
        let planned = (
            Revision::new(planned.revision),
            Revision::new(planned.compacted),
        );
        let stored = self.engine.read_blocking(|database| {
            let snapshot = Snapshot::open(database)?;
            Ok((snapshot.revision(), snapshot.compacted()))
        })?;
        let before = self.read_index(|index| (index.revision(), index.compacted()));
        let happened = planned == stored && planned != before;
        let written = self.limbo.take().filter(|_| happened);
        Ok(written.map(|written| self.show(written)))
    }

    /// Opens the database if it is not open, and finds out what became of the last write.
    fn ensure_open(&mut self) -> Result<()> {
        self.engine.ensure_open()?;
        self.settle().map(|_| ())
    }

    fn write(
        &mut self,
        database: &Database,
        batch: &Batch,
    ) -> Result<(Option<WriteTransaction>, Written)> {
        let write = begin(database)?;
        let index = Arc::clone(&self.index);
        let index = index.read().unwrap_or_else(PoisonError::into_inner);
        let mut tables = tables_at(&write, &index)?;
        let mut written = draft(&mut tables, &index, batch)?;
        if written.sets.is_empty() {
            drop(tables);
            write.abort().map_err(from_redb)?;
            return Ok((None, written));
        }
        tables.numbers.revision = written.revision;
        self.give_up_history(&mut tables, &mut written);
        if index.has_garbage(SWEEP_MIN) {
            // At least what this write supersedes, or garbage would grow without end.
            let count = SWEEP_MIN.max(2 * written.added.len());
            written.removed = sweep(&mut tables, &index, count)?;
        }
        tables.save()?;
        Ok((Some(write), written))
    }

    /// Moves the beginning of the history on, if enough of it is too old or too much. What is superseded
    /// by then is removed in later writes: readers that do not know yet may still look for it.
    fn give_up_history(&mut self, tables: &mut Tables<'_>, written: &mut Written) {
        let now = self.started.elapsed();
        if let Some(begin) = self.ages.due(now, written.revision, written.compacted) {
            tables.numbers.compacted = begin;
            written.compacted = begin;
            self.ages.done(now);
        }
    }

    fn compact(&mut self, revision: Revision) -> Result<()> {
        let (current, compacted) = self.read_index(|index| (index.revision(), index.compacted()));
        if revision > current {
            return Err(Error::FutureRevision {
                requested: revision,
                current,
            });
        }
        if revision <= compacted {
            return Ok(());
        }
        self.maintain(|_, tables, _, written| {
            written.compacted = revision.get();
            tables.numbers.compacted = revision.get();
            Ok(())
        })
    }

    /// What an idle committer does: looks after the history, and tries a full disk again.
    fn tend(&mut self) {
        if self.engine.check_writable().is_err() {
            return;
        }
        let now = self.started.elapsed();
        let (revision, compacted, garbage) = self.read_index(|index| {
            let (revision, compacted) = (index.revision().get(), index.compacted().get());
            (revision, compacted, index.has_garbage(1))
        });
        self.ages.note(now, revision);
        let result = if garbage || self.ages.due(now, revision, compacted).is_some() {
            self.maintain(|committer, tables, index, written| {
                committer.give_up_history(tables, written);
                written.removed = sweep(tables, index, SWEEP_MIN)?;
                Ok(())
            })
        } else {
            self.ensure_open()
        };
        if let Err(error) = result {
            tracing::warn!("could not tend the database: {error}");
        }
    }

    /// A write that changes no entry.
    fn maintain(
        &mut self,
        change: impl FnOnce(&mut Self, &mut Tables<'_>, &Index, &mut Written) -> Result<()>,
    ) -> Result<()> {
        self.write_durably(|committer, database| {
            let write = begin(database)?;
            let index = Arc::clone(&committer.index);
            let index = index.read().unwrap_or_else(PoisonError::into_inner);
            let mut tables = tables_at(&write, &index)?;
            let mut written = Written::beginning_at(&index);
            change(committer, &mut tables, &index, &mut written)?;
            tables.save()?;
            Ok((Some(write), written))
        })
        .map(|_| ())
    }
}

impl Written {
    fn beginning_at(index: &Index) -> Self {
        Written {
            revision: index.revision().get(),
            compacted: index.compacted().get(),
            ..Written::default()
        }
    }
}

/// The tables, if they are where the index is: else the next revision might be one that is taken.
fn tables_at<'t>(write: &'t WriteTransaction, index: &Index) -> Result<Tables<'t>> {
    let tables = Tables::open(write)?;
    let (stored, known) = (tables.numbers.revision, index.revision());
    if stored != known.get() {
        let reason = format!("it is at revision {stored}, the index at {known}");
        return Err(damaged("the database file", &reason));
    }
    Ok(tables)
}

/// Carries out each transaction of the batch that can be.
fn draft(tables: &mut Tables<'_>, index: &Index, batch: &Batch) -> Result<Written> {
    let mut written = Written::beginning_at(index);
    let mut draft = Draft::new(tables, index);
    for (transaction, ..) in batch {
        let next = written.revision + 1;
        let answer = match draft.apply(transaction, next) {
            Ok(Some(set)) => {
                written.revision = next;
                written.sets.push(set);
                Ok(Revision::new(next))
            }
            Ok(None) => Ok(Revision::new(written.revision)),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Broken(error)) => return Err(error),
        };
        written.answers.push(answer);
    }
    written.added = draft.added;
    Ok(written)
}

/// Removes versions that nobody can ask for any more; tells how many.
fn sweep(tables: &mut Tables<'_>, index: &Index, count_max: usize) -> Result<usize> {
    let mut count = 0;
    for garbage in index.garbage(count_max) {
        tables.remove(garbage.place)?;
        count += 1;
    }
    Ok(count)
}

/// Begins a write that is durable when its commit returns. Pages and the root that names them are synced together;
/// after a crash, checksums of 128 bits tell whether all of them were, and else the commit before is the last one.
pub(super) fn begin(database: &Database) -> Result<WriteTransaction> {
    let mut write = database.begin_write().map_err(from_redb)?;
    write
        .set_durability(Durability::Immediate)
        .map_err(|error| Error::Failed {
            reason: error.to_string(),
        })?;
    Ok(write)
}
