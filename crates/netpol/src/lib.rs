//! Evaluates Kubernetes NetworkPolicy objects. Pure: no I/O.
//!
//! Entry point: [`PolicyEngine`]. It is fed with added, changed and deleted pods, namespaces and policies ([`objects`])
//! and returns whether a connection is allowed and why ([`verdict`]), the ruleset that enforces the policies on one
//! node and its changes ([`ruleset`]), and the input for each policy's status ([`policy_summary`]). Nodes report what
//! they enforce in a `NetworkPolicyNode` object ([`node_report`]), from which follows where a policy is in force
//! ([`node_enforcement`]).

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
mod ip_ranges;
pub mod lint;
pub mod node_enforcement;
pub mod node_report;
pub mod objects;
pub mod policy_summary;
mod policy_versions;
pub mod ruleset;
pub mod verdict;

pub use engine::{EngineScope, PluginCapabilities, PolicyEngine};
pub use objects::{Namespace, NetworkPolicy, Pod};
pub use policy_versions::PolicyFeatureSet;

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The namespace and the name of a pod or a policy, as `types.NamespacedName` in apimachinery.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamespacedName {
    pub namespace: String,
    pub name: String,
}

impl NamespacedName {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> NamespacedName {
        NamespacedName {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The direction of traffic, as seen from the pod that a policy selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Ingress,
    Egress,
}

impl Direction {
    pub const BOTH: [Direction; 2] = [Direction::Ingress, Direction::Egress];

    /// The value in `spec.policyTypes`.
    pub fn policy_type(self) -> &'static str {
        match self {
            Direction::Ingress => "Ingress",
            Direction::Egress => "Egress",
        }
    }

    /// The field of `spec` that holds the rules of this direction.
    pub(crate) fn rules_field(self) -> &'static str {
        match self {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        }
    }

    /// The field of a rule that holds its peers.
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

    /// Parses the `protocol` field of an object; absent means TCP. `None` for protocols that have no ports here.
    pub(crate) fn parse_or_tcp(text: Option<&str>) -> Option<Protocol> {
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
pub enum IpFamily {
    V4,
    V6,
}

impl IpFamily {
    pub const BOTH: [IpFamily; 2] = [IpFamily::V4, IpFamily::V6];

    pub fn of(address: IpAddr) -> IpFamily {
        match address {
            IpAddr::V4(_) => IpFamily::V4,
            IpAddr::V6(_) => IpFamily::V6,
        }
    }
}
