//! A small server with random clients and watches that lag and break. Whatever the order, only garbage is deleted,
//! and in the end no garbage is left: both are computed anew from all objects. Many references are wrong: they name
//! an object by its uid, but by another kind or name, or from where it cannot be an owner.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use super::super::objects::Meta;
use super::super::verdict::{Classified, Policy, Verdict, verdict};
use super::*;

const KINDS: [&str; 3] = ["A", "B", "C"];
/// The kind that is in no namespace.
const CLUSTER_KIND: &str = "C";
const UNKNOWN_KIND: &str = "X";
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
    Gone(Key, Stored),
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
        let kind = KINDS[self.below(KINDS.len())];
        let namespace = NAMESPACES[self.below(2)];
        let namespace = if kind == CLUSTER_KIND { "" } else { namespace };
        let key = (kind, namespace, format!("o{}", self.below(30)));
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
            self.mistake(&mut owner);
            owners.push(owner);
        }
        owners
    }

    /// Some references are not what their owners are.
    fn mistake(&mut self, owner: &mut OwnerReference) {
        match self.below(40) {
            0 => owner.name = "x".into(),
            1 | 2 => owner.kind = KINDS[self.below(KINDS.len())].into(),
            3 => owner.kind = UNKNOWN_KIND.into(),
            _ => {}
        }
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
                self.mistake(owner);
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
            Told::Gone(key.clone(), stored)
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
            Told::Gone(key, stored) => {
                let meta = meta(&key, &stored);
                self.graph.gone(&name, &meta.as_object(), &mut work);
            }
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

    /// What the collector asks of the server about the owners of an object, unless it knows that they are absent.
    fn classify(&mut self, key: &Key, stored: &Stored) -> Option<Classified> {
        let mut classified = Classified::default();
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
                        let mut work = Vec::new();
                        self.graph.confirm(&owner, &mut work);
                        self.add(work);
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

    /// Whether a reference leads to an object that stays; none if it never leads anywhere.
    fn is_solid(&self, key: &Key, reference: &OwnerReference) -> Option<bool> {
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

    fn is_unresolvable(&self, key: &Key, stored: &Stored) -> bool {
        let mut owners = stored.owners.iter();
        owners.any(|owner| self.is_solid(key, owner).is_none())
    }

    /// Whether something waits for ever, because what blocks it cannot be judged.
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

    fn check(&mut self, uid: Uid) {
        let Some(item) = self.graph.item(&uid) else {
            return;
        };
        let mut work = Vec::new();
        let Some(identity) = resolve(item.identity.clone()) else {
            return;
        };
        let Some((key, stored)) = self.get(&identity) else {
            if self.graph.absent(&identity, &mut work) == Absence::LookElsewhere {
                work.push(Work::Check(uid));
            }
            return self.add(work);
        };
        self.graph.confirm(&identity, &mut work);
        if item.awaits_dependents {
            let blocking = self.graph.blocking(&uid);
            if blocking.is_empty() {
                self.remove_finalizer(&key, "foregroundDeletion");
            }
            let idle = blocking.into_iter().filter(|(_, awaits)| !awaits);
            work.extend(idle.map(|(uid, _)| Work::Check(uid)));
        } else if !item.is_deleting && !stored.owners.is_empty() {
            let Some(owners) = self.classify(&key, &stored) else {
                return self.add(work);
            };
            match verdict(&item, &meta(&key, &stored), &owners) {
                Verdict::Keep => {}
                Verdict::Release(uids) => self.release(&key, &uids),
                Verdict::Delete { policy, .. } => {
                    let mut owners = stored.owners.iter();
                    let is_garbage = owners.all(|own| self.is_solid(&key, own) == Some(false));
                    assert!(is_garbage, "{key:?} {stored:?} may have an owner");
                    self.delete(&key, policy);
                }
            }
        }
        self.add(work);
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
            let may_wait = stored.finalizer == Some("foregroundDeletion");
            let ends = stored.is_deleting && !(may_wait && self.is_stuck(&stored.uid));
            assert!(!ends, "seed {seed}: {key:?} {stored:?} waits");
            if stored.is_deleting || self.is_unresolvable(key, stored) {
                continue;
            }
            let mut owners = stored.owners.iter();
            let is_clean = owners.all(|owner| self.is_solid(key, owner) == Some(true));
            assert!(is_clean, "seed {seed}: {key:?} {stored:?} is garbage");
        }
        let named = self.objects.values().flat_map(|stored| &stored.owners);
        let owners: BTreeSet<&str> = named.map(|owner| owner.uid.as_str()).collect();
        let owned = self.objects.values().filter(|own| !own.owners.is_empty());
        let kept: BTreeSet<&str> = owned.map(|own| own.uid.as_str()).chain(owners).collect();
        assert_eq!(self.graph.len(), kept.len(), "seed {seed}");
    }
}

fn named(key: &Key, reference: &OwnerReference) -> Identity {
    Identity {
        kind: Arc::new(KindName::new("v1", &reference.kind)),
        namespace: key.1.into(),
        name: reference.name.as_str().into(),
        uid: Uid::new(&reference.uid),
    }
}

/// Where an object is looked up, if it can be.
fn resolve(mut identity: Identity) -> Option<Identity> {
    if *identity.kind.kind == *CLUSTER_KIND {
        identity.namespace = "".into();
        return Some(identity);
    }
    let is_known = *identity.kind.kind != *UNKNOWN_KIND;
    (is_known && !identity.namespace.is_empty()).then_some(identity)
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
