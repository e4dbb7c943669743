//! Records `OwnerRefInvalidNamespace` events for owner references into another namespace. They explain why an object
//! was deleted; when there are too many, some are dropped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::ListParams;
use tokio::sync::mpsc;

use super::GarbageCollector;
use super::graph::{ObjectIdentity, ObjectUid};
use crate::Error;
use rhumb_client::events::EventRecorder;

const COMPONENT: &str = "garbage-collector-controller";
const REASON: &str = "OwnerRefInvalidNamespace";

/// Capacity of the report queue and of the list of recent reports, which prevents duplicates.
pub(super) const WAITING_MAX: usize = 100;
/// Delay between searches, because each lists a resource in all namespaces.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) enum InvalidOwnerReport {
    /// Dependent, and the owner as its reference names it: the owner is in another namespace.
    Elsewhere(ObjectIdentity, ObjectIdentity),
    /// Dependent and owner: the owner does not exist in the dependent's namespace, but may exist in another.
    Missing(ObjectIdentity, ObjectIdentity),
}

/// Records events for reports, one by one, until dropped.
pub(super) async fn record_events(
    collector: &GarbageCollector,
    mut reports: mpsc::Receiver<InvalidOwnerReport>,
) {
    let recorder = EventRecorder::new(collector.client.clone(), COMPONENT);
    let mut reported = RecentlyReported::default();
    while let Some(report) = reports.recv().await {
        let (InvalidOwnerReport::Elsewhere(dependent, owner)
        | InvalidOwnerReport::Missing(dependent, owner)) = &report;
        if reported.has(dependent, owner) {
            continue;
        }
        let is_elsewhere = match &report {
            InvalidOwnerReport::Elsewhere(..) => true,
            InvalidOwnerReport::Missing(..) => {
                find_in_other_namespace(collector, dependent, owner).await
            }
        };
        if is_elsewhere {
            record_event(&recorder, dependent, owner).await;
            reported.add(dependent, owner);
        }
    }
}

/// Dependent and owner of the most recent events.
#[derive(Default)]
struct RecentlyReported(VecDeque<(ObjectUid, ObjectUid)>);

impl RecentlyReported {
    fn has(&self, dependent: &ObjectIdentity, owner: &ObjectIdentity) -> bool {
        let mut reported = self.0.iter();
        reported.any(|(own, of)| *own == dependent.uid && *of == owner.uid)
    }

    fn add(&mut self, dependent: &ObjectIdentity, owner: &ObjectIdentity) {
        if self.0.len() == WAITING_MAX {
            self.0.pop_front();
        }
        self.0.push_back((dependent.uid.clone(), owner.uid.clone()));
    }
}

/// Whether the owner is in another namespace than its dependent. If so, updates the graph, which then reports the other
/// dependents.
async fn find_in_other_namespace(
    collector: &GarbageCollector,
    dependent: &ObjectIdentity,
    owner: &ObjectIdentity,
) -> bool {
    let is_elsewhere = match find(collector, owner).await {
        Ok(Some(actual)) if actual.namespace != dependent.namespace => {
            collector.change(|graph, actions| graph.confirm(&actual, actions));
            true
        }
        Ok(_) => false,
        Err(error) => {
            tracing::debug!(%error, %owner, "failed to look up owner in other namespaces; no event recorded");
            false
        }
    };
    tokio::time::sleep(SEARCH_PAUSE).await;
    is_elsewhere
}

/// Looks the owner up in all namespaces.
async fn find(
    collector: &GarbageCollector,
    owner: &ObjectIdentity,
) -> Result<Option<ObjectIdentity>, Error> {
    let mapper = collector.mapper();
    let Some(objects) = mapper.api_in_all_namespaces(&collector.client, &owner.kind) else {
        return Ok(None);
    };
    let params = ListParams::default().fields(&format!("metadata.name={}", owner.name));
    let named = objects.list(&params).await?;
    let uid = owner.uid.to_string();
    let mut named = named.items.iter();
    Ok(named
        .find(|found| found.uid() == uid)
        .map(|found| ObjectIdentity {
            namespace: Arc::from(found.namespace()),
            ..owner.clone()
        }))
}

async fn record_event(
    recorder: &EventRecorder,
    dependent: &ObjectIdentity,
    owner: &ObjectIdentity,
) {
    let namespace = &*dependent.namespace;
    let about = ObjectReference {
        kind: Some(dependent.kind.kind.to_string()),
        api_version: Some(dependent.kind.api_version.to_string()),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: Some(dependent.name.to_string()),
        uid: Some(dependent.uid.to_string()),
        ..ObjectReference::default()
    };
    let message = format!("ownerRef {owner} does not exist in namespace {namespace:?}");
    recorder.record(about, "Warning", REASON, message).await;
}

#[cfg(test)]
mod tests {
    use super::super::graph::ApiVersionKind;
    use super::*;

    #[test]
    fn the_number_of_remembered_reports_is_bounded() {
        let identity = |uid: usize| ObjectIdentity {
            kind: ApiVersionKind::new("v1", "Pod").into(),
            namespace: "n".into(),
            name: "a".into(),
            uid: ObjectUid::new(&uid.to_string()),
        };
        let owner = identity(0);
        let mut reported = RecentlyReported::default();
        (1..=WAITING_MAX + 1).for_each(|dependent| reported.add(&identity(dependent), &owner));
        assert!(!reported.has(&identity(1), &owner));
        assert!((2..=WAITING_MAX + 1).all(|dependent| reported.has(&identity(dependent), &owner)));
        assert!(!reported.has(&identity(2), &identity(1)));
    }
}
