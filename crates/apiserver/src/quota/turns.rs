//! Whose turn it is to let things into a namespace with quotas.
//!
//! Each namespace that has or had quotas has a key, which every change of its quotas touches. Whatever is written under
//! the condition that the key is as it was seen is written under the quotas that were seen. Where several servers share
//! a store the key also names one of them. Only that one lets things in, so that it alone knows what is under way;
//! another takes the turn over when it has something to let in, and what the first had not committed by then is judged
//! again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rhumb_api::Object;
use rhumb_cache::{Cache, Entry, Projection, ProjectionError, Projector};
use rhumb_meta::{ObjectKey, Revision, Status, Timestamp};
use rhumb_store::{Error, Expect, Operation, Transaction};
use tokio::time::Instant;

use crate::Api;
use crate::admission::Premise;
use crate::objects::Metadata;
use crate::resources::{Call, Claim, Companions};

/// Below the store's root. It has no dot, so it can be no group of custom resources.
pub const TURNS: &str = "rhumb-quota-turns";

/// A server that has just had the turn leaves it to others for so long.
const PAUSE: Duration = Duration::from_millis(10);

/// How many namespaces it is remembered of when their turn was last taken.
const REMEMBERED_MAX: usize = 1024;

/// Keeps what is stored as it is.
#[derive(Debug)]
pub struct TurnProjector;

impl Projector for TurnProjector {
    fn fields(&self) -> &[Arc<str>] {
        &[]
    }

    fn project(
        &self,
        _key: &ObjectKey,
        stored: &Bytes,
        _revision: Revision,
    ) -> Result<Projection, ProjectionError> {
        Ok(Projection {
            json: stored.clone(),
            ..Projection::default()
        })
    }

    fn with_revision(&self, entry: &Entry, _revision: Revision) -> Bytes {
        entry.json()
    }
}

#[derive(Debug)]
pub struct Turns {
    cache: Cache,
    /// What this server writes into a key when it takes the turn.
    server: Bytes,
    is_shared: bool,
    taken: Mutex<HashMap<Box<str>, Instant>>,
}

/// How a key was seen.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) premise: Premise,
    pub(super) is_ours: bool,
}

impl Turns {
    pub fn new(cache: Cache, is_shared: bool) -> Turns {
        Turns {
            cache,
            server: uuid::Uuid::new_v4().to_string().into(),
            is_shared,
            taken: Mutex::default(),
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
        let is_named = |entry: &Arc<Entry>| entry.json_slice() == &*self.server;
        Ok(Turn {
            is_ours: !self.is_shared || entry.as_ref().is_some_and(is_named),
            premise: Premise {
                key: self.cache.prefix().object(&key),
                expect: entry.map_or(Expect::Absent, |entry| Expect::At(entry.revision())),
            },
        })
    }

    /// Whether it is this server's turn, as far as the cache shows.
    pub(super) fn is_ours(&self, namespace: &str) -> bool {
        let Ok(key) = ObjectKey::cluster(namespace) else {
            return false;
        };
        let entry = self.cache.get(&key).ok().flatten();
        !self.is_shared || entry.is_some_and(|entry| entry.json_slice() == &*self.server)
    }

    /// Tries to take the turn over; others may be quicker.
    pub(super) async fn take(
        &self,
        call: &Call<'_>,
        namespace: &str,
        seen: Turn,
    ) -> Result<(), Status> {
        tokio::time::sleep_until(self.may_take_from(namespace)).await;
        let Premise { key, expect } = seen.premise;
        let put = Transaction::new().put(key, self.server.clone(), expect);
        match call.api.store.commit(put).await {
            Ok(revision) => {
                self.note_taken(namespace);
                call.api.seen(revision).await;
                Ok(())
            }
            Err(Error::Conflict(_)) => call.api.fresh(call).await,
            Err(error) => Err(call.store_failed(&error)),
        }
    }

    fn may_take_from(&self, namespace: &str) -> Instant {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let last = taken.get(namespace).copied();
        last.map_or_else(Instant::now, |last| last + PAUSE)
    }

    fn note_taken(&self, namespace: &str) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if taken.len() >= REMEMBERED_MAX {
            taken.retain(|_, last| now < *last + PAUSE);
        }
        taken.insert(namespace.into(), now);
    }

    fn operation(&self, namespace: &str, is_going: bool) -> Result<Operation, Status> {
        let key = ObjectKey::cluster(namespace).map_err(Status::internal_error)?;
        let key = self.cache.prefix().object(&key).into();
        let expect = Expect::Any;
        Ok(match is_going {
            true => Operation::Delete { key, expect },
            false => Operation::Put {
                key,
                value: self.server.clone(),
                expect,
            },
        })
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
        let spec = |object: Option<&Object>| object.and_then(|object| object.get("spec").cloned());
        let operation = match self.of {
            Of::Quotas if old.is_none() || new.is_none() || spec(old) != spec(new) => {
                self.turns.operation(object.namespace(), false)?
            }
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
