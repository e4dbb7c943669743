//! Network policies: who may reach whom, why, and by which rules a node sees to it.
//!
//! Pure: objects go in ([`objects`]), and an [`Engine`] that follows their changes gives verdicts with reasons ([`judge`]),
//! the rules of one node and how they change ([`program`]), and what is to be told about each policy ([`summary`]). What nodes
//! report of the policies that they enforce is a kind of its own ([`report`]).

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod engine;
pub mod flaws;
pub mod judge;
pub mod objects;
pub mod program;
mod ranges;
pub mod report;
pub mod summary;
mod versions;

pub use engine::{Engine, Knowledge, Scope};
pub use objects::{Namespace, NetworkPolicy, Pod};
pub use versions::Features;

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The namespace and the name of a pod or a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name {
    pub namespace: String,
    pub name: String,
}

impl Name {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Name {
        Name {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Which end of a connection a policy is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Ingress,
    Egress,
}

impl Direction {
    pub const BOTH: [Direction; 2] = [Direction::Ingress, Direction::Egress];

    /// As `policyTypes` name it.
    pub fn policy_type(self) -> &'static str {
        match self {
            Direction::Ingress => "Ingress",
            Direction::Egress => "Egress",
        }
    }

    /// The field of a policy with its rules.
    pub(crate) fn rules_field(self) -> &'static str {
        match self {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        }
    }

    /// The field of a rule with its peers.
    pub(crate) fn peers_field(self) -> &'static str {
        match self {
            Direction::Ingress => "from",
            Direction::Egress => "to",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    pub const ALL: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        }
    }

    /// What an object says, TCP if it says nothing; `None` for others, of which no port is known.
    pub(crate) fn read(text: Option<&str>) -> Option<Protocol> {
        let text = text.unwrap_or("TCP");
        let mut all = Protocol::ALL.into_iter();
        all.find(|protocol| protocol.as_str() == text)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub const BOTH: [Family; 2] = [Family::V4, Family::V6];

    pub fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }
}
