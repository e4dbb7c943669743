//! The Admit stage: mutating admission, and the admission of deletions and views.

use rhumb_api::JsonObject;
use rhumb_meta::Status;

use super::UpdateScope;
use super::{ObjectWrite, PendingWrite, ProposedWrite, StageResult, StoredObject, WriteStage};
use crate::admission::Operation;
use crate::ensure_request_namespace;
use crate::objects::{ObjectMetadata, ObjectMetadataMut};

impl ObjectWrite<'_> {
    /// Runs admission as far as it comes before preparation.
    pub(super) async fn admit(&mut self, mut pending: PendingWrite) -> Result<StageResult, Status> {
        self.admit_deletion(pending.current.as_ref()).await?;
        let PendingWrite { current, proposal } = &mut pending;
        match (proposal, &*current) {
            (ProposedWrite::Create(object), _) => self.admit_create(object).await?,
            (ProposedWrite::Replace { object, .. }, Some(current)) => {
                self.admit_update(&current.object, object).await?;
            }
            (proposal @ ProposedWrite::ReplaceByView { .. }, Some(current)) => {
                *proposal = self.admit_view(current, proposal).await?;
            }
            _ => {}
        }
        Ok(StageResult::Next(WriteStage::Prepare(pending)))
    }

    async fn admit_deletion(&self, current: Option<&StoredObject>) -> Result<(), Status> {
        let deletion = self.update.and_then(|update| update.admitted_deletion());
        let Some(options) = deletion else {
            return Ok(());
        };
        let context = self.context;
        let old = current.map(|current| &current.object);
        let attributes = context.admission_attributes(Operation::Delete, old, self.dry_run);
        let attributes = attributes.with_delete_options(options);
        context.registry.admission.admit(&attributes, None).await
    }

    /// Runs mutating admission on a new object, then sets uid and creationTimestamp, which only the server may set.
    async fn admit_create(&self, object: &mut JsonObject) -> Result<(), Status> {
        let context = self.context;
        let attributes = context.admission_attributes(Operation::Create, None, self.dry_run);
        let chain = &context.registry.admission;
        chain.mutate(&attributes, Some(object)).await?;
        if !matches!(object.resource_version(), "" | "0") {
            return Err(Status::internal_error(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        object.set_meta("uid", uuid::Uuid::new_v4().to_string());
        object.set_time("creationTimestamp", context.now);
        ensure_request_namespace(context, object)
    }

    async fn admit_update(&self, old: &JsonObject, new: &mut JsonObject) -> Result<(), Status> {
        let context = self.context;
        let attributes = context.admission_attributes(Operation::Update, Some(old), self.dry_run);
        let version_before = new.resource_version().to_owned();
        let chain = &context.registry.admission;
        chain.mutate(&attributes, Some(new)).await?;
        if new.resource_version() != version_before {
            return Err(context.object_modified(context.name()));
        }
        Ok(())
    }

    /// Admits the view, and proposes the object with the view applied.
    async fn admit_view(
        &self,
        current: &StoredObject,
        proposal: &mut ProposedWrite,
    ) -> Result<ProposedWrite, Status> {
        let (ProposedWrite::ReplaceByView { view, old_view }, Some(update)) =
            (proposal, self.update)
        else {
            return Err(Status::internal_error("the write has no view"));
        };
        let context = self.context;
        let attributes =
            context.admission_attributes(Operation::Update, Some(old_view), self.dry_run);
        let chain = &context.registry.admission;
        chain.mutate(&attributes, Some(view)).await?;
        let object = update.apply_view(current, view)?;
        chain.validate(&attributes, Some(view)).await?;
        Ok(ProposedWrite::Replace {
            object,
            part: UpdateScope::AlreadyAdmitted,
        })
    }
}
