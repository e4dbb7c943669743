//! Keeps the RBAC policy index in sync with the cached Roles, ClusterRoles and their bindings.
//! Entry point: [`start`]; the index is what the authorizer reads.

use std::collections::HashSet;
use std::sync::Arc;

use rhumb_auth::RbacPolicyIndex;
use rhumb_auth::rbac::RbacKind;
use rhumb_cache::{
    CacheEntry, CacheSnapshot, CacheWatcher, EventKind, HistoryError, ResourceCache, WatchEnd,
    WatchMessage, WatchRequest, WatchStart,
};
use rhumb_meta::ObjectKey;
use serde_json::{Map, Value};

use rhumb_registry::ResourceTable;

const GROUP: &str = "rbac.authorization.k8s.io";
const RESOURCES: [&str; 4] = [
    "roles",
    "rolebindings",
    "clusterroles",
    "clusterrolebindings",
];

/// Loads the policy index and spawns one task per kind that keeps it up to date.
pub(super) fn start(registry: &ResourceTable) -> Arc<RbacPolicyIndex> {
    let index = Arc::new(RbacPolicyIndex::new());
    for resource in RESOURCES {
        let cache = registry
            .find(GROUP, resource)
            .and_then(|resource| resource.storage.as_ref())
            .map(|storage| storage.cache.clone());
        if let (Some(cache), Some(kind)) = (cache, RbacKind::from_resource(resource)) {
            let mut reflector = RbacReflector {
                index: index.clone(),
                kind,
                cache,
                indexed_keys: HashSet::new(),
            };
            let watcher = reflector.load();
            tokio::spawn(reflector.run(watcher));
        }
    }
    index
}

/// Replicates one RBAC kind from its cache into the policy index.
struct RbacReflector {
    index: Arc<RbacPolicyIndex>,
    kind: RbacKind,
    cache: ResourceCache,
    /// Keys of this kind in the index. After a gap in the watch, deleted objects must stop granting permissions.
    indexed_keys: HashSet<ObjectKey>,
}

impl RbacReflector {
    /// Loads all cached objects and opens a watch on later changes; `None` during shutdown.
    fn load(&mut self) -> Option<CacheWatcher> {
        let cache = self.cache.clone();
        self.load_from(|| cache.snapshot())
    }

    fn load_from(&mut self, mut snapshot: impl FnMut() -> CacheSnapshot) -> Option<CacheWatcher> {
        loop {
            let snapshot = snapshot();
            self.replace(&snapshot);
            let request = WatchRequest::everything(WatchStart::After(snapshot.revision()));
            match self.cache.watch(request) {
                Ok(watcher) => return Some(watcher),
                Err(HistoryError::Closed) => return None,
                // The cache dropped its history after the snapshot: load again.
                Err(error) => {
                    tracing::warn!(%error, "failed to watch RBAC objects; reloading them from the cache");
                }
            }
        }
    }

    fn replace(&mut self, snapshot: &CacheSnapshot) {
        let mut removed_keys = std::mem::take(&mut self.indexed_keys);
        for entry in snapshot.range(None, None) {
            removed_keys.remove(entry.key());
        }
        for key in removed_keys {
            self.apply(&key, None);
        }
        let objects: Vec<(ObjectKey, Option<Map<String, Value>>)> = snapshot
            .range(None, None)
            .map(|entry| (entry.key().clone(), parse(entry)))
            .collect();
        log_apply_error(self.index.apply_all(objects.iter().map(|(key, object)| {
            let namespace = key.namespace().unwrap_or_default();
            (self.kind, namespace, key.name(), object.as_ref())
        })));
        self.indexed_keys
            .extend(objects.into_iter().map(|(key, _)| key));
    }

    async fn run(mut self, mut watcher: Option<CacheWatcher>) {
        while let Some(current) = &mut watcher {
            match current.next().await {
                Ok(WatchMessage::Event(event)) if event.kind() == EventKind::Deleted => {
                    self.indexed_keys.remove(event.entry().key());
                    self.apply(event.entry().key(), None);
                }
                Ok(WatchMessage::Event(event)) => {
                    let entry = event.entry();
                    self.indexed_keys.insert(entry.key().clone());
                    self.apply(entry.key(), parse(entry).as_ref());
                }
                Ok(WatchMessage::InitialEventsEnd(_)) => {}
                Err(WatchEnd::Expired) => watcher = self.load(),
                Err(WatchEnd::Closing | WatchEnd::Removed) => return,
            }
        }
    }

    fn apply(&self, key: &ObjectKey, object: Option<&Map<String, Value>>) {
        let namespace = key.namespace().unwrap_or_default();
        log_apply_error(self.index.apply(self.kind, namespace, key.name(), object));
    }
}

fn parse(entry: &CacheEntry) -> Option<Map<String, Value>> {
    serde_json::from_slice(entry.json_slice()).ok()
}

fn log_apply_error(outcome: Result<(), rhumb_auth::rbac::InvalidRbacObjectError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "failed to apply an RBAC object; it grants nothing");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rhumb_api::FeatureGates;
    use rhumb_cache::{CacheManager, CacheOptions};
    use rhumb_meta::StoragePrefix;
    use rhumb_schema::Table;
    use rhumb_store::{ExpectedRevision, Store, Transaction};
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::testing::TestServer;
    use rhumb_registry::cache_configs;

    const PATH: &str = "clusterroles";

    /// Caches the cluster roles of a store, without any history.
    async fn cache_manager_without_history(store: Arc<dyn Store>) -> CacheManager {
        let (kinds, gates) = (rhumb_api::kinds::all(), FeatureGates::default());
        let mut configs = cache_configs(&kinds, Table::builtin(), &gates, |_, _| Vec::new())
            .expect("kinds can be cached");
        let path = StoragePrefix::new(PATH).expect("valid prefix");
        configs.retain(|config| config.prefix == path);
        let options = CacheOptions {
            history_changes_max: 0,
            ..CacheOptions::default()
        };
        CacheManager::start(store, "/registry", configs, options)
            .await
            .expect("start cache manager")
    }

    #[tokio::test]
    async fn roles_are_relisted_when_the_watch_expires_during_the_list() {
        let directory = tempfile::tempdir().expect("create temporary directory");
        let store: Arc<dyn Store> = Arc::new(TestServer::open_store(directory.path()).await);
        let cache_manager = cache_manager_without_history(store.clone()).await;
        let commit = async |transaction: Transaction| {
            let revision = store.commit(transaction).await.expect("commit succeeds");
            let deadline = Instant::now() + Duration::from_secs(30);
            cache_manager
                .wait_for_revision(revision, deadline)
                .await
                .expect("cache reaches the revision");
        };
        let put_role = |name: &str| {
            let role = json!({"metadata": {"name": name}, "rules": []}).to_string();
            Transaction::new().put(
                format!("/registry/{PATH}/{name}"),
                role,
                ExpectedRevision::Any,
            )
        };
        let cache = cache_manager
            .cache(&StoragePrefix::new(PATH).expect("valid prefix"))
            .expect("cache exists");
        commit(put_role("a")).await;
        let mut old = Some(cache.snapshot());
        commit(Transaction::new().delete(format!("/registry/{PATH}/a"), ExpectedRevision::Any))
            .await;
        commit(put_role("b")).await;
        let mut reflector = RbacReflector {
            index: Arc::new(RbacPolicyIndex::new()),
            kind: RbacKind::ClusterRole,
            cache: cache.clone(),
            indexed_keys: HashSet::new(),
        };
        let watcher = reflector.load_from(|| old.take().unwrap_or_else(|| cache.snapshot()));
        let names: Vec<&str> = reflector.indexed_keys.iter().map(ObjectKey::name).collect();
        assert_eq!(names, ["b"]);
        commit(put_role("c")).await;
        let next = watcher.expect("open watch").next().await;
        match next {
            Ok(WatchMessage::Event(event)) => assert_eq!(event.entry().key().name(), "c"),
            other => panic!("{other:?}"),
        }
        cache_manager.close().await;
        assert!(
            reflector.load().is_none(),
            "nothing is loaded during shutdown"
        );
    }
}
