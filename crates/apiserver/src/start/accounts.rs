//! What service-account tokens are checked against.

use rhumb_auth::token::{AccountSource, ObjectKind, ObjectState};
use rhumb_cache::Cache;
use rhumb_meta::{ObjectKey, Timestamp};
use serde::Deserialize;

use crate::resources::Registry;

/// Looks up, in the caches, the objects that tokens are bound to.
#[derive(Debug)]
pub(super) struct Accounts {
    service_accounts: Option<Cache>,
    pods: Option<Cache>,
    secrets: Option<Cache>,
    nodes: Option<Cache>,
}

#[derive(Deserialize)]
struct Bound {
    metadata: BoundMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BoundMetadata {
    uid: String,
    deletion_timestamp: Option<String>,
}

impl Accounts {
    pub(super) fn new(registry: &Registry) -> Accounts {
        let cache = |plural: &str| Some(registry.find("", plural)?.storage.as_ref()?.cache.clone());
        Accounts {
            service_accounts: cache("serviceaccounts"),
            pods: cache("pods"),
            secrets: cache("secrets"),
            nodes: cache("nodes"),
        }
    }
}

impl AccountSource for Accounts {
    fn look_up(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<ObjectState> {
        let cache = match kind {
            ObjectKind::ServiceAccount => &self.service_accounts,
            ObjectKind::Pod => &self.pods,
            ObjectKind::Secret => &self.secrets,
            ObjectKind::Node => &self.nodes,
        };
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let key = ObjectKey::new(namespace, name).ok()?;
        let entry = cache.as_ref()?.get(&key).ok()??;
        let bound: Bound = serde_json::from_slice(entry.json_slice()).ok()?;
        Some(ObjectState {
            uid: bound.metadata.uid,
            deletion: bound
                .metadata
                .deletion_timestamp
                .and_then(|time| time.parse::<Timestamp>().ok()),
        })
    }
}
