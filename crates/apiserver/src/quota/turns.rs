//! Whose turn it is to let things into a namespace with quotas.
//!
//! Each namespace that has or had quotas has a key, which every change of its quotas touches. Whatever is written under
//! the condition that the key is as it was seen is written under the quotas that were seen. Where several servers share
//! a store the key also names one of them. Only that one lets things in, so that it alone knows what is under way;
//! another takes the turn over when it has something to let in, and what the first had not committed by then is judged
//! again. Who has taken the turn is left alone for a moment, so that it can make something of it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use rhumb_api::Object;
use rhumb_cache::{Cache, Entry, Event, EventKind, Message, Start, WatchEnd, WatchRequest};
use rhumb_meta::{ObjectKey, Revision, Status, Timestamp};
use rhumb_store::{Error, Expect, Operation, Transaction};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::Api;
use crate::admission::Premise;
use crate::objects::Metadata;
use crate::resources::{Call, Claim, Companions};

/// Below the store's root. It has no dot, so it can be no group of custom resources.
pub const TURNS: &str = "rhumb-quota-turns";

/// For how long others leave the turn to a server that has taken it. One that lost the turn before it could commit
/// anything, because it hears of changes late, asks for twice as much, up to 256 times.
const TENURE: Duration = Duration::from_millis(10);
const DOUBLINGS_MAX: u32 = 8;

/// What a key says.
#[derive(Debug, Deserialize, Serialize)]
struct Holder<'a> {
    #[serde(borrow)]
    server: Cow<'a, str>,
    /// In milliseconds, from when others see it.
    tenure: u64,
}

#[derive(Debug)]
pub struct Turns {
    cache: Cache,
    server: String,
    is_shared: bool,
    /// Of each namespace whose turn has changed since the start: when, and at which revision.
    since: Mutex<HashMap<Box<str>, (Revision, Instant)>>,
}

/// How a key was seen.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) premise: Premise,
    pub(super) is_ours: bool,
    entry: Option<Arc<Entry>>,
}

/// What a server remembers of the turns that it took in a namespace.
#[derive(Debug, Default)]
pub(super) struct Taking {
    has_taken: bool,
    /// How many in a row it could not use.
    losses: u32,
}

impl Turns {
    pub fn new(cache: Cache, is_shared: bool) -> Turns {
        Turns {
            cache,
            server: uuid::Uuid::new_v4().to_string(),
            is_shared,
            since: Mutex::default(),
        }
    }

    /// The turn as the cache shows it. All that was committed together with it is shown as well.
    pub(super) async fn look(&self, api: &Api, namespace: &str) -> Result<Turn, Status> {
        let key = ObjectKey::cluster(namespace).map_err(Status::internal_error)?;
        let entry = self.cache.get(&key).map_err(Status::internal_error)?;
        if let Some(entry) = &entry
            && entry.revision() > api.hub.revision()
        {
            api.not_older_than(entry.revision()).await?;
        }
        let expect = match &entry {
            Some(entry) => Expect::At(entry.revision()),
            None => Expect::Absent,
        };
        Ok(Turn {
            is_ours: self.names_us(entry.as_deref()),
            premise: Premise {
                key: self.cache.prefix().object(&key),
                expect,
            },
            entry,
        })
    }

    /// Whether it is this server's turn, as far as the cache shows.
    pub(super) fn is_ours(&self, namespace: &str) -> bool {
        let Ok(key) = ObjectKey::cluster(namespace) else {
            return false;
        };
        let entry = self.cache.get(&key).ok().flatten();
        self.names_us(entry.as_deref())
    }

    /// Where nobody else writes, it always is.
    fn names_us(&self, entry: Option<&Entry>) -> bool {
        let is_named = |holder: Holder<'_>| holder.server == self.server;
        !self.is_shared || entry.and_then(holder).is_some_and(is_named)
    }

    /// Until when the turn is left to the server that has it.
    fn left_until(&self, entry: &Entry) -> Option<Instant> {
        let tenure = Duration::from_millis(holder(entry)?.tenure);
        let since = self.since();
        let &(revision, since) = since.get(entry.key().name())?;
        (revision == entry.revision()).then_some(since + tenure)
    }

    /// Tries to take the turn over; others may be quicker. `has_written` says whether something was committed since it
    /// was last taken.
    pub(super) async fn take(
        &self,
        call: &Call<'_>,
        taking: &mut Taking,
        seen: Turn,
        has_written: bool,
    ) -> Result<(), Status> {
        let entry = seen.entry.as_deref();
        if let Some(until) = entry.and_then(|entry| self.left_until(entry)) {
            tokio::time::sleep_until(until).await;
        }
        taking.losses = match taking.has_taken && !has_written {
            true => DOUBLINGS_MAX.min(taking.losses + 1),
            false => taking.losses.saturating_sub(1),
        };
        let Premise { key, expect } = seen.premise;
        let put = Transaction::new().put(key, self.claim(taking.losses)?, expect);
        match call.api.store.commit(put).await {
            Ok(revision) => {
                taking.has_taken = true;
                call.api.seen(revision).await;
                Ok(())
            }
            Err(Error::Conflict(_)) => {
                taking.has_taken = false;
                call.api.fresh(call).await
            }
            Err(error) => Err(call.store_failed(&error)),
        }
    }

    /// What this server writes into a key.
    fn claim(&self, losses: u32) -> Result<Bytes, Status> {
        let tenure = TENURE * 2_u32.pow(losses.min(DOUBLINGS_MAX));
        let holder = Holder {
            server: Cow::Borrowed(&self.server),
            tenure: u64::try_from(tenure.as_millis()).unwrap_or(u64::MAX),
        };
        let claim = serde_json::to_vec(&holder).map_err(Status::internal_error)?;
        Ok(claim.into())
    }

    fn since(&self) -> MutexGuard<'_, HashMap<Box<str>, (Revision, Instant)>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes when turns change, for as long as there is a server.
    pub fn follow(self: &Arc<Self>) {
        if self.is_shared {
            let (cache, turns) = (self.cache.clone(), Arc::downgrade(self));
            tokio::spawn(follow(cache, turns));
        }
    }

    fn note(&self, event: &Event) {
        let namespace = event.entry().key().name();
        let mut since = self.since();
        if event.kind() == EventKind::Deleted {
            since.remove(namespace);
        } else {
            since.insert(namespace.into(), (event.revision(), Instant::now()));
        }
    }

    fn operation(&self, namespace: &str, is_going: bool) -> Result<Operation, Status> {
        let key = ObjectKey::cluster(namespace).map_err(Status::internal_error)?;
        let key = self.cache.prefix().object(&key).into();
        let expect = Expect::Any;
        Ok(match is_going {
            true => Operation::Delete { key, expect },
            false => Operation::Put {
                key,
                value: self.claim(0)?,
                expect,
            },
        })
    }
}

fn holder(entry: &Entry) -> Option<Holder<'_>> {
    serde_json::from_slice(entry.json_slice()).ok()
}

async fn follow(cache: Cache, turns: Weak<Turns>) {
    while let Ok(mut watcher) = cache.watch(WatchRequest::everything(Start::Latest)) {
        loop {
            match watcher.next().await {
                Ok(Message::Event(event)) => match turns.upgrade() {
                    Some(turns) => turns.note(&event),
                    None => return,
                },
                Ok(Message::InitialEnd(_)) => {}
                Err(WatchEnd::Expired) => break,
                Err(WatchEnd::Closing | WatchEnd::Removed) => return,
            }
        }
    }
}

/// A quota that comes, goes or changes has the key of its namespace touched; a namespace that goes takes its key along.
#[derive(Debug)]
pub struct TurnKeys {
    turns: Arc<Turns>,
    of: Of,
}

#[derive(Debug)]
enum Of {
    Quotas,
    Namespaces,
}

impl TurnKeys {
    pub fn of_quotas(turns: Arc<Turns>) -> TurnKeys {
        TurnKeys {
            turns,
            of: Of::Quotas,
        }
    }

    pub fn of_namespaces(turns: Arc<Turns>) -> TurnKeys {
        TurnKeys {
            turns,
            of: Of::Namespaces,
        }
    }
}

impl Companions for TurnKeys {
    fn complete(
        &self,
        _call: &Call<'_>,
        _object: &mut Object,
        _old: Option<&Object>,
        _dry_run: bool,
    ) -> Result<Claim, Status> {
        Ok(Claim::default())
    }

    fn operations(
        &self,
        _api: &Api,
        _now: Timestamp,
        old: Option<&Object>,
        new: Option<&Object>,
    ) -> Result<Vec<Operation>, Status> {
        let Some(object) = new.or(old) else {
            return Ok(Vec::new());
        };
        let is_same = || {
            old.zip(new)
                .is_some_and(|(old, new)| old.get("spec") == new.get("spec"))
        };
        let operation = match self.of {
            Of::Quotas if !is_same() => self.turns.operation(object.namespace(), false)?,
            Of::Namespaces if new.is_none() => self.turns.operation(object.name(), true)?,
            Of::Quotas | Of::Namespaces => return Ok(Vec::new()),
        };
        Ok(vec![operation])
    }

    fn missing(
        &self,
        _api: &Api,
        _now: Timestamp,
        _object: &Object,
    ) -> Result<Vec<Operation>, Status> {
        Ok(Vec::new())
    }
}
