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

use crate::{Registry, RegistryError, ResourceTable, cache_configs};

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
    /// Serves further kinds, once their objects are cached. The storage paths must not be in use.
    ///
    /// Requests that have begun continue with the table of resources that they have.
    pub async fn add_resources(&self, set: KindSet) -> Result<(), RegistryError> {
        let _update = self.resource_updates.lock().await;
        let current = self.resources();
        if let Some(kind) = set
            .kinds
            .iter()
            .find(|kind| current.find(&kind.group, &kind.plural).is_some())
        {
            return Err(RegistryError {
                kind: kind.name.to_string(),
                reason: format!("{} is served already", kind.group_resource()),
            });
        }
        let configs = cache_configs(&set.kinds, &set.table, &self.gates, |kind, _| {
            indexed_fields(kind)
        })?;
        let mut cached: Vec<StoragePrefix> = Vec::with_capacity(configs.len());
        for config in configs {
            let prefix = config.prefix.clone();
            if let Err(error) = self.cache_manager.add(config).await {
                self.remove_caches(cached).await;
                return Err(RegistryError {
                    kind: prefix.as_str().to_owned(),
                    reason: error.to_string(),
                });
            }
            cached.push(prefix);
        }
        match ResourceTable::new(set, &self.gates, |prefix| self.cache_manager.cache(prefix)) {
            Ok(added) => {
                self.resources.store(Arc::new(current.with(&added)));
                Ok(())
            }
            Err(error) => {
                self.remove_caches(cached).await;
                Err(error)
            }
        }
    }

    /// Stops serving a resource that was added, ends its watches and drops its cache. Its objects remain in the store.
    /// Returns whether there was such a resource; those of built-in kinds are never removed.
    pub async fn remove_resource(&self, group: &str, plural: &str) -> bool {
        let _update = self.resource_updates.lock().await;
        let current = self.resources();
        let resource = current.find(group, plural);
        let Some(resource) =
            resource.filter(|resource| !Arc::ptr_eq(&resource.defaults, &self.defaults))
        else {
            return false;
        };
        // New requests must not find the resource when its cache is gone.
        let remaining = current.without(resource);
        let prefix = resource.storage.as_ref().map(|storage| &storage.prefix);
        let is_shared = |prefix: &StoragePrefix| {
            let mut storages = remaining.iter().filter_map(|other| other.storage.as_ref());
            storages.any(|storage| storage.prefix == *prefix)
        };
        let unused = prefix.filter(|&prefix| !is_shared(prefix)).cloned();
        self.resources.store(Arc::new(remaining));
        self.remove_caches(unused).await;
        true
    }

    async fn remove_caches(&self, prefixes: impl IntoIterator<Item = StoragePrefix>) {
        for prefix in prefixes {
            // Fails only if the server is shutting down, which removes all caches.
            let _ = self.cache_manager.remove(&prefix).await;
        }
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
