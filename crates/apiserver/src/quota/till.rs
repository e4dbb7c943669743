//! Where a write finds room, or is told that there is none.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rhumb_api::Object;
use rhumb_cache::Cache;
use rhumb_meta::{Revision, Status, Timestamp};
use rhumb_quota::{Ask, Book, Charge, HoldId, Limited, Meter, Refusal, Verdict};
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::time::{Instant, timeout};

use super::ledger::Ledger;
use super::turns::{Taking, Turn};
use super::{Reservation, Tills};
use crate::Api;
use crate::admission::{Premise, WAIT_MAX};
use crate::resources::Call;

/// How long before it looks by itself whether there is room.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// How long a write that nobody knows the end of counts as done.
const DOUBT: Duration = Duration::from_secs(60);

/// A write that is to find room.
#[derive(Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) namespace: &'a str,
    pub(crate) meter: &'a Meter,
    pub(crate) object: &'a Object,
    /// Absent for a creation.
    pub(crate) old: Option<&'a Object>,
    pub(crate) limited: &'a [Limited],
    /// When it was first asked for.
    pub(crate) began: Instant,
}

/// Why a write does not happen.
#[derive(Debug)]
pub(crate) enum NoRoom {
    Refused(Refusal),
    Failed(Status),
}

impl From<Status> for NoRoom {
    fn from(status: Status) -> Self {
        NoRoom::Failed(status)
    }
}

/// What a write is let in for.
#[derive(Debug, Default)]
pub struct Room {
    /// The quotas that it was judged by are still the same.
    pub(crate) premise: Option<Premise>,
    pub(crate) reservation: Option<Reservation>,
}

impl Tills {
    /// Finds room for a write, and holds it.
    pub(crate) async fn reserve(&self, wish: &Wish<'_>) -> Result<Room, NoRoom> {
        let turn = self.turns.look(wish.call.api, wish.namespace).await?;
        if !wish.is_limited() && self.of(wish.namespace).is_none() {
            return Ok(Room {
                premise: Some(turn.premise),
                reservation: None,
            });
        }
        let Some(cost) = Cost::of(wish) else {
            return Ok(Room::default());
        };
        let began = Instant::now();
        // Where there are no quotas, nobody pays for the memory of the search.
        let found = Box::pin(self.find(wish, &cost, turn)).await;
        let resource = &wish.call.resource.group_resource;
        self.counts.note(resource, began.elapsed(), &found);
        found
    }

    async fn find(&self, wish: &Wish<'_>, cost: &Cost, mut turn: Turn) -> Result<Room, NoRoom> {
        let deadline = wish.began + WAIT_MAX;
        let mut is_fresh = false;
        loop {
            match self.try_reserve(wish, cost, turn).await? {
                Found::Room(room) => return Ok(room),
                // Another server may have made room just now.
                Found::None(_) if !is_fresh => {
                    wish.call.api.fresh(wish.call).await?;
                    is_fresh = true;
                }
                Found::None(refusal) => return Err(NoRoom::Refused(refusal)),
                Found::Later if Instant::now() < deadline => is_fresh = false,
                Found::Later => return Err(too_busy(wish.call).into()),
            }
            turn = self.turns.look(wish.call.api, wish.namespace).await?;
        }
    }

    async fn try_reserve(&self, wish: &Wish<'_>, cost: &Cost, turn: Turn) -> Result<Found, NoRoom> {
        let let_in = |turn: Turn, reservation| {
            Found::Room(Room {
                premise: Some(turn.premise),
                reservation,
            })
        };
        let ask = cost.ask(wish);
        let Some(till) = self.of(wish.namespace) else {
            return Ok(match Book::default().judge(&ask, wish.limited) {
                Verdict::Refused(refusal) => Found::None(refusal),
                _ => let_in(turn, None),
            });
        };
        let mut freed = pin!(till.freed.notified());
        freed.as_mut().enable();
        let mut ledger = till.open(wish.call.api).await?;
        if !self.has(wish.namespace, &till) {
            return Ok(Found::Later);
        }
        match ledger.book.judge(&ask, wish.limited) {
            Verdict::Free => Ok(let_in(turn, None)),
            Verdict::Refused(refusal) => Ok(Found::None(refusal)),
            Verdict::Fits | Verdict::Wait if !turn.is_ours => {
                drop(ledger);
                self.take_turn(wish, &till).await?;
                Ok(Found::Later)
            }
            Verdict::Fits => {
                let uid = wish.uid();
                let id = ledger.book.hold(cost.charge.clone(), cost.old.clone(), uid);
                let reservation = Reservation::new(Arc::clone(&till), id);
                Ok(let_in(turn, Some(reservation)))
            }
            Verdict::Wait => {
                drop(ledger);
                let _ = timeout(LOOK_AGAIN, freed).await;
                Ok(Found::Later)
            }
        }
    }

    /// One of all who wait takes the turn for all of them.
    async fn take_turn(&self, wish: &Wish<'_>, till: &Till) -> Result<(), NoRoom> {
        let mut taking = till.taking.lock().await;
        let turn = self.turns.look(wish.call.api, wish.namespace).await?;
        if !turn.is_ours {
            let has_written = till.has_written.swap(false, Ordering::Relaxed);
            let taken = self.turns.take(wish.call, &mut taking, turn, has_written);
            taken.await?;
        }
        Ok(())
    }

    /// Whether a write would find room beside all that is stored, for one that is only tried out.
    pub(crate) async fn check(&self, wish: &Wish<'_>) -> Result<(), NoRoom> {
        let Some(cost) = Cost::of(wish) else {
            return Ok(());
        };
        wish.call.api.fresh(wish.call).await?;
        let ask = cost.ask(wish);
        let verdict = match self.of(wish.namespace) {
            Some(till) => {
                let ledger = till.open(wish.call.api).await?;
                ledger.book.judge(&ask, wish.limited)
            }
            None => Book::default().judge(&ask, wish.limited),
        };
        match verdict {
            Verdict::Refused(refusal) => Err(NoRoom::Refused(refusal)),
            Verdict::Free | Verdict::Fits | Verdict::Wait => Ok(()),
        }
    }
}

enum Found {
    Room(Room),
    None(Refusal),
    /// Something is under way; it is to be tried again.
    Later,
}

fn too_busy(call: &Call<'_>) -> Status {
    Status::server_timeout(&call.resource.group_resource, call.verb, 1)
}

impl Wish<'_> {
    /// Whether it may need a quota that covers it.
    fn is_limited(&self) -> bool {
        let resource = &self.call.resource.group_resource;
        let mut limited = self.limited.iter();
        limited.any(|limited| limited.is_about(&resource.group, &resource.resource))
    }

    /// By which the cache will show a new object.
    fn uid(&self) -> Option<&str> {
        use crate::objects::Metadata;
        self.old.is_none().then(|| self.object.uid())
    }
}

/// What a write uses.
#[derive(Debug)]
struct Cost {
    charge: Charge,
    old: Option<Charge>,
}

impl Cost {
    /// Nothing for a write that makes no difference.
    fn of(wish: &Wish<'_>) -> Option<Cost> {
        let cost = Cost {
            charge: wish.meter.measure(wish.object),
            old: wish.old.map(|old| wish.meter.measure(old)),
        };
        (cost.old.as_ref() != Some(&cost.charge)).then_some(cost)
    }

    fn ask<'a>(&'a self, wish: &'a Wish<'_>) -> Ask<'a> {
        let resource = &wish.call.resource.group_resource;
        Ask {
            group: &resource.group,
            resource: &resource.resource,
            meter: wish.meter,
            charge: &self.charge,
            old: self.old.as_ref(),
            object: wish.object,
        }
    }
}

/// How a write ended that had something held.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ended {
    Written(Revision),
    Failed,
    /// It may still happen, or have happened.
    Unknown,
}

/// What is used and held in one namespace.
#[derive(Debug)]
pub(super) struct Till {
    ledger: Arc<tokio::sync::Mutex<Ledger>>,
    ended: Mutex<Vec<(HoldId, Ended)>>,
    /// Wakes those who wait for room.
    freed: Notify,
    /// Held by the one who takes the turn.
    taking: tokio::sync::Mutex<Taking>,
    /// Whether something was committed since then.
    has_written: AtomicBool,
    /// When the status of the quotas was last begun to be written. Held by the one who writes it.
    pub(super) settled: tokio::sync::Mutex<Option<Instant>>,
}

impl Till {
    pub(super) fn new(namespace: &str, quotas: Cache) -> Till {
        Till {
            ledger: Arc::new(tokio::sync::Mutex::new(Ledger::new(namespace, quotas))),
            ended: Mutex::default(),
            freed: Notify::new(),
            taking: tokio::sync::Mutex::default(),
            has_written: AtomicBool::new(false),
            settled: tokio::sync::Mutex::default(),
        }
    }

    /// The ledger, with all that the caches show by now.
    pub(super) async fn open(&self, api: &Arc<Api>) -> Result<OwnedMutexGuard<Ledger>, Status> {
        let mut ledger = Arc::clone(&self.ledger).lock_owned().await;
        let now = api.clock.wall();
        loop {
            if ledger.look_at_quotas() {
                ledger = begin(api, ledger).await?;
            }
            // What has ended by now is shown by the caches, so that nothing is missing when it is no longer held.
            let ended = std::mem::take(&mut *self.ended());
            end_holds(&mut ledger, &ended, now);
            ledger.catch_up(now);
            if !ledger.is_outdated() {
                return Ok(ledger);
            }
        }
    }

    pub(super) fn end(&self, id: HoldId, how: Ended) {
        if matches!(how, Ended::Written(_)) {
            self.has_written.store(true, Ordering::Relaxed);
        }
        self.ended().push((id, how));
        self.freed.notify_waiters();
    }

    fn ended(&self) -> std::sync::MutexGuard<'_, Vec<(HoldId, Ended)>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads all that the namespace has, on a thread that may take its time.
async fn begin(
    api: &Arc<Api>,
    mut ledger: OwnedMutexGuard<Ledger>,
) -> Result<OwnedMutexGuard<Ledger>, Status> {
    let beginnings = Arc::clone(&api.tills.beginnings);
    let permit = beginnings
        .acquire_owned()
        .await
        .map_err(Status::internal_error)?;
    let api = Arc::clone(api);
    let begun = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        ledger.begin(&api.registry);
        ledger.catch_up(api.clock.wall());
        ledger
    });
    begun.await.map_err(Status::internal_error)
}

fn end_holds(ledger: &mut Ledger, ended: &[(HoldId, Ended)], now: Timestamp) {
    for &(id, how) in ended {
        match how {
            Ended::Written(revision) => ledger.note_written(id, revision),
            Ended::Failed => ledger.book.release(id),
            Ended::Unknown => ledger.book.doubt(id, now.saturating_add(DOUBT)),
        }
    }
}
