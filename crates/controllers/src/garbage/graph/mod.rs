//! Who owns whom, as far as it matters, and what is to be looked at when that changes. No I/O: events go in, work
//! comes out.
//!
//! An object is kept only if it names owners, if others name it as their owner, or if it ends in a way that its
//! dependents have a part in. What nobody refers to takes no memory, so an owner is often unknown until its first
//! dependent comes. It then stands in the graph unconfirmed, and is to be looked up. No order of events loses
//! anything by that:
//!
//! - an owner that was gone before its dependent came is found to be absent by the lookup;
//! - an owner that goes after the lookup is told by the watch of its kind;
//! - if that watch was interrupted, whatever is not in its next list is looked up again (`list_ends`).
//!
//! An owner that is gone stays as a mark for as long as dependents name it: those that come late are garbage too.
//! A node takes 112 bytes; with its name, one reference and its places by uid and among the dependents of its
//! owner, an object costs about 300 bytes.

mod identity;
mod kinds;
mod owners;
#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use self::identity::{AbsentOwners, Interned};
pub(crate) use self::identity::{Identity, KindName, Uid};
pub(crate) use self::owners::Absence;

/// A node, by its place in the graph.
type NodeId = u32;

/// An object as a watch shows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) owners: Vec<Owner<'a>>,
    pub(crate) is_deleting: bool,
    pub(crate) has_foreground: bool,
    pub(crate) has_orphan: bool,
}

/// What an object says about one of its owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    /// Whether the owner is to stay until this object is gone.
    pub(crate) blocks: bool,
}

/// What a change asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// Look whether the object is there, is garbage, or waits for nothing any more.
    Check(Uid),
    /// Take the object out of the references of its dependents.
    Orphan(Uid),
    /// Tell that the first names the second as its owner, which is in another namespace.
    Report(Identity, Identity),
}

/// What is known of an object when it is looked at.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) identity: Identity,
    pub(crate) is_confirmed: bool,
    pub(crate) is_deleting: bool,
    pub(crate) awaits_dependents: bool,
    pub(crate) has_owners: bool,
    pub(crate) has_dependents: bool,
    /// Whether a dependent waits for its own dependents, so that there may be a cycle.
    pub(crate) dependent_awaits: bool,
}

#[derive(Debug)]
struct Node {
    identity: Identity,
    owners: Box<[Reference]>,
    dependents: BTreeSet<NodeId>,
    marks: Marks,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Marks {
    /// An event or a lookup showed the object at this identity.
    confirmed: bool,
    /// It was in the list that goes on, or in the last one.
    listed: bool,
    /// It does not exist. Dependents still name it.
    gone: bool,
    deleting: bool,
    /// It is deleting, and waits until blocking dependents are gone.
    foreground: bool,
    /// It is deleting, and waits until no dependent names it.
    orphan: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Reference {
    owner: NodeId,
    blocks: bool,
    kind: Arc<KindName>,
    /// The same allocation as the owner's, if it has that name.
    name: Arc<str>,
}

#[derive(Debug)]
pub(crate) struct Graph {
    nodes: Vec<Option<Node>>,
    free: Vec<NodeId>,
    by_uid: HashMap<Uid, NodeId>,
    absent: AbsentOwners,
    kinds: Interned<KindName>,
    namespaces: Interned<str>,
}

impl Graph {
    pub(crate) fn new() -> Graph {
        Graph {
            nodes: Vec::new(),
            free: Vec::new(),
            by_uid: HashMap::new(),
            absent: AbsentOwners::default(),
            kinds: Interned::new(),
            namespaces: Interned::new(),
        }
    }

    /// An object is as a watch of its kind shows it.
    pub(crate) fn observe(&mut self, kind: &KindName, object: &Object<'_>, work: &mut Vec<Work>) {
        let uid = Uid::new(object.uid);
        let known = self.id(&uid);
        if known.is_none() && !object.matters() {
            return;
        }
        let id = match known {
            Some(id) => {
                self.confirm_at(id, kind, object.namespace, object.name, work);
                id
            }
            None => {
                let identity = Identity {
                    kind: self.kinds.get(kind),
                    namespace: self.namespaces.get(object.namespace),
                    name: object.name.into(),
                    uid,
                };
                self.insert(identity)
            }
        };
        self.set_owners(id, &object.owners, work);
        self.set_marks(id, object, work);
        self.check_if_bad(id, work);
        self.drop_if_idle(id);
    }

    /// A watch of its kind says that an object is gone. That is no word about any other place where dependents say
    /// that it is.
    pub(crate) fn gone(&mut self, kind: &KindName, object: &Object<'_>, work: &mut Vec<Work>) {
        if let Some(id) = self.id(&Uid::new(object.uid)) {
            self.confirm_at(id, kind, object.namespace, object.name, work);
            self.remove(id, work);
        }
    }

    /// A lookup found the object at its identity.
    pub(crate) fn confirm(&mut self, identity: &Identity, work: &mut Vec<Work>) {
        let Some(id) = self.id(&identity.uid) else {
            return;
        };
        let Some(node) = self.node(id).filter(|node| !node.marks.confirmed) else {
            return;
        };
        // It went after the lookup, and never comes back.
        if node.marks.gone && node.identity.is_version_of(identity) {
            return;
        }
        let Identity {
            kind,
            namespace,
            name,
            ..
        } = identity;
        self.confirm_at(id, kind, namespace, name, work);
    }

    /// What is known of an object that is not known to be gone.
    pub(crate) fn item(&self, uid: &Uid) -> Option<Item> {
        let id = *self.by_uid.get(uid)?;
        let node = self.node(id).filter(|node| !node.marks.gone)?;
        let mut dependents = node.dependents.iter();
        Some(Item {
            identity: node.identity.clone(),
            is_confirmed: node.marks.confirmed,
            is_deleting: node.marks.deleting,
            awaits_dependents: node.marks.foreground,
            has_owners: !node.owners.is_empty(),
            has_dependents: !node.dependents.is_empty(),
            dependent_awaits: dependents.any(|&dependent| self.marks(dependent).foreground),
        })
    }

    /// All objects that name this one as their owner.
    pub(crate) fn dependents(&self, uid: &Uid) -> Vec<Identity> {
        let node = self.by_uid.get(uid).and_then(|&id| self.node(id));
        let dependents = node.into_iter().flat_map(|node| &node.dependents);
        dependents
            .filter_map(|&dependent| Some(self.node(dependent)?.identity.clone()))
            .collect()
    }

    /// Those that have to be gone before this one can go: uids, and whether it waits for its own dependents.
    pub(crate) fn blocking(&self, uid: &Uid) -> Vec<(Uid, bool)> {
        let Some(&id) = self.by_uid.get(uid) else {
            return Vec::new();
        };
        self.blocking_of(id)
            .map(|node| (node.identity.uid.clone(), node.marks.foreground))
            .collect()
    }

    fn blocking_of(&self, id: NodeId) -> impl Iterator<Item = &Node> {
        let dependents = self.node(id).into_iter().flat_map(|node| &node.dependents);
        dependents
            .filter_map(|&dependent| self.node(dependent))
            .filter(move |node| {
                let mut owners = node.owners.iter();
                owners.any(|reference| reference.owner == id && reference.blocks)
            })
    }

    /// Whether the server said that there is no such owner: in the namespace of the dependent, or in none.
    pub(crate) fn is_absent(&self, owner: &Identity) -> bool {
        let unscoped = Identity {
            namespace: "".into(),
            ..owner.clone()
        };
        self.absent.has(&unscoped) || self.absent.has(owner)
    }

    /// Whether the owner is or was seen in the namespace where the dependent says that it is.
    pub(crate) fn is_known_in_namespace(&self, owner: &Identity) -> bool {
        let node = self.by_uid.get(&owner.uid).and_then(|&id| self.node(id));
        node.is_some_and(|node| {
            let is_seen = node.marks.confirmed || node.marks.gone;
            is_seen && node.identity.namespace == owner.namespace
        })
    }

    /// The server said so.
    pub(crate) fn remember_absent(&mut self, identity: Identity) {
        self.absent.add(identity);
    }

    /// How many objects take memory.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.by_uid.len()
    }

    fn set_marks(&mut self, id: NodeId, object: &Object<'_>, work: &mut Vec<Work>) {
        let Some(node) = self.node_mut(id) else {
            return;
        };
        let before = node.marks;
        node.marks = Marks {
            confirmed: true,
            listed: true,
            gone: false,
            deleting: object.is_deleting,
            foreground: object.is_deleting && object.has_foreground,
            orphan: object.is_deleting && object.has_orphan,
        };
        let after = node.marks;
        let uid = node.identity.uid.clone();
        // A list says nothing of what was in between: the wait may have ended and begun again.
        if after.orphan && !(before.orphan && before.listed) {
            work.push(Work::Orphan(uid));
        } else if after.foreground && !(before.foreground && before.listed) {
            self.check_dependents(id, work);
            work.push(Work::Check(uid));
        }
    }

    /// The object is not there: what depends on it is looked at, and what waits for it.
    fn remove(&mut self, id: NodeId, work: &mut Vec<Work>) {
        let Some(node) = self.node_mut(id) else {
            return;
        };
        node.marks = Marks {
            gone: true,
            ..Marks::default()
        };
        let owners = std::mem::take(&mut node.owners);
        let identity = node.identity.clone();
        if !node.dependents.is_empty() {
            self.absent.add(identity);
        }
        self.check_dependents(id, work);
        for reference in &owners {
            self.remove_dependent(reference.owner, id);
            // While others block it, they are what the owner waits for.
            if self.marks(reference.owner).foreground
                && self.blocking_of(reference.owner).next().is_none()
                && let Some(owner) = self.node(reference.owner)
            {
                work.push(Work::Check(owner.identity.uid.clone()));
            }
            self.drop_if_idle(reference.owner);
        }
        self.drop_if_idle(id);
    }

    fn check_dependents(&self, id: NodeId, work: &mut Vec<Work>) {
        let dependents = self.node(id).into_iter().flat_map(|node| &node.dependents);
        let uids = dependents.filter_map(|&dependent| Some(&self.node(dependent)?.identity.uid));
        work.extend(uids.cloned().map(Work::Check));
    }

    fn insert(&mut self, identity: Identity) -> NodeId {
        let uid = identity.uid.clone();
        let node = Node {
            identity,
            owners: Box::default(),
            dependents: BTreeSet::new(),
            marks: Marks::default(),
        };
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.nodes.push(None);
                NodeId::try_from(self.nodes.len() - 1).unwrap_or(NodeId::MAX)
            }
        };
        if let Some(place) = self.nodes.get_mut(id as usize) {
            *place = Some(node);
            self.by_uid.insert(uid, id);
        }
        id
    }

    /// Forgets an object that does not matter any more.
    fn drop_if_idle(&mut self, id: NodeId) {
        let Some(node) = self.node(id) else {
            return;
        };
        let ends = node.marks.foreground || node.marks.orphan;
        if ends || !node.owners.is_empty() || !node.dependents.is_empty() {
            return;
        }
        let uid = node.identity.uid.clone();
        self.by_uid.remove(&uid);
        self.nodes[id as usize] = None;
        self.free.push(id);
        self.shrink_if_sparse();
    }

    /// After the end of very many objects the map shrinks; the places of nodes are given back when all are free.
    fn shrink_if_sparse(&mut self) {
        if self.by_uid.is_empty() {
            self.nodes = Vec::new();
            self.free = Vec::new();
        }
        if self.by_uid.capacity() > 1024 && self.by_uid.len() < self.by_uid.capacity() / 8 {
            self.by_uid.shrink_to(self.by_uid.len() * 2);
        }
    }

    fn id(&self, uid: &Uid) -> Option<NodeId> {
        self.by_uid.get(uid).copied()
    }

    fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id as usize)?.as_ref()
    }

    fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(id as usize)?.as_mut()
    }

    fn marks(&self, id: NodeId) -> Marks {
        self.node(id).map(|node| node.marks).unwrap_or_default()
    }
}
