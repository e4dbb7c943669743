//! Owner edges of the graph: changes of references, references that disagree with the actual owner, absent owners.

use std::sync::Arc;

use super::{
    ApiVersionKind, GraphAction, GraphNode, GraphNodeFlags, GraphNodeId, ObjectIdentity, ObjectUid,
    ObservedObject, ObservedOwner, OwnerEdge, OwnershipGraph,
};

/// What remains to be done after a lookup found no object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AbsenceOutcome {
    Settled,
    /// Dependents name the owner with other coordinates, which must be looked up next.
    LookUpAgain,
}

impl OwnershipGraph {
    /// A lookup found no such object at `looked_up`.
    pub(crate) fn observe_absence(
        &mut self,
        looked_up: &ObjectIdentity,
        actions: &mut Vec<GraphAction>,
    ) -> AbsenceOutcome {
        let Some(id) = self.id(&looked_up.uid) else {
            return AbsenceOutcome::Settled;
        };
        let Some(node) = self.node(id).filter(|node| !node.flags.gone) else {
            return AbsenceOutcome::Settled;
        };
        let known = &node.identity;
        // A cluster-scoped kind is looked up without the namespace of the dependent that names it.
        let is_same = known.kind == looked_up.kind
            && known.name == looked_up.name
            && (known.namespace == looked_up.namespace || looked_up.namespace.is_empty());
        let (matching, others) = self.partition(id, looked_up);
        // Only observed objects have known owners, so this identity was right even if a relist has unconfirmed it.
        if node.flags.confirmed || !node.owners.is_empty() {
            if is_same {
                self.remove(id, actions);
            } else {
                self.check_absent(looked_up, &matching, actions);
            }
            return AbsenceOutcome::Settled;
        }
        self.check_absent(looked_up, &matching, actions);
        if !is_same && !others.is_empty() {
            return AbsenceOutcome::Settled;
        }
        let elsewhere = self.alternative(id, &others, looked_up);
        if let Some(node) = self.node_mut(id) {
            node.identity = elsewhere.as_ref().unwrap_or(looked_up).clone();
        }
        if elsewhere.is_some() {
            return AbsenceOutcome::LookUpAgain;
        }
        self.remove(id, actions);
        AbsenceOutcome::Settled
    }

    fn check_absent(
        &mut self,
        absent: &ObjectIdentity,
        dependents: &[GraphNodeId],
        actions: &mut Vec<GraphAction>,
    ) {
        if dependents.is_empty() {
            return;
        }
        self.remember_absent(absent.clone());
        for &dependent in dependents {
            self.check(dependent, actions);
        }
    }

    fn check(&self, id: GraphNodeId, actions: &mut Vec<GraphAction>) {
        if let Some(node) = self.node(id) {
            actions.push(GraphAction::Check(node.identity.uid.clone()));
        }
    }

    /// The dependents with references that match this identity, and those with references that do not. A dependent with
    /// several references to the same uid can be in both.
    fn partition(
        &self,
        id: GraphNodeId,
        identity: &ObjectIdentity,
    ) -> (Vec<GraphNodeId>, Vec<GraphNodeId>) {
        let (mut matching, mut others) = (Vec::new(), Vec::new());
        let dependents = self.node(id).into_iter().flat_map(|node| &node.dependents);
        for &dependent in dependents {
            let Some(node) = self.node(dependent) else {
                continue;
            };
            let is_elsewhere =
                !identity.namespace.is_empty() && identity.namespace != node.identity.namespace;
            let references = node.owners.iter().filter(|own| own.owner == id);
            let (mut matches, mut differs) = (false, is_elsewhere);
            for reference in references.take_while(|_| !is_elsewhere) {
                let agrees = reference.matches(identity);
                matches |= agrees;
                differs |= !agrees;
            }
            if matches {
                matching.push(dependent);
            }
            if differs {
                others.push(dependent);
            }
        }
        (matching, others)
    }

    /// Another identity that dependents give the owner and that is not known to be absent: the next one after `absent`
    /// in sort order, else the first.
    fn alternative(
        &self,
        id: GraphNodeId,
        dependents: &[GraphNodeId],
        absent: &ObjectIdentity,
    ) -> Option<ObjectIdentity> {
        let is_unscoped = absent.namespace.is_empty();
        let mut others: Vec<ObjectIdentity> = Vec::new();
        for node in dependents.iter().filter_map(|&id| self.node(id)) {
            for reference in node.owners.iter().filter(|own| own.owner == id) {
                let mut namespace = node.identity.namespace.clone();
                if is_unscoped && reference.kind == absent.kind {
                    namespace = absent.namespace.clone();
                }
                let identity = ObjectIdentity {
                    kind: reference.kind.clone(),
                    namespace,
                    name: reference.name.clone(),
                    uid: absent.uid.clone(),
                };
                if identity != *absent && !self.is_absent(&identity) {
                    others.push(identity);
                }
            }
        }
        let next = others.iter().filter(|other| *other > absent).min();
        next.or_else(|| others.iter().min()).cloned()
    }

    /// Sets the identity that an event or a lookup found. Dependents that name the object differently are checked.
    pub(super) fn confirm_at(
        &mut self,
        id: GraphNodeId,
        kind: &ApiVersionKind,
        namespace: &str,
        name: &str,
        actions: &mut Vec<GraphAction>,
    ) {
        let Some(node) = self.node(id).filter(|node| !node.flags.confirmed) else {
            return;
        };
        let known = &node.identity;
        if *known.kind != *kind || *known.namespace != *namespace || *known.name != *name {
            let identity = ObjectIdentity {
                uid: known.uid.clone(),
                kind: self.kinds.get(kind),
                namespace: self.namespaces.get(namespace),
                name: name.into(),
            };
            let (_, others) = self.partition(id, &identity);
            for dependent in others {
                self.report_if_elsewhere(dependent, id, &identity, actions);
                self.check(dependent, actions);
            }
            if let Some(node) = self.node_mut(id) {
                node.identity = identity;
            }
        }
        if let Some(node) = self.node_mut(id) {
            node.flags.confirmed = true;
            node.flags.gone = false;
        }
    }

    fn report_if_elsewhere(
        &self,
        dependent: GraphNodeId,
        owner: GraphNodeId,
        actual: &ObjectIdentity,
        actions: &mut Vec<GraphAction>,
    ) {
        let Some(node) = self.node(dependent) else {
            return;
        };
        if actual.namespace.is_empty() || node.identity.namespace == actual.namespace {
            return;
        }
        if let Some(reference) = node.owners.iter().find(|own| own.owner == owner) {
            let named = ObjectIdentity {
                kind: reference.kind.clone(),
                namespace: node.identity.namespace.clone(),
                name: reference.name.clone(),
                uid: actual.uid.clone(),
            };
            actions.push(GraphAction::Report(node.identity.clone(), named));
        }
    }

    pub(super) fn set_owners(
        &mut self,
        id: GraphNodeId,
        owners: &[ObservedOwner<'_>],
        actions: &mut Vec<GraphAction>,
    ) {
        if self.has_owners(id, owners) {
            return;
        }
        let after: Vec<OwnerEdge> = owners
            .iter()
            .map(|owner| self.reference(id, owner, actions))
            .collect();
        let Some(node) = self.node_mut(id) else {
            return;
        };
        let before = std::mem::replace(&mut node.owners, after.clone().into());
        let named = |references: &[OwnerEdge], owner| {
            let mut references = references.iter();
            references.any(|reference| reference.owner == owner)
        };
        let mut is_doubtful = false;
        for reference in &after {
            if !named(&before, reference.owner) {
                self.add_dependent(reference, id, &mut is_doubtful, actions);
            }
        }
        if is_doubtful {
            self.check(id, actions);
        }
        for old in &before {
            let new = after.iter().find(|new| new.owner == old.owner);
            if old.blocks && new.is_none_or(|new| !new.blocks) {
                self.check(old.owner, actions);
            }
            if new.is_none() {
                self.remove_dependent(old.owner, id);
                self.remove_if_unused(old.owner);
            }
        }
    }

    /// Queues an object with an invalid reference whenever it is observed: an earlier check may have read a version
    /// without that reference, of which no event was delivered.
    pub(super) fn check_if_invalid(&self, id: GraphNodeId, actions: &mut Vec<GraphAction>) {
        let Some(node) = self.node(id).filter(|node| !node.flags.deleting) else {
            return;
        };
        let mut owners = node.owners.iter();
        if owners.any(|own| self.is_invalid(own, &node.identity.namespace)) {
            self.check(id, actions);
        }
    }

    /// Whether the owner is deleted, in foreground deletion, or not the object that the reference describes.
    fn is_invalid(&self, reference: &OwnerEdge, namespace: &str) -> bool {
        self.node(reference.owner).is_some_and(|owner| {
            let actual = &owner.identity;
            let is_elsewhere = !actual.namespace.is_empty() && *actual.namespace != *namespace;
            let is_other =
                actual.name != reference.name || !actual.kind.is_version_of(&reference.kind);
            let leaves = owner.flags.gone || owner.flags.foreground;
            leaves || is_elsewhere || is_other || owner.may_be_namespaced(namespace)
        })
    }

    /// Detects unchanged owners, the common case, without an allocation.
    fn has_owners(&self, id: GraphNodeId, owners: &[ObservedOwner<'_>]) -> bool {
        let known = self.node(id).map_or(&[][..], |node| &node.owners);
        known.len() == owners.len()
            && known.iter().zip(owners).all(|(known, owner)| {
                let uid = self.node(known.owner).map(|node| &node.identity.uid);
                known.blocks == owner.blocks
                    && *known.name == *owner.name
                    && *known.kind.kind == *owner.kind
                    && *known.kind.api_version == *owner.api_version
                    && uid == Some(&ObjectUid::new(owner.uid))
            })
    }

    /// Creates the edge; an unknown owner gets a node and is looked up.
    fn reference(
        &mut self,
        id: GraphNodeId,
        owner: &ObservedOwner<'_>,
        actions: &mut Vec<GraphAction>,
    ) -> OwnerEdge {
        let kind = self
            .kinds
            .get(&ApiVersionKind::new(owner.api_version, owner.kind));
        let uid = ObjectUid::new(owner.uid);
        let (owner_id, name) = match self.id(&uid) {
            Some(owner_id) => {
                let known = self.node(owner_id).map(|node| &node.identity.name);
                let same = known.filter(|known| ***known == *owner.name).cloned();
                (owner_id, same.unwrap_or_else(|| owner.name.into()))
            }
            None => {
                let name: Arc<str> = owner.name.into();
                let namespace = self
                    .node(id)
                    .map(|node| node.identity.namespace.clone())
                    .unwrap_or_default();
                actions.push(GraphAction::Check(uid.clone()));
                let identity = ObjectIdentity {
                    kind: kind.clone(),
                    namespace,
                    name: name.clone(),
                    uid,
                };
                (self.insert(identity), name)
            }
        };
        OwnerEdge {
            owner: owner_id,
            blocks: owner.blocks,
            kind,
            name,
        }
    }

    /// Sets `is_doubtful` if the owner may not be the object that the reference describes.
    fn add_dependent(
        &mut self,
        reference: &OwnerEdge,
        dependent: GraphNodeId,
        is_doubtful: &mut bool,
        actions: &mut Vec<GraphAction>,
    ) {
        let Some(namespace) = self
            .node(dependent)
            .map(|node| node.identity.namespace.clone())
        else {
            return;
        };
        let owner_id = reference.owner;
        let Some(owner) = self.node_mut(owner_id) else {
            return;
        };
        let is_new = owner.flags == GraphNodeFlags::default() && owner.dependents.is_empty();
        owner.dependents.insert(dependent);
        if is_new {
            return;
        }
        let actual = owner.identity.clone();
        let flags = owner.flags;
        let is_elsewhere = !actual.namespace.is_empty() && actual.namespace != namespace;
        let agrees = reference.matches(&actual);
        if flags.gone {
            if is_elsewhere || !agrees {
                // The tombstone is for other coordinates than this reference's.
                *is_doubtful = true;
                owner.flags = GraphNodeFlags::default();
                owner.identity.kind = reference.kind.clone();
                owner.identity.name = reference.name.clone();
                owner.identity.namespace = namespace;
                self.check(owner_id, actions);
            }
        } else if is_elsewhere {
            if flags.confirmed && !*is_doubtful {
                self.report_if_elsewhere(dependent, owner_id, &actual, actions);
            }
            *is_doubtful = true;
        } else {
            *is_doubtful |= !agrees || owner.may_be_namespaced(&namespace);
        }
    }

    pub(super) fn remove_dependent(&mut self, owner: GraphNodeId, dependent: GraphNodeId) {
        if let Some(node) = self.node_mut(owner) {
            node.dependents.remove(&dependent);
        }
    }
}

impl GraphNode {
    /// Whether this unconfirmed owner was first named by a cluster-scoped object, but may be in the namespace of
    /// another dependent.
    fn may_be_namespaced(&self, namespace: &str) -> bool {
        !self.flags.confirmed && self.identity.namespace.is_empty() && !namespace.is_empty()
    }
}

impl OwnerEdge {
    fn matches(&self, identity: &ObjectIdentity) -> bool {
        self.name == identity.name && self.kind == identity.kind
    }
}

impl ObservedObject<'_> {
    /// Whether an unknown object needs a node.
    pub(super) fn needs_node(&self) -> bool {
        let ends = self.is_deleting && (self.has_foreground || self.has_orphan);
        ends || !self.owners.is_empty()
    }
}
