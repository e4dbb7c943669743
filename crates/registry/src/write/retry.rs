//! Why a write is retried, where it starts again, and how often.

use rhumb_meta::{ObjectKey, Status};
use tokio::time::{Duration, Instant};

use super::{ObjectUpdate, ObjectWrite, PendingWrite, PreparedWrite, StoredObject, WriteStage};

/// How long the commit of a write is retried.
pub(super) const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a write is retried when concurrent writes change the same object, before the client gets a conflict.
const OBJECT_CHANGES_MAX: u32 = 32;

/// How many names are generated from `generateName` before the client gets a conflict.
const NAMES_MAX: u32 = 8;

/// How often new allocations (addresses, ports) are chosen after concurrent writes took the chosen ones. Each retry means
/// that another write succeeded, so few suffice.
const ALLOCATIONS_MAX: u32 = 64;

/// Why a write is retried.
pub(super) enum RetryReason {
    /// A concurrent write changed the object since it was read. This is the current one.
    ObjectChanged(Option<StoredObject>),
    /// The write was rejected because of a cached object that was not current. This is the current one.
    StaleRead(Option<StoredObject>),
    /// The generated name is in use.
    NameTaken(Box<PendingWrite>, Status),
    /// A concurrent write took one of the allocations, or changed a record that this write releases (`None`).
    AllocationTaken(Option<Box<PendingWrite>>),
    /// The namespace or its quota epoch changed since the guards were evaluated.
    GuardChanged(Box<PreparedWrite>),
}

/// How often a write was retried, by reason.
#[derive(Debug, Default)]
pub(super) struct RetryCounts {
    object_changed: u32,
    names: u32,
    allocations: u32,
}

impl ObjectWrite<'_> {
    /// The stage that a retry starts at, or the error if there is none.
    pub(super) async fn restart(&mut self, reason: RetryReason) -> Result<WriteStage, Status> {
        let context = self.context;
        let is_late = self
            .deadline
            .is_some_and(|deadline| Instant::now() > deadline);
        match reason {
            RetryReason::ObjectChanged(current) => {
                let name = self.key.map_or(context.name(), ObjectKey::name);
                let is_conditional = self.update.is_some_and(ObjectUpdate::is_conditional);
                self.retries.object_changed += 1;
                let is_final = is_conditional && current.is_some();
                if is_final || self.retries.object_changed >= OBJECT_CHANGES_MAX || is_late {
                    return Err(context.object_modified(name));
                }
                Ok(WriteStage::Propose(current))
            }
            RetryReason::StaleRead(current) => Ok(WriteStage::Propose(current)),
            RetryReason::NameTaken(pending, status) => {
                self.retries.names += 1;
                if self.retries.names >= NAMES_MAX || is_late {
                    let name = status.details.as_ref().map_or("", |details| &details.name);
                    let resource = &context.resource.group_resource;
                    return Err(Status::generate_name_conflict(resource, name, 1));
                }
                Ok(WriteStage::Prepare(*pending))
            }
            RetryReason::AllocationTaken(pending) => {
                self.retries.allocations += 1;
                if self.retries.allocations >= ALLOCATIONS_MAX || is_late {
                    return Err(context.retry_later());
                }
                context.registry.await_consistent(context).await?;
                Ok(pending.map_or(WriteStage::Read, |pending| WriteStage::Prepare(*pending)))
            }
            RetryReason::GuardChanged(prepared) => {
                context.registry.await_consistent(context).await?;
                if is_late {
                    return Err(context.retry_later());
                }
                Ok(WriteStage::Commit(*prepared))
            }
        }
    }

    /// Until when the commit is retried. Counts from the first commit, so that slow webhooks do not use it up.
    pub(super) fn deadline(&mut self) -> Instant {
        *self
            .deadline
            .get_or_insert_with(|| Instant::now() + COMMIT_TIMEOUT)
    }
}
