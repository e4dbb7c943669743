//! The two ends of a watch: the mailbox that the dispatcher fills, and the watcher that empties it.
//!
//! ```text
//!            ┌────────── queue full ──────────┐
//!            ▼                                │
//!   behind: reads the history, ──────► live: the dispatcher puts
//!   the dispatcher passes it by         events into its queue
//!            │        nothing left to read
//!            ▼
//!        expired, when the history no longer has what comes next
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rhumb_meta::Revision;
use tokio::sync::Notify;

use super::places::{Delivery, Seat};
use super::{Event, Filter, Message, Scope, WatchEnd};
use crate::cache::Inner;
use crate::change::Change;
use crate::index::{Plan, Query, Seen};
use crate::{Entry, EventKind, Snapshot};

/// How often a look that found nothing is repeated before others may run.
const STEPS_MAX: usize = 64;

/// How many changes or objects a watcher looks at before it lets others run.
const BATCH: usize = 256;

/// An empty queue that once held more than this gives its memory back.
const IDLE_CAPACITY: usize = 16;

/// Where the dispatcher leaves events for one watcher.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(crate) filter: Filter,
    queue: Mutex<Queue>,
    filled: Notify,
}

#[derive(Debug)]
struct Queue {
    events: VecDeque<(Arc<Change>, EventKind)>,
    mode: Mode,
    /// Nothing more will come after what is here.
    end: Option<WatchEnd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The next change to look at is this one, in the history.
    Behind(u64),
    Live,
}

impl Mailbox {
    /// For a watcher that has the changes before `next`. If it is `live`, there are none from there on yet.
    pub(crate) fn new(filter: Filter, next: u64, live: bool) -> Self {
        let mode = match live {
            true => Mode::Live,
            false => Mode::Behind(next),
        };
        Mailbox {
            filter,
            queue: Mutex::new(Queue {
                events: VecDeque::new(),
                mode,
                end: None,
            }),
            filled: Notify::new(),
        }
    }

    /// Leaves the events of one transaction, which the watcher then finds together. Returns whether there was
    /// no room: the watcher then reads them, and what it had not taken yet, from the history.
    pub(crate) fn put(&self, deliveries: &[Delivery], queue_max: usize) -> bool {
        let mut queue = self.queue();
        let (Mode::Live, Some((_, first, _))) = (queue.mode, deliveries.first()) else {
            return false;
        };
        let overflows = queue.events.len() + deliveries.len() > queue_max;
        if overflows {
            let oldest = queue.events.front().map_or(first, |(change, _)| change);
            queue.mode = Mode::Behind(oldest.sequence);
            queue.events = VecDeque::new();
        } else {
            let events = deliveries.iter();
            queue
                .events
                .extend(events.map(|(_, change, kind)| (Arc::clone(change), *kind)));
        }
        drop(queue);
        self.filled.notify_one();
        overflows
    }

    /// Returns whether it had not ended before.
    pub(crate) fn end(&self, end: WatchEnd) -> bool {
        let mut queue = self.queue();
        let is_first = queue.end.is_none();
        queue.end.get_or_insert(end);
        drop(queue);
        self.filled.notify_one();
        is_first
    }

    fn go_live(&self) {
        self.queue().mode = Mode::Live;
    }

    fn look_next_at(&self, sequence: u64) {
        self.queue().mode = Mode::Behind(sequence);
    }

    /// Whether everything that was left here has been taken, and nothing is missing.
    fn is_drained(&self) -> bool {
        let queue = self.queue();
        queue.mode == Mode::Live && queue.events.is_empty() && queue.end.is_none()
    }

    fn take(&self) -> Taken {
        let mut queue = self.queue();
        if let Some((change, kind)) = queue.events.pop_front() {
            if queue.events.is_empty() && queue.events.capacity() > IDLE_CAPACITY {
                queue.events = VecDeque::new();
            }
            return Taken::Event(change, kind);
        }
        match (queue.end, queue.mode) {
            (Some(end), _) => Taken::End(end),
            (None, Mode::Behind(next)) => Taken::Behind(next),
            (None, Mode::Live) => Taken::Nothing,
        }
    }

    /// A thread that panicked while it held the lock left nothing half done.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Taken {
    Event(Arc<Change>, EventKind),
    Behind(u64),
    Nothing,
    End(WatchEnd),
}

/// What one step of a watcher led to.
enum Step {
    Message(Message),
    /// It looked at many things, and none concerned it.
    Again,
    /// There is nothing until the mailbox is filled.
    Wait,
}

/// Says that a watcher has something to tell. One may listen at a time.
#[derive(Debug, Clone)]
pub struct Bell(Arc<Mailbox>);

impl Bell {
    /// Returns at once if it rang since somebody last listened, though all may have been told meanwhile.
    pub async fn rings(&self) {
        self.0.filled.notified().await;
    }
}

/// Tells of the changes that concern one watch, in order, each once.
///
/// Dropping it ends the watch.
#[derive(Debug)]
pub struct Watcher {
    cache: Arc<Inner>,
    seat: Seat,
    mailbox: Arc<Mailbox>,
    /// The objects that are told before any change. In a box of its own: it is soon over, and the watch lasts.
    listing: Option<Box<Listing>>,
    /// Read from the history, and not told yet.
    caught_up: VecDeque<(Arc<Change>, EventKind)>,
    /// Everything up to here has been told.
    told: Revision,
}

impl Watcher {
    pub(crate) fn new(
        cache: Arc<Inner>,
        seat: Seat,
        mailbox: Arc<Mailbox>,
        listed: Option<Snapshot>,
        told: Revision,
    ) -> Self {
        Watcher {
            cache,
            seat,
            mailbox,
            listing: listed.map(|snapshot| Box::new(Listing::new(snapshot))),
            caught_up: VecDeque::new(),
            told,
        }
    }

    /// Waits for the next message. Dropping the future loses nothing. After an error the watch is over.
    pub async fn next(&mut self) -> Result<Message, WatchEnd> {
        loop {
            match self.step()? {
                Step::Message(message) => return Ok(message),
                Step::Again => tokio::task::yield_now().await,
                Step::Wait => self.mailbox.filled.notified().await,
            }
        }
    }

    /// The next message if it is already there. The events of one transaction come to be there together.
    ///
    /// `None` also when it looked at many objects and none concerned it: [`Watcher::next`] then goes on, and lets
    /// others run meanwhile.
    pub fn try_next(&mut self) -> Result<Option<Message>, WatchEnd> {
        for _ in 0..STEPS_MAX {
            match self.step()? {
                Step::Message(message) => return Ok(Some(message)),
                Step::Again => {}
                Step::Wait => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Rings when there is something new, for somebody who waits apart from whoever reads.
    pub fn bell(&self) -> Bell {
        Bell(Arc::clone(&self.mailbox))
    }

    /// A revision up to which everything has been told, for a bookmark: no older event follows, and no gap is
    /// behind it. `None` while something waits to be told. It never goes back, and is never less than the
    /// revision of an event already told.
    pub fn progress(&self) -> Option<Revision> {
        if self.listing.is_some() || !self.caught_up.is_empty() {
            return None;
        }
        // First the revision, then the mailbox: what came in between is then seen as waiting.
        let applied = self.cache.progress.applied();
        self.mailbox.is_drained().then(|| applied.max(self.told))
    }

    fn step(&mut self) -> Result<Step, WatchEnd> {
        if let Some(listing) = &mut self.listing {
            let step = listing.step(&self.mailbox.filter, &self.cache);
            if let Step::Message(Message::InitialEnd(revision)) = step {
                self.listing = None;
                self.told = revision;
            }
            return Ok(step);
        }
        if let Some((change, kind)) = self.caught_up.pop_front() {
            return Ok(self.tell(change, kind));
        }
        match self.mailbox.take() {
            Taken::Event(change, kind) => Ok(self.tell(change, kind)),
            Taken::Nothing => Ok(Step::Wait),
            Taken::End(end) => Err(end),
            Taken::Behind(next) => self.catch_up(next),
        }
    }

    fn tell(&mut self, change: Arc<Change>, kind: EventKind) -> Step {
        self.told = change.revision;
        match Event::changed(change, kind) {
            Some(event) => Step::Message(Message::Event(event)),
            None => Step::Again,
        }
    }

    /// Reads on in the history, or goes live when there is nothing left to read.
    fn catch_up(&mut self, next: u64) -> Result<Step, WatchEnd> {
        let went_live = || self.mailbox.go_live();
        let Some(changes) = self.cache.history_from(next, BATCH, went_live) else {
            if self.mailbox.end(WatchEnd::Expired) {
                self.cache.count_terminated();
            }
            return Err(WatchEnd::Expired);
        };
        if !changes.is_empty() {
            self.mailbox.look_next_at(next + changes.len() as u64);
        }
        let names = self.cache.projector.fields();
        for change in changes {
            if let Some(kind) = self.mailbox.filter.judge(&change, names) {
                self.caught_up.push_back((change, kind));
            }
        }
        Ok(Step::Again)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.cache.leave(self.seat);
    }
}

/// The objects of a snapshot that are told as the beginning of a watch.
#[derive(Debug)]
struct Listing {
    snapshot: Snapshot,
    /// Picked, and not told yet.
    ready: VecDeque<Arc<Entry>>,
    /// How the objects are found; `None` before the first look.
    plan: Option<Plan>,
    /// The last object that was looked at; `None` before the first.
    last: Option<Arc<Entry>>,
    is_exhausted: bool,
    looked_at: usize,
    picked: usize,
}

impl Listing {
    fn new(snapshot: Snapshot) -> Self {
        Listing {
            snapshot,
            ready: VecDeque::new(),
            plan: None,
            last: None,
            is_exhausted: false,
            looked_at: 0,
            picked: 0,
        }
    }

    fn step(&mut self, filter: &Filter, cache: &Arc<Inner>) -> Step {
        if let Some(entry) = self.ready.pop_front() {
            return Step::Message(Message::Event(Event::listed(entry)));
        }
        if self.is_exhausted {
            self.count(filter, cache);
            return Step::Message(Message::InitialEnd(self.snapshot.revision()));
        }
        let names = cache.projector.fields();
        match &filter.scope {
            Scope::Object { .. } => {
                let entry = filter.scope.key().and_then(|key| self.snapshot.find(&key));
                let picked = entry.filter(|entry| filter.picks(entry, names));
                self.ready.extend(picked.cloned());
                self.is_exhausted = true;
            }
            Scope::All | Scope::Namespace(_) => self.look_on(filter.query(names)),
        }
        Step::Again
    }

    fn look_on(&mut self, query: Query<'_>) {
        let version = self.snapshot.version();
        let query = query.after(self.last.as_ref().map(|entry| entry.key()));
        let plan = *self
            .plan
            .get_or_insert_with(|| Plan::of(version, &query, usize::MAX));
        let limit = match plan.finds_all_at_once() {
            true => usize::MAX,
            false => BATCH,
        };
        let batch: Vec<_> = plan.find(version, &query).take(limit).cloned().collect();
        self.is_exhausted = batch.len() < limit;
        self.last = batch.last().cloned();
        self.looked_at += batch.len();
        let picked = batch.into_iter().filter(|entry| query.picks(entry));
        self.ready.extend(picked);
        self.picked += self.ready.len();
    }

    /// A watch that begins with a list is also one.
    fn count(&self, filter: &Filter, cache: &Arc<Inner>) {
        let query = filter.query(cache.projector.fields());
        let Some(plan) = self.plan.filter(|_| !query.is_everything()) else {
            return;
        };
        let seen = Seen {
            query: &query,
            is_scan: plan.is_scan(),
            looked_at: self.looked_at,
            picked: self.picked,
        };
        Inner::note_list(cache, plan.index(self.snapshot.version()), &seen);
    }
}
