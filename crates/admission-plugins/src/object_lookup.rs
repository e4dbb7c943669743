//! Object lookups for plugins, from the caches or the store.

use std::sync::Arc;

use rhumb_api::JsonObject;
use rhumb_cache::CacheEntry;
use rhumb_meta::{ObjectKey, Status};
use rhumb_store::ExpectedRevision;

use rhumb_registry::write::Precondition;
use rhumb_registry::{RequestContext, ResourceStorage};

fn storage<'a>(
    context: &RequestContext<'a>,
    group: &str,
    plural: &str,
) -> Option<&'a ResourceStorage> {
    context.resources.find(group, plural)?.storage.as_deref()
}

fn decode(storage: &ResourceStorage, entry: &Arc<CacheEntry>) -> Result<Arc<JsonObject>, Status> {
    storage
        .decoded_objects
        .get_or_decode(entry)
        .map_err(Status::internal_error)
}

/// A cluster-scoped object by name, from the cache.
pub(super) fn cached_cluster_object(
    context: &RequestContext<'_>,
    group: &str,
    plural: &str,
    name: &str,
) -> Result<Option<Arc<JsonObject>>, Status> {
    match ObjectKey::cluster(name) {
        Ok(key) => cached_object(context, group, plural, &key),
        Err(_) => Ok(None),
    }
}

/// A cluster-scoped object by name, from the cache or else from the store: another server may have just created it.
pub(super) async fn find_cluster_object(
    context: &RequestContext<'_>,
    group: &str,
    plural: &str,
    name: &str,
) -> Result<Option<Arc<JsonObject>>, Status> {
    match ObjectKey::cluster(name) {
        Ok(key) => find_object(context, group, plural, &key).await,
        Err(_) => Ok(None),
    }
}

/// The current state of a cluster-scoped object, from the cache or else from the store, and the precondition that it
/// does not change.
pub(super) async fn with_precondition(
    context: &RequestContext<'_>,
    group: &str,
    plural: &str,
    name: &str,
) -> Result<Option<(Arc<JsonObject>, Precondition)>, Status> {
    let (Some(storage), Ok(key)) = (storage(context, group, plural), ObjectKey::cluster(name))
    else {
        return Ok(None);
    };
    let storage_key = storage.prefix.object(&key);
    let new_precondition = |key, revision| Precondition {
        key,
        expect: ExpectedRevision::At(revision),
    };
    if let Some(entry) = storage.cache.get(&key).map_err(Status::internal_error)? {
        let precondition = new_precondition(storage_key, entry.revision());
        return Ok(Some((decode(storage, &entry)?, precondition)));
    }
    let entry = context.registry.store.get(&storage_key).await;
    let Some(entry) = entry.map_err(Status::internal_error)? else {
        return Ok(None);
    };
    let object = storage.decoder.decode(&entry.value);
    let object = object.map_err(Status::internal_error)?;
    Ok(Some((
        Arc::new(object),
        new_precondition(storage_key, entry.modified),
    )))
}

/// The cache entry of a key, not decoded.
pub(super) fn cached_entry(
    context: &RequestContext<'_>,
    group: &str,
    plural: &str,
    key: &ObjectKey,
) -> Result<Option<Arc<CacheEntry>>, Status> {
    match storage(context, group, plural) {
        Some(storage) => storage.cache.get(key).map_err(Status::internal_error),
        None => Ok(None),
    }
}

/// The object of a key, from the cache.
pub(super) fn cached_object(
    context: &RequestContext<'_>,
    group: &str,
    plural: &str,
    key: &ObjectKey,
) -> Result<Option<Arc<JsonObject>>, Status> {
    let Some(storage) = storage(context, group, plural) else {
        return Ok(None);
    };
    let entry = storage.cache.get(key).map_err(Status::internal_error)?;
    entry.map(|entry| decode(storage, &entry)).transpose()
}

/// The object of a key, from the cache or else from the store.
pub(super) async fn find_object(
    context: &RequestContext<'_>,
    group: &str,
    plural: &str,
    key: &ObjectKey,
) -> Result<Option<Arc<JsonObject>>, Status> {
    if let Some(object) = cached_object(context, group, plural, key)? {
        return Ok(Some(object));
    }
    let Some(storage) = storage(context, group, plural) else {
        return Ok(None);
    };
    let entry = context
        .registry
        .store
        .get(&storage.prefix.object(key))
        .await;
    match entry.map_err(Status::internal_error)? {
        Some(entry) => storage
            .decoder
            .decode(&entry.value)
            .map(|object| Some(Arc::new(object)))
            .map_err(Status::internal_error),
        None => Ok(None),
    }
}

/// All objects of a resource, from the cache. For resources with few objects.
pub(super) fn list_cached(
    context: &RequestContext<'_>,
    group: &str,
    plural: &str,
) -> Result<Vec<Arc<JsonObject>>, Status> {
    let Some(storage) = storage(context, group, plural) else {
        return Ok(Vec::new());
    };
    let snapshot = storage.cache.snapshot();
    snapshot
        .range(None, None)
        .map(|entry| decode(storage, entry))
        .collect()
}
