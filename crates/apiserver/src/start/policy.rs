//! Roles and bindings, as they are now, in the form in which authorization asks for them.

use std::sync::Arc;

use rhumb_auth::PolicyIndex;
use rhumb_auth::rbac::Kind;
use rhumb_cache::{Cache, Entry, EventKind, Message, Start, WatchEnd, WatchRequest, Watcher};
use serde_json::{Map, Value};

use crate::resources::Registry;

const GROUP: &str = "rbac.authorization.k8s.io";
const RESOURCES: [&str; 4] = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];

/// The policy there is, kept up to date by one task for each kind.
pub(super) fn follow(registry: &Registry) -> Arc<PolicyIndex> {
    let index = Arc::new(PolicyIndex::new());
    for resource in RESOURCES {
        let cache = registry
            .find(GROUP, resource)
            .and_then(|resource| resource.storage.as_ref())
            .map(|storage| storage.cache.clone());
        if let (Some(cache), Some(kind)) = (cache, Kind::from_resource(resource)) {
            let watcher = load(&index, kind, &cache);
            tokio::spawn(keep(index.clone(), kind, cache, watcher));
        }
    }
    index
}

/// Takes in everything there is, and a watch on what comes after.
fn load(index: &PolicyIndex, kind: Kind, cache: &Cache) -> Option<Watcher> {
    let snapshot = cache.snapshot();
    let objects: Vec<(Arc<Entry>, Option<Map<String, Value>>)> = snapshot
        .range(None, None)
        .map(|entry| (entry.clone(), parse(entry)))
        .collect();
    let taken = index.apply_all(objects.iter().map(|(entry, object)| {
        let key = entry.key();
        (kind, key.namespace().unwrap_or_default(), key.name(), object.as_ref())
    }));
    report(taken);
    cache
        .watch(WatchRequest::everything(Start::After(snapshot.revision())))
        .ok()
}

async fn keep(index: Arc<PolicyIndex>, kind: Kind, cache: Cache, mut watcher: Option<Watcher>) {
    while let Some(current) = &mut watcher {
        match current.next().await {
            Ok(Message::Event(event)) => {
                let entry = event.entry();
                let object = (event.kind() != EventKind::Deleted).then(|| parse(entry)).flatten();
                let key = entry.key();
                report(index.apply(kind, key.namespace().unwrap_or_default(), key.name(), object.as_ref()));
            }
            Ok(Message::InitialEnd(_)) => {}
            Err(WatchEnd::Expired) => {
                forget_deleted(&index, kind, &cache);
                watcher = load(&index, kind, &cache);
            }
            Err(WatchEnd::Closing | WatchEnd::Removed) => return,
        }
    }
}

/// After a gap, what was known and is gone must not go on granting anything.
fn forget_deleted(index: &PolicyIndex, kind: Kind, cache: &Cache) {
    let snapshot = cache.snapshot();
    for (namespace, name) in index.policy().names(kind) {
        let key = rhumb_meta::ObjectKey::new(Some(namespace.as_str()).filter(|text| !text.is_empty()), &name);
        let there = key.is_ok_and(|key| matches!(snapshot.get(&key), Ok(Some(_))));
        if !there {
            report(index.apply(kind, &namespace, &name, None));
        }
    }
}

fn parse(entry: &Entry) -> Option<Map<String, Value>> {
    serde_json::from_slice(entry.json_slice()).ok()
}

fn report(outcome: Result<(), rhumb_auth::rbac::ApplyError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "a role or binding is not in force");
    }
}
