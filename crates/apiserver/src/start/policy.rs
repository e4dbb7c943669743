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
        let cache = self.cache.clone();
        self.load_from(|| cache.snapshot())
    }

    fn load_from(&mut self, mut snapshot: impl FnMut() -> Snapshot) -> Option<Watcher> {
        loop {
            let snapshot = snapshot();
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rhumb_api::Gates;
    use rhumb_cache::{Hub, Options, Resource};
    use rhumb_meta::StoragePrefix;
    use rhumb_schema::Table;
    use rhumb_store::{Expect, Store, Transaction};
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::objects::Projection;
    use crate::resources::{forms, stored_kinds};
    use crate::testing::Server;

    const PATH: &str = "clusterroles";

    /// The cluster roles of a store, and nothing of their past.
    async fn forgetful(store: Arc<dyn Store>) -> Hub {
        let kinds = rhumb_api::kinds::all();
        let stored = stored_kinds(&kinds);
        let (_, stored) = stored.iter().find(|(path, _)| *path == PATH).expect(PATH);
        let forms = forms(PATH, &kinds, Table::builtin(), &Gates::default()).expect("forms");
        let projector = Projection::new(stored.kind, &stored.api_version, forms);
        let resource = Resource {
            prefix: StoragePrefix::new(PATH).expect("a prefix"),
            projector: Arc::new(projector),
            indexes: Vec::new(),
        };
        let options = Options {
            history_changes_max: 0,
            ..Options::default()
        };
        Hub::start(store, "/registry", vec![resource], options)
            .await
            .expect("a hub")
    }

    #[tokio::test]
    async fn roles_whose_history_is_lost_while_they_are_read_are_read_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let store: Arc<dyn Store> = Arc::new(Server::store(directory.path()).await);
        let hub = forgetful(store.clone()).await;
        let commit = async |transaction: Transaction| {
            let revision = store.commit(transaction).await.expect("a commit");
            let deadline = Instant::now() + Duration::from_secs(30);
            hub.wait_for(revision, deadline).await.expect("it is seen");
        };
        let put = |name: &str| {
            let role = json!({"metadata": {"name": name}, "rules": []}).to_string();
            Transaction::new().put(format!("/registry/{PATH}/{name}"), role, Expect::Any)
        };
        let cache = hub
            .cache(&StoragePrefix::new(PATH).expect("a prefix"))
            .expect("a cache");
        commit(put("a")).await;
        let mut old = Some(cache.snapshot());
        commit(Transaction::new().delete(format!("/registry/{PATH}/a"), Expect::Any)).await;
        commit(put("b")).await;
        let mut follower = Follower {
            index: Arc::new(PolicyIndex::new()),
            kind: Kind::ClusterRole,
            cache: cache.clone(),
            known: HashSet::new(),
            roles_changed: Arc::new(Notify::new()),
        };
        let watcher = follower.load_from(|| old.take().unwrap_or_else(|| cache.snapshot()));
        let known: Vec<&str> = follower.known.iter().map(ObjectKey::name).collect();
        assert_eq!(known, ["b"]);
        commit(put("c")).await;
        let next = watcher.expect("changes are followed").next().await;
        match next {
            Ok(Message::Event(event)) => assert_eq!(event.entry().key().name(), "c"),
            other => panic!("{other:?}"),
        }
        hub.close().await;
        assert!(follower.load().is_none(), "a server that ends is not read");
    }
}
