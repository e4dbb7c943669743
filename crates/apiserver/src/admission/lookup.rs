//! Objects that plugins ask for, from the caches.

use std::sync::Arc;

use rhumb_api::Object;
use rhumb_cache::Entry;
use rhumb_meta::{ObjectKey, Status};
use rhumb_store::Expect;

use super::{On, Premise};
use crate::resources::{Call, Storage};

fn storage<'a>(call: &Call<'a>, group: &str, plural: &str) -> Option<&'a Storage> {
    call.api.registry.find(group, plural)?.storage.as_ref()
}

fn tree(storage: &Storage, entry: &Arc<Entry>) -> Result<Arc<Object>, Status> {
    storage.trees.of(entry).map_err(Status::internal_error)
}

/// An object without a namespace, by its name.
pub(super) fn named(
    call: &Call<'_>,
    group: &str,
    plural: &str,
    name: &str,
) -> Result<Option<Arc<Object>>, Status> {
    match ObjectKey::cluster(name) {
        Ok(key) => cached(call, group, plural, &key),
        Err(_) => Ok(None),
    }
}

/// The same, and if the cache has none, from the store: another server may have made it just now.
pub(super) async fn named_anywhere(
    call: &Call<'_>,
    group: &str,
    plural: &str,
    name: &str,
) -> Result<Option<Arc<Object>>, Status> {
    match ObjectKey::cluster(name) {
        Ok(key) => anywhere(call, group, plural, &key).await,
        Err(_) => Ok(None),
    }
}

/// An object without a namespace as it is now, from the cache or else from the store, and the premise that it stays
/// so.
pub(super) async fn with_revision(
    call: &Call<'_>,
    on: &On,
) -> Result<Option<(Arc<Object>, Premise)>, Status> {
    let (Some(storage), Ok(key)) = (
        storage(call, on.group, on.plural),
        ObjectKey::cluster(&on.name),
    ) else {
        return Ok(None);
    };
    let storage_key = storage.prefix.object(&key);
    let premise = |key, revision| Premise {
        key,
        expect: Expect::At(revision),
    };
    if let Some(entry) = storage.cache.get(&key).map_err(Status::internal_error)? {
        let premise = premise(storage_key, entry.revision());
        return Ok(Some((tree(storage, &entry)?, premise)));
    }
    let entry = call.api.store.get(&storage_key).await;
    let Some(entry) = entry.map_err(Status::internal_error)? else {
        return Ok(None);
    };
    let object = storage.forms.read(&entry.value);
    let object = object.map_err(Status::internal_error)?;
    Ok(Some((
        Arc::new(object),
        premise(storage_key, entry.modified),
    )))
}

/// What the cache has at a key, as it is.
pub(super) fn entry(
    call: &Call<'_>,
    group: &str,
    plural: &str,
    key: &ObjectKey,
) -> Result<Option<Arc<Entry>>, Status> {
    match storage(call, group, plural) {
        Some(storage) => storage.cache.get(key).map_err(Status::internal_error),
        None => Ok(None),
    }
}

/// What the cache has at a key.
pub(super) fn cached(
    call: &Call<'_>,
    group: &str,
    plural: &str,
    key: &ObjectKey,
) -> Result<Option<Arc<Object>>, Status> {
    let Some(storage) = storage(call, group, plural) else {
        return Ok(None);
    };
    let entry = storage.cache.get(key).map_err(Status::internal_error)?;
    entry.map(|entry| tree(storage, &entry)).transpose()
}

/// What the cache has at a key, or else the store.
pub(super) async fn anywhere(
    call: &Call<'_>,
    group: &str,
    plural: &str,
    key: &ObjectKey,
) -> Result<Option<Arc<Object>>, Status> {
    if let Some(object) = cached(call, group, plural, key)? {
        return Ok(Some(object));
    }
    let Some(storage) = storage(call, group, plural) else {
        return Ok(None);
    };
    let entry = call.api.store.get(&storage.prefix.object(key)).await;
    match entry.map_err(Status::internal_error)? {
        Some(entry) => storage
            .forms
            .read(&entry.value)
            .map(|object| Some(Arc::new(object)))
            .map_err(Status::internal_error),
        None => Ok(None),
    }
}

/// All objects of a resource of which there are few.
pub(super) fn all(call: &Call<'_>, group: &str, plural: &str) -> Result<Vec<Arc<Object>>, Status> {
    let Some(storage) = storage(call, group, plural) else {
        return Ok(Vec::new());
    };
    let snapshot = storage.cache.snapshot();
    snapshot
        .range(None, None)
        .map(|entry| tree(storage, entry))
        .collect()
}
