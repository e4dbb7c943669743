//! The write path: every change of an API object runs through these stages (upstream: `Create`, `Update` and `Delete` of
//! the generic registry store, and `GuaranteedUpdate` of `storage.Interface`).
//!
//! ```text
//!  Read ────► Propose ────► Admit ────► Prepare ────► Commit ────► WriteResult
//!  current.rs ObjectUpdate  admit.rs    prepare.rs    commit.rs
//!   ▲                                    ▲    ▲  │     │   │  ▲
//!   │                      NameTaken,    │    └──┼─────┘   │  │ GuardChanged
//!   │                      AllocationTaken ──────┘         └──┘
//!   └── ObjectChanged, StaleRead (reads from the store)
//! ```
//!
//! - *Read* takes the current object from the cache without waiting: a stale object makes the commit fail, and the write
//!   starts again from the store. An error or a no-op decided on a cached object is final only after the store has
//!   confirmed that the object is current.
//! - *Propose* asks the [`ObjectUpdate`] of the verb for a [`ProposedWrite`].
//! - *Admit* runs mutating admission, *Prepare* allocates, prepares and validates, runs validating admission and encodes.
//! - *Commit* evaluates the guards of admission (`guards.rs`) and commits. Objects are dropped before the store is awaited:
//!   with many concurrent writers, the memory of waiting requests would evict the working set of running ones from the
//!   CPU caches.
//!
//! A dry run is the same up to the commit. `retry.rs` limits the retries; one deadline holds for all of them.
//!
//! Entry points: `RequestContext::create_object` and `RequestContext::update_object`.

mod admit;
mod batch;
mod commit;
mod current;
mod guards;
mod prepare;
mod retry;
mod strategy;

use bytes::Bytes;
use rhumb_api::JsonObject;
use rhumb_meta::{ObjectKey, Revision, Status};
use tokio::time::Instant;

use super::{RequestContext, ResourceStorage};
use crate::DeleteOptions;
use crate::objects::ObjectMetadataMut;

pub use batch::{BatchChange, BatchObjectRef, BatchOutcome, WriteBatch, write_as_server};
use commit::PreparedWrite;
pub use commit::with_operations;
use current::UnconfirmedRead;
pub use current::{ReadSource, StoredObject};
pub use guards::{AcquiredGuard, CommitGuard, EncodedObject, Precondition, Reservation};
use retry::{RetryCounts, RetryReason};
pub use strategy::UpdateScope;

/// How a verb changes an object. `propose` is called again after each conflict.
pub trait ObjectUpdate: Sync {
    /// The change of the current object; `None` if there is no such object.
    fn propose(&self, current: Option<&StoredObject>) -> Result<ProposedWrite, Status>;

    /// Whether a conflict is final, because the client specified a resourceVersion.
    fn is_conditional(&self) -> bool {
        false
    }

    /// The options of a deletion that admission has to admit.
    fn admitted_deletion(&self) -> Option<&DeleteOptions> {
        None
    }

    /// For [`ProposedWrite::ReplaceByView`]: the current object with the admitted view applied.
    fn apply_view(&self, current: &StoredObject, _view: &JsonObject) -> Result<JsonObject, Status> {
        Ok(current.object.clone())
    }

    /// Whether the result is needed as an object rather than as bytes.
    fn needs_object(&self) -> bool {
        false
    }
}

/// What an `ObjectUpdate` proposes to do, in the storage version.
#[derive(Debug, Clone)]
pub enum ProposedWrite {
    /// Create this object, under its own or a generated name.
    Create(JsonObject),
    /// Replace a part of the object by this state, after admission, preparation and validation.
    Replace {
        object: JsonObject,
        part: UpdateScope,
    },
    /// As `Replace`, through a view of the object that is admitted in its place, such as a Scale.
    ReplaceByView {
        view: JsonObject,
        old_view: JsonObject,
    },
    /// Write this state as it is: the server computed it from the stored one.
    Put(JsonObject),
    /// Delete the object; this is its last state, for the response.
    Delete(JsonObject),
    /// Write nothing; this is the response.
    Unchanged(JsonObject),
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    Created,
    Updated,
    Unchanged,
    Deleted,
}

/// The result of a write, or what it would be after a dry run.
#[derive(Debug)]
pub struct WriteResult {
    pub outcome: WriteOutcome,
    pub object: WrittenObject,
}

/// An object after a write, in the storage version.
#[derive(Debug)]
pub enum WrittenObject {
    /// The stored bytes and their revision; no revision if a dry run created the object.
    Encoded {
        bytes: Bytes,
        revision: Option<Revision>,
    },
    Decoded(JsonObject),
}

impl WriteResult {
    pub fn is_deleted(&self) -> bool {
        self.outcome == WriteOutcome::Deleted
    }
}

impl WrittenObject {
    /// The object with its resourceVersion.
    pub fn decode(self, storage: &ResourceStorage) -> Result<JsonObject, Status> {
        match self {
            WrittenObject::Decoded(object) => Ok(object),
            WrittenObject::Encoded { bytes, revision } => {
                let object = storage.decoder.decode(&bytes);
                let mut object = object.map_err(Status::internal_error)?;
                if let Some(revision) = revision {
                    object.set_meta("resourceVersion", revision.to_string());
                }
                Ok(object)
            }
        }
    }
}

/// A proposal and the object that it changes.
#[derive(Debug, Clone)]
struct PendingWrite {
    /// `None` for a creation.
    current: Option<StoredObject>,
    proposal: ProposedWrite,
}

/// What happens next, with the state that it needs.
enum WriteStage {
    Read,
    Propose(Option<StoredObject>),
    Admit(PendingWrite),
    Prepare(PendingWrite),
    Commit(PreparedWrite),
}

/// The result of a stage.
enum StageResult {
    Next(WriteStage),
    Retry(RetryReason),
    Done(WriteResult),
}

impl RequestContext<'_> {
    /// Stores a new object, given in the storage version, under its own or a generated name.
    pub async fn create_object(
        &self,
        object: JsonObject,
        dry_run: bool,
    ) -> Result<WriteResult, Status> {
        let write = ObjectWrite::new(self, None, dry_run);
        let pending = PendingWrite {
            current: None,
            proposal: ProposedWrite::Create(object),
        };
        write.run(WriteStage::Admit(pending)).await
    }

    /// Changes the object of a key.
    pub async fn update_object(
        &self,
        key: &ObjectKey,
        dry_run: bool,
        update: &dyn ObjectUpdate,
    ) -> Result<WriteResult, Status> {
        let write = ObjectWrite::new(self, Some((key, update)), dry_run);
        write.run(WriteStage::Read).await
    }

    /// Changes an object whose current state the caller has read.
    pub async fn update_stored_object(
        &self,
        key: &ObjectKey,
        current: StoredObject,
        dry_run: bool,
        update: &dyn ObjectUpdate,
    ) -> Result<WriteResult, Status> {
        let write = ObjectWrite::new(self, Some((key, update)), dry_run);
        write.run(WriteStage::Propose(Some(current))).await
    }
}

/// One write: what is written, and the state of its retries.
struct ObjectWrite<'a> {
    context: &'a RequestContext<'a>,
    /// `None` for a creation.
    key: Option<&'a ObjectKey>,
    /// `None` for a creation, and for writes of the server itself.
    update: Option<&'a dyn ObjectUpdate>,
    dry_run: bool,
    retries: RetryCounts,
    /// The cached object that the current stage works on, until the store has confirmed it.
    unconfirmed: Option<UnconfirmedRead>,
    /// Until when commits are retried; set by the first one.
    deadline: Option<Instant>,
}

impl<'a> ObjectWrite<'a> {
    fn new(
        context: &'a RequestContext<'a>,
        target: Option<(&'a ObjectKey, &'a dyn ObjectUpdate)>,
        dry_run: bool,
    ) -> ObjectWrite<'a> {
        let (key, update) = target.unzip();
        ObjectWrite {
            context,
            key,
            update,
            dry_run,
            retries: RetryCounts::default(),
            unconfirmed: None,
            deadline: None,
        }
    }

    /// A write of the server itself, which is committed with others.
    fn for_batch(context: &'a RequestContext<'a>, key: &'a ObjectKey) -> ObjectWrite<'a> {
        ObjectWrite {
            key: Some(key),
            ..ObjectWrite::new(context, None, false)
        }
    }

    async fn run(mut self, mut stage: WriteStage) -> Result<WriteResult, Status> {
        loop {
            let result = match self.run_stage(stage).await {
                Err(status) => self.confirm_rejection(status).await?,
                Ok(result) => result,
            };
            stage = match result {
                StageResult::Next(next) => next,
                StageResult::Retry(reason) => self.restart(reason).await?,
                StageResult::Done(result) => return Ok(result),
            };
        }
    }

    /// Runs the stages before the commit, without retries.
    async fn run_until_commit(mut self, mut stage: WriteStage) -> Result<StageResult, Status> {
        loop {
            stage = match stage {
                WriteStage::Commit(_) => return Ok(StageResult::Next(stage)),
                stage => match self.run_stage(stage).await? {
                    StageResult::Next(next) => next,
                    result => return Ok(result),
                },
            };
        }
    }

    async fn run_stage(&mut self, stage: WriteStage) -> Result<StageResult, Status> {
        match stage {
            WriteStage::Read => self.read_current().await,
            WriteStage::Propose(current) => self.propose(current),
            WriteStage::Admit(pending) => self.admit(pending).await,
            WriteStage::Prepare(pending) => self.prepare(pending).await,
            WriteStage::Commit(prepared) => self.commit(prepared).await,
        }
    }

    fn propose(&mut self, current: Option<StoredObject>) -> Result<StageResult, Status> {
        let Some(update) = self.update else {
            return Err(Status::internal_error("a creation has no current object"));
        };
        let cached = current
            .as_ref()
            .filter(|current| current.source == ReadSource::Cache);
        self.unconfirmed = cached.map(|current| UnconfirmedRead {
            revision: current.revision,
            applied: self.context.registry.cache_manager.applied_revision(),
        });
        let proposal = update.propose(current.as_ref())?;
        Ok(StageResult::Next(WriteStage::Admit(PendingWrite {
            current,
            proposal,
        })))
    }
}
