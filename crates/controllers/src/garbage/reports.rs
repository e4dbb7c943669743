//! Events that tell whose references lead into another namespace. They help whoever wonders why an object was
//! deleted; when there are too many, some are not told.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;

use super::Collector;
use super::graph::Identity;
use crate::Error;

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
    while let Some(report) = reports.recv().await {
        let told = match report {
            Report::Elsewhere(dependent, owner) => {
                post(&collector.client, &dependent, &owner).await
            }
            Report::Missing(dependent, owner) => {
                let told = tell_if_elsewhere(collector, &dependent, &owner).await;
                tokio::time::sleep(SEARCH_PAUSE).await;
                told
            }
        };
        if let Err(error) = told {
            tracing::debug!(%error, "an event about an owner in another namespace is not told");
        }
    }
}

async fn tell_if_elsewhere(
    collector: &Collector,
    dependent: &Identity,
    owner: &Identity,
) -> Result<(), Error> {
    let served = collector.served();
    let Some(objects) = served.everywhere(&collector.client, &owner.kind) else {
        return Ok(());
    };
    let params = ListParams::default().fields(&format!("metadata.name={}", owner.name));
    let named = objects.list(&params).await?;
    let uid = owner.uid.to_string();
    let is_elsewhere = |found: &super::objects::Meta| {
        found.uid() == uid && *found.namespace() != *dependent.namespace
    };
    if named.items.iter().any(is_elsewhere) {
        post(&collector.client, dependent, owner).await?;
    }
    Ok(())
}

async fn post(client: &Client, dependent: &Identity, owner: &Identity) -> Result<(), Error> {
    let namespace = match &*dependent.namespace {
        "" => "default",
        namespace => namespace,
    };
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let event = event(namespace, dependent, owner)?;
    match events.create(&PostParams::default(), &event).await {
        // It was told before.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        told => Ok(told.map(drop)?),
    }
}

fn event(namespace: &str, dependent: &Identity, owner: &Identity) -> Result<Event, Error> {
    let mut hasher = DefaultHasher::new();
    (&dependent.uid, owner).hash(&mut hasher);
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    serde_json::from_value(json!({
        "metadata": {
            "namespace": namespace,
            "name": format!("{}.{:016x}", dependent.name, hasher.finish()),
        },
        "involvedObject": {
            "kind": *dependent.kind.kind,
            "apiVersion": *dependent.kind.api_version,
            "namespace": *dependent.namespace,
            "name": *dependent.name,
            "uid": dependent.uid.to_string(),
        },
        "type": "Warning",
        "reason": "OwnerRefInvalidNamespace",
        "message": format!("ownerRef {owner} does not exist in namespace {:?}", &*dependent.namespace),
        "source": {"component": "garbage-collector-controller"},
        "reportingComponent": "garbage-collector-controller",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }))
    .map_err(|error| Error::Other(error.to_string()))
}
