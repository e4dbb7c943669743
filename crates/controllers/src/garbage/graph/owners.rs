//! References to owners: what they say, whether they agree with what is known, and what changes of them ask for.

use std::sync::Arc;

use super::{Graph, Identity, KindName, Marks, Node, NodeId, Object, Owner, Reference, Uid, Work};

/// What a lookup that found nothing leaves to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absence {
    Settled,
    /// Dependents place the owner elsewhere, where it is to be looked for next.
    LookElsewhere,
}

impl Graph {
    /// A lookup found no such object at `looked_up`.
    pub(crate) fn absent(&mut self, looked_up: &Identity, work: &mut Vec<Work>) -> Absence {
        let Some(id) = self.id(&looked_up.uid) else {
            return Absence::Settled;
        };
        let Some(node) = self.node(id).filter(|node| !node.marks.gone) else {
            return Absence::Settled;
        };
        let known = &node.identity;
        // A kind that knows no namespaces is looked up in none, wherever the dependent is that names it.
        let is_same = known.kind == looked_up.kind
            && known.name == looked_up.name
            && (known.namespace == looked_up.namespace || looked_up.namespace.is_empty());
        let (matching, others) = self.partition(id, looked_up);
        // Owners are known only of what was shown: it was where it is said to be, even if a list has put it in doubt.
        if node.marks.confirmed || !node.owners.is_empty() {
            if is_same {
                self.remove(id, work);
            } else {
                self.check_absent(looked_up, &matching, work);
            }
            return Absence::Settled;
        }
        self.check_absent(looked_up, &matching, work);
        if !is_same && !others.is_empty() {
            return Absence::Settled;
        }
        let elsewhere = self.alternative(id, &others, looked_up);
        if let Some(node) = self.node_mut(id) {
            node.identity = elsewhere.as_ref().unwrap_or(looked_up).clone();
        }
        if elsewhere.is_some() {
            return Absence::LookElsewhere;
        }
        self.remove(id, work);
        Absence::Settled
    }

    fn check_absent(&mut self, absent: &Identity, dependents: &[NodeId], work: &mut Vec<Work>) {
        if dependents.is_empty() {
            return;
        }
        self.remember_absent(absent.clone());
        for &dependent in dependents {
            self.check(dependent, work);
        }
    }

    fn check(&self, id: NodeId, work: &mut Vec<Work>) {
        if let Some(node) = self.node(id) {
            work.push(Work::Check(node.identity.uid.clone()));
        }
    }

    /// The dependents whose references lead to this identity, and those with references that do not. One with
    /// several references to the same uid can be both.
    fn partition(&self, id: NodeId, identity: &Identity) -> (Vec<NodeId>, Vec<NodeId>) {
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
                let agrees = reference.agrees_with(identity);
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

    /// Where else the dependents say that the owner is, and where it was not looked for: the next after `absent`, or
    /// else the first.
    fn alternative(
        &self,
        id: NodeId,
        dependents: &[NodeId],
        absent: &Identity,
    ) -> Option<Identity> {
        let is_unscoped = absent.namespace.is_empty();
        let mut others: Vec<Identity> = Vec::new();
        for node in dependents.iter().filter_map(|&id| self.node(id)) {
            for reference in node.owners.iter().filter(|own| own.owner == id) {
                let mut namespace = node.identity.namespace.clone();
                if is_unscoped && reference.kind == absent.kind {
                    namespace = absent.namespace.clone();
                }
                let identity = Identity {
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

    /// The object is where an event or a lookup showed it. Dependents that placed it elsewhere are looked at.
    pub(super) fn confirm_at(
        &mut self,
        id: NodeId,
        kind: &KindName,
        namespace: &str,
        name: &str,
        work: &mut Vec<Work>,
    ) {
        let Some(node) = self.node(id).filter(|node| !node.marks.confirmed) else {
            return;
        };
        let known = &node.identity;
        if *known.kind != *kind || *known.namespace != *namespace || *known.name != *name {
            let identity = Identity {
                uid: known.uid.clone(),
                kind: self.kinds.get(kind),
                namespace: self.namespaces.get(namespace),
                name: name.into(),
            };
            let (_, others) = self.partition(id, &identity);
            for dependent in others {
                self.report_if_elsewhere(dependent, id, &identity, work);
                self.check(dependent, work);
            }
            if let Some(node) = self.node_mut(id) {
                node.identity = identity;
            }
        }
        if let Some(node) = self.node_mut(id) {
            node.marks.confirmed = true;
            node.marks.gone = false;
        }
    }

    fn report_if_elsewhere(
        &self,
        dependent: NodeId,
        owner: NodeId,
        actual: &Identity,
        work: &mut Vec<Work>,
    ) {
        let Some(node) = self.node(dependent) else {
            return;
        };
        if actual.namespace.is_empty() || node.identity.namespace == actual.namespace {
            return;
        }
        if let Some(reference) = node.owners.iter().find(|own| own.owner == owner) {
            let named = Identity {
                kind: reference.kind.clone(),
                namespace: node.identity.namespace.clone(),
                name: reference.name.clone(),
                uid: actual.uid.clone(),
            };
            work.push(Work::Report(node.identity.clone(), named));
        }
    }

    pub(super) fn set_owners(&mut self, id: NodeId, owners: &[Owner<'_>], work: &mut Vec<Work>) {
        if self.has_owners(id, owners) {
            return;
        }
        let after: Vec<Reference> = owners
            .iter()
            .map(|owner| self.reference(id, owner, work))
            .collect();
        let Some(node) = self.node_mut(id) else {
            return;
        };
        let before = std::mem::replace(&mut node.owners, after.clone().into());
        let named = |references: &[Reference], owner| {
            let mut references = references.iter();
            references.any(|reference| reference.owner == owner)
        };
        let mut is_doubtful = false;
        for reference in &after {
            if !named(&before, reference.owner) {
                self.add_dependent(reference, id, &mut is_doubtful, work);
            }
        }
        if is_doubtful {
            self.check(id, work);
        }
        for old in &before {
            let new = after.iter().find(|new| new.owner == old.owner);
            if old.blocks && new.is_none_or(|new| !new.blocks) {
                self.check(old.owner, work);
            }
            if new.is_none() {
                self.remove_dependent(old.owner, id);
                self.drop_if_idle(old.owner);
            }
        }
    }

    /// An object with a reference that is to go is looked at whenever it is shown. It may have been looked at when
    /// it had no such reference for a while, which no event has told.
    pub(super) fn check_if_bad(&self, id: NodeId, work: &mut Vec<Work>) {
        let Some(node) = self.node(id).filter(|node| !node.marks.deleting) else {
            return;
        };
        let mut owners = node.owners.iter();
        if owners.any(|own| self.is_bad(own, &node.identity.namespace)) {
            self.check(id, work);
        }
    }

    /// Whether the owner is on its way out, or is another object than the reference says, as far as is known.
    fn is_bad(&self, reference: &Reference, namespace: &str) -> bool {
        self.node(reference.owner).is_some_and(|owner| {
            let actual = &owner.identity;
            let is_elsewhere = !actual.namespace.is_empty() && *actual.namespace != *namespace;
            let is_other =
                actual.name != reference.name || !actual.kind.is_version_of(&reference.kind);
            let leaves = owner.marks.gone || owner.marks.foreground;
            leaves || is_elsewhere || is_other || owner.may_be_namespaced(namespace)
        })
    }

    /// Most events change nothing here, and this says so without an allocation.
    fn has_owners(&self, id: NodeId, owners: &[Owner<'_>]) -> bool {
        let known = self.node(id).map_or(&[][..], |node| &node.owners);
        known.len() == owners.len()
            && known.iter().zip(owners).all(|(known, owner)| {
                let uid = self.node(known.owner).map(|node| &node.identity.uid);
                known.blocks == owner.blocks
                    && *known.name == *owner.name
                    && *known.kind.kind == *owner.kind
                    && *known.kind.api_version == *owner.api_version
                    && uid == Some(&Uid::new(owner.uid))
            })
    }

    /// The reference, with a node for the owner: one that is not known yet is to be looked up.
    fn reference(&mut self, id: NodeId, owner: &Owner<'_>, work: &mut Vec<Work>) -> Reference {
        let kind = self
            .kinds
            .get(&KindName::new(owner.api_version, owner.kind));
        let uid = Uid::new(owner.uid);
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
                work.push(Work::Check(uid.clone()));
                let identity = Identity {
                    kind: kind.clone(),
                    namespace,
                    name: name.clone(),
                    uid,
                };
                (self.insert(identity), name)
            }
        };
        Reference {
            owner: owner_id,
            blocks: owner.blocks,
            kind,
            name,
        }
    }

    /// `is_doubtful` says that the owner may not be what the dependent says.
    fn add_dependent(
        &mut self,
        reference: &Reference,
        dependent: NodeId,
        is_doubtful: &mut bool,
        work: &mut Vec<Work>,
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
        let is_new = owner.marks == Marks::default() && owner.dependents.is_empty();
        owner.dependents.insert(dependent);
        if is_new {
            return;
        }
        let actual = owner.identity.clone();
        let marks = owner.marks;
        let is_elsewhere = !actual.namespace.is_empty() && actual.namespace != namespace;
        let agrees = reference.agrees_with(&actual);
        if marks.gone {
            if is_elsewhere || !agrees {
                // What is known to be gone is not what this one means.
                *is_doubtful = true;
                owner.marks = Marks::default();
                owner.identity.kind = reference.kind.clone();
                owner.identity.name = reference.name.clone();
                owner.identity.namespace = namespace;
                self.check(owner_id, work);
            }
        } else if is_elsewhere {
            if marks.confirmed && !*is_doubtful {
                self.report_if_elsewhere(dependent, owner_id, &actual, work);
            }
            *is_doubtful = true;
        } else {
            *is_doubtful |= !agrees || owner.may_be_namespaced(&namespace);
        }
    }

    pub(super) fn remove_dependent(&mut self, owner: NodeId, dependent: NodeId) {
        if let Some(node) = self.node_mut(owner) {
            node.dependents.remove(&dependent);
        }
    }
}

impl Node {
    /// Whether this owner was named by an object in no namespace, and perhaps is in one nevertheless: in that of a
    /// dependent.
    fn may_be_namespaced(&self, namespace: &str) -> bool {
        !self.marks.confirmed && self.identity.namespace.is_empty() && !namespace.is_empty()
    }
}

impl Reference {
    fn agrees_with(&self, identity: &Identity) -> bool {
        self.name == identity.name && self.kind == identity.kind
    }
}

impl Object<'_> {
    /// Whether an unknown object is worth a node.
    pub(super) fn matters(&self) -> bool {
        let ends = self.is_deleting && (self.has_foreground || self.has_orphan);
        ends || !self.owners.is_empty()
    }
}
