//! Looks up the objects that service account tokens are bound to (upstream: `ServiceAccountTokenGetter`).

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhumb_auth::token::{
    INVALID_SINCE_LABEL, LAST_USED_LABEL, LegacyTokenSecret, ServiceAccountTokenGetter,
    TokenObjectKind, TokenObjectState,
};
use rhumb_cache::{CacheEntry, ResourceCache};
use rhumb_meta::{ObjectKey, Timestamp};
use serde::Deserialize;

use super::legacy_token_tracking::TokenUseSender;
use rhumb_registry::ResourceTable;

/// Looks up service accounts, pods, secrets and nodes in the caches, and reports uses of legacy tokens.
#[derive(Debug)]
pub(super) struct TokenObjectLookup {
    service_accounts: Option<ResourceCache>,
    pods: Option<ResourceCache>,
    secrets: Option<ResourceCache>,
    nodes: Option<ResourceCache>,
    last_used: TokenUseSender,
}

/// An object that a token is bound to.
#[derive(Deserialize)]
struct TokenBoundObject {
    metadata: TokenBoundMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenBoundMetadata {
    uid: String,
    deletion_timestamp: Option<String>,
}

/// A Secret of type `kubernetes.io/service-account-token`.
#[derive(Deserialize)]
struct TokenSecretObject {
    metadata: TokenSecretMetadata,
    #[serde(default)]
    data: TokenSecretData,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenSecretMetadata {
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: HashMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TokenSecretData {
    token: String,
}

impl TokenObjectLookup {
    pub(super) fn new(registry: &ResourceTable, last_used: TokenUseSender) -> TokenObjectLookup {
        let cache = |plural: &str| Some(registry.find("", plural)?.storage.as_ref()?.cache.clone());
        TokenObjectLookup {
            service_accounts: cache("serviceaccounts"),
            pods: cache("pods"),
            secrets: cache("secrets"),
            nodes: cache("nodes"),
            last_used,
        }
    }
}

fn entry(cache: Option<&ResourceCache>, namespace: &str, name: &str) -> Option<Arc<CacheEntry>> {
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let key = ObjectKey::new(namespace, name).ok()?;
    cache?.get(&key).ok()?
}

impl ServiceAccountTokenGetter for TokenObjectLookup {
    fn look_up(
        &self,
        kind: TokenObjectKind,
        namespace: &str,
        name: &str,
    ) -> Option<TokenObjectState> {
        let cache = match kind {
            TokenObjectKind::ServiceAccount => &self.service_accounts,
            TokenObjectKind::Pod => &self.pods,
            TokenObjectKind::Secret => &self.secrets,
            TokenObjectKind::Node => &self.nodes,
        };
        let entry = entry(cache.as_ref(), namespace, name)?;
        let bound: TokenBoundObject = serde_json::from_slice(entry.json_slice()).ok()?;
        Some(TokenObjectState {
            uid: bound.metadata.uid,
            deletion: bound
                .metadata
                .deletion_timestamp
                .and_then(|time| time.parse::<Timestamp>().ok()),
        })
    }

    fn token_secret(&self, namespace: &str, name: &str) -> Option<LegacyTokenSecret> {
        let entry = entry(self.secrets.as_ref(), namespace, name)?;
        let TokenSecretObject { metadata, data } =
            serde_json::from_slice(entry.json_slice()).ok()?;
        let label = |key: &str| metadata.labels.get(key).cloned().unwrap_or_default();
        Some(LegacyTokenSecret {
            token: STANDARD.decode(data.token).ok()?,
            is_deleting: metadata.deletion_timestamp.is_some(),
            is_marked_invalid: !label(INVALID_SINCE_LABEL).is_empty(),
            last_used: label(LAST_USED_LABEL),
        })
    }

    fn note_use(&self, namespace: &str, secret: &str, day: &str) {
        self.last_used.send(namespace, secret, day);
    }
}
