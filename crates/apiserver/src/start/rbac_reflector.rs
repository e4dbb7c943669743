//! Keeps the RBAC policy index in sync with the cached Roles, ClusterRoles and their bindings.
//! Entry point: [`start`]; the index is what the authorizer reads.

use std::collections::HashSet;
use std::sync::Arc;

use rhumb_auth::RbacPolicyIndex;
use rhumb_auth::rbac::RbacKind;
use rhumb_cache::{
    CacheEntry, EventKind, ResourceCache, RestartingWatchMessage, RestartingWatcher, WatchRequest,
    WatchStart,
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
pub(super) async fn start(registry: &ResourceTable) -> Arc<RbacPolicyIndex> {
    let index = Arc::new(RbacPolicyIndex::new());
    for resource in RESOURCES {
        let cache = registry
            .find(GROUP, resource)
            .and_then(|resource| resource.storage.as_ref())
            .map(|storage| storage.cache.clone());
        if let (Some(cache), Some(kind)) = (cache, RbacKind::from_resource(resource)) {
            let mut reflector = RbacKindReflector::new(index.clone(), kind, &cache);
            if reflector.load().await.is_some() {
                tokio::spawn(reflector.run());
            }
        }
    }
    index
}

/// Replicates one RBAC kind from its cache into the policy index.
struct RbacKindReflector {
    index: Arc<RbacPolicyIndex>,
    kind: RbacKind,
    watcher: RestartingWatcher,
    /// Keys of this kind in the index. After a gap in the watch, deleted objects must stop granting permissions.
    indexed_keys: HashSet<ObjectKey>,
}

/// An object, if it can be parsed.
type RbacObject = Option<Map<String, Value>>;

impl RbacKindReflector {
    fn new(
        index: Arc<RbacPolicyIndex>,
        kind: RbacKind,
        cache: &ResourceCache,
    ) -> RbacKindReflector {
        let request = WatchRequest::everything(WatchStart::InitialList);
        RbacKindReflector {
            index,
            kind,
            watcher: cache.watch_with_restarts(request),
            indexed_keys: HashSet::new(),
        }
    }

    /// Reads the initial list of the watch; `None` during shutdown.
    async fn load(&mut self) -> Option<()> {
        let mut listed = Vec::new();
        loop {
            match self.watcher.next().await? {
                RestartingWatchMessage::Event(event) => {
                    let entry = event.entry();
                    listed.push((entry.key().clone(), parse(entry)));
                }
                RestartingWatchMessage::Restarted => listed.clear(),
                RestartingWatchMessage::InitialEventsEnd(_) => break,
            }
        }
        self.replace(listed);
        Some(())
    }

    fn replace(&mut self, objects: Vec<(ObjectKey, RbacObject)>) {
        let mut removed_keys = std::mem::take(&mut self.indexed_keys);
        for (key, _) in &objects {
            removed_keys.remove(key);
        }
        for key in removed_keys {
            self.apply(&key, None);
        }
        log_apply_error(self.index.apply_all(objects.iter().map(|(key, object)| {
            let namespace = key.namespace().unwrap_or_default();
            (self.kind, namespace, key.name(), object.as_ref())
        })));
        self.indexed_keys
            .extend(objects.into_iter().map(|(key, _)| key));
    }

    async fn run(mut self) {
        while let Some(message) = self.watcher.next().await {
            match message {
                RestartingWatchMessage::Event(event) if event.kind() == EventKind::Deleted => {
                    self.indexed_keys.remove(event.entry().key());
                    self.apply(event.entry().key(), None);
                }
                RestartingWatchMessage::Event(event) => {
                    let entry = event.entry();
                    self.indexed_keys.insert(entry.key().clone());
                    self.apply(entry.key(), parse(entry).as_ref());
                }
                RestartingWatchMessage::InitialEventsEnd(_) => {}
                RestartingWatchMessage::Restarted => {
                    tracing::debug!(
                        kind = self.kind.resource(),
                        "watch of RBAC objects expired; reloading them from the cache"
                    );
                    if self.load().await.is_none() {
                        return;
                    }
                }
            }
        }
    }

    fn apply(&self, key: &ObjectKey, object: Option<&Map<String, Value>>) {
        let namespace = key.namespace().unwrap_or_default();
        log_apply_error(self.index.apply(self.kind, namespace, key.name(), object));
    }
}

fn parse(entry: &CacheEntry) -> RbacObject {
    serde_json::from_slice(entry.json_slice()).ok()
}

fn log_apply_error(outcome: Result<(), rhumb_auth::rbac::InvalidRbacObjectError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "failed to apply an RBAC object; it grants nothing");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
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

    /// Otherwise a role that was deleted while changes were lost would grant permissions for ever.
    #[tokio::test]
    async fn roles_deleted_during_a_gap_in_the_watch_are_removed() {
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
        commit(put_role("b")).await;
        let index = Arc::new(RbacPolicyIndex::new());
        let mut reflector = RbacKindReflector::new(index, RbacKind::ClusterRole, &cache);
        let names = |reflector: &RbacKindReflector| {
            let names = reflector.indexed_keys.iter().map(ObjectKey::name);
            names.map(str::to_owned).collect::<BTreeSet<String>>()
        };
        reflector.load().await.expect("the cache is open");
        assert_eq!(
            names(&reflector),
            BTreeSet::from(["a", "b"].map(str::to_owned))
        );
        commit(Transaction::new().delete(format!("/registry/{PATH}/a"), ExpectedRevision::Any))
            .await;
        commit(put_role("c")).await;
        // The watch starts over with a list, as after an overflow of its queue.
        let request = WatchRequest::everything(WatchStart::InitialList);
        reflector.watcher = cache.watch_with_restarts(request);
        reflector.load().await.expect("the cache is open");
        assert_eq!(
            names(&reflector),
            BTreeSet::from(["b", "c"].map(str::to_owned))
        );
        cache_manager.close().await;
        assert!(
            reflector.load().await.is_none(),
            "nothing is loaded during shutdown"
        );
    }
}
