//! Adds kinds to the resources that a running server serves, and removes them again.
//!
//! Entry points: [`Registry::add_resources`] and [`Registry::remove_resource`].

use std::collections::BTreeMap;
use std::sync::Arc;

use rhumb_api::Kind;
use rhumb_cache::IndexedAttribute;
use rhumb_meta::StoragePrefix;
use rhumb_schema::{Defaults, Table};
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
    pub defaults: Arc<Defaults>,
    pub openapi_schemas: Arc<OpenApiSchemas>,
}

impl Registry {
    /// Serves further kinds, once their objects are cached. The resources and their storage paths must not be in use.
    /// Calls for different kinds may run at the same time.
    ///
    /// Requests that have begun continue with the table of resources that they have. If the future is dropped, caches
    /// may remain that nothing uses.
    pub async fn add_resources(&self, set: KindSet) -> Result<(), KindRegistrationError> {
        check_not_served(&self.resources(), &set.kinds)?;
        let configs = cache_configs(&set.kinds, &set.table, &self.gates, |kind, _| {
            indexed_fields(kind)
        })?;
        let mut cached: Vec<StoragePrefix> = Vec::with_capacity(configs.len());
        for config in configs {
            let prefix = config.prefix.clone();
            if let Err(error) = self.cache_manager.add(config).await {
                self.remove_caches(cached).await;
                return Err(KindRegistrationError {
                    kind: prefix.as_str().to_owned(),
                    reason: error.to_string(),
                });
            }
            cached.push(prefix);
        }
        let published = self.publish(set);
        if published.is_err() {
            self.remove_caches(cached).await;
        }
        published
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
            // New requests no longer find the resource when its cache goes.
            Some(unused) => {
                self.remove_caches(unused).await;
                true
            }
            None => false,
        }
    }

    /// Publishes a table without a resource. Returns the prefixes of the caches that no other resource uses.
    fn withdraw(&self, group: &str, plural: &str) -> Option<Vec<StoragePrefix>> {
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
        let unused = prefix.filter(is_unused).cloned();
        self.resources.store(Arc::new(remaining));
        Some(unused.into_iter().collect())
    }

    async fn remove_caches(&self, prefixes: Vec<StoragePrefix>) {
        for prefix in prefixes {
            // Fails only if the server is shutting down, which removes all caches.
            let _ = self.cache_manager.remove(&prefix).await;
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
