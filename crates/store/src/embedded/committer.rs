//! The one writer: gathers all waiting transactions into one durable write.
//!
//! ```text
//! wait for a transaction ─► take all that wait with it ─► check and write each ─► fsync ─► publish ─► answer
//! ```
//!
//! While one batch is synced the next one gathers, so the cost of a sync is shared by all who wait for it. While many
//! write, it gathers for a little longer ([`super::gathering`]).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rhumb_meta::Revision;
use tokio::sync::oneshot;

use super::apply::Draft;
use super::cleaner::Cleaning;
use super::fault::guarded;
use super::feed::Feed;
use super::gathering::{self, Gathering};
use super::index::{Index, SharedIndex, Version};
use super::leader::{Answer, Writer};
use super::log::{FrameBuilder, Log, Reached, Tail};
use super::retention::Ages;
use crate::{ChangeSet, Error, Key, Result, Transaction};

/// At most this many transactions share one write, which bounds how long any of them waits.
const BATCH_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How often an idle committer looks after the history and a full disk.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// How many versions that nobody can ask for are forgotten at a time, while nobody can read the index.
const FORGOTTEN_MAX: usize = 512;

/// For how long writes are refused without trying after one that found no room.
const REFUSAL: Duration = Duration::from_millis(100);

pub(super) enum Request {
    Commit {
        transaction: Transaction,
        writer: Writer,
    },
    Compact {
        revision: Revision,
        reply: oneshot::Sender<Result<()>>,
    },
}

pub(super) struct Committer {
    log: Arc<Log>,
    tail: Tail,
    index: SharedIndex,
    feed: Arc<Feed>,
    requests: Receiver<Request>,
    gathering: Arc<Gathering>,
    last_batch: Option<gathering::Batch>,
    ages: Ages,
    cleaning: Cleaning,
    started: Instant,
    /// The next write; kept for its buffers.
    frame: FrameBuilder,
    /// Until when writes are refused because the last one found no room.
    refuse_until: Option<Instant>,
}

type Batch = Vec<(Transaction, Writer)>;

/// What a write means for the index and the streams, once it is durable.
#[derive(Default)]
struct Written {
    sets: Vec<ChangeSet>,
    added: Vec<(Key, Version)>,
    revision: u64,
    compacted: u64,
}

impl Committer {
    pub(super) fn new(
        (log, tail): (Arc<Log>, Tail),
        index: SharedIndex,
        feed: Arc<Feed>,
        (requests, gathering): (Receiver<Request>, Arc<Gathering>),
        ages: Ages,
        cleaning: Cleaning,
    ) -> Self {
        Committer {
            log,
            tail,
            index,
            feed,
            requests,
            gathering,
            last_batch: None,
            ages,
            cleaning,
            started: Instant::now(),
            frame: FrameBuilder::default(),
            refuse_until: None,
        }
    }

    /// Serves until all senders are gone, then closes the log.
    pub(super) fn run(mut self) {
        self.cleaning.look();
        loop {
            let done = match self.requests.recv_timeout(self.patience()) {
                Ok(request) => guarded(|| self.serve(request)),
                Err(RecvTimeoutError::Timeout) => guarded(|| self.tend()),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Err(error) = done {
                self.log.halt(error);
            }
        }
        self.log.close();
        self.feed.end();
        self.cleaning.end();
        if self.log.check_writable().is_ok() {
            self.tail.close();
        }
    }

    /// How long to wait for a request before the store is tended: not at all while there is garbage.
    fn patience(&self) -> Duration {
        // A store that stands still forgets nothing.
        if self.log.check_writable().is_ok() && self.index.read().has_garbage() {
            Duration::ZERO
        } else {
            IDLE_INTERVAL
        }
    }

    /// Carries out a request, and with it all transactions that wait behind it.
    fn serve(&mut self, first: Request) {
        // While writes fail all the time nothing else looks after those who wait.
        self.feed.leader.lose_patience();
        let mut batch = Batch::new();
        let mut bytes = 0;
        if let (Request::Commit { .. }, Some(last)) = (&first, &self.last_batch) {
            self.gathering.wait_for_as_many_as(last);
        }
        let mut next = Some(first);
        while let Some(request) = next.take() {
            match request {
                Request::Commit {
                    transaction,
                    writer,
                } => {
                    bytes += transaction.size();
                    batch.push((transaction, writer));
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

    /// Carries out a batch, and remembers what it was like.
    fn commit(&mut self, batch: Batch) {
        let (transactions, begun) = (batch.len(), Instant::now());
        self.gathering.taken(transactions);
        self.carry_out(batch);
        let ended = Instant::now();
        self.last_batch = Some(gathering::Batch {
            transactions,
            took: ended - begun,
            ended,
        });
    }

    /// Carries out each transaction of the batch that can be, makes that durable and then visible.
    fn carry_out(&mut self, batch: Batch) {
        if let Err(error) = self.check_writable() {
            return tell_all(batch.into_iter().map(|(_, writer)| writer), &error);
        }
        let (mut answers, written) = self.draft(batch);
        if written.sets.is_empty() {
            let due = self.feed.leader.hold(answers);
            return due.into_iter().for_each(Answer::send);
        }
        if let Err(error) = self.write(written, &mut answers) {
            tell_all(answers.into_iter().map(|answer| answer.writer), &error);
        }
    }

    /// For some time after a write that found no room, others are refused without trying.
    fn check_writable(&self) -> Result<()> {
        self.log.check_writable()?;
        match self.refuse_until {
            Some(time) if Instant::now() < time => Err(Error::StorageFull {
                reason: "the last write found no room".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn draft(&mut self, batch: Batch) -> (Vec<Answer>, Written) {
        let index = self.index.read();
        let mut written = Written::beginning_at(&index);
        let segments = self.log.segments();
        self.frame.clear();
        let mut draft = Draft::new(&index, &segments, &mut self.frame);
        let mut answers = Vec::with_capacity(batch.len());
        for (transaction, writer) in batch {
            let next = written.revision + 1;
            let result = draft.apply(&transaction, next).map(|set| {
                if let Some(set) = set {
                    written.revision = next;
                    written.sets.push(set);
                }
                Revision::new(written.revision)
            });
            answers.push(Answer { result, writer });
        }
        written.added = draft.added;
        (answers, written)
    }

    /// Makes a write durable and then visible. When the disk is full nothing has happened; after any other failure
    /// of the disk nothing is written any more.
    fn write(&mut self, mut written: Written, answers: &mut Vec<Answer>) -> Result<()> {
        let now = self.started.elapsed();
        let due = self.ages.due(now, written.revision, written.compacted);
        written.compacted = written.compacted.max(due.unwrap_or(0));
        let reached = Reached {
            revision: written.revision,
            compacted: written.compacted,
        };
        match self.tail.append(&mut self.frame, reached) {
            Ok(()) => {
                if due.is_some() {
                    self.ages.done(now);
                }
                self.show(written, std::mem::take(answers));
                Ok(())
            }
            Err(error @ (Error::StorageFull { .. } | Error::OutcomeUnknown { .. })) => {
                tracing::warn!("a write failed: {error}");
                self.refuse_until = Some(Instant::now() + REFUSAL);
                Err(error)
            }
            Err(error) => Err(self.log.halt(error)),
        }
    }

    /// Makes a durable write visible: first to reads, then to streams, then to its writers.
    fn show(&mut self, written: Written, answers: Vec<Answer>) {
        self.refuse_until = None;
        let mut index = self.index.write();
        let mut droppable = Vec::new();
        for (key, version) in &written.added {
            droppable.extend(index.add(key, *version));
        }
        index.reached(written.revision, written.compacted);
        // More than this write supersedes, or garbage would grow without end.
        let forgotten_max = FORGOTTEN_MAX.max(2 * written.added.len());
        droppable.extend(index.forget(forgotten_max));
        let any_droppable = !droppable.is_empty();
        self.log.note_dead(droppable);
        // Before the index is let go, or a reader could see more than streams and the revision admit.
        let due = self.feed.publish(written.sets, answers);
        drop(index);
        due.into_iter().for_each(Answer::send);
        self.ages.note(self.started.elapsed(), written.revision);
        if any_droppable {
            self.cleaning.look();
        }
    }

    fn compact(&mut self, revision: Revision) -> Result<()> {
        let (current, compacted) = self.index.read().bounds();
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
        self.move_history_on(revision.get())
    }

    /// What an idle committer does: looks after the history, and tries a full disk again.
    fn tend(&mut self) {
        self.feed.leader.lose_patience();
        if self.log.check_writable().is_err() {
            return;
        }
        let now = self.started.elapsed();
        let (revision, compacted) = self.index.read().bounds();
        let (revision, compacted) = (revision.get(), compacted.get());
        self.ages.note(now, revision);
        let tended = match self.ages.due(now, revision, compacted) {
            Some(begin) => self.move_history_on(begin),
            None => self.cut_back(),
        };
        if let Err(error) = tended {
            tracing::warn!("could not tend the log: {error}");
        }
        self.forget();
        self.cleaning.look();
    }

    /// Takes away what a full disk has left; any other failure of the disk stops the store.
    fn cut_back(&mut self) -> Result<()> {
        let cut = self.tail.cut_back();
        cut.map_err(|error| match error {
            Error::StorageFull { .. } => error,
            error => self.log.halt(error),
        })
    }

    /// From now on the history begins here. Changes no entry.
    fn move_history_on(&mut self, begin: u64) -> Result<()> {
        self.frame.clear();
        let mut written = Written::beginning_at(&self.index.read());
        written.compacted = begin;
        self.write(written, &mut Vec::new())
    }

    fn forget(&mut self) {
        let mut index = self.index.write();
        let droppable = index.forget(FORGOTTEN_MAX);
        self.log.note_dead(droppable);
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

fn tell_all(writers: impl Iterator<Item = Writer>, error: &Error) {
    writers.for_each(|writer| writer.tell(Err(error.clone())));
}
