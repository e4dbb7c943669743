//! One object at a time: whether it is there, is garbage, or waits for nothing any more.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, TryStreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::Collector;
use super::graph::{Absence, Identity, Item, KindName, Uid};
use super::objects::{Meta, Target};
use super::reports::Report;
use super::served::Unresolved;
use super::verdict::{Classified, FOREGROUND, ORPHAN, Verdict, verdict};
use crate::Error;
use crate::queue::Done;

/// Dependents that are released from an owner at the same time.
const RELEASED_AT_ONCE: usize = 20;
/// How soon an owner is looked for where other dependents say that it is.
const ELSEWHERE_PAUSE: Duration = Duration::from_millis(500);
/// How often an owner is looked up whose kind cannot be watched.
const UNWATCHED_PAUSE: Duration = Duration::from_secs(30);
/// How often it is looked whether a kind has come.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(30);

impl Collector {
    /// Looks at an object, and brings it to its end if nothing speaks for it.
    pub(super) async fn check(&self, uid: Uid) -> Result<Done, Error> {
        let Some(item) = self.graph().item(&uid) else {
            return Ok(Done::Yes);
        };
        // What is being deleted ends by itself; what names no owner is no garbage.
        let is_settled = if item.is_deleting {
            !item.awaits_dependents
        } else {
            item.is_confirmed && !item.has_owners
        };
        if is_settled {
            return Ok(Done::Yes);
        }
        let mut identity = item.identity.clone();
        let target = match self.served().resolve(&self.client, &mut identity) {
            Ok(target) => target,
            Err(unresolved) => {
                if matches!(unresolved, Unresolved::NoNamespace) {
                    self.report_to_dependent(&identity);
                }
                return Ok(later(&identity, &unresolved));
            }
        };
        let Some(latest) = target.get().await? else {
            return Ok(self.absent(&item, &identity));
        };
        self.change(|graph, work| graph.confirm(&identity, work));
        if item.awaits_dependents {
            self.end_if_unblocked(&uid, &target).await?;
        } else if !latest.owners().is_empty() {
            let owners = match self.classify(&item, latest.owners()).await? {
                Ok(owners) => owners,
                Err(unresolved) => return Ok(later(&identity, &unresolved)),
            };
            let verdict = verdict(&item, &latest, &owners);
            if !self.carry_out(verdict, &target, &latest).await? {
                return Ok(self.absent(&item, &identity));
            }
        }
        Ok(match self.served().is_watched(&identity.kind) {
            true => Done::Yes,
            // No watch tells when it goes.
            false => Done::Again(UNWATCHED_PAUSE),
        })
    }

    fn absent(&self, item: &Item, identity: &Identity) -> Done {
        if !item.is_confirmed && self.served().is_namespaced(&identity.kind) {
            self.report_to_dependent(identity);
        }
        match self.change(|graph, work| graph.absent(identity, work)) {
            Absence::Settled => Done::Yes,
            Absence::LookElsewhere => Done::Again(ELSEWHERE_PAUSE),
        }
    }

    /// Of all dependents in the namespace where there is no such owner, one is told.
    fn report_to_dependent(&self, owner: &Identity) {
        let dependents = self.graph().dependents(&owner.uid);
        let mut dependents = dependents.into_iter();
        if let Some(dependent) = dependents.find(|own| own.namespace == owner.namespace) {
            self.report(Report::Missing(dependent, owner.clone()));
        }
    }

    /// An owner that was never seen in the namespace of its dependent may be in another.
    fn report_unless_seen(&self, dependent: &Identity, owner: &Identity) {
        if !self.graph().is_known_in_namespace(owner) {
            self.report(Report::Missing(dependent.clone(), owner.clone()));
        }
    }

    /// False if the object was gone.
    async fn carry_out(
        &self,
        verdict: Verdict,
        target: &Target,
        latest: &Meta,
    ) -> Result<bool, Error> {
        match verdict {
            Verdict::Keep => Ok(true),
            Verdict::Release(owners) => {
                target.release(&owners).await?;
                Ok(true)
            }
            Verdict::Delete { policy, unblock } => {
                if unblock {
                    target.unblock(latest).await?;
                }
                target.delete(latest, policy).await
            }
        }
    }

    /// An object that waits for its dependents goes when none of them blocks it; else they are to go first.
    async fn end_if_unblocked(&self, uid: &Uid, target: &Target) -> Result<(), Error> {
        let blocking = self.graph().blocking(uid);
        if blocking.is_empty() {
            return target.remove_finalizer(FOREGROUND).await;
        }
        for (dependent, awaits_its_own) in blocking {
            if !awaits_its_own {
                self.queue.add(super::Task::Check(dependent));
            }
        }
        Ok(())
    }

    /// What the owners are, asked of the server unless it has said before that there is none. While one of them
    /// cannot be asked for, nothing is done.
    async fn classify(
        &self,
        item: &Item,
        references: &[OwnerReference],
    ) -> Result<Result<Classified, Unresolved>, Error> {
        let mut classified = Classified::default();
        for reference in references {
            let mut owner = Identity {
                kind: Arc::new(KindName::new(&reference.api_version, &reference.kind)),
                namespace: item.identity.namespace.clone(),
                name: reference.name.as_str().into(),
                uid: Uid::new(&reference.uid),
            };
            let reference = reference.clone();
            if self.graph().is_absent(&owner) {
                classified.dangling.push(reference);
                continue;
            }
            let target = match self.served().resolve(&self.client, &mut owner) {
                Ok(target) => target,
                Err(unresolved) => {
                    if matches!(unresolved, Unresolved::NoNamespace) {
                        self.report_unless_seen(&item.identity, &owner);
                    }
                    return Ok(Err(unresolved));
                }
            };
            match target.get().await? {
                None => {
                    if !owner.namespace.is_empty() {
                        self.report_unless_seen(&item.identity, &owner);
                    }
                    self.graph().remember_absent(owner);
                    classified.dangling.push(reference);
                }
                Some(latest) => {
                    self.change(|graph, work| graph.confirm(&owner, work));
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

    /// Takes an owner out of the references of all its dependents, then lets it go.
    pub(super) async fn orphan(&self, uid: Uid) -> Result<Done, Error> {
        let (item, dependents) = {
            let graph = self.graph();
            (graph.item(&uid), graph.dependents(&uid))
        };
        let Some(Item { mut identity, .. }) = item else {
            return Ok(Done::Yes);
        };
        let owner = match self.served().resolve(&self.client, &mut identity) {
            Ok(owner) => owner,
            Err(unresolved) => return Ok(later(&identity, &unresolved)),
        };
        let mut targets = Vec::with_capacity(dependents.len());
        for mut dependent in dependents {
            match self.served().resolve(&self.client, &mut dependent) {
                Ok(target) => targets.push(target),
                // It is not known to be gone, and without its owner it would be garbage.
                Err(unresolved @ Unresolved::UnknownKind(_)) => {
                    return Ok(later(&dependent, &unresolved));
                }
                Err(Unresolved::NoNamespace) => {}
            }
        }
        let owners = [uid.to_string()];
        stream::iter(targets.into_iter().map(Ok::<_, Error>))
            .try_for_each_concurrent(RELEASED_AT_ONCE, |target| {
                let owners = &owners;
                async move { target.release(owners).await }
            })
            .await?;
        owner.remove_finalizer(ORPHAN).await?;
        Ok(Done::Yes)
    }
}

/// When to look again at an object that cannot be asked for, or whose owner cannot. A kind may yet come.
fn later(identity: &Identity, unresolved: &Unresolved) -> Done {
    match unresolved {
        Unresolved::NoNamespace => Done::Yes,
        Unresolved::UnknownKind(kind) => {
            tracing::debug!(%identity, ?kind, "the server does not have the kind");
            Done::Again(UNKNOWN_PAUSE)
        }
    }
}
