//! What service-account tokens are checked against.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhumb_auth::token::{
    AccountSource, INVALID_SINCE_LABEL, LAST_USED_LABEL, ObjectKind, ObjectState, TokenSecret,
};
use rhumb_cache::{Cache, Entry};
use rhumb_meta::{ObjectKey, Timestamp};
use serde::Deserialize;

use super::token_use::Uses;
use crate::resources::Registry;

/// Looks up, in the caches, the objects that tokens are bound to.
#[derive(Debug)]
pub(super) struct Accounts {
    service_accounts: Option<Cache>,
    pods: Option<Cache>,
    secrets: Option<Cache>,
    nodes: Option<Cache>,
    uses: Uses,
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

/// A secret with a token.
#[derive(Deserialize)]
struct Holder {
    metadata: HolderMetadata,
    #[serde(default)]
    data: HolderData,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HolderMetadata {
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: HashMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HolderData {
    token: String,
}

impl Accounts {
    pub(super) fn new(registry: &Registry, uses: Uses) -> Accounts {
        let cache = |plural: &str| Some(registry.find("", plural)?.storage.as_ref()?.cache.clone());
        Accounts {
            service_accounts: cache("serviceaccounts"),
            pods: cache("pods"),
            secrets: cache("secrets"),
            nodes: cache("nodes"),
            uses,
        }
    }
}

fn entry(cache: Option<&Cache>, namespace: &str, name: &str) -> Option<Arc<Entry>> {
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let key = ObjectKey::new(namespace, name).ok()?;
    cache?.get(&key).ok()?
}

impl AccountSource for Accounts {
    fn look_up(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<ObjectState> {
        let cache = match kind {
            ObjectKind::ServiceAccount => &self.service_accounts,
            ObjectKind::Pod => &self.pods,
            ObjectKind::Secret => &self.secrets,
            ObjectKind::Node => &self.nodes,
        };
        let entry = entry(cache.as_ref(), namespace, name)?;
        let bound: Bound = serde_json::from_slice(entry.json_slice()).ok()?;
        Some(ObjectState {
            uid: bound.metadata.uid,
            deletion: bound
                .metadata
                .deletion_timestamp
                .and_then(|time| time.parse::<Timestamp>().ok()),
        })
    }

    fn token_secret(&self, namespace: &str, name: &str) -> Option<TokenSecret> {
        let entry = entry(self.secrets.as_ref(), namespace, name)?;
        let Holder { metadata, data } = serde_json::from_slice(entry.json_slice()).ok()?;
        let label = |key: &str| metadata.labels.get(key).cloned().unwrap_or_default();
        Some(TokenSecret {
            token: STANDARD.decode(data.token).ok()?,
            is_deleting: metadata.deletion_timestamp.is_some(),
            is_marked_invalid: !label(INVALID_SINCE_LABEL).is_empty(),
            last_used: label(LAST_USED_LABEL),
        })
    }

    fn note_use(&self, namespace: &str, secret: &str, day: &str) {
        self.uses.note(namespace, secret, day);
    }
}
