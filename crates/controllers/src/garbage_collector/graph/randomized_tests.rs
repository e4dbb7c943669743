//! Randomized test: a model of a server with random clients and with watches that lag and break. For every order of
//! events, only garbage is deleted, and no garbage is left at the end; both are computed from all stored objects. Many
//! references are invalid: right uid, but wrong kind or name, or from a namespace where it cannot be an owner.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use super::super::objects::PartialMetadata;
use super::super::verdict::{ClassifiedOwners, DeletionPropagation, GarbageVerdict, verdict};
use super::*;

const KINDS: [&str; 3] = ["A", "B", "C"];
/// The cluster-scoped kind.
const CLUSTER_KIND: &str = "C";
const UNKNOWN_KIND: &str = "X";
const NAMESPACES: [&str; 2] = ["m", "n"];

/// Kind, namespace and name.
type ObjectKey = (&'static str, &'static str, String);

#[derive(Debug, Clone)]
struct StoredObject {
    uid: String,
    owners: Vec<OwnerReference>,
    finalizer: Option<&'static str>,
    is_deleting: bool,
}

enum WatchEvent {
    Begins,
    Shown(ObjectKey, StoredObject),
    Ends,
    Gone(ObjectKey, StoredObject),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum QueuedTask {
    Check(ObjectUid),
    Orphan(ObjectUid),
}

struct RandomizedCluster {
    random: fastrand::Rng,
    objects: BTreeMap<ObjectKey, StoredObject>,
    /// Key and uid of every object ever created, in order.
    history: Vec<(ObjectKey, String)>,
    watches: BTreeMap<&'static str, VecDeque<WatchEvent>>,
    /// Kinds whose watch is broken and has not relisted yet.
    broken: BTreeSet<&'static str>,
    graph: OwnershipGraph,
    tasks: BTreeSet<QueuedTask>,
}

impl RandomizedCluster {
    fn new(seed: u64) -> RandomizedCluster {
        RandomizedCluster {
            random: fastrand::Rng::with_seed(seed),
            objects: BTreeMap::new(),
            history: Vec::new(),
            watches: KINDS.map(|kind| (kind, VecDeque::new())).into(),
            broken: BTreeSet::new(),
            graph: OwnershipGraph::new(),
            tasks: BTreeSet::new(),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.usize(..bound)
    }

    fn one_of<T: Clone>(&mut self, values: &[T]) -> Option<T> {
        (!values.is_empty()).then(|| values[self.below(values.len())].clone())
    }

    fn step(&mut self) {
        match self.below(12) {
            0..=2 => self.create(),
            3 => self.delete_one(),
            4 => self.change_owners(),
            5 if self.below(4) == 0 => {
                let kind = KINDS[self.below(KINDS.len())];
                self.watches.get_mut(kind).unwrap().clear();
                self.watches
                    .get_mut(kind)
                    .unwrap()
                    .push_back(WatchEvent::Begins);
                self.broken.insert(kind);
            }
            5 => self.relist(),
            6..=9 => self.deliver_event(),
            _ => self.process_task(),
        }
    }

    fn create(&mut self) {
        let kind = KINDS[self.below(KINDS.len())];
        let namespace = NAMESPACES[self.below(2)];
        let namespace = if kind == CLUSTER_KIND { "" } else { namespace };
        let key = (kind, namespace, format!("o{}", self.below(30)));
        if self.objects.contains_key(&key) {
            return;
        }
        let stored = StoredObject {
            uid: format!("u{}", self.history.len()),
            owners: self.some_owners(key.1, self.history.len()),
            finalizer: None,
            is_deleting: false,
        };
        self.history.push((key.clone(), stored.uid.clone()));
        self.store(key, stored);
    }

    /// References to earlier objects, so that there are no cycles. Some are deleted, some in another namespace.
    fn some_owners(&mut self, namespace: &str, before: usize) -> Vec<OwnerReference> {
        let mut owners: Vec<OwnerReference> = Vec::new();
        for _ in 0..self.below(4) {
            let recent = before.min(25);
            if recent == 0 {
                break;
            }
            let back = self.below(recent);
            let (key, uid) = self.history[before - 1 - back].clone();
            let is_elsewhere = !key.1.is_empty() && key.1 != namespace;
            let is_odd = self.below(10) == 0;
            if owners.iter().any(|own| own.uid == uid) || (is_elsewhere && !is_odd) {
                continue;
            }
            let mut owner = OwnerReference {
                api_version: "v1".into(),
                kind: key.0.into(),
                name: key.2,
                uid,
                controller: None,
                block_owner_deletion: Some(self.below(2) == 0),
            };
            self.corrupt_reference(&mut owner);
            owners.push(owner);
        }
        owners
    }

    /// Makes some references disagree with their owner.
    fn corrupt_reference(&mut self, owner: &mut OwnerReference) {
        match self.below(40) {
            0 => owner.name = "x".into(),
            1 | 2 => owner.kind = KINDS[self.below(KINDS.len())].into(),
            3 => owner.kind = UNKNOWN_KIND.into(),
            _ => {}
        }
    }

    fn delete_one(&mut self) {
        let keys: Vec<ObjectKey> = self.objects.keys().cloned().collect();
        if let Some(key) = self.one_of(&keys) {
            let policies = [
                DeletionPropagation::Background,
                DeletionPropagation::Foreground,
                DeletionPropagation::Orphan,
            ];
            let policy = policies[self.below(3)];
            self.delete(&key, policy);
        }
    }

    fn change_owners(&mut self) {
        let keys: Vec<ObjectKey> = self.objects.keys().cloned().collect();
        let Some(key) = self.one_of(&keys) else {
            return;
        };
        let mut stored = self.objects[&key].clone();
        if self.below(2) == 0 {
            for owner in &mut stored.owners {
                owner.block_owner_deletion = Some(self.below(2) == 0);
                self.corrupt_reference(owner);
            }
        } else {
            let position = self.history.iter().position(|(_, uid)| *uid == stored.uid);
            let more = self.some_owners(key.1, position.unwrap());
            let is_new = |own: &OwnerReference| stored.owners.iter().all(|old| old.uid != own.uid);
            let more: Vec<OwnerReference> = more.into_iter().filter(is_new).collect();
            if self.below(2) == 0 {
                stored.owners.pop();
            }
            stored.owners.extend(more);
        }
        self.store(key, stored);
    }

    fn store(&mut self, key: ObjectKey, stored: StoredObject) {
        let told = if stored.is_deleting && stored.finalizer.is_none() {
            self.objects.remove(&key);
            WatchEvent::Gone(key.clone(), stored)
        } else {
            self.objects.insert(key.clone(), stored.clone());
            WatchEvent::Shown(key.clone(), stored)
        };
        if !self.broken.contains(key.0) {
            self.watches.get_mut(key.0).unwrap().push_back(told);
        }
    }

    fn delete(&mut self, key: &ObjectKey, policy: DeletionPropagation) {
        let mut stored = self.objects[key].clone();
        stored.is_deleting = true;
        stored.finalizer = match policy {
            DeletionPropagation::Background => None,
            DeletionPropagation::Foreground => Some("foregroundDeletion"),
            DeletionPropagation::Orphan => Some("orphan"),
        };
        self.store(key.clone(), stored);
    }

    fn relist(&mut self) {
        for kind in std::mem::take(&mut self.broken) {
            let shown = self.objects.iter().filter(|(key, _)| key.0 == kind);
            let shown = shown.map(|(key, stored)| WatchEvent::Shown(key.clone(), stored.clone()));
            let watch = self.watches.get_mut(kind).unwrap();
            watch.extend(shown.chain([WatchEvent::Ends]));
        }
    }

    fn deliver_event(&mut self) {
        let kind = KINDS[self.below(KINDS.len())];
        let Some(event) = self.watches.get_mut(kind).unwrap().pop_front() else {
            return;
        };
        let name = ApiVersionKind::new("v1", kind);
        let mut actions = Vec::new();
        match event {
            WatchEvent::Begins => self.graph.begin_relist(&name),
            WatchEvent::Ends => self.graph.finish_relist(&name, &mut actions),
            WatchEvent::Gone(key, stored) => {
                let meta = meta(&key, &stored);
                self.graph
                    .observe_deletion(&name, &meta.as_object(), &mut actions);
            }
            WatchEvent::Shown(key, stored) => {
                let meta = meta(&key, &stored);
                self.graph.observe(&name, &meta.as_object(), &mut actions);
            }
        }
        self.add(actions);
    }

    fn add(&mut self, actions: Vec<GraphAction>) {
        self.tasks
            .extend(actions.into_iter().filter_map(|actions| match actions {
                GraphAction::Check(uid) => Some(QueuedTask::Check(uid)),
                GraphAction::Orphan(uid) => Some(QueuedTask::Orphan(uid)),
                GraphAction::Report(..) => None,
            }));
    }

    fn process_task(&mut self) {
        let is_told = self.broken.is_empty() && self.watches.values().all(VecDeque::is_empty);
        // Models the orphaning delay: earlier events are delivered before it.
        let ready = |task: &&QueuedTask| is_told || matches!(task, QueuedTask::Check(_));
        let ready: Vec<QueuedTask> = self.tasks.iter().filter(ready).cloned().collect();
        let Some(task) = self.one_of(&ready) else {
            return;
        };
        self.tasks.remove(&task);
        match task {
            QueuedTask::Check(uid) => self.check(uid),
            QueuedTask::Orphan(uid) => self.orphan(uid),
        }
    }

    fn get(&self, identity: &ObjectIdentity) -> Option<(ObjectKey, StoredObject)> {
        let key = self.objects.keys().find(|key| {
            *key.0 == *identity.kind.kind
                && *key.1 == *identity.namespace
                && *key.2 == *identity.name
        })?;
        let stored = &self.objects[key];
        (stored.uid == identity.uid.to_string()).then(|| (key.clone(), stored.clone()))
    }

    /// As the collector does: looks up the owners of an object that are not cached as absent.
    fn classify(&mut self, key: &ObjectKey, stored: &StoredObject) -> Option<ClassifiedOwners> {
        let mut classified = ClassifiedOwners::default();
        for reference in &stored.owners {
            let named = named(key, reference);
            let list = if self.graph.is_absent(&named) {
                &mut classified.dangling
            } else {
                let owner = resolve(named)?;
                match self.get(&owner) {
                    None => {
                        self.graph.remember_absent(owner);
                        &mut classified.dangling
                    }
                    Some((_, found)) => {
                        let mut actions = Vec::new();
                        self.graph.confirm(&owner, &mut actions);
                        self.add(actions);
                        match found.finalizer {
                            Some("foregroundDeletion") => &mut classified.waiting,
                            _ => &mut classified.solid,
                        }
                    }
                }
            };
            list.push(reference.clone());
        }
        Some(classified)
    }

    /// Whether a reference resolves to an object that stays; `None` if it can never be resolved.
    fn is_live_owner(&self, key: &ObjectKey, reference: &OwnerReference) -> Option<bool> {
        let kind = KINDS.into_iter().find(|kind| *kind == reference.kind)?;
        let namespace = match kind {
            CLUSTER_KIND => "",
            _ if key.1.is_empty() => return None,
            _ => key.1,
        };
        let owner = self.objects.get(&(kind, namespace, reference.name.clone()));
        Some(owner.is_some_and(|owner| {
            owner.uid == reference.uid && owner.finalizer != Some("foregroundDeletion")
        }))
    }

    fn is_unresolvable(&self, key: &ObjectKey, stored: &StoredObject) -> bool {
        let mut owners = stored.owners.iter();
        owners.any(|owner| self.is_live_owner(key, owner).is_none())
    }

    /// Whether the object waits forever because a blocking dependent has an unresolvable reference.
    fn is_stuck(&self, uid: &str) -> bool {
        self.objects.iter().any(|(key, stored)| {
            let mut owners = stored.owners.iter();
            let blocks = owners.any(|own| own.uid == uid && own.block_owner_deletion == Some(true));
            blocks
                && match stored.is_deleting {
                    true => self.is_stuck(&stored.uid),
                    false => self.is_unresolvable(key, stored),
                }
        })
    }

    fn check(&mut self, uid: ObjectUid) {
        let Some(item) = self.graph.snapshot(&uid) else {
            return;
        };
        let mut actions = Vec::new();
        let Some(identity) = resolve(item.identity.clone()) else {
            return;
        };
        let Some((key, stored)) = self.get(&identity) else {
            if self.graph.observe_absence(&identity, &mut actions) == AbsenceOutcome::LookUpAgain {
                actions.push(GraphAction::Check(uid));
            }
            return self.add(actions);
        };
        self.graph.confirm(&identity, &mut actions);
        if item.awaits_dependents {
            let blocking = self.graph.blocking(&uid);
            if blocking.is_empty() {
                self.remove_finalizer(&key, "foregroundDeletion");
            }
            let idle = blocking.into_iter().filter(|(_, awaits)| !awaits);
            actions.extend(idle.map(|(uid, _)| GraphAction::Check(uid)));
        } else if !item.is_deleting && !stored.owners.is_empty() {
            let Some(owners) = self.classify(&key, &stored) else {
                return self.add(actions);
            };
            match verdict(&item, &meta(&key, &stored), &owners) {
                GarbageVerdict::Keep => {}
                GarbageVerdict::Release(uids) => self.release(&key, &uids),
                GarbageVerdict::Delete { policy, .. } => {
                    let mut owners = stored.owners.iter();
                    let is_garbage = owners.all(|own| self.is_live_owner(&key, own) == Some(false));
                    assert!(is_garbage, "{key:?} {stored:?} may have an owner");
                    self.delete(&key, policy);
                }
            }
        }
        self.add(actions);
    }

    fn release(&mut self, key: &ObjectKey, uids: &[String]) {
        let mut stored = self.objects[key].clone();
        stored.owners.retain(|owner| !uids.contains(&owner.uid));
        self.store(key.clone(), stored);
    }

    fn remove_finalizer(&mut self, key: &ObjectKey, finalizer: &str) {
        let mut stored = self.objects[key].clone();
        if stored.finalizer == Some(finalizer) {
            stored.finalizer = None;
            self.store(key.clone(), stored);
        }
    }

    fn orphan(&mut self, uid: ObjectUid) {
        let Some(item) = self.graph.snapshot(&uid) else {
            return;
        };
        for dependent in self.graph.dependents(&uid) {
            if let Some((key, _)) = self.get(&dependent) {
                self.release(&key, &[uid.to_string()]);
            }
        }
        let uid = uid.to_string();
        let mut left = self.objects.values().flat_map(|stored| &stored.owners);
        assert!(left.all(|owner| owner.uid != uid), "{uid} has a dependent");
        if let Some((key, _)) = self.get(&item.identity) {
            self.remove_finalizer(&key, "orphan");
        }
    }

    /// Runs until no events and tasks are left.
    fn settle(&mut self) {
        self.relist();
        for _ in 0..200_000 {
            let is_told = self.watches.values().all(VecDeque::is_empty);
            if is_told && self.tasks.is_empty() {
                return;
            }
            match self.below(2) {
                0 => self.deliver_event(),
                _ => self.process_task(),
            }
        }
        panic!("did not settle; remaining tasks: {:?}", self.tasks);
    }

    /// Checks all stored objects, independently of the graph.
    fn assert_no_garbage(&self, seed: u64) {
        for (key, stored) in &self.objects {
            let may_wait = stored.finalizer == Some("foregroundDeletion");
            let ends = stored.is_deleting && !(may_wait && self.is_stuck(&stored.uid));
            assert!(!ends, "seed {seed}: {key:?} {stored:?} still waits");
            if stored.is_deleting || self.is_unresolvable(key, stored) {
                continue;
            }
            let mut owners = stored.owners.iter();
            let is_clean = owners.all(|owner| self.is_live_owner(key, owner) == Some(true));
            assert!(is_clean, "seed {seed}: {key:?} {stored:?} is garbage");
        }
        let named = self.objects.values().flat_map(|stored| &stored.owners);
        let owners: BTreeSet<&str> = named.map(|owner| owner.uid.as_str()).collect();
        let owned = self.objects.values().filter(|own| !own.owners.is_empty());
        let kept: BTreeSet<&str> = owned.map(|own| own.uid.as_str()).chain(owners).collect();
        assert_eq!(self.graph.len(), kept.len(), "seed {seed}");
    }
}

fn named(key: &ObjectKey, reference: &OwnerReference) -> ObjectIdentity {
    ObjectIdentity {
        kind: Arc::new(ApiVersionKind::new("v1", &reference.kind)),
        namespace: key.1.into(),
        name: reference.name.as_str().into(),
        uid: ObjectUid::new(&reference.uid),
    }
}

/// The identity to look up; `None` if it cannot be resolved.
fn resolve(mut identity: ObjectIdentity) -> Option<ObjectIdentity> {
    if *identity.kind.kind == *CLUSTER_KIND {
        identity.namespace = "".into();
        return Some(identity);
    }
    let is_known = *identity.kind.kind != *UNKNOWN_KIND;
    (is_known && !identity.namespace.is_empty()).then_some(identity)
}

fn meta(key: &ObjectKey, stored: &StoredObject) -> PartialMetadata {
    let finalizers: Vec<&str> = stored.finalizer.into_iter().collect();
    let deleted = stored.is_deleting.then_some("2026-01-01T00:00:00Z");
    serde_json::from_value(json!({"metadata": {
        "namespace": key.1, "name": key.2, "uid": stored.uid, "finalizers": finalizers,
        "ownerReferences": stored.owners, "deletionTimestamp": deleted,
    }}))
    .unwrap()
}

#[test]
fn exactly_the_garbage_is_collected_in_any_event_order() {
    for seed in 1..=200 {
        let mut cluster = RandomizedCluster::new(seed);
        for _ in 0..3 {
            (0..200).for_each(|_| cluster.step());
            cluster.settle();
            cluster.assert_no_garbage(seed);
        }
        let keys: Vec<ObjectKey> = cluster.objects.keys().cloned().collect();
        for key in keys {
            cluster.delete(&key, DeletionPropagation::Background);
        }
        cluster.settle();
        assert!(cluster.objects.is_empty(), "seed {seed}");
        assert_eq!(cluster.graph.len(), 0, "seed {seed}");
    }
}
