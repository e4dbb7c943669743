//! Roles and bindings, as they are now, in the form in which authorization asks for them.

use std::collections::HashSet;
use std::sync::Arc;

use rhumb_auth::PolicyIndex;
use rhumb_auth::rbac::Kind;
use rhumb_cache::{
    Cache, Entry, EventKind, HistoryError, Message, Snapshot, Start, WatchEnd, WatchRequest,
    Watcher,
};
use rhumb_meta::ObjectKey;
use serde_json::{Map, Value};
use tokio::sync::Notify;

use crate::resources::Registry;

const GROUP: &str = "rbac.authorization.k8s.io";
const RESOURCES: [&str; 4] = [
    "roles",
    "rolebindings",
    "clusterroles",
    "clusterrolebindings",
];

/// The policy there is, kept up to date by one task for each kind.
pub(super) fn follow(registry: &Registry) -> (Arc<PolicyIndex>, Arc<Notify>) {
    let index = Arc::new(PolicyIndex::new());
    let roles_changed = Arc::new(Notify::new());
    for resource in RESOURCES {
        let cache = registry
            .find(GROUP, resource)
            .and_then(|resource| resource.storage.as_ref())
            .map(|storage| storage.cache.clone());
        if let (Some(cache), Some(kind)) = (cache, Kind::from_resource(resource)) {
            let mut follower = Follower {
                index: index.clone(),
                kind,
                cache,
                known: HashSet::new(),
                roles_changed: roles_changed.clone(),
            };
            let watcher = follower.load();
            tokio::spawn(follower.run(watcher));
        }
    }
    (index, roles_changed)
}

struct Follower {
    index: Arc<PolicyIndex>,
    kind: Kind,
    cache: Cache,
    /// What the index has of this kind: after a gap, what is gone must not go on granting anything.
    known: HashSet<ObjectKey>,
    /// Told of every change of a cluster role.
    roles_changed: Arc<Notify>,
}

impl Follower {
    /// Takes in everything there is, and a watch on what comes after; `None` when the server ends.
    fn load(&mut self) -> Option<Watcher> {
        loop {
            let snapshot = self.cache.snapshot();
            self.take_in(&snapshot);
            let request = WatchRequest::everything(Start::After(snapshot.revision()));
            match self.cache.watch(request) {
                Ok(watcher) => return Some(watcher),
                Err(HistoryError::Closed) => return None,
                // The contents were replaced in between: they are taken in again.
                Err(error) => tracing::warn!(%error, "roles and bindings are read again"),
            }
        }
    }

    fn take_in(&mut self, snapshot: &Snapshot) {
        let mut gone = std::mem::take(&mut self.known);
        for entry in snapshot.range(None, None) {
            gone.remove(entry.key());
        }
        for key in gone {
            self.apply(&key, None);
        }
        let objects: Vec<(ObjectKey, Option<Map<String, Value>>)> = snapshot
            .range(None, None)
            .map(|entry| (entry.key().clone(), parse(entry)))
            .collect();
        report(self.index.apply_all(objects.iter().map(|(key, object)| {
            let namespace = key.namespace().unwrap_or_default();
            (self.kind, namespace, key.name(), object.as_ref())
        })));
        self.known.extend(objects.into_iter().map(|(key, _)| key));
    }

    async fn run(mut self, mut watcher: Option<Watcher>) {
        while let Some(current) = &mut watcher {
            match current.next().await {
                Ok(Message::Event(event)) if event.kind() == EventKind::Deleted => {
                    self.known.remove(event.entry().key());
                    self.apply(event.entry().key(), None);
                }
                Ok(Message::Event(event)) => {
                    let entry = event.entry();
                    self.known.insert(entry.key().clone());
                    self.apply(entry.key(), parse(entry).as_ref());
                }
                Ok(Message::InitialEnd(_)) => {}
                Err(WatchEnd::Expired) => watcher = self.load(),
                Err(WatchEnd::Closing | WatchEnd::Removed) => return,
            }
        }
    }

    fn apply(&self, key: &ObjectKey, object: Option<&Map<String, Value>>) {
        let namespace = key.namespace().unwrap_or_default();
        report(self.index.apply(self.kind, namespace, key.name(), object));
        if self.kind == Kind::ClusterRole {
            self.roles_changed.notify_one();
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
