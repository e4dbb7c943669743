//! Adds kinds to the resources that a running server serves, and removes them again.
//!
//! Entry points: [`Registry::add_resources`] and [`Registry::remove_resource`].

use std::collections::BTreeMap;
use std::sync::Arc;

use rhumb_api::Kind;
use rhumb_cache::{CacheManager, IndexedAttribute};
use rhumb_meta::StoragePrefix;
use rhumb_schema::{ObjectDefaulter, Table};
use serde_json::Value;

use crate::{KindRegistrationError, Registry, ResourceTable, cache_configs};

/// OpenAPI schemas that are published unchanged, by the name of the type in the schema table.
pub type OpenApiSchemas = BTreeMap<String, Arc<Value>>;

/// Kinds, and the types of their objects.
#[derive(Debug)]
pub struct KindSet {
    pub kinds: Vec<Kind>,
    /// The types of all versions. It is dropped when the last of the kinds is removed.
    pub table: Arc<Table>,
    pub defaults: Arc<ObjectDefaulter>,
    pub openapi_schemas: Arc<OpenApiSchemas>,
}

impl Registry {
    /// Serves further kinds, once their objects are cached. The resources and their storage paths must not be in use.
    /// Calls for different kinds may run at the same time.
    ///
    /// Requests that have begun continue with the table of resources that they have. If the future is dropped, no kind
    /// is added, and the kinds can be added again at once.
    pub async fn add_resources(&self, set: KindSet) -> Result<(), KindRegistrationError> {
        self.check_can_be_added(&set.kinds)?;
        let configs = cache_configs(&set.kinds, &set.table, &self.gates, |kind, _| {
            indexed_fields(kind)
        })?;
        let mut unpublished = UnpublishedCaches {
            cache_manager: &self.cache_manager,
            prefixes: Vec::with_capacity(configs.len()),
        };
        for config in configs {
            let prefix = config.prefix.clone();
            if let Err(error) = self.cache_manager.add(config).await {
                return Err(KindRegistrationError {
                    kind: prefix.as_str().to_owned(),
                    reason: error.to_string(),
                });
            }
            unpublished.prefixes.push(prefix);
        }
        self.publish(set)?;
        unpublished.prefixes.clear();
        Ok(())
    }

    /// Checks that the kinds are not served. The lock ensures that a removal that has already unpublished one of them
    /// has also queued the removal of its cache, which then precedes the addition.
    fn check_can_be_added(&self, kinds: &[Kind]) -> Result<(), KindRegistrationError> {
        let _update = self.resource_updates.lock();
        check_not_served(&self.resources(), kinds)
    }

    /// Publishes a table with kinds whose objects are cached.
    fn publish(&self, set: KindSet) -> Result<(), KindRegistrationError> {
        let _update = self.resource_updates.lock();
        let current = self.resources();
        check_not_served(&current, &set.kinds)?;
        let added = ResourceTable::new(set, &self.gates, |prefix| self.cache_manager.cache(prefix));
        self.resources.store(Arc::new(current.with(&added?)));
        Ok(())
    }

    /// Stops serving a resource that was added, ends its watches and drops its cache. Its objects remain in the store.
    /// Returns whether there was such a resource; those of built-in kinds are never removed.
    pub async fn remove_resource(&self, group: &str, plural: &str) -> bool {
        match self.withdraw(group, plural) {
            Some(removal) => {
                removal.await;
                true
            }
            None => false,
        }
    }

    /// Publishes a table without a resource, and queues the removal of its cache unless another resource uses it. The
    /// future waits until the cache is removed. `None` if there is no such resource.
    fn withdraw(&self, group: &str, plural: &str) -> Option<impl Future<Output = ()> + use<>> {
        let _update = self.resource_updates.lock();
        let current = self.resources();
        let resource = current
            .find(group, plural)
            .filter(|resource| !Arc::ptr_eq(&resource.defaults, &self.defaults))?;
        let remaining = current.without(resource);
        let prefix = resource.storage.as_ref().map(|storage| &storage.prefix);
        let is_unused = |prefix: &&StoragePrefix| {
            let mut storages = remaining.iter().filter_map(|other| other.storage.as_ref());
            storages.all(|storage| storage.prefix != **prefix)
        };
        let unused = prefix.filter(is_unused);
        // New requests must not find the resource when its cache goes.
        self.resources.store(Arc::new(remaining));
        let removal = unused.map(|prefix| self.cache_manager.remove(prefix));
        Some(async move {
            if let Some(removal) = removal {
                // Fails only if the server is shutting down, which ends all caches.
                let _ = removal.await;
            }
        })
    }
}

/// Caches that were added for kinds that are not published yet. Dropping it removes them.
#[derive(Debug)]
struct UnpublishedCaches<'a> {
    cache_manager: &'a CacheManager,
    prefixes: Vec<StoragePrefix>,
}

impl Drop for UnpublishedCaches<'_> {
    fn drop(&mut self) {
        for prefix in &self.prefixes {
            // The removal is queued, and precedes a later addition.
            drop(self.cache_manager.remove(prefix));
        }
    }
}

fn check_not_served(
    resources: &ResourceTable,
    kinds: &[Kind],
) -> Result<(), KindRegistrationError> {
    let mut kinds = kinds.iter();
    match kinds.find(|kind| resources.find(&kind.group, &kind.plural).is_some()) {
        None => Ok(()),
        Some(kind) => Err(KindRegistrationError {
            kind: kind.name.to_string(),
            reason: format!("{} is served already", kind.group_resource()),
        }),
    }
}

/// The list indexes that a kind declares.
fn indexed_fields(kind: &Kind) -> Vec<IndexedAttribute> {
    let positions = kind.indexed.iter().filter_map(|name| {
        let mut selectable = kind.selectable.iter();
        selectable.position(|field| field.name == *name)
    });
    positions.map(IndexedAttribute::Field).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::pin::pin;
    use std::sync::atomic::AtomicBool;
    use std::task::Poll;

    use arc_swap::ArcSwap;
    use rhumb_api::{FeatureGates, ResourceScope};
    use rhumb_auth::{Attributes, Authorizer, Decision};
    use rhumb_cache::CacheOptions;
    use rhumb_meta::SystemClock;
    use rhumb_meta::key::DEFAULT_ROOT;
    use rhumb_store::Store;
    use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore};

    use super::*;
    use crate::admission::AdmissionChain;
    use crate::{AllocatorSet, ReadHooks};

    const GROUP: &str = "example.com";

    struct DenyingAuthorizer;

    impl Authorizer for DenyingAuthorizer {
        fn authorize(&self, _: &Attributes<'_>) -> Decision {
            Decision::Deny(String::new())
        }
    }

    /// A registry that serves nothing.
    async fn start_registry(directory: &Path) -> Registry {
        let store = EmbeddedStore::open(&directory.join("store"), EmbeddedOptions::default())
            .await
            .expect("open the store");
        let store: Arc<dyn Store> = Arc::new(store);
        let cache_manager = CacheManager::start(
            Arc::clone(&store),
            DEFAULT_ROOT,
            Vec::new(),
            CacheOptions::default(),
        );
        Registry {
            store,
            cache_manager: cache_manager.await.expect("start the caches"),
            resources: ArcSwap::from_pointee(ResourceTable::default()),
            resource_updates: parking_lot::Mutex::default(),
            table: Arc::clone(Table::builtin()),
            defaults: no_defaults(),
            gates: FeatureGates::default(),
            clock: Arc::new(SystemClock::new()),
            admission: AdmissionChain::default(),
            allocators: AllocatorSet::default(),
            read_hooks: ReadHooks::default(),
            authorizer: Arc::new(DenyingAuthorizer),
            shutting_down: AtomicBool::new(false),
        }
    }

    fn no_defaults() -> Arc<ObjectDefaulter> {
        Arc::new(ObjectDefaulter::new(Table::builtin(), []).expect("no functions"))
    }

    /// A set of kinds with these names and plural names.
    fn kind_set(names: &[(&'static str, &'static str)]) -> KindSet {
        let kind = |(name, plural): &(&'static str, &'static str)| {
            let schema = "io.k8s.api.core.v1.ConfigMap";
            Kind::new(
                ResourceScope::Namespaced,
                GROUP,
                "v1",
                *name,
                *plural,
                schema,
            )
            .storage(format!("{GROUP}/{plural}"))
        };
        KindSet {
            kinds: names.iter().map(kind).collect(),
            table: Arc::clone(Table::builtin()),
            defaults: no_defaults(),
            openapi_schemas: Arc::default(),
        }
    }

    /// Polls a future until the condition holds after a poll, then drops it.
    async fn drop_when(condition: impl Fn() -> bool, future: impl Future) {
        let mut future = pin!(future);
        std::future::poll_fn(|context| {
            let polled = future.as_mut().poll(context);
            assert!(polled.is_pending(), "it completed before it was dropped");
            if condition() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    #[tokio::test]
    async fn kinds_can_be_added_after_the_future_of_an_addition_was_dropped() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let registry = start_registry(directory.path()).await;
        let names = [("Gadget", "gadgets"), ("Widget", "widgets")];
        let gadgets = StoragePrefix::new("example.com/gadgets").expect("a prefix");
        let adding = registry.add_resources(kind_set(&names));
        // The first of two caches was added.
        drop_when(|| registry.cache_manager.cache(&gadgets).is_some(), adding).await;
        assert!(registry.find(GROUP, "gadgets").is_none());
        registry
            .add_resources(kind_set(&names))
            .await
            .expect("added");
        assert!(registry.find(GROUP, "gadgets").is_some());
        assert!(registry.find(GROUP, "widgets").is_some());
    }

    #[tokio::test]
    async fn a_kind_can_be_added_again_before_its_cache_is_removed() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let registry = start_registry(directory.path()).await;
        let names = [("Widget", "widgets")];
        registry
            .add_resources(kind_set(&names))
            .await
            .expect("added");
        let removal = registry.withdraw(GROUP, "widgets");
        assert!(removal.is_some());
        registry
            .add_resources(kind_set(&names))
            .await
            .expect("added again");
        assert!(registry.find(GROUP, "widgets").is_some());
    }
}
