//! A small server with random clients and watches that lag and break. Whatever the order, only garbage is deleted,
//! and in the end no garbage is left: both are computed anew from all objects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use super::super::objects::Meta;
use super::super::verdict::{Classified, Policy, Verdict, verdict};
use super::*;

const KINDS: [&str; 3] = ["A", "B", "C"];
const NAMESPACES: [&str; 2] = ["m", "n"];

/// A kind, a namespace and a name.
type Key = (&'static str, &'static str, String);

#[derive(Debug, Clone)]
struct Stored {
    uid: String,
    owners: Vec<OwnerReference>,
    finalizer: Option<&'static str>,
    is_deleting: bool,
}

enum Told {
    Begins,
    Shown(Key, Stored),
    Ends,
    Gone(String),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Check(Uid),
    Orphan(Uid),
}

struct World {
    random: u64,
    objects: BTreeMap<Key, Stored>,
    /// Where each uid is or was, in the order in which they came.
    history: Vec<(Key, String)>,
    watches: BTreeMap<&'static str, VecDeque<Told>>,
    /// Kinds whose watch is broken and has not listed yet.
    broken: BTreeSet<&'static str>,
    graph: Graph,
    tasks: BTreeSet<Task>,
}

impl World {
    fn new(seed: u64) -> World {
        World {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            objects: BTreeMap::new(),
            history: Vec::new(),
            watches: KINDS.map(|kind| (kind, VecDeque::new())).into(),
            broken: BTreeSet::new(),
            graph: Graph::new(),
            tasks: BTreeSet::new(),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).unwrap() % bound
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
                self.watches.get_mut(kind).unwrap().push_back(Told::Begins);
                self.broken.insert(kind);
            }
            5 => self.list_again(),
            6..=9 => self.tell_one(),
            _ => self.work_one(),
        }
    }

    fn create(&mut self) {
        let key = (
            KINDS[self.below(KINDS.len())],
            NAMESPACES[self.below(2)],
            format!("o{}", self.below(30)),
        );
        if self.objects.contains_key(&key) {
            return;
        }
        let stored = Stored {
            uid: format!("u{}", self.history.len()),
            owners: self.some_owners(key.1, self.history.len()),
            finalizer: None,
            is_deleting: false,
        };
        self.history.push((key.clone(), stored.uid.clone()));
        self.store(key, stored);
    }

    /// References to objects that came earlier, so that there is no cycle. Some are gone, some are elsewhere.
    fn some_owners(&mut self, namespace: &str, before: usize) -> Vec<OwnerReference> {
        let mut owners: Vec<OwnerReference> = Vec::new();
        for _ in 0..self.below(4) {
            let recent = before.min(25);
            if recent == 0 {
                break;
            }
            let back = self.below(recent);
            let (key, uid) = self.history[before - 1 - back].clone();
            let is_odd = self.below(10) == 0;
            if owners.iter().any(|own| own.uid == uid) || (key.1 != namespace && !is_odd) {
                continue;
            }
            owners.push(OwnerReference {
                api_version: "v1".into(),
                kind: key.0.into(),
                name: if self.below(30) == 0 {
                    "x".into()
                } else {
                    key.2
                },
                uid,
                controller: None,
                block_owner_deletion: Some(self.below(2) == 0),
            });
        }
        owners
    }

    fn delete_one(&mut self) {
        let keys: Vec<Key> = self.objects.keys().cloned().collect();
        if let Some(key) = self.one_of(&keys) {
            let policies = [Policy::Background, Policy::Foreground, Policy::Orphan];
            let policy = policies[self.below(3)];
            self.delete(&key, policy);
        }
    }

    fn change_owners(&mut self) {
        let keys: Vec<Key> = self.objects.keys().cloned().collect();
        let Some(key) = self.one_of(&keys) else {
            return;
        };
        let mut stored = self.objects[&key].clone();
        if self.below(2) == 0 {
            for owner in &mut stored.owners {
                owner.block_owner_deletion = Some(self.below(2) == 0);
            }
        } else {
            let place = self.history.iter().position(|(_, uid)| *uid == stored.uid);
            let more = self.some_owners(key.1, place.unwrap());
            let is_new = |own: &OwnerReference| stored.owners.iter().all(|old| old.uid != own.uid);
            let more: Vec<OwnerReference> = more.into_iter().filter(is_new).collect();
            if self.below(2) == 0 {
                stored.owners.pop();
            }
            stored.owners.extend(more);
        }
        self.store(key, stored);
    }

    fn store(&mut self, key: Key, stored: Stored) {
        let told = if stored.is_deleting && stored.finalizer.is_none() {
            self.objects.remove(&key);
            Told::Gone(stored.uid)
        } else {
            self.objects.insert(key.clone(), stored.clone());
            Told::Shown(key.clone(), stored)
        };
        if !self.broken.contains(key.0) {
            self.watches.get_mut(key.0).unwrap().push_back(told);
        }
    }

    fn delete(&mut self, key: &Key, policy: Policy) {
        let mut stored = self.objects[key].clone();
        stored.is_deleting = true;
        stored.finalizer = match policy {
            Policy::Background => None,
            Policy::Foreground => Some("foregroundDeletion"),
            Policy::Orphan => Some("orphan"),
        };
        self.store(key.clone(), stored);
    }

    fn list_again(&mut self) {
        for kind in std::mem::take(&mut self.broken) {
            let shown = self.objects.iter().filter(|(key, _)| key.0 == kind);
            let shown = shown.map(|(key, stored)| Told::Shown(key.clone(), stored.clone()));
            let watch = self.watches.get_mut(kind).unwrap();
            watch.extend(shown.chain([Told::Ends]));
        }
    }

    fn tell_one(&mut self) {
        let kind = KINDS[self.below(KINDS.len())];
        let Some(told) = self.watches.get_mut(kind).unwrap().pop_front() else {
            return;
        };
        let name = KindName::new("v1", kind);
        let mut work = Vec::new();
        match told {
            Told::Begins => self.graph.list_begins(&name),
            Told::Ends => self.graph.list_ends(&name, &mut work),
            Told::Gone(uid) => self.graph.gone(&uid, &mut work),
            Told::Shown(key, stored) => {
                let meta = meta(&key, &stored);
                self.graph.observe(&name, &meta.as_object(), &mut work);
            }
        }
        self.add(work);
    }

    fn add(&mut self, work: Vec<Work>) {
        self.tasks
            .extend(work.into_iter().filter_map(|work| match work {
                Work::Check(uid) => Some(Task::Check(uid)),
                Work::Orphan(uid) => Some(Task::Orphan(uid)),
                Work::Report(..) => None,
            }));
    }

    fn work_one(&mut self) {
        let is_told = self.broken.is_empty() && self.watches.values().all(VecDeque::is_empty);
        // Orphaning waits a moment, in which what was made before is told.
        let ready = |task: &&Task| is_told || matches!(task, Task::Check(_));
        let ready: Vec<Task> = self.tasks.iter().filter(ready).cloned().collect();
        let Some(task) = self.one_of(&ready) else {
            return;
        };
        self.tasks.remove(&task);
        match task {
            Task::Check(uid) => self.check(uid),
            Task::Orphan(uid) => self.orphan(uid),
        }
    }

    fn get(&self, identity: &Identity) -> Option<(Key, Stored)> {
        let key = self.objects.keys().find(|key| {
            *key.0 == *identity.kind.kind
                && *key.1 == *identity.namespace
                && *key.2 == *identity.name
        })?;
        let stored = &self.objects[key];
        (stored.uid == identity.uid.to_string()).then(|| (key.clone(), stored.clone()))
    }

    fn owner(&self, key: &Key, reference: &OwnerReference) -> Option<Stored> {
        let identity = Identity {
            kind: Arc::new(KindName::new("v1", &reference.kind)),
            namespace: key.1.into(),
            name: reference.name.as_str().into(),
            uid: Uid::new(&reference.uid),
        };
        self.get(&identity).map(|(_, stored)| stored)
    }

    fn check(&mut self, uid: Uid) {
        let Some(item) = self.graph.item(&uid) else {
            return;
        };
        let mut work = Vec::new();
        let Some((key, stored)) = self.get(&item.identity) else {
            if self.graph.absent(&item.identity, &mut work) == Absence::LookElsewhere {
                work.push(Work::Check(uid));
            }
            return self.add(work);
        };
        self.graph.confirm(&item.identity, &mut work);
        if item.awaits_dependents {
            let blocking = self.graph.blocking(&uid);
            if blocking.is_empty() {
                self.remove_finalizer(&key, "foregroundDeletion");
            }
            let idle = blocking.into_iter().filter(|(_, awaits)| !awaits);
            work.extend(idle.map(|(uid, _)| Work::Check(uid)));
        } else if !item.is_deleting && !stored.owners.is_empty() {
            let owners = self.classify(&key, &stored);
            match verdict(&item, &meta(&key, &stored), &owners) {
                Verdict::Keep => {}
                Verdict::Release(uids) => self.release(&key, &uids),
                Verdict::Delete { policy, .. } => {
                    assert!(owners.solid.is_empty(), "{stored:?} has an owner");
                    self.delete(&key, policy);
                }
            }
        }
        self.add(work);
    }

    fn classify(&self, key: &Key, stored: &Stored) -> Classified {
        let mut classified = Classified::default();
        for reference in &stored.owners {
            let list = match self.owner(key, reference) {
                None => &mut classified.dangling,
                Some(owner) if owner.finalizer == Some("foregroundDeletion") => {
                    &mut classified.waiting
                }
                Some(_) => &mut classified.solid,
            };
            list.push(reference.clone());
        }
        classified
    }

    fn release(&mut self, key: &Key, uids: &[String]) {
        let mut stored = self.objects[key].clone();
        stored.owners.retain(|owner| !uids.contains(&owner.uid));
        self.store(key.clone(), stored);
    }

    fn remove_finalizer(&mut self, key: &Key, finalizer: &str) {
        let mut stored = self.objects[key].clone();
        if stored.finalizer == Some(finalizer) {
            stored.finalizer = None;
            self.store(key.clone(), stored);
        }
    }

    fn orphan(&mut self, uid: Uid) {
        let Some(item) = self.graph.item(&uid) else {
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

    /// Until nothing happens any more.
    fn settle(&mut self) {
        self.list_again();
        for _ in 0..200_000 {
            let is_told = self.watches.values().all(VecDeque::is_empty);
            if is_told && self.tasks.is_empty() {
                return;
            }
            match self.below(2) {
                0 => self.tell_one(),
                _ => self.work_one(),
            }
        }
        panic!("still at work: {:?}", self.tasks);
    }

    /// What the graph never sees: all objects, and who of them is garbage.
    fn assert_no_garbage(&self, seed: u64) {
        for (key, stored) in &self.objects {
            assert!(!stored.is_deleting, "seed {seed}: {key:?} {stored:?} waits");
            let owners = self.classify(key, stored);
            let is_clean = owners.dangling.is_empty() && owners.waiting.is_empty();
            assert!(is_clean, "seed {seed}: {key:?} {stored:?} is garbage");
        }
        let named = self.objects.values().flat_map(|stored| &stored.owners);
        let owners: BTreeSet<&str> = named.map(|owner| owner.uid.as_str()).collect();
        let owned = self.objects.values().filter(|own| !own.owners.is_empty());
        let kept: BTreeSet<&str> = owned.map(|own| own.uid.as_str()).chain(owners).collect();
        assert_eq!(self.graph.len(), kept.len(), "seed {seed}");
    }
}

fn meta(key: &Key, stored: &Stored) -> Meta {
    let finalizers: Vec<&str> = stored.finalizer.into_iter().collect();
    let deleted = stored.is_deleting.then_some("2026-01-01T00:00:00Z");
    serde_json::from_value(json!({"metadata": {
        "namespace": key.1, "name": key.2, "uid": stored.uid, "finalizers": finalizers,
        "ownerReferences": stored.owners, "deletionTimestamp": deleted,
    }}))
    .unwrap()
}

#[test]
fn all_garbage_and_nothing_else_is_collected_in_any_order() {
    for seed in 1..=200 {
        let mut world = World::new(seed);
        for _ in 0..3 {
            (0..200).for_each(|_| world.step());
            world.settle();
            world.assert_no_garbage(seed);
        }
        let keys: Vec<Key> = world.objects.keys().cloned().collect();
        for key in keys {
            world.delete(&key, Policy::Background);
        }
        world.settle();
        assert!(world.objects.is_empty(), "seed {seed}");
        assert_eq!(world.graph.len(), 0, "seed {seed}");
    }
}
