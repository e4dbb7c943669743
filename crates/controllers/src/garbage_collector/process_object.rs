//! Processes one queued object: looks it and its owners up, and deletes, orphans or releases it (upstream's
//! `attemptToDeleteItem` and `attemptToOrphan`).

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, TryStreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::GarbageCollector;
use super::graph::{AbsenceOutcome, ApiVersionKind, GraphNodeSnapshot, ObjectIdentity, ObjectUid};
use super::invalid_owner_events::InvalidOwnerReport;
use super::objects::{PartialMetadata, TargetObject};
use super::resource_mapper::ResolveError;
use super::verdict::{
    ClassifiedOwners, FOREGROUND_FINALIZER, GarbageVerdict, ORPHAN_FINALIZER, verdict,
};
use crate::Error;
use rhumb_client::work_queue::ReconcileAction;

/// Dependents that are patched concurrently when an owner orphans them.
const RELEASED_AT_ONCE: usize = 20;
/// Delay before an absent owner is looked up at the coordinates that another dependent names.
const ELSEWHERE_PAUSE: Duration = Duration::from_millis(500);
/// Interval of lookups of an owner whose resource cannot be watched.
const UNWATCHED_PAUSE: Duration = Duration::from_secs(30);
/// Interval of lookups of an object whose kind is unknown.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(30);

impl GarbageCollector {
    /// Checks an object and deletes it if it is garbage.
    pub(super) async fn check(&self, uid: ObjectUid) -> Result<ReconcileAction, Error> {
        let Some(item) = self.graph().snapshot(&uid) else {
            return Ok(ReconcileAction::AwaitChange);
        };
        // A terminating object needs no help, and an object without owners is not garbage.
        let is_settled = if item.is_deleting {
            !item.awaits_dependents
        } else {
            item.is_confirmed && !item.has_owners
        };
        if is_settled {
            return Ok(ReconcileAction::AwaitChange);
        }
        let mut identity = item.identity.clone();
        let target = match self.mapper().resolve(&self.client, &mut identity) {
            Ok(target) => target,
            Err(unresolved) => {
                if matches!(unresolved, ResolveError::NoNamespace) {
                    self.report_to_dependent(&identity);
                }
                return Ok(requeue_unresolved(&identity, &unresolved));
            }
        };
        let Some(latest) = target.get().await? else {
            return Ok(self.observe_absence(&item, &identity));
        };
        self.change(|graph, actions| graph.confirm(&identity, actions));
        if item.awaits_dependents {
            self.finish_if_unblocked(&uid, &target).await?;
        } else if !latest.owners().is_empty() {
            let owners = match self.classify(&item, latest.owners()).await? {
                Ok(owners) => owners,
                Err(unresolved) => return Ok(requeue_unresolved(&identity, &unresolved)),
            };
            let verdict = verdict(&item, &latest, &owners);
            if !self.apply_verdict(verdict, &target, &latest).await? {
                return Ok(self.observe_absence(&item, &identity));
            }
        }
        Ok(match self.mapper().is_watched(&identity.kind) {
            true => ReconcileAction::AwaitChange,
            // No watch reports its deletion, so poll.
            false => ReconcileAction::RequeueAfter(UNWATCHED_PAUSE),
        })
    }

    fn observe_absence(
        &self,
        item: &GraphNodeSnapshot,
        identity: &ObjectIdentity,
    ) -> ReconcileAction {
        if !item.is_confirmed && self.mapper().is_namespaced(&identity.kind) {
            self.report_to_dependent(identity);
        }
        match self.change(|graph, actions| graph.observe_absence(identity, actions)) {
            AbsenceOutcome::Settled => ReconcileAction::AwaitChange,
            AbsenceOutcome::LookUpAgain => ReconcileAction::RequeueAfter(ELSEWHERE_PAUSE),
        }
    }

    /// Reports the absent owner for one of its dependents in that namespace.
    fn report_to_dependent(&self, owner: &ObjectIdentity) {
        let dependents = self.graph().dependents(&owner.uid);
        let mut dependents = dependents.into_iter();
        if let Some(dependent) = dependents.find(|own| own.namespace == owner.namespace) {
            self.report(InvalidOwnerReport::Missing(dependent, owner.clone()));
        }
    }

    /// Reports an absent owner that was never observed in the dependent's namespace: it may be in another one.
    fn report_unless_known(&self, dependent: &ObjectIdentity, owner: &ObjectIdentity) {
        if !self.graph().is_known_in_namespace(owner) {
            self.report(InvalidOwnerReport::Missing(
                dependent.clone(),
                owner.clone(),
            ));
        }
    }

    /// False if the object no longer exists.
    async fn apply_verdict(
        &self,
        verdict: GarbageVerdict,
        target: &TargetObject,
        latest: &PartialMetadata,
    ) -> Result<bool, Error> {
        match verdict {
            GarbageVerdict::Keep => Ok(true),
            GarbageVerdict::Release(owners) => {
                target.release(&owners).await?;
                Ok(true)
            }
            GarbageVerdict::Delete { policy, unblock } => {
                if unblock {
                    target.unblock(latest).await?;
                }
                target.delete(latest, policy).await
            }
        }
    }

    /// Foreground deletion: removes the finalizer if no dependent blocks it, otherwise queues the blocking dependents.
    async fn finish_if_unblocked(
        &self,
        uid: &ObjectUid,
        target: &TargetObject,
    ) -> Result<(), Error> {
        let blocking = self.graph().blocking(uid);
        if blocking.is_empty() {
            return target.remove_finalizer(FOREGROUND_FINALIZER).await;
        }
        for (dependent, awaits_its_own) in blocking {
            if !awaits_its_own {
                self.queue.add(super::CollectorTask::Check(dependent));
            }
        }
        Ok(())
    }

    /// Looks up each owner, unless it is in the absent owner cache. If one cannot be resolved, the object is not
    /// processed further.
    async fn classify(
        &self,
        item: &GraphNodeSnapshot,
        references: &[OwnerReference],
    ) -> Result<Result<ClassifiedOwners, ResolveError>, Error> {
        let mut classified = ClassifiedOwners::default();
        for reference in references {
            let mut owner = ObjectIdentity {
                kind: Arc::new(ApiVersionKind::new(&reference.api_version, &reference.kind)),
                namespace: item.identity.namespace.clone(),
                name: reference.name.as_str().into(),
                uid: ObjectUid::new(&reference.uid),
            };
            let reference = reference.clone();
            if self.graph().is_absent(&owner) {
                classified.dangling.push(reference);
                continue;
            }
            let target = match self.mapper().resolve(&self.client, &mut owner) {
                Ok(target) => target,
                Err(unresolved) => {
                    if matches!(unresolved, ResolveError::NoNamespace) {
                        self.report_unless_known(&item.identity, &owner);
                    }
                    return Ok(Err(unresolved));
                }
            };
            match target.get().await? {
                None => {
                    if !owner.namespace.is_empty() {
                        self.report_unless_known(&item.identity, &owner);
                    }
                    self.graph().remember_absent(owner);
                    classified.dangling.push(reference);
                }
                Some(latest) => {
                    self.change(|graph, actions| graph.confirm(&owner, actions));
                    if latest.awaits_dependents() {
                        classified.waiting.push(reference);
                    } else {
                        classified.solid.push(reference);
                    }
                }
            }
        }
        Ok(Ok(classified))
    }

    /// Removes the owner from the references of all its dependents, then removes its orphan finalizer.
    pub(super) async fn orphan(&self, uid: ObjectUid) -> Result<ReconcileAction, Error> {
        let (item, dependents) = {
            let graph = self.graph();
            (graph.snapshot(&uid), graph.dependents(&uid))
        };
        let Some(GraphNodeSnapshot { mut identity, .. }) = item else {
            return Ok(ReconcileAction::AwaitChange);
        };
        let owner = match self.mapper().resolve(&self.client, &mut identity) {
            Ok(owner) => owner,
            Err(unresolved) => return Ok(requeue_unresolved(&identity, &unresolved)),
        };
        let mut targets = Vec::with_capacity(dependents.len());
        for mut dependent in dependents {
            match self.mapper().resolve(&self.client, &mut dependent) {
                Ok(target) => targets.push(target),
                // The dependent may exist, and would become garbage without its owner: retry later.
                Err(unresolved @ ResolveError::UnknownKind(_)) => {
                    return Ok(requeue_unresolved(&dependent, &unresolved));
                }
                Err(ResolveError::NoNamespace) => {}
            }
        }
        let owners = [uid.to_string()];
        stream::iter(targets.into_iter().map(Ok::<_, Error>))
            .try_for_each_concurrent(RELEASED_AT_ONCE, |target| {
                let owners = &owners;
                async move { target.release(owners).await }
            })
            .await?;
        owner.remove_finalizer(ORPHAN_FINALIZER).await?;
        Ok(ReconcileAction::AwaitChange)
    }
}

/// Requeues an object that cannot be resolved, or whose owner cannot: its kind may be served later.
fn requeue_unresolved(identity: &ObjectIdentity, unresolved: &ResolveError) -> ReconcileAction {
    match unresolved {
        ResolveError::NoNamespace => ReconcileAction::AwaitChange,
        ResolveError::UnknownKind(kind) => {
            tracing::debug!(%identity, ?kind, "kind is not served; retrying in 30s");
            ReconcileAction::RequeueAfter(UNKNOWN_PAUSE)
        }
    }
}
