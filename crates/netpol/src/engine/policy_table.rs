//! Policies as the engine stores them: compiled rules, by id and by name.

use std::sync::Arc;

use rhumb_selection::{InternedString, SlotMap};

use super::ids::{PolicyId, SelectionId};
use super::name_index::NameIndex;
use crate::ip_ranges::IpRanges;
use crate::lint::LintWarning;
use crate::{Direction, NamespacedName, Protocol};

#[derive(Debug, Default)]
pub(crate) struct PolicyTableEntry {
    pub(crate) name: Arc<NamespacedName>,
    pub(crate) compiled: CompiledPolicy,
    /// Whether the members of its peer selections are tracked.
    pub(crate) is_active: bool,
}

/// Everything the engine uses of a policy. An update that compiles to the same value is not a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CompiledPolicy {
    pub(crate) uid: Box<str>,
    pub(crate) generation: i64,
    pub(crate) min_version: Box<str>,
    /// Whether the required version is supported. If not, the policy is ignored.
    pub(crate) is_supported: bool,
    pub(crate) target: SelectionId,
    /// The selection of all pods, if an egress rule has a named port that any pod may define.
    pub(crate) all_pods: Option<SelectionId>,
    /// The rules of each direction that the policy isolates; `None` if it does not.
    pub(crate) ingress: Option<Box<[CompiledRule]>>,
    pub(crate) egress: Option<Box<[CompiledRule]>>,
    pub(crate) lint_warnings: Box<[LintWarning]>,
}

/// Peers and ports keep their index in the spec, even if they match nothing, for explanations.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CompiledRule {
    /// Empty matches all peers.
    pub(crate) peers: Box<[CompiledPeer]>,
    /// Empty matches all ports.
    pub(crate) ports: Box<[CompiledPort]>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CompiledPeer {
    NoMatch,
    Pods(SelectionId),
    Block(IpRanges),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CompiledPort {
    NoMatch,
    All(Protocol),
    /// First and last port, inclusive.
    Range(Protocol, u16, u16),
    Named(Protocol, InternedString),
}

impl CompiledPolicy {
    pub(crate) fn rules(&self, direction: Direction) -> Option<&[CompiledRule]> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }

    fn all_rules(&self) -> impl Iterator<Item = &CompiledRule> {
        self.ingress.iter().chain(&self.egress).flatten()
    }

    /// The selections of all peers, with repetitions.
    pub(crate) fn peer_selections(&self) -> impl Iterator<Item = SelectionId> {
        let peers = self.all_rules().flat_map(|rule| &rule.peers);
        peers.filter_map(|peer| match peer {
            CompiledPeer::Pods(selection) => Some(*selection),
            CompiledPeer::NoMatch | CompiledPeer::Block(_) => None,
        })
    }

    /// The selections whose members are needed while the policy is enforced, without its target.
    pub(crate) fn required_selections(&self) -> impl Iterator<Item = SelectionId> {
        self.peer_selections().chain(self.all_pods)
    }

    /// See [`PolicySummary::has_matching_peers`](crate::policy_summary::PolicySummary::has_matching_peers).
    pub(crate) fn has_matching_peers(
        &self,
        has_members: impl Fn(SelectionId) -> bool,
    ) -> Option<bool> {
        let matches_any = |peer: &CompiledPeer| match peer {
            CompiledPeer::NoMatch => false,
            CompiledPeer::Pods(selection) => has_members(*selection),
            CompiledPeer::Block(ranges) => !ranges.is_empty(),
        };
        let has_peer =
            |rule: &CompiledRule| rule.peers.is_empty() || rule.peers.iter().any(matches_any);
        self.all_rules().next()?;
        Some(self.all_rules().any(has_peer))
    }
}

#[derive(Debug, Default)]
pub(crate) struct PolicyTable {
    names: NameIndex<PolicyId>,
    all: SlotMap<PolicyId, PolicyTableEntry>,
}

impl PolicyTable {
    pub(crate) fn find(&self, name: &NamespacedName) -> Option<PolicyId> {
        self.names.find(name, |id| *self.all[id].name == *name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &NamespacedName> {
        self.names.ids().map(|id| &*self.all[id].name)
    }

    pub(crate) fn insert(&mut self, name: NamespacedName, compiled: CompiledPolicy) -> PolicyId {
        let id = self.all.insert(PolicyTableEntry {
            name: Arc::new(name),
            compiled,
            is_active: false,
        });
        self.names.insert(&self.all[id].name, id);
        id
    }

    pub(crate) fn remove(&mut self, id: PolicyId) -> Option<PolicyTableEntry> {
        let policy = self.all.remove(id)?;
        self.names.remove(&policy.name, id);
        Some(policy)
    }
}

impl std::ops::Index<PolicyId> for PolicyTable {
    type Output = PolicyTableEntry;

    fn index(&self, id: PolicyId) -> &PolicyTableEntry {
        &self.all[id]
    }
}

impl std::ops::IndexMut<PolicyId> for PolicyTable {
    fn index_mut(&mut self, id: PolicyId) -> &mut PolicyTableEntry {
        &mut self.all[id]
    }
}
