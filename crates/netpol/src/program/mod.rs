//! The rules of one node, in a form that knows no kernel, and how they change.
//!
//! A connection to or from a pod of the node is looked up by the pod's address ([`Program::dispatch`]). Who is not found is not
//! isolated in that direction. Who is found is in a group: a distinct set of policies, any of which may allow the
//! connection by one of its rules; otherwise it is denied.

mod kernel;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::{Direction, Family, Name, Protocol};

/// Names what is shared by several rules: a set of addresses, or of ports of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId {
    pub number: u64,
    pub family: Family,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId {
    pub number: u64,
    pub direction: Direction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId {
    pub number: u64,
    pub direction: Direction,
}

/// Everything that the kernel of a node is to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    pub sets: BTreeMap<SetId, Set>,
    pub chains: BTreeMap<ChainId, Chain>,
    /// The chains of each group.
    pub groups: BTreeMap<GroupId, Vec<ChainId>>,
    /// The group of each isolated address of a pod of this node.
    pub dispatch: BTreeMap<(Direction, IpAddr), GroupId>,
    /// The addresses of all pods of this node, isolated or not, and those of other pods in the ranges that the node was
    /// given.
    pub known: BTreeSet<IpAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    pub kind: SetKind,
    pub elements: BTreeSet<Element>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetKind {
    /// All elements have no port.
    Addresses,
    /// All elements have a port.
    Ports,
}

/// An address of the set's family; with a port, that port of it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element {
    pub address: IpAddr,
    pub port: Option<(Protocol, u16)>,
}

/// What one policy allows in one direction: what any of the rules allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// For people who look into the kernel.
    pub policy: Name,
    pub rules: Vec<Rule>,
}

/// Allows what all of its parts match. An address in `peer` is the other end's: the source for ingress, the destination
/// for egress. Ports are always those of the destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The only family that it can match; `None` is both.
    pub family: Option<Family>,
    pub peer: Peer,
    pub ports: Ports,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    Anyone,
    /// Whose address is in a set of addresses.
    In(SetId),
    /// Whose address is in one of these ranges: disjoint, in order, of the rule's family, first and last included.
    Ranges(Vec<(IpAddr, IpAddr)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ports {
    /// All ports of all protocols, and protocols without ports.
    Any,
    /// All ports of a protocol.
    All(Protocol),
    /// Ranges of a protocol's ports: disjoint, in order, first and last included.
    Ranges(Protocol, Vec<(u16, u16)>),
    /// The destination's address, protocol and port are in a set of ports.
    In(SetId),
}

/// What is to be done to a kernel that has the program as it was, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub new_sets: BTreeMap<SetId, SetKind>,
    /// Elements of sets, new ones included, that come and that go. Those that go are taken first.
    pub removed_elements: BTreeMap<SetId, Vec<Element>>,
    pub added_elements: BTreeMap<SetId, Vec<Element>>,
    /// Chains that are new, or have other rules now.
    pub chains: BTreeMap<ChainId, Chain>,
    /// Groups that are new. A group never changes.
    pub groups: BTreeMap<GroupId, Vec<ChainId>>,
    /// Addresses that have another group now, or none, with the one before.
    pub dispatch: BTreeMap<(Direction, IpAddr), Redirection>,
    pub known_removed: BTreeSet<IpAddr>,
    pub known_added: BTreeSet<IpAddr>,
    pub removed_groups: Vec<GroupId>,
    pub removed_chains: Vec<ChainId>,
    pub removed_sets: Vec<SetId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redirection {
    pub before: Option<GroupId>,
    pub after: Option<GroupId>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }
}

/// What a kernel that has the program does with a packet between these ends, of which one or both may be local.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// The protocol and the destination's port; `None` for protocols without ports.
    pub port: Option<(Protocol, u16)>,
}
