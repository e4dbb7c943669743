//! Events that tell whose references lead into another namespace. They help whoever wonders why an object was
//! deleted; when there are too many, some are not told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::ListParams;
use tokio::sync::mpsc;

use super::Collector;
use super::graph::{Identity, Uid};
use crate::Error;
use rhumb_client::events::Recorder;

const COMPONENT: &str = "garbage-collector-controller";
const REASON: &str = "OwnerRefInvalidNamespace";

/// Reports that wait, and those that are remembered so that none is told twice.
pub(super) const WAITING_MAX: usize = 100;
/// Between two searches: each reads a whole kind.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) enum Report {
    /// The owner that the first names is in another namespace; the second is what it named.
    Elsewhere(Identity, Identity),
    /// There is no such owner in the namespace; perhaps it is in another.
    Missing(Identity, Identity),
}

/// Tells reports one by one, until it is dropped.
pub(super) async fn tell(collector: &Collector, mut reports: mpsc::Receiver<Report>) {
    let recorder = Recorder::new(collector.client.clone(), COMPONENT);
    let mut told = Told::default();
    while let Some(report) = reports.recv().await {
        let (Report::Elsewhere(dependent, owner) | Report::Missing(dependent, owner)) = &report;
        if told.has(dependent, owner) {
            continue;
        }
        let is_elsewhere = match &report {
            Report::Elsewhere(..) => true,
            Report::Missing(..) => look_elsewhere(collector, dependent, owner).await,
        };
        if is_elsewhere {
            post(&recorder, dependent, owner).await;
            told.add(dependent, owner);
        }
    }
}

/// The last dependents that were told of, with the owners that they name.
#[derive(Default)]
struct Told(VecDeque<(Uid, Uid)>);

impl Told {
    fn has(&self, dependent: &Identity, owner: &Identity) -> bool {
        let mut told = self.0.iter();
        told.any(|(own, of)| *own == dependent.uid && *of == owner.uid)
    }

    fn add(&mut self, dependent: &Identity, owner: &Identity) {
        if self.0.len() == WAITING_MAX {
            self.0.pop_front();
        }
        self.0.push_back((dependent.uid.clone(), owner.uid.clone()));
    }
}

/// Whether the owner that a dependent names is in another namespace. If so, the graph is told: it reports all others
/// that name it.
async fn look_elsewhere(collector: &Collector, dependent: &Identity, owner: &Identity) -> bool {
    let is_elsewhere = match find(collector, owner).await {
        Ok(Some(actual)) if actual.namespace != dependent.namespace => {
            collector.change(|graph, work| graph.confirm(&actual, work));
            true
        }
        Ok(_) => false,
        Err(error) => {
            tracing::debug!(%error, %owner, "not looked for elsewhere");
            false
        }
    };
    tokio::time::sleep(SEARCH_PAUSE).await;
    is_elsewhere
}

/// Where the owner is, of all namespaces.
async fn find(collector: &Collector, owner: &Identity) -> Result<Option<Identity>, Error> {
    let served = collector.served();
    let Some(objects) = served.everywhere(&collector.client, &owner.kind) else {
        return Ok(None);
    };
    let params = ListParams::default().fields(&format!("metadata.name={}", owner.name));
    let named = objects.list(&params).await?;
    let uid = owner.uid.to_string();
    let mut named = named.items.iter();
    Ok(named
        .find(|found| found.uid() == uid)
        .map(|found| Identity {
            namespace: Arc::from(found.namespace()),
            ..owner.clone()
        }))
}

async fn post(recorder: &Recorder, dependent: &Identity, owner: &Identity) {
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
    recorder.tell(about, "Warning", REASON, message).await;
}

#[cfg(test)]
mod tests {
    use super::super::graph::KindName;
    use super::*;

    #[test]
    fn the_last_reports_are_remembered_and_no_more() {
        let identity = |uid: usize| Identity {
            kind: KindName::new("v1", "Pod").into(),
            namespace: "n".into(),
            name: "a".into(),
            uid: Uid::new(&uid.to_string()),
        };
        let owner = identity(0);
        let mut told = Told::default();
        (1..=WAITING_MAX + 1).for_each(|dependent| told.add(&identity(dependent), &owner));
        assert!(!told.has(&identity(1), &owner));
        assert!((2..=WAITING_MAX + 1).all(|dependent| told.has(&identity(dependent), &owner)));
        assert!(!told.has(&identity(2), &identity(1)));
    }
}
