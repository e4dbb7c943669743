//! What belongs to an object is there: objects that were written by someone who knows nothing of companions get
//! theirs at the start, and what people delete by hand comes back for as long as it is in use.

use std::sync::{Arc, Weak};

use rhumb_api::{Object, fields};
use rhumb_cache::{Cache, EventKind, Message, Start, WatchEnd, WatchRequest, Watcher};
use rhumb_meta::ObjectKey;
use rhumb_store::{Error, Transaction};

use crate::Api;
use crate::objects::Metadata;
use crate::resources::{Companions, with};

/// Nothing stops at what cannot be put right: it was so before this server came.
pub(super) async fn repair(api: &Arc<Api>) {
    for (group, plural, companions) in api.companions.iter() {
        let storage = api
            .registry
            .find(group, plural)
            .and_then(|resource| resource.storage.as_ref());
        let Some(storage) = storage else {
            continue;
        };
        let snapshot = storage.cache.snapshot();
        for entry in snapshot.range(None, None) {
            let Ok(object) = serde_json::from_slice::<Object>(entry.json_slice()) else {
                continue;
            };
            if let Err(problem) = repair_one(api, companions, &object).await {
                tracing::warn!(
                    resource = plural,
                    namespace = object.namespace(),
                    name = object.name(),
                    problem,
                    "what belongs to an object could not be stored with it"
                );
            }
        }
    }
}

async fn repair_one(
    api: &Arc<Api>,
    companions: &dyn Companions,
    object: &Object,
) -> Result<(), String> {
    let missing = companions
        .missing(api, api.clock.wall(), object)
        .map_err(|status| status.message)?;
    for operation in missing {
        match api
            .store
            .commit(with(Transaction::new(), vec![operation]))
            .await
        {
            Ok(revision) => api.seen(revision).await,
            // Another server that starts now does the same.
            Err(Error::Conflict(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Watches the addresses of services: one that is gone while its service has it could be given to another.
pub(super) fn keep_addresses(api: &Arc<Api>) {
    let storage = api
        .registry
        .find("networking.k8s.io", "ipaddresses")
        .and_then(|resource| resource.storage.as_ref());
    if let Some(storage) = storage {
        let cache = storage.cache.clone();
        let watcher = watch(&cache);
        tokio::spawn(follow(Arc::downgrade(api), cache, watcher));
    }
}

fn watch(cache: &Cache) -> Option<Watcher> {
    let revision = cache.snapshot().revision();
    cache
        .watch(WatchRequest::everything(Start::After(revision)))
        .ok()
}

async fn follow(api: Weak<Api>, cache: Cache, mut watcher: Option<Watcher>) {
    while let Some(current) = &mut watcher {
        let message = current.next().await;
        let Some(api) = api.upgrade() else { return };
        match message {
            Ok(Message::Event(event)) if event.kind() == EventKind::Deleted => {
                let record = serde_json::from_slice(event.entry().json_slice());
                if let Err(problem) = restore(&api, &record.unwrap_or_default()).await {
                    tracing::warn!(problem, "the address of a service could not be kept for it");
                }
            }
            Ok(_) => {}
            Err(WatchEnd::Expired) => {
                watcher = watch(&cache);
                repair(&api).await;
            }
            Err(WatchEnd::Closing | WatchEnd::Removed) => return,
        }
    }
}

/// Gives the parent of a deleted address what it should have. A service that let go of the address, or went with
/// it, is missing nothing.
async fn restore(api: &Arc<Api>, record: &Object) -> Result<(), String> {
    let parent = |field: &str| fields::text(record, &format!("spec.parentRef.{field}"));
    if !parent("group").is_empty() || parent("resource") != "services" {
        return Ok(());
    }
    let Some(services) = api.registry.find("", "services") else {
        return Ok(());
    };
    let (Some(storage), Some(companions)) = (&services.storage, api.companions.of(services)) else {
        return Ok(());
    };
    let Ok(key) = ObjectKey::namespaced(&parent("namespace"), &parent("name")) else {
        return Ok(());
    };
    let entry = storage.cache.get(&key).map_err(|error| error.to_string())?;
    let Some(entry) = entry else {
        return Ok(());
    };
    let service = serde_json::from_slice::<Object>(entry.json_slice());
    let service = service.map_err(|error| error.to_string())?;
    repair_one(api, companions, &service).await
}
