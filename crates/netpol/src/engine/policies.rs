//! What is kept of policies.

use std::sync::Arc;

use super::names::Names;
use super::slots::{PolicyId, SelectionId, Slots};
use super::text::Text;
use crate::flaws::Flaw;
use crate::ranges::Ranges;
use crate::{Direction, Name, Protocol};

#[derive(Debug, Default)]
pub(crate) struct Policy {
    pub(crate) name: Arc<Name>,
    pub(crate) meaning: Meaning,
    /// Whether the members of its peers are known.
    pub(crate) is_active: bool,
}

/// All that is read of a policy: one that is said again with the same meaning has not changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Meaning {
    pub(crate) uid: Box<str>,
    pub(crate) generation: i64,
    pub(crate) min_version: Box<str>,
    /// Whether the version it needs is known. Otherwise it is as if it were not there.
    pub(crate) is_understood: bool,
    pub(crate) target: SelectionId,
    /// All pods, if a rule speaks of a port by a name that any pod may have.
    pub(crate) everyone: Option<SelectionId>,
    /// The rules of each direction that it isolates.
    pub(crate) ingress: Option<Box<[Rule]>>,
    pub(crate) egress: Option<Box<[Rule]>>,
    pub(crate) flaws: Box<[Flaw]>,
}

/// Each at the place where it is written, even if it matches nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Empty for everybody.
    pub(crate) peers: Box<[Peer]>,
    /// Empty for all ports.
    pub(crate) ports: Box<[Port]>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Nobody,
    Pods(SelectionId),
    Block(Ranges),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Nothing,
    All(Protocol),
    /// From the first to the last.
    Numbers(Protocol, u16, u16),
    Named(Protocol, Text),
}

impl Meaning {
    pub(crate) fn rules(&self, direction: Direction) -> Option<&[Rule]> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }

    fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        self.ingress.iter().chain(&self.egress).flatten()
    }

    /// The selections of all peers, as often as they are named.
    pub(crate) fn peers(&self) -> impl Iterator<Item = SelectionId> {
        let peers = self.all_rules().flat_map(|rule| &rule.peers);
        peers.filter_map(|peer| match peer {
            Peer::Pods(selection) => Some(*selection),
            Peer::Nobody | Peer::Block(_) => None,
        })
    }

    /// All that must be known of others while it is enforced.
    pub(crate) fn needs(&self) -> impl Iterator<Item = SelectionId> {
        self.peers().chain(self.everyone)
    }

    /// See [`Summary::traffic`](crate::summary::Summary::traffic).
    pub(crate) fn traffic(&self, has_members: impl Fn(SelectionId) -> bool) -> Option<bool> {
        let is_somebody = |peer: &Peer| match peer {
            Peer::Nobody => false,
            Peer::Pods(selection) => has_members(*selection),
            Peer::Block(ranges) => !ranges.is_empty(),
        };
        let is_met = |rule: &Rule| rule.peers.is_empty() || rule.peers.iter().any(is_somebody);
        self.all_rules().next()?;
        Some(self.all_rules().any(is_met))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Policies {
    names: Names<PolicyId>,
    all: Slots<PolicyId, Policy>,
}

impl Policies {
    pub(crate) fn find(&self, name: &Name) -> Option<PolicyId> {
        self.names.find(name, |id| *self.all[id].name == *name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Name> {
        self.names.ids().map(|id| &*self.all[id].name)
    }

    pub(crate) fn insert(&mut self, name: Name, meaning: Meaning) -> PolicyId {
        let id = self.all.insert(Policy {
            name: Arc::new(name),
            meaning,
            is_active: false,
        });
        self.names.insert(&self.all[id].name, id);
        id
    }

    pub(crate) fn remove(&mut self, id: PolicyId) -> Policy {
        let policy = self.all.remove(id);
        self.names.remove(&policy.name, id);
        policy
    }
}

impl std::ops::Index<PolicyId> for Policies {
    type Output = Policy;

    fn index(&self, id: PolicyId) -> &Policy {
        &self.all[id]
    }
}

impl std::ops::IndexMut<PolicyId> for Policies {
    fn index_mut(&mut self, id: PolicyId) -> &mut Policy {
        &mut self.all[id]
    }
}
