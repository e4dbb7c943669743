//! Queries and results of [`PolicyEngine::evaluate`](crate::PolicyEngine::evaluate): whether a connection is allowed,
//! and by which policies and rules. The results are also the JSON output of `rhumb netpol`.

use std::net::IpAddr;

use serde::Serialize;

use crate::{NamespacedName, Protocol};

/// A connection to evaluate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionQuery {
    pub from: ConnectionEndpoint,
    pub to: ConnectionEndpoint,
    pub protocol: Protocol,
    /// The destination's port.
    pub port: u16,
}

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionEndpoint {
    /// A pod, at each of its addresses; see [`PolicyEngine::evaluate`](crate::PolicyEngine::evaluate).
    Pod(NamespacedName),
    /// An address of a pod, of a node, or outside of the cluster.
    Address(IpAddr),
}

/// The result for a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnectionVerdict {
    /// One result for each pair of addresses of the same family; several if both pods are dual-stack.
    pub pairs: Vec<AddressPairVerdict>,
}

/// The result for one pair of addresses: allowed if both directions allow it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AddressPairVerdict {
    pub from: IpAddr,
    pub to: IpAddr,
    pub egress: DirectionVerdict,
    pub ingress: DirectionVerdict,
}

impl AddressPairVerdict {
    pub fn is_allowed(&self) -> bool {
        self.egress.is_allowed() && self.ingress.is_allowed()
    }
}

/// Whether the policies of one endpoint allow the connection in one direction, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "because", rename_all = "camelCase")]
pub enum DirectionVerdict {
    /// Policies do not apply to this endpoint: it is outside of the cluster, a node, or a pod in the host network.
    NoPod,
    /// No policy isolates the pod in this direction.
    NotIsolated,
    /// The pod connects to itself, which is always allowed.
    Itself,
    /// The other endpoint is the pod's own node, which is always allowed.
    OwnNode,
    /// These rules allow it, each listed once, ordered by policy.
    Allowed { grants: Vec<AllowingRule> },
    /// These policies isolate the pod, and none of their rules allows it.
    Denied { policies: Vec<DenyingPolicy> },
}

impl DirectionVerdict {
    pub fn is_allowed(&self) -> bool {
        !matches!(self, DirectionVerdict::Denied { .. })
    }
}

/// A rule that allows a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AllowingRule {
    pub policy: NamespacedName,
    /// The field path of the rule, such as `spec.ingress[0]`.
    pub rule: String,
    /// The first matching peer, such as `from[1]`; `None` if the rule matches all peers.
    pub peer: Option<String>,
    /// The first matching port, such as `ports[0]`; `None` if the rule matches all ports.
    pub port: Option<String>,
}

/// A policy that isolates a pod and does not allow a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DenyingPolicy {
    pub policy: NamespacedName,
    /// Why each rule does not match, in order, human readable: `spec.ingress[0]: no peer is ...`.
    pub rules: Vec<String>,
}
