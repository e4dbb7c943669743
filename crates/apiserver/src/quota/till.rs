//! Where a write finds room, or is told that there is none.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rhumb_api::Object;
use rhumb_cache::Cache;
use rhumb_meta::{Revision, Status, Timestamp};
use rhumb_quota::{Ask, Book, Charge, HoldId, Limited, Meter, Refusal, Verdict};
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::time::{Instant, timeout};

use super::ledger::Ledger;
use super::turns::Turn;
use super::{Reservation, Tills};
use crate::Api;
use crate::admission::Premise;
use crate::resources::Call;

/// How long a write waits for others that may make room.
const WAIT_MAX: Duration = Duration::from_secs(10);

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
        if wish.limited.is_empty() && self.of(wish.namespace).is_none() {
            return Ok(Room {
                premise: Some(turn.premise),
                reservation: None,
            });
        }
        let Some(cost) = Cost::of(wish) else {
            return Ok(Room::default());
        };
        let began = Instant::now();
        let found = self.find(wish, &cost, turn).await;
        let resource = &wish.call.resource.group_resource;
        self.counts.note(resource, began.elapsed(), &found);
        found
    }

    async fn find(&self, wish: &Wish<'_>, cost: &Cost, mut turn: Turn) -> Result<Room, NoRoom> {
        let deadline = Instant::now() + WAIT_MAX;
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
        match ledger.book.judge(&ask, wish.limited) {
            Verdict::Free => Ok(let_in(turn, None)),
            Verdict::Refused(refusal) => Ok(Found::None(refusal)),
            Verdict::Fits | Verdict::Wait if !turn.is_ours => {
                drop(ledger);
                self.turns.take(wish.call, wish.namespace, turn).await?;
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
    /// Held by the one who writes the status of the quotas.
    pub(super) writing: tokio::sync::Mutex<()>,
}

impl Till {
    pub(super) fn new(namespace: &str, quotas: Cache) -> Till {
        Till {
            ledger: Arc::new(tokio::sync::Mutex::new(Ledger::new(namespace, quotas))),
            ended: Mutex::default(),
            freed: Notify::new(),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// The ledger, with all that the caches show by now.
    pub(super) async fn open(&self, api: &Arc<Api>) -> Result<OwnedMutexGuard<Ledger>, Status> {
        let mut ledger = Arc::clone(&self.ledger).lock_owned().await;
        let now = api.clock.wall();
        if ledger.look_at_quotas() {
            let _turn = api.tills.beginnings.acquire().await;
            let api = Arc::clone(api);
            let begun = tokio::task::spawn_blocking(move || {
                ledger.begin(&api.registry);
                ledger.catch_up(now);
                ledger
            });
            ledger = begun.await.map_err(Status::internal_error)?;
        }
        // What has ended by now is shown by the caches, so that nothing is missing when it is no longer held.
        let ended = std::mem::take(&mut *self.ended());
        end_holds(&mut ledger, &ended, now);
        ledger.catch_up(now);
        Ok(ledger)
    }

    pub(super) fn end(&self, id: HoldId, how: Ended) {
        self.ended().push((id, how));
        self.freed.notify_waiters();
    }

    fn ended(&self) -> std::sync::MutexGuard<'_, Vec<(HoldId, Ended)>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
