//! Writes of the server itself: the same stages as those of clients, but all objects of a batch in one transaction.
//!
//! Entry point: [`WriteBatch`]. Webhooks and policies are not called. After a concurrent change of an object nothing is
//! written: callers watch the object, or try again later.

use std::fmt::Display;
use std::sync::Arc;

use rhumb_api::JsonObject;
use rhumb_auth::User;
use rhumb_meta::{ObjectKey, Status};
use rhumb_store::{Error, OPERATIONS_MAX, Transaction};
use tokio::time::Instant;

use super::commit::{PreparedWrite, with_operations};
use super::guards::CommitGuards;
use super::{
    ObjectWrite, PendingWrite, ProposedWrite, ReadSource, StageResult, StoredObject, UpdateScope,
    WriteStage,
};
use crate::Registry;
use crate::objects::ObjectMetadataMut;
use crate::{RequestContext, Resource, ResourceTable};

/// A change that the server makes to an object.
#[derive(Debug)]
pub enum BatchChange {
    /// Creates the object, given in the preferred version of its resource.
    Create(JsonObject),
    /// Replaces everything but the status.
    Update(JsonObject),
    UpdateStatus(JsonObject),
    Delete,
}

/// The object of a change.
#[derive(Debug, Clone, Copy)]
pub struct BatchObjectRef<'a> {
    pub group: &'a str,
    pub plural: &'a str,
    pub namespace: Option<&'a str>,
    pub name: &'a str,
}

/// The outcome of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchOutcome {
    Written,
    /// No object needed a change.
    Unchanged,
    /// An object was changed concurrently; nothing was written.
    Conflict,
}

/// Writes by the server that are committed together.
#[derive(Debug)]
pub struct WriteBatch<'a> {
    registry: &'a Arc<Registry>,
    resources: Arc<ResourceTable>,
    user: User,
    writes: Vec<BatchedWrite>,
    operations: usize,
    /// An object changed while its write was prepared.
    has_conflict: bool,
}

/// A prepared write and what its guards are evaluated with.
#[derive(Debug)]
struct BatchedWrite {
    resource: Arc<Resource>,
    prepared: PreparedWrite,
}

impl<'a> WriteBatch<'a> {
    pub fn new(registry: &'a Arc<Registry>) -> WriteBatch<'a> {
        WriteBatch {
            registry,
            resources: registry.resources(),
            user: User::server(),
            writes: Vec::new(),
            operations: 0,
            has_conflict: false,
        }
    }

    /// Adds the change that `decide` returns for the cached object; nothing if it returns `None`.
    pub async fn add(
        &mut self,
        reference: BatchObjectRef<'_>,
        decide: impl FnOnce(Option<&JsonObject>) -> Option<BatchChange>,
    ) -> Result<(), String> {
        let BatchObjectRef {
            group,
            plural,
            namespace,
            name,
        } = reference;
        let fail = |error: &dyn Display| format!("{plural} {name}: {error}");
        let resource = self.resources.find(group, plural).cloned();
        let resource = resource.ok_or_else(|| fail(&"no such resource"))?;
        let storage = resource.storage.as_ref();
        let storage = storage.ok_or_else(|| fail(&"is not stored"))?;
        let key = ObjectKey::new(namespace, name).map_err(|error| fail(&error))?;
        let entry = storage.cache.get(&key).map_err(|error| fail(&error))?;
        let current = entry
            .map(|entry| StoredObject::from_entry(&entry, ReadSource::Cache))
            .transpose()
            .map_err(|status| fail(&status.message))?;
        let Some(change) = decide(current.as_ref().map(|current| &current.object)) else {
            return Ok(());
        };
        let prepared = self.prepare(&resource, &key, current, change).await;
        match prepared.map_err(|status| fail(&status.message))? {
            StageResult::Next(WriteStage::Commit(prepared)) => {
                self.operations += prepared.transaction.operations().len();
                self.writes.push(BatchedWrite { resource, prepared });
            }
            StageResult::Retry(_) => self.has_conflict = true,
            StageResult::Next(_) | StageResult::Done(_) => {}
        }
        Ok(())
    }

    /// Commits the batch if further changes might not fit into its transaction.
    pub async fn commit_if_full(&mut self) -> Result<(), String> {
        if self.operations > OPERATIONS_MAX / 2 {
            self.commit().await?;
        }
        Ok(())
    }

    /// Runs the stages up to the commit.
    async fn prepare(
        &self,
        resource: &Arc<Resource>,
        key: &ObjectKey,
        current: Option<StoredObject>,
        change: BatchChange,
    ) -> Result<StageResult, Status> {
        let mut context = self.context(resource, key)?;
        let proposal = match change {
            BatchChange::Create(mut object) => {
                context.convert_to_stored(&mut object)?;
                ProposedWrite::Create(object)
            }
            BatchChange::Update(object) => ProposedWrite::Replace {
                object: with_current_version(object, current.as_ref()),
                part: UpdateScope::Main,
            },
            BatchChange::UpdateStatus(object) => {
                let mut subresources = resource.kind.subresources.iter();
                context.subresource = subresources.find(|subresource| subresource.name == "status");
                ProposedWrite::Replace {
                    object: with_current_version(object, current.as_ref()),
                    part: UpdateScope::Status,
                }
            }
            BatchChange::Delete => match &current {
                Some(current) => ProposedWrite::Delete(current.object.clone()),
                None => return Err(context.not_found()),
            },
        };
        let write = ObjectWrite::for_batch(&context, key);
        let pending = PendingWrite { current, proposal };
        write.run_until_commit(WriteStage::Admit(pending)).await
    }

    fn context<'c>(
        &'c self,
        resource: &'c Arc<Resource>,
        key: &'c ObjectKey,
    ) -> Result<RequestContext<'c>, Status> {
        let context = RequestContext::server(
            self.registry,
            &self.resources,
            resource,
            &self.user,
            "update",
            key.namespace(),
            key.name(),
        );
        context.ok_or_else(|| Status::internal_error("the resource has no version"))
    }

    /// Commits the batch.
    pub async fn commit(&mut self) -> Result<BatchOutcome, String> {
        let writes = std::mem::take(&mut self.writes);
        self.operations = 0;
        if std::mem::take(&mut self.has_conflict) {
            return Ok(BatchOutcome::Conflict);
        }
        if writes.is_empty() {
            return Ok(BatchOutcome::Unchanged);
        }
        let deadline = Instant::now() + super::retry::COMMIT_TIMEOUT;
        loop {
            let guards = self.acquire_guards(&writes, deadline).await;
            let guards = guards.map_err(|status| status.message)?;
            let transaction = writes.iter().fold(Transaction::new(), |all, write| {
                with_operations(all, write.prepared.transaction.operations().to_vec())
            });
            let committed = guards.commit(self.registry, transaction).await;
            match committed.outcome {
                Ok(_) => return Ok(BatchOutcome::Written),
                Err(Error::Conflict(_)) if !committed.precondition_failed => {
                    return Ok(BatchOutcome::Conflict);
                }
                Err(error) if !committed.precondition_failed || Instant::now() > deadline => {
                    return Err(error.to_string());
                }
                Err(_) => {
                    let caches = &self.registry.cache_manager;
                    let caught_up = caches.wait_until_consistent(deadline).await;
                    caught_up.map_err(|error| error.to_string())?;
                }
            }
        }
    }

    async fn acquire_guards(
        &self,
        writes: &[BatchedWrite],
        deadline: Instant,
    ) -> Result<CommitGuards, Status> {
        let mut guards = CommitGuards::default();
        for BatchedWrite { resource, prepared } in writes {
            let context = self.context(resource, &prepared.key)?;
            guards.extend(prepared.acquire_guards(&context, deadline).await?);
        }
        Ok(guards)
    }
}

/// Changes one object, if `update` returns a change for it.
pub async fn write_as_server(
    registry: &Arc<Registry>,
    reference: BatchObjectRef<'_>,
    update: impl FnOnce(Option<&JsonObject>) -> Option<BatchChange>,
) -> Result<BatchOutcome, String> {
    let mut batch = WriteBatch::new(registry);
    batch.add(reference, update).await?;
    batch.commit().await
}

/// The object with the resourceVersion of the current one, which validation requires.
fn with_current_version(mut object: JsonObject, current: Option<&StoredObject>) -> JsonObject {
    if let Some(current) = current {
        object.set_meta("resourceVersion", current.revision.to_string());
    }
    object
}
