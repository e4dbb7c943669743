//! How objects reach the store: prepared, checked, encoded, committed, and seen by the cache before anyone is told.

use std::borrow::Cow;

use async_trait::async_trait;
use bytes::Bytes;
use rhumb_api::Object;
use rhumb_meta::{ObjectKey, Revision, Status};
use rhumb_store::{Error, Expect, Operation, Transaction};

use super::{Call, Claim, Storage, store_status};
use crate::admission;
use crate::objects::MetadataMut;

/// How often a write is tried again when others write the same object. With so many in between, the client is
/// told of the conflict.
pub(super) const ATTEMPTS_MAX: usize = 32;

/// How often what an object is let in for may be another than it was before the client is told to come back.
const PREMISES_MAX: usize = 64;

/// An object as it is stored, and when it was written.
#[derive(Debug, Clone)]
pub(super) struct Current {
    pub(super) object: Object,
    pub(super) revision: Revision,
}

/// What becomes of an object.
#[derive(Debug)]
pub(super) enum Change {
    /// It is written, with what was chosen for it.
    Put(Object, Claim),
    /// It goes; this is its last state, for the answer.
    Delete(Object),
    /// It was to go, and this change took away what held it. The answer has the version it had before.
    Finish(Object),
    /// Nothing changes; this is the answer.
    Keep(Object),
}

/// Says what becomes of the current object. Asked again when somebody else was quicker.
#[async_trait]
pub(super) trait Edit: Sync {
    async fn edit(&self, current: &Current) -> Result<Change, Status>;

    /// Whether a conflict is final: the client named the version that it meant.
    fn is_conditional(&self) -> bool;
}

/// An object after a write.
#[derive(Debug)]
pub(super) struct Written {
    /// As stored, with its resourceVersion.
    pub(super) object: Object,
    pub(super) deleted: bool,
}

/// How one attempt to write ended.
enum Attempt {
    Done(Written),
    /// Somebody else changed the object since it was read.
    Changed,
    /// Something that was chosen for the object is another's now; another choice may do.
    Taken,
}

/// What one attempt does.
enum Plan {
    /// Nothing has to be written; this is the answer.
    Answer(Object),
    /// The object stays as it was read. What is stored may still have another form than these bytes.
    Same(Bytes, Step),
    Commit(Step),
}

/// A change that is ready to be committed.
struct Step {
    transaction: Transaction,
    /// For the answer.
    object: Object,
    deleted: bool,
    claim: Claim,
    /// Whether the answer has the version from before.
    keeps_version: bool,
}

impl Step {
    fn set_version(&mut self, version: Revision) {
        self.object.set_meta("resourceVersion", version.to_string());
    }
}

impl Call<'_> {
    /// The current object from the cache, which holds every write that was answered.
    pub(super) async fn current(&self, key: &ObjectKey) -> Result<Current, Status> {
        let storage = self.storage()?;
        self.api.fresh(self).await?;
        let entry = storage
            .cache
            .get(key)
            .map_err(Status::internal_error)?
            .ok_or_else(|| self.not_found())?;
        let object = serde_json::from_slice(entry.json_slice()).map_err(Status::internal_error)?;
        Ok(Current {
            object,
            revision: entry.revision(),
        })
    }

    /// The current object from the store: after a conflict the cache may be behind.
    async fn current_in_store(&self, key: &ObjectKey) -> Result<Current, Status> {
        let storage = self.storage()?;
        let entry = self
            .api
            .store
            .get(&storage.prefix.object(key))
            .await
            .map_err(|error| self.store_failed(&error))?
            .ok_or_else(|| self.not_found())?;
        let mut object = storage
            .forms
            .read(&entry.value)
            .map_err(Status::internal_error)?;
        object.set_meta("resourceVersion", entry.modified.to_string());
        Ok(Current {
            object,
            revision: entry.modified,
        })
    }

    pub(crate) fn store_failed(&self, error: &Error) -> Status {
        store_status(error, &self.resource.group_resource, self.verb)
    }

    /// Changes an existing object, however often others change it meanwhile.
    pub(super) async fn change(
        &self,
        key: &ObjectKey,
        dry_run: bool,
        edit: &dyn Edit,
    ) -> Result<Written, Status> {
        let mut current = self.current(key).await?;
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt(key, dry_run, edit, &current).await? {
                Attempt::Done(written) => return Ok(written),
                Attempt::Changed if edit.is_conditional() => return Err(self.modified(key.name())),
                Attempt::Changed => current = self.current_in_store(key).await?,
                Attempt::Taken => {
                    self.api.fresh(self).await?;
                    current = self.current_in_store(key).await?;
                }
            }
        }
        Err(self.modified(key.name()))
    }

    pub(super) fn modified(&self, name: &str) -> Status {
        Status::conflict(
            &self.resource.group_resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    async fn attempt(
        &self,
        key: &ObjectKey,
        dry_run: bool,
        edit: &dyn Edit,
        current: &Current,
    ) -> Result<Attempt, Status> {
        let storage_key = self.storage()?.prefix.object(key);
        let change = edit.edit(current).await?;
        let mut step = match self.plan(&storage_key, current, change)? {
            Plan::Answer(object) => return Ok(done(object, false)),
            Plan::Same(bytes, mut step) => match self
                .is_stored(&storage_key, current.revision, &bytes)
                .await?
            {
                None => return Ok(Attempt::Changed),
                Some(false) => step,
                Some(true) => {
                    step.set_version(current.revision);
                    return Ok(done(step.object, false));
                }
            },
            Plan::Commit(step) => step,
        };
        if dry_run {
            step.set_version(current.revision);
            return Ok(done(step.object, step.deleted));
        }
        let transaction = std::mem::take(&mut step.transaction);
        let outcome = match step.deleted {
            true => self.api.commit(transaction).await,
            false => {
                self.commit_update(&current.object, &step.object, transaction)
                    .await?
            }
        };
        match outcome {
            Ok(revision) => {
                let keeps = step.keeps_version;
                step.set_version(if keeps { current.revision } else { revision });
                Ok(done(step.object, step.deleted))
            }
            Err(Error::Conflict(conflict)) if *conflict.key == *storage_key => Ok(Attempt::Changed),
            Err(Error::Conflict(conflict)) => match step.claim.refusal(&conflict.key) {
                Some(refusal) => Err(refusal.clone()),
                None => Ok(Attempt::Taken),
            },
            Err(error) => Err(self.store_failed(&error)),
        }
    }

    async fn commit_update(
        &self,
        old: &Object,
        new: &Object,
        transaction: Transaction,
    ) -> Result<Result<Revision, Error>, Status> {
        let attributes = self.attributes(admission::Operation::Update, Some(old), false);
        let tree = || Ok(Cow::Borrowed(new));
        self.commit_admitted(&attributes, tree, transaction).await
    }

    /// Commits as long as what the object was let in for is so. The tree is asked for as often as that is judged, and
    /// not kept meanwhile.
    pub(super) async fn commit_admitted<'t>(
        &self,
        attributes: &admission::Attributes<'_>,
        mut tree: impl FnMut() -> Result<Cow<'t, Object>, String>,
        transaction: Transaction,
    ) -> Result<Result<Revision, Error>, Status> {
        for _ in 0..PREMISES_MAX {
            if attributes.is_late() {
                break;
            }
            let secured = {
                let object = tree().map_err(Status::internal_error)?;
                self.api.admission.secure(attributes, &object).await?
            };
            let committed = secured.commit(self.api, transaction.clone()).await;
            if !committed.was_overtaken {
                return Ok(committed.outcome);
            }
            self.api.fresh(self).await?;
        }
        Err(Status::server_timeout(
            &self.resource.group_resource,
            self.verb,
            1,
        ))
    }

    /// Whether these are the bytes that are stored; `None` if the revision is no longer the latest. An object that
    /// somebody else stored in another form, or that is put right as it is read, is written anew by a write that
    /// changes nothing: so do those who migrate what is stored.
    async fn is_stored(
        &self,
        key: &str,
        revision: Revision,
        bytes: &[u8],
    ) -> Result<Option<bool>, Status> {
        let entry = self
            .api
            .store
            .get(key)
            .await
            .map_err(|error| self.store_failed(&error))?;
        Ok(entry
            .filter(|entry| entry.modified == revision)
            .map(|entry| *entry.value == *bytes))
    }

    /// What a change means for the store.
    fn plan(&self, key: &str, current: &Current, change: Change) -> Result<Plan, Status> {
        let storage = self.storage()?;
        let expect = Expect::At(current.revision);
        let old = &current.object;
        let remove = |object: Object, keeps_version: bool| {
            let companions = self.companion_operations(Some(old), None)?;
            Ok(Plan::Commit(Step {
                transaction: with(Transaction::new().delete(key, expect), companions),
                object,
                deleted: true,
                claim: Claim::default(),
                keeps_version,
            }))
        };
        match change {
            Change::Keep(object) => Ok(Plan::Answer(object)),
            Change::Delete(object) => remove(object, false),
            Change::Finish(mut object) => {
                rhumb_schema::conform(self.api.table, storage.schema, &mut object);
                remove(object, true)
            }
            Change::Put(mut object, claim) => {
                let bytes = self.encode(storage, &mut object);
                if bytes == self.encode(storage, &mut old.clone()) {
                    let step = Step {
                        transaction: Transaction::new().put(key, bytes.clone(), expect),
                        object,
                        deleted: false,
                        claim,
                        keeps_version: false,
                    };
                    return Ok(Plan::Same(bytes, step));
                }
                let companions = self.companion_operations(Some(old), Some(&object))?;
                Ok(Plan::Commit(Step {
                    transaction: with(Transaction::new().put(key, bytes, expect), companions),
                    object,
                    deleted: false,
                    claim,
                    keeps_version: false,
                }))
            }
        }
    }

    /// The bytes to store, in the form in which upstream writes objects.
    pub(super) fn encode(&self, storage: &Storage, object: &mut Object) -> Bytes {
        let encoder = &storage.encoder;
        encoder.stored_in_form(self.api.table, storage.schema, object)
    }
}

fn done(object: Object, deleted: bool) -> Attempt {
    Attempt::Done(Written { object, deleted })
}

/// A transaction that also does what companions ask for.
pub(crate) fn with(transaction: Transaction, companions: Vec<Operation>) -> Transaction {
    companions
        .into_iter()
        .fold(transaction, |transaction, operation| match operation {
            Operation::Put { key, value, expect } => transaction.put(key, value, expect),
            Operation::Delete { key, expect } => transaction.delete(key, expect),
            Operation::Check { key, expect } => transaction.check(key, expect),
        })
}
