//! Events that tell whose references lead into another namespace. They help whoever wonders why an object was
//! deleted; when there are too many, some are not told.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::ListParams;
use tokio::sync::mpsc;

use super::Collector;
use super::graph::Identity;
use crate::Error;
use crate::events::Recorder;

const COMPONENT: &str = "garbage-collector-controller";
const REASON: &str = "OwnerRefInvalidNamespace";

/// Reports that wait.
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
    while let Some(report) = reports.recv().await {
        match report {
            Report::Elsewhere(dependent, owner) => post(&recorder, &dependent, &owner).await,
            Report::Missing(dependent, owner) => {
                match is_elsewhere(collector, &dependent, &owner).await {
                    Ok(true) => post(&recorder, &dependent, &owner).await,
                    Ok(false) => {}
                    Err(error) => tracing::debug!(%error, %owner, "not looked for elsewhere"),
                }
                tokio::time::sleep(SEARCH_PAUSE).await;
            }
        }
    }
}

/// Whether the owner that a dependent names is in another namespace.
async fn is_elsewhere(
    collector: &Collector,
    dependent: &Identity,
    owner: &Identity,
) -> Result<bool, Error> {
    let served = collector.served();
    let Some(objects) = served.everywhere(&collector.client, &owner.kind) else {
        return Ok(false);
    };
    let params = ListParams::default().fields(&format!("metadata.name={}", owner.name));
    let named = objects.list(&params).await?;
    let uid = owner.uid.to_string();
    Ok(named
        .items
        .iter()
        .any(|found| found.uid() == uid && *found.namespace() != *dependent.namespace))
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
