//! Ownership graph of the garbage collector (upstream's `GraphBuilder` and `uidToNode`). No I/O: takes watch events and
//! lookup results, returns actions.
//!
//! A node exists only for an object that names owners, that others name as their owner, or that is in foreground
//! deletion or orphaning. Objects without relations take no memory, so an owner is often unknown until its first
//! dependent is observed. It then is added unconfirmed and looked up. No order of events loses anything:
//!
//! - an owner that was deleted before its dependent was observed is found absent by the lookup;
//! - an owner that is deleted after the lookup is reported by the watch of its kind;
//! - if that watch was interrupted, objects that are not in its next list are looked up again.
//!
//! A deleted owner stays as a tombstone while dependents name it, because late dependents are garbage too. A node takes
//! 112 bytes; with its name, one owner edge and its entries in the uid map and its owner's dependents, an object costs
//! about 300 bytes.

mod identity;
mod owner_references;
#[cfg(test)]
mod randomized_tests;
mod relist;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use self::identity::{AbsentOwnerCache, IdentityInterner};
pub(crate) use self::identity::{ApiVersionKind, ObjectIdentity, ObjectUid};
pub(crate) use self::owner_references::AbsenceOutcome;

/// Index of a node in the graph.
type GraphNodeId = u32;

/// An object as observed by a watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObservedObject<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) owners: Vec<ObservedOwner<'a>>,
    pub(crate) is_deleting: bool,
    pub(crate) has_foreground: bool,
    pub(crate) has_orphan: bool,
}

/// An owner reference of an observed object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObservedOwner<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    /// `blockOwnerDeletion`: in foreground deletion, the owner waits for this object.
    pub(crate) blocks: bool,
}

/// An action that results from a change of the graph.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum GraphAction {
    /// Check whether the object exists, is garbage, or can complete its foreground deletion.
    Check(ObjectUid),
    /// Remove the object from the owner references of its dependents.
    Orphan(ObjectUid),
    /// Dependent and owner: record an event that the owner is in another namespace.
    Report(ObjectIdentity, ObjectIdentity),
}

/// Copy of a node's state, taken when the object is processed.
#[derive(Debug, Clone)]
pub(crate) struct GraphNodeSnapshot {
    pub(crate) identity: ObjectIdentity,
    pub(crate) is_confirmed: bool,
    pub(crate) is_deleting: bool,
    pub(crate) awaits_dependents: bool,
    pub(crate) has_owners: bool,
    pub(crate) has_dependents: bool,
    /// Whether a dependent is in foreground deletion itself, so that there may be a cycle.
    pub(crate) dependent_awaits: bool,
}

#[derive(Debug)]
struct GraphNode {
    identity: ObjectIdentity,
    owners: Box<[OwnerEdge]>,
    dependents: BTreeSet<GraphNodeId>,
    flags: GraphNodeFlags,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct GraphNodeFlags {
    /// An event or a lookup found the object with this identity.
    confirmed: bool,
    /// The current or last list returned it.
    listed: bool,
    /// Tombstone: it does not exist, but dependents still name it.
    gone: bool,
    deleting: bool,
    /// In foreground deletion: waits until blocking dependents are gone.
    foreground: bool,
    /// In orphaning deletion: waits until no dependent names it.
    orphan: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct OwnerEdge {
    owner: GraphNodeId,
    blocks: bool,
    kind: Arc<ApiVersionKind>,
    /// Shares the allocation of the owner's name if they are equal.
    name: Arc<str>,
}

#[derive(Debug)]
pub(crate) struct OwnershipGraph {
    nodes: Vec<Option<GraphNode>>,
    free: Vec<GraphNodeId>,
    by_uid: HashMap<ObjectUid, GraphNodeId>,
    absent: AbsentOwnerCache,
    kinds: IdentityInterner<ApiVersionKind>,
    namespaces: IdentityInterner<str>,
}

impl OwnershipGraph {
    pub(crate) fn new() -> OwnershipGraph {
        OwnershipGraph {
            nodes: Vec::new(),
            free: Vec::new(),
            by_uid: HashMap::new(),
            absent: AbsentOwnerCache::default(),
            kinds: IdentityInterner::new(),
            namespaces: IdentityInterner::new(),
        }
    }

    /// Handles an added or updated object.
    pub(crate) fn observe(
        &mut self,
        kind: &ApiVersionKind,
        object: &ObservedObject<'_>,
        actions: &mut Vec<GraphAction>,
    ) {
        let uid = ObjectUid::new(object.uid);
        let known = self.id(&uid);
        if known.is_none() && !object.needs_node() {
            return;
        }
        let id = match known {
            Some(id) => {
                self.confirm_at(id, kind, object.namespace, object.name, actions);
                id
            }
            None => {
                let identity = ObjectIdentity {
                    kind: self.kinds.get(kind),
                    namespace: self.namespaces.get(object.namespace),
                    name: object.name.into(),
                    uid,
                };
                self.insert(identity)
            }
        };
        self.set_owners(id, &object.owners, actions);
        self.set_flags(id, object, actions);
        self.check_if_invalid(id, actions);
        self.remove_if_unused(id);
    }

    /// Handles a delete event. It says nothing about other coordinates under which dependents name the uid.
    pub(crate) fn observe_deletion(
        &mut self,
        kind: &ApiVersionKind,
        object: &ObservedObject<'_>,
        actions: &mut Vec<GraphAction>,
    ) {
        if let Some(id) = self.id(&ObjectUid::new(object.uid)) {
            self.confirm_at(id, kind, object.namespace, object.name, actions);
            self.remove(id, actions);
        }
    }

    /// A lookup found the object with this identity.
    pub(crate) fn confirm(&mut self, identity: &ObjectIdentity, actions: &mut Vec<GraphAction>) {
        let Some(id) = self.id(&identity.uid) else {
            return;
        };
        let Some(node) = self.node(id).filter(|node| !node.flags.confirmed) else {
            return;
        };
        // It was deleted after the lookup; a uid is never reused.
        if node.flags.gone && node.identity.is_version_of(identity) {
            return;
        }
        let ObjectIdentity {
            kind,
            namespace,
            name,
            ..
        } = identity;
        self.confirm_at(id, kind, namespace, name, actions);
    }

    /// Copy of a node's state; `None` for unknown and deleted objects.
    pub(crate) fn snapshot(&self, uid: &ObjectUid) -> Option<GraphNodeSnapshot> {
        let id = *self.by_uid.get(uid)?;
        let node = self.node(id).filter(|node| !node.flags.gone)?;
        let mut dependents = node.dependents.iter();
        Some(GraphNodeSnapshot {
            identity: node.identity.clone(),
            is_confirmed: node.flags.confirmed,
            is_deleting: node.flags.deleting,
            awaits_dependents: node.flags.foreground,
            has_owners: !node.owners.is_empty(),
            has_dependents: !node.dependents.is_empty(),
            dependent_awaits: dependents.any(|&dependent| self.flags(dependent).foreground),
        })
    }

    /// All objects that name this one as their owner.
    pub(crate) fn dependents(&self, uid: &ObjectUid) -> Vec<ObjectIdentity> {
        let node = self.by_uid.get(uid).and_then(|&id| self.node(id));
        let dependents = node.into_iter().flat_map(|node| &node.dependents);
        dependents
            .filter_map(|&dependent| Some(self.node(dependent)?.identity.clone()))
            .collect()
    }

    /// Dependents that block the deletion of this object: uid, and whether it is in foreground deletion itself.
    pub(crate) fn blocking(&self, uid: &ObjectUid) -> Vec<(ObjectUid, bool)> {
        let Some(&id) = self.by_uid.get(uid) else {
            return Vec::new();
        };
        self.blocking_of(id)
            .map(|node| (node.identity.uid.clone(), node.flags.foreground))
            .collect()
    }

    fn blocking_of(&self, id: GraphNodeId) -> impl Iterator<Item = &GraphNode> {
        let dependents = self.node(id).into_iter().flat_map(|node| &node.dependents);
        dependents
            .filter_map(|&dependent| self.node(dependent))
            .filter(move |node| {
                let mut owners = node.owners.iter();
                owners.any(|reference| reference.owner == id && reference.blocks)
            })
    }

    /// Whether the owner is known to be absent, in the dependent's namespace or as a cluster-scoped object.
    pub(crate) fn is_absent(&self, owner: &ObjectIdentity) -> bool {
        let unscoped = ObjectIdentity {
            namespace: "".into(),
            ..owner.clone()
        };
        self.absent.has(&unscoped) || self.absent.has(owner)
    }

    /// Whether the owner is or was observed in this namespace.
    pub(crate) fn is_known_in_namespace(&self, owner: &ObjectIdentity) -> bool {
        let node = self.by_uid.get(&owner.uid).and_then(|&id| self.node(id));
        node.is_some_and(|node| {
            let is_seen = node.flags.confirmed || node.flags.gone;
            is_seen && node.identity.namespace == owner.namespace
        })
    }

    /// Caches that the server reported this owner as absent.
    pub(crate) fn remember_absent(&mut self, identity: ObjectIdentity) {
        self.absent.add(identity);
    }

    /// Number of nodes.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.by_uid.len()
    }

    fn set_flags(
        &mut self,
        id: GraphNodeId,
        object: &ObservedObject<'_>,
        actions: &mut Vec<GraphAction>,
    ) {
        let Some(node) = self.node_mut(id) else {
            return;
        };
        let before = node.flags;
        node.flags = GraphNodeFlags {
            confirmed: true,
            listed: true,
            gone: false,
            deleting: object.is_deleting,
            foreground: object.is_deleting && object.has_foreground,
            orphan: object.is_deleting && object.has_orphan,
        };
        let after = node.flags;
        let uid = node.identity.uid.clone();
        // A relist does not show what happened in between: the wait may have ended and started again.
        if after.orphan && !(before.orphan && before.listed) {
            actions.push(GraphAction::Orphan(uid));
        } else if after.foreground && !(before.foreground && before.listed) {
            self.check_dependents(id, actions);
            actions.push(GraphAction::Check(uid));
        }
    }

    /// The object does not exist: checks its dependents, and owners that waited for it.
    fn remove(&mut self, id: GraphNodeId, actions: &mut Vec<GraphAction>) {
        let Some(node) = self.node_mut(id) else {
            return;
        };
        node.flags = GraphNodeFlags {
            gone: true,
            ..GraphNodeFlags::default()
        };
        let owners = std::mem::take(&mut node.owners);
        let identity = node.identity.clone();
        if !node.dependents.is_empty() {
            self.absent.add(identity);
        }
        self.check_dependents(id, actions);
        for reference in &owners {
            self.remove_dependent(reference.owner, id);
            // While other dependents block the owner, it still waits for them.
            if self.flags(reference.owner).foreground
                && self.blocking_of(reference.owner).next().is_none()
                && let Some(owner) = self.node(reference.owner)
            {
                actions.push(GraphAction::Check(owner.identity.uid.clone()));
            }
            self.remove_if_unused(reference.owner);
        }
        self.remove_if_unused(id);
    }

    fn check_dependents(&self, id: GraphNodeId, actions: &mut Vec<GraphAction>) {
        let dependents = self.node(id).into_iter().flat_map(|node| &node.dependents);
        let uids = dependents.filter_map(|&dependent| Some(&self.node(dependent)?.identity.uid));
        actions.extend(uids.cloned().map(GraphAction::Check));
    }

    fn insert(&mut self, identity: ObjectIdentity) -> GraphNodeId {
        let uid = identity.uid.clone();
        let node = GraphNode {
            identity,
            owners: Box::default(),
            dependents: BTreeSet::new(),
            flags: GraphNodeFlags::default(),
        };
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.nodes.push(None);
                GraphNodeId::try_from(self.nodes.len() - 1).unwrap_or(GraphNodeId::MAX)
            }
        };
        if let Some(entry) = self.nodes.get_mut(id as usize) {
            *entry = Some(node);
            self.by_uid.insert(uid, id);
        }
        id
    }

    /// Removes a node that is no longer needed.
    fn remove_if_unused(&mut self, id: GraphNodeId) {
        let Some(node) = self.node(id) else {
            return;
        };
        let ends = node.flags.foreground || node.flags.orphan;
        if ends || !node.owners.is_empty() || !node.dependents.is_empty() {
            return;
        }
        let uid = node.identity.uid.clone();
        self.by_uid.remove(&uid);
        self.nodes[id as usize] = None;
        self.free.push(id);
        self.shrink_if_sparse();
    }

    /// Releases memory after mass deletions: shrinks the uid map, and frees the node list once it is empty.
    fn shrink_if_sparse(&mut self) {
        if self.by_uid.is_empty() {
            self.nodes = Vec::new();
            self.free = Vec::new();
        }
        if self.by_uid.capacity() > 1024 && self.by_uid.len() < self.by_uid.capacity() / 8 {
            self.by_uid.shrink_to(self.by_uid.len() * 2);
        }
    }

    fn id(&self, uid: &ObjectUid) -> Option<GraphNodeId> {
        self.by_uid.get(uid).copied()
    }

    fn node(&self, id: GraphNodeId) -> Option<&GraphNode> {
        self.nodes.get(id as usize)?.as_ref()
    }

    fn node_mut(&mut self, id: GraphNodeId) -> Option<&mut GraphNode> {
        self.nodes.get_mut(id as usize)?.as_mut()
    }

    fn flags(&self, id: GraphNodeId) -> GraphNodeFlags {
        self.node(id).map(|node| node.flags).unwrap_or_default()
    }
}
