//! Repairs allocation records (IPAddress objects, node port keys). Missing records of objects that another program
//! wrote are created at start; records deleted while still in use are restored (upstream: the repair loops of
//! `pkg/registry/core/service/{ipallocator,portallocator}/controller`).

use std::sync::{Arc, Weak};

use rhumb_api::{JsonObject, fields};
use rhumb_cache::{EventKind, RestartingWatchMessage, RestartingWatcher, WatchRequest, WatchStart};
use rhumb_meta::ObjectKey;
use rhumb_store::{Error, Transaction};

use rhumb_registry::Registry;
use rhumb_registry::ResourceAllocator;
use rhumb_registry::objects::ObjectMetadata;
use rhumb_registry::write::with_operations;

/// Creates missing records of all objects. Failures are logged and do not stop the server: the inconsistency existed
/// before it started.
pub(super) async fn repair_all(registry: &Arc<Registry>) {
    for (group, plural, allocator) in registry.allocators.iter() {
        let storage = registry
            .find(group, plural)
            .and_then(|resource| resource.storage.clone());
        let Some(storage) = storage else {
            continue;
        };
        let snapshot = storage.cache.snapshot();
        for entry in snapshot.range(None, None) {
            let Ok(object) = serde_json::from_slice::<JsonObject>(entry.json_slice()) else {
                continue;
            };
            if let Err(error) = repair_one(registry, allocator, &object).await {
                tracing::warn!(
                    resource = plural,
                    namespace = object.namespace(),
                    name = object.name(),
                    error,
                    "failed to create missing allocation records"
                );
            }
        }
    }
}

async fn repair_one(
    registry: &Arc<Registry>,
    allocator: &dyn ResourceAllocator,
    object: &JsonObject,
) -> Result<(), String> {
    let missing = allocator
        .missing_records(registry, registry.clock.wall(), object)
        .map_err(|status| status.message)?;
    for operation in missing {
        match registry
            .store
            .commit(with_operations(Transaction::new(), vec![operation]))
            .await
        {
            Ok(revision) => registry.await_applied(revision).await,
            // Another server that is starting has created the record.
            Err(Error::Conflict(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Spawns the task that restores deleted IPAddress objects: without its record, an address that a service uses could be
/// allocated to another one.
pub(super) fn spawn_address_repair(registry: &Arc<Registry>) {
    let storage = registry
        .find("networking.k8s.io", "ipaddresses")
        .and_then(|resource| resource.storage.clone());
    if let Some(storage) = storage {
        let request = WatchRequest::everything(WatchStart::Latest);
        let watcher = storage.cache.watch_with_restarts(request);
        tokio::spawn(watch_addresses(Arc::downgrade(registry), watcher));
    }
}

async fn watch_addresses(registry: Weak<Registry>, mut watcher: RestartingWatcher) {
    while let Some(message) = watcher.next().await {
        let Some(registry) = registry.upgrade() else {
            return;
        };
        match message {
            RestartingWatchMessage::Event(event) if event.kind() == EventKind::Deleted => {
                let record = serde_json::from_slice(event.entry().json_slice());
                let name = event.entry().key().name();
                if let Err(error) = restore_address(&registry, &record.unwrap_or_default()).await {
                    tracing::warn!(
                        address = name,
                        error,
                        "failed to restore the deleted IPAddress of a service"
                    );
                }
            }
            RestartingWatchMessage::Restarted => repair_all(&registry).await,
            _ => {}
        }
    }
}

/// Restores missing records of the service that a deleted IPAddress refers to. Does nothing if the service released the
/// address or was deleted.
async fn restore_address(registry: &Arc<Registry>, record: &JsonObject) -> Result<(), String> {
    let parent = |field: &str| fields::text(record, &format!("spec.parentRef.{field}"));
    if !parent("group").is_empty() || parent("resource") != "services" {
        return Ok(());
    }
    let Some(services) = registry.find("", "services") else {
        return Ok(());
    };
    let (Some(storage), Some(allocator)) = (
        &services.storage,
        registry.allocators.for_resource(&services),
    ) else {
        return Ok(());
    };
    let Ok(key) = ObjectKey::namespaced(&parent("namespace"), &parent("name")) else {
        return Ok(());
    };
    let entry = storage.cache.get(&key).map_err(|error| error.to_string())?;
    let Some(entry) = entry else {
        return Ok(());
    };
    let service = serde_json::from_slice::<JsonObject>(entry.json_slice());
    let service = service.map_err(|error| error.to_string())?;
    repair_one(registry, allocator, &service).await
}
