//! The packet filter ruleset of one node, independent of the kernel interface, and deltas between rulesets.
//!
//! A connection to or from a pod of the node is looked up by the pod's address in [`NodeRuleset::dispatch`]. An address
//! that is not found is not isolated in that direction. Otherwise it maps to a policy group: a distinct set of
//! policies, any of which may allow the connection by one of its rules; if none does, the connection is denied.

mod simulation;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::{Direction, IpFamily, NamespacedName, Protocol};

/// Identifies a set of addresses, or of pod ports, that several rules share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpSetId {
    pub number: u64,
    pub family: IpFamily,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyChainId {
    pub number: u64,
    pub direction: Direction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyGroupId {
    pub number: u64,
    pub direction: Direction,
}

/// The complete ruleset of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeRuleset {
    pub sets: BTreeMap<IpSetId, IpSet>,
    pub chains: BTreeMap<PolicyChainId, PolicyChain>,
    /// The policy chains of each group.
    pub groups: BTreeMap<PolicyGroupId, Vec<PolicyChainId>>,
    /// The policy group of each isolated address of a local pod.
    pub dispatch: BTreeMap<(Direction, IpAddr), PolicyGroupId>,
    /// The addresses of all local pods, isolated or not, and of pods of other nodes within this node's pod ranges.
    pub known_addresses: BTreeSet<IpAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpSet {
    pub kind: IpSetElementType,
    pub elements: BTreeSet<IpSetElement>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpSetElementType {
    /// No element has a port.
    Addresses,
    /// Every element has a port.
    AddressPorts,
}

/// An address of the set's family, or one port of that address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpSetElement {
    pub address: IpAddr,
    pub port: Option<(Protocol, u16)>,
}

/// What one policy allows in one direction: a connection that any of the rules matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyChain {
    /// Becomes a comment in the kernel's table.
    pub policy: NamespacedName,
    pub rules: Vec<AllowRule>,
}

/// Allows a connection that matches all fields. `peer` is matched against the remote address: the source for ingress,
/// the destination for egress. `ports` are always matched against the destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowRule {
    /// The only family that it matches; `None` for both.
    pub family: Option<IpFamily>,
    pub peer: PeerMatch,
    pub ports: PortMatch,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerMatch {
    Any,
    /// The address is in a set of addresses.
    InSet(IpSetId),
    /// The address is in one of these inclusive ranges, which are disjoint, sorted and of the rule's family.
    Ranges(Vec<(IpAddr, IpAddr)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortMatch {
    /// All ports of all protocols, including protocols without ports.
    Any,
    /// All ports of a protocol.
    AllPortsOf(Protocol),
    /// Inclusive port ranges of a protocol, disjoint and sorted.
    Ranges(Protocol, Vec<(u16, u16)>),
    /// The destination's address, protocol and port are together in a set of ports.
    InSet(IpSetId),
}

/// The changes that turn the previous ruleset into the current one, in the order in which they must be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RulesetDelta {
    pub new_sets: BTreeMap<IpSetId, IpSetElementType>,
    /// Elements removed from and added to sets, including new sets. Removals come first.
    pub removed_elements: BTreeMap<IpSetId, Vec<IpSetElement>>,
    pub added_elements: BTreeMap<IpSetId, Vec<IpSetElement>>,
    /// Chains that are new or whose rules changed.
    pub chains: BTreeMap<PolicyChainId, PolicyChain>,
    /// New groups. A group is immutable.
    pub groups: BTreeMap<PolicyGroupId, Vec<PolicyChainId>>,
    /// Addresses whose group changed, appeared or disappeared.
    pub dispatch: BTreeMap<(Direction, IpAddr), PolicyGroupChange>,
    pub known_addresses_removed: BTreeSet<IpAddr>,
    pub known_addresses_added: BTreeSet<IpAddr>,
    pub removed_groups: Vec<PolicyGroupId>,
    pub removed_chains: Vec<PolicyChainId>,
    pub removed_sets: Vec<IpSetId>,
}

/// The previous and the new policy group of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyGroupChange {
    pub before: Option<PolicyGroupId>,
    pub after: Option<PolicyGroupId>,
}

impl RulesetDelta {
    pub fn is_empty(&self) -> bool {
        *self == RulesetDelta::default()
    }
}

/// The headers of a packet to evaluate with [`NodeRuleset::allows`]. One or both ends may be local pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketTuple {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// The protocol and the destination's port; `None` for protocols without ports.
    pub port: Option<(Protocol, u16)>,
}
